/**
 * What clients write in more than one way and mean the same: it is read, by whichever surface it comes; and where it is
 * not, the answer says what was wrong, and never the value.
 */
import type { JsonObject } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VerifyOtpRequestSchema } from "../../gen/otp/v1/otp_service_pb.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { grpcFrame, overHttp1, overHttp2, type Wire } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
let id = "";
beforeAll(async () => {
  world = await startWorld();
  const sent = await overHttp1(world.url, post("/v1/otp/send", { phone: newPhone() }));
  id = String((JSON.parse(sent.text) as JsonObject)["request_id"]);
});
afterAll(() => world.stop());

const service = "/otp.v1.OtpService";
const bearer = () => ({ authorization: `Bearer ${world.key}` });
const post = (path: string, message: JsonObject, headers: Record<string, string> = {}) => ({
  path,
  headers: { "content-type": "application/json", ...bearer(), ...headers },
  body: JSON.stringify(message),
});
const wires: [string, Wire][] = [
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
];

describe.each(surfaces)("over $name", (surface) => {
  const call = (rpc: Rpc, message: Message, headers: Record<string, string> = {}, key: string | null = world.key) =>
    surface.call(world.url, rpc, message, { key, headers });

  async function send(message: Message = {}, headers: Record<string, string> = {}) {
    const phone = newPhone();
    const { value = {} } = await call("SendOtp", { phone, ...message }, headers);
    return { phone, id: String(value["request_id"]), code: world.network.codeFor(phone) };
  }

  test("a channel is one channel in capitals or not, also to an Idempotency-Key", async () => {
    const phone = newPhone();
    const headers = { "idempotency-key": `channel-${surface.name.replaceAll(" ", "-")}` };
    const sent = [await call("SendOtp", { phone, channel: "SMS" }, headers)];
    for (const channel of ["sms", "Sms", ""]) sent.push(await call("SendOtp", { phone, channel }, headers));
    expect(new Set(sent.map(({ value }) => value?.["request_id"])).size).toBe(1);
    expect(sent[0]?.value).toMatchObject({ state: "STATE_PENDING" });
    expectRefusal(await call("SendOtp", { phone, channel: "SMS " }), "CHANNEL_UNSUPPORTED", { field: "channel" });
  });

  test.each([(e164: string) => ` ${e164}`, (e164: string) => `(${e164.slice(0, 3)}) ${e164.slice(3)}`])(
    "what stands before the plus of a phone is ignored (%#)",
    async (spell) => {
      const phone = newPhone();
      const { value = {} } = await call("SendOtp", { phone: spell(phone) });
      expect((await call("GetOtp", { request_id: String(value["request_id"]) })).value).toMatchObject({ phone });
    },
  );

  test("a missing code is CODE_MALFORMED, once the request is known to be pending", async () => {
    const { id: pending, code } = await send();
    const missing: Message[] = [{}, { code: "" }, { code: "   " }];
    for (const message of missing) {
      const refused = await call("VerifyOtp", { request_id: pending, ...message });
      expectRefusal(refused, "CODE_MALFORMED", { field: "code" });
      expect(refused.message).toBe("code must have 6 digits, but it is empty. No attempt was spent.");
    }
    await call("VerifyOtp", { request_id: pending, code });
    for (const message of missing) {
      expectRefusal(await call("VerifyOtp", { request_id: pending, ...message }), "OTP_ALREADY_VERIFIED");
      expectRefusal(await call("VerifyOtp", { request_id: "unknown", ...message }), "REQUEST_NOT_FOUND");
    }
  });

  test.each([
    ["12345", "but it has too few"],
    ["1234567", "but it has too many"],
    ["907351\n", "but it has a line break in it"],
    ["９０７３５１", "from 0 to 9, but it has other characters in it"],
    ["907351a", "from 0 to 9, but it has other characters in it"],
    [`9${" ".repeat(30)}07351`, "but it has more than 32 characters"],
  ])("a code such as %j is told what is wrong with it", async (code, fault) => {
    const refused = await call("VerifyOtp", { request_id: id, code });
    expectRefusal(refused, "CODE_MALFORMED", { field: "code" });
    expect(refused.message).toBe(`code must have 6 digits, ${fault}. No attempt was spent.`);
  });

  test("a scheme without a key is a missing key, and a key without its scheme is told so", async () => {
    const withHeader = (authorization: string) => call("GetOtp", { request_id: id }, { authorization }, null);
    for (const scheme of ["Bearer", "bearer"]) expectRefusal(await withHeader(scheme), "API_KEY_MISSING");
    for (const bare of [world.key, `Basic ${world.key}`, `Bearer${world.key}`]) {
      const refused = await withHeader(bare);
      expectRefusal(refused, "API_KEY_INVALID");
      expect(refused.message).toBe(
        "The API key has to come with its scheme: send the header Authorization: Bearer <API_KEY>.",
      );
    }
  });
});

describe.each(wires)("by %s", (_, wire) => {
  const verify = { request_id: "", code: "1" };
  const malformed = expect.stringContaining("CODE_MALFORMED") as string;

  test.each([
    'application/json; charset="utf-8"',
    "application/json;charset=UTF-8",
    "application/json;",
    "application/json ;",
    "application/json; odata=verbose; charset=utf8;",
    'Application/JSON; profile="https://shop.example/a"',
  ])("%j is JSON", async (type) => {
    for (const path of ["/v1/otp/verify", `${service}/VerifyOtp`]) {
      const answer = await wire(world.url, post(path, { ...verify, request_id: id }, { "content-type": type }));
      expect([answer.status, answer.text]).toEqual([400, malformed]);
    }
  });

  test.each([
    ["application/json; charset=iso-8859-1", "The charset iso-8859-1 is not served here."],
    ['application/json; charset="UTF-16"', "The charset UTF-16 is not served here."],
    ["application/json; charset=utf-8; charset=latin1", "The charset latin1 is not served here."],
    ["application/json; charset=<b>x</b>", "The charset that it names is not served here."],
    [`application/json; charset=${"x".repeat(41)}`, "The charset that it names is not served here."],
    ["application/json; charset=", "The charset that it names is not served here."],
  ])("%j is refused by the name of its charset", async (type, sentence) => {
    for (const path of ["/v1/otp/verify", `${service}/VerifyOtp`]) {
      const answer = await wire(world.url, post(path, {}, { "content-type": type }));
      const message = `${sentence} Send the body in UTF-8.`;
      expect([answer.status, JSON.parse(answer.text)]).toEqual([
        415,
        expect.objectContaining({ reason: "MEDIA_TYPE_UNSUPPORTED", message }),
      ]);
    }
  });

  test("a media type of more than 256 characters is none, and nobody takes it apart", async () => {
    const padded = (chars: number) => "application/json".padEnd(chars, ";");
    for (const path of ["/v1/otp/verify", `${service}/VerifyOtp`]) {
      const send = (type: string) =>
        wire(world.url, post(path, { ...verify, request_id: id }, { "content-type": type }));
      const [longest, longer] = [await send(padded(256)), await send(padded(257))];
      expect([longest.status, longest.text]).toEqual([400, malformed]);
      expect([longer.status, longer.text]).toEqual([415, expect.stringContaining("MEDIA_TYPE_UNSUPPORTED")]);
    }
  });

  test("a base URL that ends in a slash leads to the same RPCs", async () => {
    const message = JSON.stringify({ request_id: id });
    for (const path of [`//v1/otp/${id}`, `//${service}/GetOtp?encoding=json&message=${encodeURIComponent(message)}`]) {
      const answer = await wire(world.url, { method: "GET", path, headers: bearer() });
      expect([answer.status, JSON.parse(answer.text)]).toEqual([200, expect.objectContaining({ request_id: id })]);
    }
    for (const path of ["//v1/otp/verify", `/${service}/VerifyOtp`]) {
      const answer = await wire(world.url, post(path, { ...verify, request_id: id }));
      expect([answer.status, answer.text]).toEqual([400, malformed]);
    }
  });

  test.each(["//openapi.json", "//.well-known/jwks.json", "///elements/otp-form.js", "//elements/integrity.json"])(
    "%s leads to what everybody may have",
    async (path) => {
      const get = (each: string) => wire(world.url, { method: "GET", path: each });
      const answer = await get(path);
      expect([answer.status, answer.text]).toEqual([200, (await get(path.replace(/^\/+/, "/"))).text]);
    },
  );

  test.each(["//livez", "//readyz", "//metrics", "//demo", "//", "/openapi.json/", "/.well-known//jwks.json"])(
    "%s leads nowhere: what a proxy hides by its path stays hidden",
    async (path) => {
      expect((await wire(world.url, { method: "GET", path })).status).toBe(404);
    },
  );

  test.each([
    ["PUT", "/v1/otp/send", "POST"],
    ["DELETE", "/v1/otp/verify", "POST"],
    ["GET", `${service}/SendOtp`, "POST"],
    ["PUT", "/livez", "GET or HEAD"],
  ])("%s %s is told which method it takes", async (method, path, methods) => {
    const answer = await wire(world.url, { method, path, headers: bearer() });
    expect([answer.status, JSON.parse(answer.text)]).toEqual([
      405,
      expect.objectContaining({ message: `The path takes ${methods}, and no other method.` }),
    ]);
  });

  test.each([
    ["", "The body is empty: it must be a JSON object.", undefined],
    ['{"request_id":"\\ud800","code":"1"}', "request_id has half a character in it: a lone surrogate.", "request_id"],
    ['{"request_id":"x","bind":{"a":"\\udc00"}}', "bind has half a character in it: a lone surrogate.", "bind"],
    ['{"code":"1","request_id":"x","code":"907351"}', "code is given twice.", "code"],
    ['{"requestId":"x","bind":{"code":"1"},"requestId":"y"}', "request_id is given twice.", "request_id"],
    ['{"code":"1","bind":{"a,\\"":"{","b":"1","\\u0062":"2"}}', "bind has a key that is given twice.", "bind"],
  ])("the body %s is told what is wrong with it", async (body, message, field) => {
    const at = field === undefined ? {} : { field };
    const answer = await wire(world.url, { ...post("/v1/otp/verify", {}), body });
    expect([answer.status, JSON.parse(answer.text)]).toEqual([
      400,
      expect.objectContaining({ reason: "INVALID_REQUEST", message, ...at }),
    ]);
    expect(answer.text).not.toContain("907351");
    const byConnect = await wire(world.url, { ...post(`${service}/VerifyOtp`, {}), body });
    expect([byConnect.status, byConnect.text]).toEqual([400, expect.stringContaining(JSON.stringify(message))]);
  });
});

test("the absolute form of a request's target is its path, with a query and without", async () => {
  const host = world.url.replace("127.0.0.1", "otp.shop.example");
  const malformed = expect.stringContaining("CODE_MALFORMED") as string;
  for (const base of [world.url, host, `${host}/`, host.toUpperCase()]) {
    const read = await overHttp1(world.url, { method: "GET", path: `${base}/v1/otp/${id}?x=1`, headers: bearer() });
    expect([read.status, JSON.parse(read.text)]).toEqual([200, expect.objectContaining({ request_id: id })]);
    const message = encodeURIComponent(JSON.stringify({ request_id: id }));
    const query = `${base}${service}/GetOtp?encoding=json&message=${message}`;
    const byConnect = await overHttp1(world.url, { method: "GET", path: query, headers: bearer() });
    expect(byConnect.status).toBe(200);
    const written = await overHttp1(world.url, post(`${base}/v1/otp/verify`, { request_id: id, code: "1" }));
    expect([written.status, written.text]).toEqual([400, malformed]);
  }
  expect((await overHttp1(world.url, { method: "GET", path: `${host}/livez` })).status).toBe(200);
});

test("gRPC and gRPC-web find their RPC behind a slash too many", async () => {
  const frame = grpcFrame(toBinary(VerifyOtpRequestSchema, create(VerifyOtpRequestSchema, { requestId: id })));
  for (const [wire, type] of [
    [overHttp2, "application/grpc"],
    [overHttp2, "application/grpc-web+proto"],
    [overHttp1, "application/grpc-web"],
  ] as const) {
    const headers = { ...bearer(), "content-type": type, te: "trailers" };
    const answer = await wire(world.url, { path: `/${service}/VerifyOtp`, headers, body: frame });
    const status = answer.headers.get("grpc-status") ?? answer.trailers.get("grpc-status") ?? answer.text;
    expect([type, answer.status, status]).toEqual([type, 200, expect.stringMatching(/(^|grpc-status: ?)3/)]);
  }
  const health = { "content-type": "application/grpc", te: "trailers" };
  const check = await overHttp2(world.url, {
    path: "//grpc.health.v1.Health/Check",
    headers: health,
    body: grpcFrame(Buffer.of()),
  });
  expect(check.headers.get("grpc-status") ?? check.trailers.get("grpc-status")).toBe("0");
});
