/**
 * CORS: a page of an origin that some active publishable key lists may ask and may read every answer; any other page is
 * told nothing.
 */
import { dirname } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OtpService } from "../../gen/otp/v1/otp_service_pb.ts";
import { publishableScopes } from "../../src/otp/keys/api-key.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { newPhone } from "../support/data/phones.ts";
import { runOtpd } from "../support/processes/process.ts";
import { surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { overHttp1, overHttp2 } from "../support/clients/wire.ts";
import { pageKey, pageOrigin, startListener } from "../support/service/listener.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
let key: string;
const shop = "https://shop.example";
beforeAll(async () => {
  world = await startWorld();
  key = (await world.makeKey({ kind: "pub", scopes: ["send", ...publishableScopes], origins: [shop] })).text;
});
afterAll(() => world.stop());

const wires = [
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
] as const;

const request_id = "AAAAAAAAAAAAAAAAAAAAAA";
const paths: readonly (readonly [path: string, method: string])[] = [
  ...OtpService.methods.map(({ name }) => [`/otp.v1.OtpService/${name}`, "POST"] as const),
  ["/otp.v1.OtpService/GetOtp?connect=v1&encoding=json&message=%7B%7D", "GET"],
  ["/v1/otp/send", "POST"],
  ["/v1/otp/verify", "POST"],
  ["/v1/otp/resend", "POST"],
  ["/v1/otp/cancel", "POST"],
  [`/v1/otp/${request_id}`, "GET"],
];

const preflight = (origin: string, path = "/v1/otp/send", method = "POST") => ({
  method: "OPTIONS",
  path,
  headers: { origin, "access-control-request-method": method, "access-control-request-headers": "authorization" },
});

/** What a page's browser goes by. */
const corsHeaders = (headers: Headers) =>
  Object.fromEntries([...headers].filter(([name]) => name.startsWith("access-control-") || name === "vary"));

const named = (headers: Headers, name: string) => (headers.get(name) ?? "").toLowerCase().split(/, */);

describe.each(wires)("a preflight over %s", (_, wire) => {
  test.each(paths)("to %s for %s is allowed to a listed origin, without a key", async (path, method) => {
    const answer = await wire(world.url, preflight(shop, path, method));
    expect([answer.status, answer.text]).toEqual([204, ""]);
    expect(corsHeaders(answer.headers)).toEqual({
      "access-control-allow-origin": shop,
      "access-control-allow-methods": "POST, GET",
      "access-control-allow-headers": expect.any(String) as string,
      "access-control-max-age": "7200",
      vary: "Origin",
    });
    expect(named(answer.headers, "access-control-allow-headers")).toEqual(
      expect.arrayContaining([
        "authorization",
        "content-type",
        "idempotency-key",
        "connect-protocol-version",
        "connect-timeout-ms",
        "x-grpc-web",
        "x-user-agent",
        "traceparent",
        "tracestate",
        "baggage",
        "sentry-trace",
        "x-request-id",
        "grpc-timeout",
      ]),
    );
  });

  test.each([
    "https://evil.example",
    "null",
    "*",
    "https://SHOP.example",
    `${shop}/`,
    "",
    `https://${"a".repeat(9_000)}`,
  ])("of origin %j is refused, and tells a browser nothing", async (origin) => {
    const answer = await wire(world.url, preflight(origin));
    expect([answer.status, corsHeaders(answer.headers)]).toEqual([403, {}]);
    expect(JSON.parse(answer.text)).toMatchObject({ reason: "ORIGIN_NOT_ALLOWED" });
  });

  test("to a path that there is not, or an OPTIONS that is no preflight, is no preflight's business", async () => {
    expect((await wire(world.url, preflight(shop, "/nowhere"))).status).toBe(404);
    expect((await wire(world.url, preflight(shop, "/webhooks/test"))).status).toBe(404);
    const plain = await wire(world.url, { method: "OPTIONS", path: "/v1/otp/send", headers: { origin: shop } });
    expect([plain.status, plain.headers.get("allow")]).toEqual([405, "POST"]);
  });
});

test.each([
  "http://localhost",
  "http://localhost:3000",
  "http://shop.localhost:5173",
  "capacitor://localhost",
  "ionic://localhost",
  "tauri://localhost",
  "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
])(
  "a page or shell of origin %s may ask and read, with a key that lists it, once the command has made it",
  async (origin) => {
    const env = { OTP_DATABASE_URL: `file:${world.databasePath}`, OTP_ENV: "production" };
    const flags = ["--publishable", "--allow-send", "--origin", origin.toUpperCase(), "--json"];
    const made = await runOtpd(dirname(world.databasePath), ["keys", "create", ...flags], env);
    const { key: own } = JSON.parse(made.output) as { key: string };
    for (const [, wire] of wires) {
      const answer = await wire(world.url, preflight(origin));
      expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([204, origin]);
    }
    for (const surface of surfaces) {
      world.system.advance(60_000);
      const message = { phone: newPhone() };
      const sent = await surface.call(world.url, "SendOtp", message, { key: own, headers: { origin } });
      expect([sent.reason, sent.headers.get("access-control-allow-origin")]).toEqual([undefined, origin]);
      const other = await surface.call(world.url, "SendOtp", message, { key, headers: { origin } });
      expect(other.reason).toBe("ORIGIN_NOT_ALLOWED");
    }
  },
);

test("a page on a private network is one for development alone", async () => {
  const of = (OTP_ENV: string) =>
    runOtpd(dirname(world.databasePath), ["keys", "create", "--publishable", "--origin", "http://192.168.1.20:5173"], {
      OTP_DATABASE_URL: `file:${world.databasePath}`,
      OTP_ENV,
    });
  const refused = await of("production");
  expect([refused.code, refused.errors]).toEqual([2, expect.stringContaining("--origin must be a site such as")]);
  expect((await of("development")).code).toBe(0);
});

describe.each(surfaces)("an answer over $name", (surface) => {
  const messages: [Rpc, Message][] = [
    ["SendOtp", { phone: newPhone() }],
    ["SendOtp", { phone: "+310" }],
    ["VerifyOtp", { request_id, code: "123456" }],
    ["ResendOtp", { request_id }],
    ["CancelOtp", { request_id }],
    ["GetOtp", { request_id }],
  ];

  const wanted = new Set(["grpc-status", "grpc-message", "retry-after", "idempotency-replayed", "x-call-id"]);

  test("lets a page of a listed origin read it, whatever it says, and no other page", async () => {
    for (const [rpc, message] of messages) {
      world.system.advance(60_000);
      const asked: [who: string, key: string | null, origin: string, allowed: string | null][] = [
        ["its own key", key, shop, shop],
        ["a secret key", world.key, shop, shop],
        ["no key", null, shop, shop],
        ["no such key", "otp_pub_nonsense", shop, shop],
        ["another page", key, "https://evil.example", null],
        ["no page", key, "null", null],
      ];
      for (const [who, by, origin, allowed] of asked) {
        const { headers } = await surface.call(world.url, rpc, message, { key: by, headers: { origin } });
        const received = [headers.get("access-control-allow-origin"), headers.get("vary")];
        expect([rpc, who, ...received]).toEqual([rpc, who, allowed, allowed === null ? null : "Origin"]);
        expect(headers.get("access-control-allow-credentials")).toBeNull();
        const exposed = named(headers, "access-control-expose-headers");
        expect(exposed.filter((name) => wanted.has(name))).toEqual(allowed === null ? [] : [...wanted]);
      }
    }
  });

  test("to a caller without an origin has nothing of it", async () => {
    const { headers } = await surface.call(world.url, "GetOtp", { request_id }, { key: world.key });
    expect(corsHeaders(headers)).toEqual({});
  });
});

test.each<[what: string, path: string, headers: Record<string, string>, status: number]>([
  ["an unknown path", "/nowhere", {}, 404],
  ["a wrong type", "/v1/otp/send", { "content-type": "text/plain" }, 415],
  ["too large a body", "/v1/otp/send", { "content-type": "application/json", "content-length": "99999" }, 413],
])("an answer about %s can be read too", async (_, path, headers, status) => {
  const answer = await overHttp1(world.url, { path, headers: { origin: shop, ...headers } });
  expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([status, shop]);
});

test("a limit's refusal can be read, and says when to come back", async () => {
  const send = () =>
    overHttp1(world.url, {
      path: "/v1/otp/send",
      headers: { origin: shop, authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ phone: newPhone() }),
    });
  const answers = [];
  for (let i = 0; i < 11; i++) answers.push(await send());
  const last = answers.at(-1);
  expect([last?.status, last?.headers.get("retry-after")]).toEqual([429, "60"]);
  expect(last?.headers.get("access-control-allow-origin")).toBe(shop);
});

const allowed = async (origin: string) => (await overHttp1(world.url, preflight(origin))).status === 204;

test("a key that has expired lists nothing any more", async () => {
  const origin = "https://brief.example";
  await world.makeKey({ kind: "pub", origins: [origin], expireMs: world.system.now() + 1_000 });
  expect(await allowed(origin)).toBe(true);
  world.system.advance(1_000);
  expect(await allowed(origin)).toBe(false);
});

describe("what the command line writes", () => {
  const cli = (...args: string[]) => runOtpd(world.folder, args, { OTP_DATABASE_URL: `file:${world.databasePath}` });
  test("counts from the next preflight on, for as long as any key lists the origin", async () => {
    const origin = "https://new.example";
    const made = async () => {
      const { output } = await cli("keys", "create", "--publishable", "--origin", origin, "--json");
      return (JSON.parse(output) as { id: string }).id;
    };
    expect(await allowed(origin)).toBe(false);
    const [first, second] = [await made(), await made()];
    expect(await allowed(origin)).toBe(true);
    await cli("keys", "revoke", first);
    expect(await allowed(origin)).toBe(true);
    await cli("keys", "revoke", second);
    expect(await allowed(origin)).toBe(false);
  });
});

test("the question behind a preflight is one seek, however many keys there are", () => {
  const plan = inDatabase(world.databasePath, (db) =>
    db.prepare("EXPLAIN QUERY PLAN SELECT 1 FROM key_origins WHERE origin = ? AND end_ms > ? LIMIT 1").all("x", 1),
  );
  expect(plan).toEqual([
    expect.objectContaining({ detail: "SEARCH key_origins USING PRIMARY KEY (origin=? AND end_ms>?)" }),
  ]);
});

describe("while origins take long to be looked up", () => {
  const sharePerAddress = 32;
  const json = { "content-type": "application/json" };
  test.each([
    ["a path that there is not", 404, "/nowhere", json],
    ["a call without a key", 401, "/v1/otp/send", json],
    ["a call with a key that is none", 401, "/v1/otp/send", { ...json, authorization: "Bearer nonsense" }],
  ])("%s has 32 of one address looked up at once, and the next ones answered", async (_, status, path, headers) => {
    const looks: PromiseWithResolvers<boolean>[] = [];
    const anotherLook = Promise.withResolvers<void>();
    const listener = await startListener({
      listsOrigin() {
        const look = Promise.withResolvers<boolean>();
        if (looks.push(look) > sharePerAddress) anotherLook.resolve();
        return look.promise;
      },
    });
    const ask = (from: string) =>
      overHttp1(listener.url, { path, headers: { ...headers, origin: shop }, body: "{}", from });
    const asked = Array.from({ length: sharePerAddress + 8 }, () => ask("127.0.0.1"));
    await listener.answered(8);
    expect(looks).toHaveLength(sharePerAddress);
    const another = ask("127.0.0.2");
    await anotherLook.promise;
    for (const { resolve } of looks) resolve(true);
    const answers = await Promise.all([...asked, another]);
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([status]));
    const marked = answers.filter(({ headers: told }) => told.get("access-control-allow-origin") === shop);
    expect(marked).toHaveLength(sharePerAddress + 1);
    await listener.stop();
  });

  test("a page whose key lists its origin reads its answer, though strangers at its address have as many looked up as they may", async () => {
    const looked = Promise.withResolvers<boolean>();
    let looks = 0;
    const allLook = Promise.withResolvers<void>();
    const listener = await startListener({
      listsOrigin() {
        looks += 1;
        if (looks === sharePerAddress) allLook.resolve();
        return looked.promise;
      },
    });
    const ask = (headers: Record<string, string>) =>
      overHttp1(listener.url, {
        path: "/v1/otp/send",
        headers: { ...json, ...headers },
        body: '{"phone":"+31612345678"}',
      });
    const strangers = Array.from({ length: sharePerAddress }, () => ask({ origin: "https://made-up.example" }));
    await allLook.promise;
    const page = await ask({ origin: pageOrigin, authorization: `Bearer ${pageKey}` });
    expect([page.status, page.headers.get("access-control-allow-origin")]).toEqual([200, pageOrigin]);
    looked.resolve(false);
    await Promise.all(strangers);
    await listener.stop();
  });

  test("preflights and calls of an address that many share leave others a quarter of what there is", async () => {
    const hanging = "https://hanging.example";
    const looked = Promise.withResolvers<boolean>();
    const listener = await startListener({
      callsMax: 128,
      shared: [{ address: "127.0.0.1", bits: 32 }],
      listsOrigin: (origin) => (origin === hanging ? looked.promise : Promise.resolve(true)),
    });
    const shared = [
      ...Array.from({ length: 64 }, () => overHttp1(listener.url, preflight(hanging))),
      ...Array.from({ length: 64 }, () =>
        overHttp1(listener.url, { path: "/v1/otp/send", headers: { ...json, origin: hanging }, body: "{}" }),
      ),
    ];
    // A quarter is refused, or not marked.
    await listener.answered(32);
    const from = "127.0.0.2";
    const [asked, called] = await Promise.all([
      overHttp1(listener.url, { ...preflight(shop), from }),
      overHttp1(listener.url, { path: "/v1/otp/send", headers: { ...json, origin: shop }, body: "{}", from }),
    ]);
    expect(asked.status).toBe(204);
    expect(called.headers.get("access-control-allow-origin")).toBe(shop);
    looked.resolve(true);
    const statuses = (await Promise.all(shared)).map(({ status }) => status);
    expect([204, 503, 401].map((status) => statuses.filter((each) => each === status).length)).toEqual([48, 16, 64]);
    await listener.stop();
  });
});
