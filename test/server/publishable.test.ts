/**
 * Publishable keys: which key may ask for what from where, on every surface, and what those see who may.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { OtpService } from "../../gen/otp/v1/otp_service_pb.ts";
import { publishableScopes, type KeyKind } from "../../src/otp/keys/api-key.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { connectByFetch, surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { startWorld, type KeyOptions, type World } from "../support/service/world.ts";
import { sampled } from "../support/extent.ts";

let world: World;
beforeEach(async () => {
  world = await startWorld();
});
afterEach(() => world.stop());

const appHash = "FA+9qCX9VSu";
const shop = "https://shop.example";
const may = ["send", ...publishableScopes] as const;
const rpcs = OtpService.methods.map((method) => method.name as Rpc);
const request_id = "AAAAAAAAAAAAAAAAAAAAAA";
const fictional = "+14155550100";

function messageOf(rpc: Rpc, kind: KeyKind): Message {
  if (rpc === "SendOtp") return { phone: kind.endsWith("test") ? fictional : newPhone() };
  return rpc === "VerifyOtp" ? { request_id, code: "123456" } : { request_id };
}

const outcomeIn = (reason: string | undefined) => (reason === "REQUEST_NOT_FOUND" ? "OK" : (reason ?? "OK"));

const origins = ["none", "listed", "foreign", "null", "own"] as const;
type Place = (typeof origins)[number];
const only =
  (...fine: Place[]) =>
  (place: Place) =>
    fine.includes(place) ? "OK" : "ORIGIN_NOT_ALLOWED";
const atHome = (place: Place) => (["none", "own"].includes(place) ? "OK" : "SECRET_KEY_IN_BROWSER");
const kinds: readonly { name: string; options: KeyOptions; expected: (place: Place) => string }[] = [
  { name: "a live key", options: { kind: "live" }, expected: atHome },
  { name: "a test key", options: { kind: "test" }, expected: atHome },
  { name: "a publishable key", options: { kind: "pub", scopes: may, origins: [shop] }, expected: only("listed") },
  { name: "one of the sandbox", options: { kind: "pubtest", scopes: may, origins: [shop] }, expected: only("listed") },
  { name: "an app's", options: { kind: "pub", scopes: may, isApp: true }, expected: only("none") },
  {
    name: "an app's and a page's",
    options: { kind: "pub", scopes: may, isApp: true, origins: [shop] },
    expected: only("none", "listed"),
  },
];

describe.each(sampled([connectByFetch, ...surfaces], 2))("over $name", (surface) => {
  test.each(kinds)("every RPC with $name is let in from where it may be, and nowhere else", async (row) => {
    const { kind = "live" } = row.options;
    const { text: key } = await world.makeKey(row.options);
    const where: Record<Place, Record<string, string>> = {
      none: {},
      listed: { origin: shop },
      foreign: { origin: "https://evil.example" },
      null: { origin: "null" },
      own: { origin: world.url },
    };
    for (const rpc of rpcs) {
      for (const place of origins) {
        const options = { key, headers: where[place] };
        const { reason, code } = await surface.call(world.url, rpc, messageOf(rpc, kind), options);
        expect([rpc, place, outcomeIn(reason), code]).toEqual([
          rpc,
          place,
          row.expected(place),
          row.expected(place) === "OK" ? (rpc === "SendOtp" ? undefined : "NOT_FOUND") : "PERMISSION_DENIED",
        ]);
      }
    }
  });

  test("phones are masked for a publishable key, and how messages leave is not told", async () => {
    const phone = newPhone();
    const masked = `${phone.slice(0, 3)}•••••••${phone.slice(-2)}`;
    const { text: key } = await world.makeKey({ kind: "pub", scopes: may, origins: [shop] });
    const call = (rpc: Rpc, message: Message) =>
      surface.call(world.url, rpc, message, { key, headers: { origin: shop, "idempotency-key": `k-${rpc}` } });
    const sent = await call("SendOtp", { phone });
    const id = String(sent.value?.["request_id"]);
    const verify = { request_id: id, code: world.network.codeFor(phone) };
    expect((await call("GetOtp", { request_id: id })).value).toMatchObject({
      phone: masked,
      provider: "",
      delivery_detail: "",
    });
    expect((await call("VerifyOtp", verify)).value).toMatchObject({ phone: masked });
    // The replay is the same call again, and no way round it.
    const again = await call("VerifyOtp", verify);
    expect([again.value?.["phone"], again.headers.get("idempotency-replayed")]).toEqual([masked, "true"]);
    const secret = await surface.call(world.url, "GetOtp", { request_id: id }, { key: world.key });
    expect(secret.value).toMatchObject({ phone, provider: "test" });
  });

  test("what is for secret keys alone is refused, and so is another site's web_origin", async () => {
    const { text: key } = await world.makeKey({ kind: "pub", scopes: may, origins: [shop] });
    const call = (rpc: Rpc, message: Message) =>
      surface.call(world.url, rpc, message, { key, headers: { origin: shop } });
    const phone = newPhone();
    for (const client_ip of ["192.0.2.7", "nonsense"]) {
      const invalid = { field: "client_ip" };
      expectRefusal(await call("SendOtp", { phone, client_ip }), "INVALID_REQUEST", invalid);
      expectRefusal(await call("VerifyOtp", { request_id, code: "1", client_ip }), "INVALID_REQUEST", invalid);
      expectRefusal(await call("ResendOtp", { request_id, client_ip }), "INVALID_REQUEST", invalid);
    }
    expectRefusal(await call("SendOtp", { phone, known_user: true }), "INVALID_REQUEST", { field: "known_user" });
    const forApp = await call("SendOtp", { phone, android_app_hash: appHash });
    expectRefusal(forApp, "INVALID_REQUEST", { field: "android_app_hash" });
    const elsewhere = await call("SendOtp", { phone, web_origin: "https://evil.example" });
    expectRefusal(elsewhere, "ORIGIN_NOT_ALLOWED", { field: "web_origin" });
    expect((await call("SendOtp", { phone, web_origin: shop })).value).toMatchObject({ state: "STATE_PENDING" });
    expect(world.network.received.map(({ text }) => text.split("\n").at(-1)?.slice(0, 13))).toEqual(["@shop.example"]);
  });
});

test("an app's key names the app that is handed the text", async () => {
  const { text: key } = await world.makeKey({ kind: "pub", scopes: may, isApp: true });
  const sent = await connectByFetch.call(
    world.url,
    "SendOtp",
    { phone: newPhone(), android_app_hash: appHash },
    { key },
  );
  expect(sent.value).toMatchObject({ state: "STATE_PENDING" });
  expect(world.network.received.at(-1)?.text.split("\n").at(-1)).toBe(appHash);
});

test("an app's key names no web_origin but those it lists", async () => {
  const { text: bare } = await world.makeKey({ kind: "pub", scopes: may, isApp: true });
  const { text: both } = await world.makeKey({ kind: "pub", scopes: may, isApp: true, origins: [shop] });
  const send = (key: string, web_origin: string) =>
    connectByFetch.call(world.url, "SendOtp", { phone: newPhone(), web_origin }, { key });
  expectRefusal(await send(bare, "https://evil.example"), "ORIGIN_NOT_ALLOWED", { field: "web_origin" });
  expectRefusal(await send(both, "https://evil.example"), "ORIGIN_NOT_ALLOWED", { field: "web_origin" });
  expect((await send(both, shop)).value).toMatchObject({ state: "STATE_PENDING" });
  expect(world.network.received.map(({ text }) => text.split("\n").at(-1)?.slice(0, 13))).toEqual(["@shop.example"]);
});

const [rest] = surfaces;
if (rest === undefined) throw new Error("there are surfaces");

test("a publishable key does not send unless its maker allowed it, but resends", async () => {
  const { text: key } = await world.makeKey({ kind: "pub", origins: [shop] });
  const options = { key, headers: { origin: shop } };
  expectRefusal(await rest.call(world.url, "SendOtp", { phone: newPhone() }, options), "SCOPE_MISSING");
  const { value } = await rest.call(world.url, "SendOtp", { phone: newPhone() }, { key: world.key });
  world.system.advance(30_000);
  const resent = await rest.call(world.url, "ResendOtp", { request_id: value?.["request_id"] ?? "" }, options);
  expect(resent.value).toMatchObject({ state: "STATE_PENDING", resends_remaining: 1 });
});

test("key wins over scope, scope over origin, origin over shape", async () => {
  const { id, text: key } = await world.makeKey({ kind: "pub", scopes: ["read"], origins: [shop] });
  const reasonOf = async (rpc: Rpc, message: Message, origin: string) =>
    (await rest.call(world.url, rpc, message, { key, headers: { origin } })).reason;
  expect(await reasonOf("SendOtp", {}, "https://evil.example")).toBe("SCOPE_MISSING");
  expect(await reasonOf("GetOtp", { request_id: "x".repeat(300) }, "https://evil.example")).toBe("ROUTE_NOT_FOUND");
  const [, connect] = surfaces;
  const empty = { request_id: "" };
  const get = async (origin: string) => connect?.call(world.url, "GetOtp", empty, { key, headers: { origin } });
  expect((await get("https://evil.example"))?.reason).toBe("ORIGIN_NOT_ALLOWED");
  expect((await get(shop))?.reason).toBe("INVALID_REQUEST");
  await world.revokeKey(id);
  expect(await reasonOf("SendOtp", {}, "https://evil.example")).toBe("API_KEY_REVOKED");
});

test("a secret key that came from a page is warned of by its id, once an hour, and never by itself", async () => {
  const { id, text: key } = await world.makeKey();
  const call = () =>
    rest.call(world.url, "GetOtp", { request_id }, { key, headers: { origin: "https://evil.example" } });
  const warnings = () =>
    world.observed.filter(({ event }) => event === "warning").map((observed) => String(observed.with[0]));
  for (let i = 0; i < 5; i++) expectRefusal(await call(), "SECRET_KEY_IN_BROWSER");
  expect(warnings()).toHaveLength(1);
  expect(warnings()[0]).toContain(`the secret API key ${id} came from a web page`);
  expect(warnings()[0]).not.toContain(key.slice(-38));
  world.system.advance(3_600_000);
  await call();
  expect(warnings()).toHaveLength(2);
});

test("a publishable key of the sandbox works on fictional numbers, and what it does is no live key's business", async () => {
  const make = (kind: KeyKind) => world.makeKey({ kind, scopes: may, origins: [shop] });
  const [{ text: pubtest }, { text: pub }] = [await make("pubtest"), await make("pub")];
  const call = (key: string, rpc: Rpc, message: Message) =>
    rest.call(world.url, rpc, message, { key, headers: { origin: shop } });
  expectRefusal(await call(pubtest, "SendOtp", { phone: newPhone() }), "PHONE_INVALID", { field: "phone" });
  const { value } = await call(pubtest, "SendOtp", { phone: fictional });
  const verify = { request_id: value?.["request_id"] ?? "", code: "123456" };
  expectRefusal(await call(pub, "VerifyOtp", verify), "REQUEST_NOT_FOUND");
  expect((await call(pubtest, "VerifyOtp", verify)).value).toMatchObject({ phone: "+14•••••••00" });
  expect(world.network.received).toEqual([]);
});

test("a page guesses no better than anyone: five wrong codes lock", async () => {
  const { text: key } = await world.makeKey({ kind: "pub", origins: [shop] });
  const phone = newPhone();
  const { value } = await rest.call(world.url, "SendOtp", { phone }, { key: world.key });
  const reasons: (string | undefined)[] = [];
  for (let i = 1; i <= 6; i++) {
    const message = { request_id: value?.["request_id"] ?? "", code: wrongCode(world.network.codeFor(phone), i) };
    reasons.push((await rest.call(world.url, "VerifyOtp", message, { key, headers: { origin: shop } })).reason);
  }
  expect(reasons).toEqual([...Array<string>(5).fill("CODE_MISMATCH"), "OTP_LOCKED"]);
});
