/**
 * The operators' listener: where it is, whom it answers, and that it is apart from the callers' one.
 */
import { gzipSync } from "node:zlib";
import { request as httpRequest } from "node:http";
import { connect, createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { adminClient, askAdmin } from "../../support/clients/admin.ts";
import { configOf, startWorld, type World } from "../../support/service/world.ts";

let world: World;
let key: string;
beforeEach(async () => {
  world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0", OTP_REFLECTION: "on" });
  key = (await world.makeAdminKey({ name: "ann" })).text;
});
afterEach(() => world.stop());

const sessionPath = "/otp.admin.v1.AdminService/GetSession";

/** Asks for the session by HTTP/1, with headers of one's own. */
function asked(headers: Record<string, string>): Promise<{ status: number | undefined; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number | undefined; text: string }>();
  const given = { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers };
  const asking = httpRequest(`${world.adminUrl}${sessionPath}`, { method: "POST", headers: given }, (response) => {
    let text = "";
    response.on("data", (chunk: Buffer) => (text += chunk.toString()));
    response.on("end", () => resolve({ status: response.statusCode, text }));
  });
  asking.on("error", reject);
  asking.end("{}");
  return promise;
}

describe("answers", () => {
  test.each(["connect", "grpc"] as const)("who asks, by %s", async (protocol) => {
    const session = await adminClient(world.adminUrl, key, protocol).getSession({});
    expect(session).toMatchObject({ actor: "ann", tenant: "", scopes: ["admin.read", "admin.write", "admin.phones"] });
  });

  test("an RPC that is not served with UNIMPLEMENTED, and a body that it cannot read without the body", async () => {
    const unknown = await askAdmin(world.adminUrl, "Nothing", {}, { authorization: `Bearer ${key}` });
    expect(unknown.status).toBe(404);
    const unreadable = await askAdmin(world.adminUrl, "GetSession", { secret: "918273" }, bearing(key));
    expect(unreadable.status).toBe(400);
    expect(unreadable.text).toContain("INVALID_REQUEST");
    expect(unreadable.text).not.toContain("918273");
  });

  test("nothing of the callers' service, whose port has nothing of this one", async () => {
    const send = await fetch(`${world.adminUrl}/v1/otp/send`, { method: "POST", headers: bearing(world.key) });
    expect(send.status).toBe(404);
    expect((await fetch(`${world.adminUrl}/livez`)).status).toBe(404);
    expect((await askAdmin(world.url, "GetSession", {}, bearing(key))).status).toBe(404);
  });
});

describe("refuses", () => {
  test.each([
    ["no key", {}, "API_KEY_MISSING"],
    ["a key of a caller", { authorization: "of a caller" }, "API_KEY_INVALID"],
    ["a wrong key", { authorization: "Bearer otp_admin_x" }, "API_KEY_INVALID"],
  ])("%s", async (_, headers, reason) => {
    const of = "authorization" in headers && headers.authorization === "of a caller" ? bearing(world.key) : headers;
    const answer = await askAdmin(world.adminUrl, "GetSession", {}, of);
    expect(answer.status).toBe(401);
    expect(answer.text).toContain(reason);
  });

  test.each([
    ["by its length, before its key is looked at", bearing("otp_admin_x"), (body: string) => body],
    ["in pieces", undefined, (body: string) => new Blob([body]).stream()],
    ["unpacked", { "content-encoding": "gzip" }, (body: string) => gzipSync(body)],
  ])("a message of more than it takes, %s, and says how much that is", async (_, headers, sent) => {
    const message = JSON.stringify({ tenant: "a".repeat(70_000) });
    const asking: RequestInit & { duplex: "half" } = {
      method: "POST",
      headers: { ...bearing(key), "content-type": "application/json", ...headers },
      body: sent(message),
      duplex: "half",
    };
    const answer = await fetch(`${world.adminUrl}${sessionPath}`, asking);
    expect(answer.status).toBe(413);
    expect(await answer.text()).toContain("larger than 64 KiB");
  });

  test("an admin key at the callers' port", async () => {
    const answer = await fetch(`${world.url}/v1/otp/send`, {
      method: "POST",
      headers: { ...bearing(key), "content-type": "application/json" },
      body: '{"phone":"+31612345678"}',
    });
    expect(await answer.json()).toMatchObject({ reason: "API_KEY_INVALID" });
    expect(world.network.received).toEqual([]);
  });

  test("a key that was revoked, from the next call on", async () => {
    const { id, text } = await world.makeAdminKey();
    const client = adminClient(world.adminUrl, text);
    await client.getSession({});
    await world.beside((store) => store.registry.revokeAdminKey(id, store.now()));
    const refused = await client.getSession({}).catch((error: unknown) => ConnectError.from(error));
    expect(refused).toMatchObject({ code: Code.Unauthenticated });
  });

  test("a page of another origin, and answers one of its own", async () => {
    expect((await asked({ origin: "https://evil.example" })).text).toContain("ORIGIN_NOT_ALLOWED");
    expect((await asked({ origin: world.adminUrl })).status).toBe(200);
    const preflight = await fetch(`${world.adminUrl}${sessionPath}`, {
      method: "OPTIONS",
      headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
    });
    expect(preflight.status).toBe(405);
    expect(preflight.headers.get("access-control-allow-origin")).toBeNull();
  });

  test("whoever names another host, so that no site can point its name here", async () => {
    const port = new URL(world.adminUrl).port;
    expect((await asked({ host: `rebound.example:${port}` })).status).toBe(404);
    expect((await asked({ host: `localhost:${port}` })).status).toBe(200);
    expect((await asked({ host: `127.0.0.1:${port}` })).status).toBe(200);
  });
});

describe("listens", () => {
  test("nowhere in production unless it is told to, and nowhere where it is off", async () => {
    const production = {
      OTP_ENV: "production",
      OTP_PROVIDERS: "webhook",
      OTP_WEBHOOK_URL: "https://sms.example/send",
      OTP_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
      OTP_ALLOWED_COUNTRIES: "NL",
      OTP_DAILY_MESSAGE_CAP: "10",
      OTP_MASTER_KEY: Buffer.alloc(32, 7).toString("base64url"),
    };
    expect(configOf(production).admin).toEqual({ access: "off", port: 8081, isAsked: false });
    expect(configOf({}).admin).toEqual({ access: "loopback", port: 8081, isAsked: false });
    expect(() => configOf({ ...production, OTP_ADMIN: "on" })).toThrow(
      /^OTP_ADMIN must not be on in production without/,
    );
    const address = new URL(world.adminUrl);
    await world.restart({ OTP_ADMIN: "off" });
    expect(() => world.adminUrl).toThrow("operators are not served");
    const socket = connect(Number(address.port), address.hostname);
    const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];
    expect(error.code).toBe("ECONNREFUSED");
  });

  test("elsewhere or not at all where its port is taken: by itself it goes on without, asked for it says which variable", async () => {
    const taken = new URL(world.url).port;
    const other = await startWorld({ OTP_ADMIN: "", OTP_ADMIN_PORT: taken });
    expect(() => other.adminUrl).toThrow("operators are not served");
    expect(other.observed).toContainEqual({
      event: "warning",
      with: [`operators are not served: 127.0.0.1:${taken} is taken by another process; OTP_ADMIN_PORT picks another`],
    });
    await other.stop();
    await expect(startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: taken })).rejects.toThrow(/OTP_ADMIN_PORT/);
    const free = createServer().listen(0, "127.0.0.1");
    await once(free, "listening");
    const port = String((free.address() as AddressInfo).port);
    await new Promise((done) => free.close(done));
    await expect(startWorld({ OTP_PORT: port, OTP_ADMIN: "loopback", OTP_ADMIN_PORT: port })).rejects.toThrow(
      `127.0.0.1:${port} is taken by OTP_PORT; OTP_ADMIN_PORT picks another`,
    );
  });
});

test("reflection of the callers' port does not show the operators' service", async () => {
  const { ServerReflection } = await import("../../../gen/grpc/reflection/v1/reflection_pb.ts");
  const { createClient } = await import("@connectrpc/connect");
  const { createGrpcTransport } = await import("@connectrpc/connect-node");
  const client = createClient(ServerReflection, createGrpcTransport({ baseUrl: world.url }));
  async function* ask() {
    yield { messageRequest: { case: "listServices" as const, value: "" } };
    yield { messageRequest: { case: "fileContainingSymbol" as const, value: "otp.admin.v1.AdminService" } };
  }
  const answers: string[] = [];
  for await (const answer of client.serverReflectionInfo(ask())) answers.push(JSON.stringify(answer.messageResponse));
  expect(answers[0]).toContain("otp.v1.OtpService");
  expect(answers[0]).not.toContain("admin");
  expect(answers[1]).toContain("errorResponse");
});

function bearing(text: string): Record<string, string> {
  return { authorization: `Bearer ${text}` };
}
