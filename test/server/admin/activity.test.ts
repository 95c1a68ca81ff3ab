/**
 * WatchActivity over real sockets: what happens is told, masked, to whom it concerns; and what a watcher costs is bounded.
 */
import { connect } from "node:net";
import { once } from "node:events";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AdminService, type WatchActivityResponse } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { commandLine } from "../../../src/otp/operators/audit.ts";
import { addConsoleLink } from "../../../src/service/operators/console-sessions.ts";
import { createActivities, type Activities } from "../../../src/service/operators/activity.ts";
import { adminClient, type AdminClient } from "../../support/clients/admin.ts";
import { surfaces, type Message, type Rpc } from "../../support/clients/surfaces.ts";
import { createSteppedSystem } from "../../support/service/system.ts";
import { startWorld, type World } from "../../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
let client: AdminClient;
beforeAll(async () => {
  world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0" }, createSteppedSystem());
  client = adminClient(world.adminUrl, (await world.makeAdminKey()).text);
  await world.beside((store) =>
    store.registry.changeTenant("acme", () => ({ keep: { settings: "{}", disableMs: null }, result: undefined })),
  );
});
afterAll(() => world.stop());

const call = (rpc: Rpc, message: Message, key = world.key) => rest.call(world.url, rpc, message, { key });

/** Watches until it has seen as many activities; the first message, which says that it watches, is over by then. */
async function watching(by: AdminClient, request: Message = {}) {
  const leave = new AbortController();
  const stream = by.watchActivity(request, { signal: leave.signal })[Symbol.asyncIterator]();
  await stream.next();
  return {
    leave: () => leave.abort(),
    next: () => stream.next(),
    async see(count: number): Promise<WatchActivityResponse["activities"]> {
      const seen: WatchActivityResponse["activities"] = [];
      while (seen.length < count) {
        const { value } = (await stream.next()) as { value: WatchActivityResponse };
        seen.push(...value.activities);
      }
      return seen;
    },
  };
}

test("what a test key is refused is not told of", async () => {
  const watcher = await watching(client);
  const { text } = await world.makeKey({ kind: "test" });
  expect((await call("SendOtp", { phone: "+14155550104" }, text)).reason).toBe("PHONE_RATE_LIMITED");
  expect((await call("SendOtp", { phone: "nobody" })).reason).toBe("PHONE_INVALID");
  expect(await watcher.see(1)).toMatchObject([{ kind: "refused", outcome: "PHONE_INVALID" }]);
  watcher.leave();
});

test("a send, its provider's call, a wrong code, a refusal and the end are told in order, the phone masked", async () => {
  const watcher = await watching(client);
  const phone = "+31612345678";
  const { value } = await call("SendOtp", { phone });
  const request_id = String(value?.["request_id"]);
  const code = world.network.codeFor(phone);
  await call("VerifyOtp", { request_id, code: code === "000000" ? "000001" : "000000" });
  await call("ResendOtp", { request_id });
  await call("VerifyOtp", { request_id, code });
  const seen = await watcher.see(5);
  watcher.leave();
  const about = { tenant: "default", requestRef: request_id.slice(0, 12), phone: "+31•••••••78", country: "NL" };
  expect(seen).toMatchObject([
    { kind: "send", outcome: "sms", channel: "sms", ...about },
    { kind: "call", outcome: "accepted", provider: "test", channel: "sms", ...about },
    { kind: "guess", outcome: "wrong", ...about },
    { kind: "refused", outcome: "RESEND_TOO_SOON", tenant: "default", requestRef: about.requestRef, phone: "" },
    { kind: "end", outcome: "VERIFIED", ...about },
  ]);
  const text = JSON.stringify(seen, (_, each: unknown) => (typeof each === "bigint" ? `${each}` : each));
  for (const secret of [phone.slice(1), code, request_id]) expect(text).not.toContain(secret);
});

test("watches that we ended leave room for calls", async () => {
  // As many as there are calls at once.
  for (let i = 0; i < 64; i++) {
    const error = await watching(client, { kinds: ["x"] }).catch(ConnectError.from);
    expect(error).toMatchObject({ code: Code.InvalidArgument });
  }
  expect((await client.getSession({})).scopes).not.toEqual([]);
});

test("whoever has left watches no longer, though he was never asked again", async () => {
  const activities = createActivities(createSteppedSystem());
  const gone = new AbortController();
  const stream = activities.watch({ tenant: undefined, kinds: [], country: "" }, gone.signal);
  await stream.next();
  expect(activities.watchers).toBe(1);
  gone.abort();
  expect(activities.watchers).toBe(0);
  await stream.return();
  expect(activities.watchers).toBe(0);
});

test("every end is told: a lock after its last wrong code, a cancel of either side, a message that nobody took, an expiry", async () => {
  world.system.advance(2_000);
  const watcher = await watching(client, { kinds: ["guess", "end"] });
  const send = async (phone: string) => {
    const { value, reason } = await call("SendOtp", { phone });
    return { reason, request_id: String(value?.["request_id"]), ref: String(value?.["request_id"]).slice(0, 12) };
  };
  const [locked, canceled, stopped, expired] = [
    await send("+31612345601"),
    await send("+31612345602"),
    await send("+31612345603"),
    await send("+31612345604"),
  ];
  const code = world.network.codeFor("+31612345601");
  const { request_id } = locked;
  for (let i = 0; i < 6; i++) await call("VerifyOtp", { request_id, code: code === "000000" ? "000001" : "000000" });
  // Once more each: what has ended ends no second time.
  for (const _ of [1, 2]) await call("CancelOtp", { request_id: canceled.request_id });
  await client.cancelVerification({ requestRef: stopped.ref });
  world.network.script.push({ kind: "refused", cause: "recipient", detail: "absent" });
  expect(await send("+31612345605")).toMatchObject({ reason: "PHONE_UNREACHABLE" });
  world.system.advance(600_000);
  const seen = await watcher.see(10);
  watcher.leave();
  const wrong = [1, 2, 3, 4, 5].map(() => ["guess", "wrong", locked.ref, "+31•••••••01"]);
  expect(seen.map(({ kind, outcome, requestRef, phone }) => [kind, outcome, requestRef, phone])).toEqual([
    ...wrong,
    ["end", "LOCKED", locked.ref, "+31•••••••01"],
    ["end", "CANCELED", canceled.ref, "+31•••••••02"],
    ["end", "CANCELED", stopped.ref, "+31•••••••03"],
    ["end", "FAILED", expect.stringMatching(/^[\w-]{12}$/), "+31•••••••05"],
    ["end", "EXPIRED", expired.ref, "+31•••••••04"],
  ]);
});

test("who watches some kinds, a country or a tenant is told of those alone, and an admin of one tenant of that alone", async () => {
  world.system.advance(2_000);
  const { text } = await world.makeKey({ tenant: "acme" });
  const bound = adminClient(world.adminUrl, (await world.makeAdminKey({ tenant: "acme" })).text);
  const [own, ends, german] = [
    await watching(bound),
    await watching(client, { kinds: ["send"], tenant: "default" }),
    await watching(client, { country: "DE", kinds: ["send"] }),
  ];
  await call("SendOtp", { phone: "+31612345679" });
  await call("SendOtp", { phone: "+4915112345678" }, text);
  expect(await ends.see(1)).toMatchObject([{ kind: "send", tenant: "default", country: "NL" }]);
  expect(await german.see(1)).toMatchObject([{ kind: "send", tenant: "acme", country: "DE" }]);
  expect(new Set((await own.see(2)).map(({ tenant }) => tenant))).toEqual(new Set(["acme"]));
  for (const each of [own, ends, german]) each.leave();
  const codes = [];
  for (const tenant of ["default", "nobody"]) {
    const refused = await watching(bound, { tenant }).catch(ConnectError.from);
    codes.push(refused instanceof ConnectError ? [refused.code, refused.rawMessage] : undefined);
  }
  expect(codes[0]).toEqual([Code.NotFound, "There is nothing of this name."]);
  expect(codes[1]).toEqual(codes[0]);
});

test("a page's key that is refused again and again leaves others their part of what is told", async () => {
  world.system.advance(2_000);
  const { text } = await world.makeKey({ kind: "pub", origins: ["https://shop.example"] });
  const watcher = await watching(client, { kinds: ["refused", "send"] });
  for (let i = 0; i < 40; i++)
    expect(await call("GetOtp", { request_id: "A".repeat(22) }, text)).toMatchObject({ reason: "ORIGIN_NOT_ALLOWED" });
  await call("SendOtp", { phone: "+31612345677" });
  const seen = await watcher.see(11);
  watcher.leave();
  expect(seen.map(({ kind }) => kind)).toEqual([...Array.from({ length: 10 }, () => "refused"), "send"]);
});

test("asks for admin.read, and for kinds that there are", async () => {
  const blind = adminClient(world.adminUrl, (await world.makeAdminKey({ scopes: ["admin.write"] })).text);
  expect(await watching(blind).catch(ConnectError.from)).toMatchObject({ code: Code.PermissionDenied });
  expect(await watching(client, { kinds: ["x"] }).catch(ConnectError.from)).toMatchObject({
    code: Code.InvalidArgument,
  });
});

test("a stream ends once its key is revoked", async () => {
  const { id, text } = await world.makeAdminKey();
  const watcher = await watching(adminClient(world.adminUrl, text));
  await world.beside((store) => store.registry.revokeAdminKey(id, world.system.now()));
  world.system.advance(5_000);
  let last = await watcher.next();
  while (last.done !== true) last = await watcher.next();
  expect(last.done).toBe(true);
  expect(await watching(adminClient(world.adminUrl, text)).catch(ConnectError.from)).toMatchObject({
    code: Code.Unauthenticated,
  });
});

/** Signs in to the console as somebody, and watches with the session, as the page does. */
async function watchingAs(user: string) {
  const eve = { user, scopes: ["admin.read"], tenant: null } as const;
  const link = await world.beside((store) => addConsoleLink({ store, system: world.system }, eve, commandLine));
  const { origin } = new URL(world.adminUrl);
  const answer = await fetch(`${world.adminUrl}/console/session`, {
    method: "POST",
    headers: { origin, "content-type": "application/json" },
    body: JSON.stringify({ token: link.reveal() }),
  });
  const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
  const { csrf_token: csrf } = (await answer.json()) as { csrf_token: string };
  const transport = createConnectTransport({ baseUrl: world.adminUrl, httpVersion: "1.1" });
  const page = createClient(AdminService, transport);
  const stream = page.watchActivity({}, { headers: { origin, cookie, "x-csrf-token": csrf } })[Symbol.asyncIterator]();
  expect((await stream.next()).done).toBe(false);
  return stream;
}

test.each([
  ["signed out everywhere", 5_000, (user: string) => world.beside((s) => s.registry.endConsoleSessions(user))],
  ["left unused for half an hour", 1_800_000, () => Promise.resolve()],
])("a stream ends once its session is %s", async (how, ms, act) => {
  const stream = await watchingAs(`eve, ${how}`);
  await act(`eve, ${how}`);
  world.system.advance(ms);
  let last = await stream.next();
  while (last.done !== true) last = await stream.next();
  expect(last.done).toBe(true);
});

test("a watcher who never reads is told of no more than 20, and holds up nothing", async () => {
  const { text } = await world.makeAdminKey();
  const socket = connect(Number(new URL(world.adminUrl).port), "127.0.0.1");
  await once(socket, "connect");
  const body = Buffer.concat([Buffer.from([0, 0, 0, 0, 2]), Buffer.from("{}")]);
  socket.write(
    `POST /otp.admin.v1.AdminService/WatchActivity HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${text}\r\n` +
      `content-type: application/connect+json\r\ncontent-length: ${body.length}\r\n\r\n`,
  );
  socket.write(body);
  await once(socket, "readable");
  socket.pause();
  for (let i = 0; i < 30; i++) await call("SendOtp", { phone: `+3161${String(i).padStart(3, "0")}5678` });
  expect((await call("SendOtp", { phone: "+31619995678" })).reason).toBeUndefined();
  socket.destroy();
});

test("of 100,000 things that happen a watcher holds 20, under 8 KB, and counts the rest", async () => {
  const activities: Activities = createActivities(world.system);
  const gone = new AbortController();
  const stream = activities.watch({ kinds: [], country: "" }, gone.signal);
  await stream.next();
  const verification = { id: "A".repeat(22), region: "NL" };
  for (let i = 0; i < 100_000; i++) {
    // A second each: what is held is bounded, whatever the rate.
    world.system.advance(1_000);
    activities.tell({
      tenant: "a".repeat(40),
      kind: "call",
      outcome: "x".repeat(500),
      verification,
      phone: () => "+31612345678" as never,
      channel: "whatsapp",
      provider: "p".repeat(40),
    });
  }
  const { value } = await stream.next();
  expect(value).toMatchObject({ omitted: 99_980 });
  expect(value?.activities).toHaveLength(20);
  expect(Buffer.byteLength(JSON.stringify(value))).toBeLessThan(8_192);
  gone.abort();
  expect((await stream.next()).done).toBe(true);
  expect(activities.watchers).toBe(0);
});

test("more than 20 a second are counted, and told of a second later", async () => {
  const system = createSteppedSystem();
  const activities = createActivities(system);
  const gone = new AbortController();
  const stream = activities.watch({ kinds: [], country: "" }, gone.signal);
  await stream.next();
  const tell = () => activities.tell({ tenant: "default", kind: "refused", outcome: "INTERNAL" });
  const told = [];
  for (let i = 0; i < 50; i++) {
    tell();
    if (i < 20) told.push(await stream.next());
  }
  const after = stream.next();
  await Promise.resolve();
  system.advance(1_000);
  expect((await after).value).toEqual({ activities: [], omitted: 30 });
  expect(told.every(({ value }) => value?.activities.length === 1)).toBe(true);
  gone.abort();
  await stream.next();
});
