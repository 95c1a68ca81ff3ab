/**
 * docs/better-auth.md is true: its code runs as it stands in the real library, against the running service.
 */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readDocument } from "../support/readers/document.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { startWorld, type World } from "../support/service/world.ts";

const root = join(import.meta.dirname, "../..");
const doc = readDocument("docs/better-auth.md");

interface Auth {
  handler(request: Request): Promise<Response>;
}

let world: World;
let folder: string;
/** Two instances of one application, over one database. */
let instances: [Auth, Auth];

beforeAll(async () => {
  world = await startWorld();
  folder = mkdtempSync(join(tmpdir(), "otpd-better-auth-"));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const database = `import { memoryAdapter } from "better-auth/adapters/memory";
    export const database = memoryAdapter({ user: [], session: [], account: [], verification: [] });`;
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  writeFileSync(join(folder, "database.ts"), database);
  writeFileSync(join(folder, "otpd-hooks.ts"), doc.file("otpd-hooks.ts"));
  for (const name of ["one.ts", "two.ts"]) writeFileSync(join(folder, name), doc.file("auth.ts"));
  process.env["OTPD_URL"] = world.url;
  process.env["OTPD_API_KEY"] = world.key;
  process.env["BETTER_AUTH_SECRET"] = "a secret of a test, which is long enough";
  const start = async (name: string) => ((await import(join(folder, name))) as { auth: Auth }).auth;
  instances = [await start("one.ts"), await start("two.ts")];
});
afterAll(async () => {
  await world.stop();
  rmSync(folder, { recursive: true });
});

/** A browser at the application: calls go to its instances in turn, and cookies are kept. */
function createBrowser() {
  const cookies = new Map<string, string>();
  let calls = 0;
  return {
    cookies,
    async call(path: string, body: object) {
      const headers = {
        "content-type": "application/json",
        origin: "https://shop.example",
        cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; "),
      };
      const url = `https://shop.example/api/auth/phone-number/${path}`;
      calls += 1;
      const [near, far] = instances;
      const instance = calls % 2 === 1 ? near : far;
      const answer = await instance.handler(new Request(url, { method: "POST", headers, body: JSON.stringify(body) }));
      for (const cookie of answer.headers.getSetCookie()) {
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
        if (/max-age=0/i.test(cookie)) cookies.delete(name);
        else cookies.set(name, value);
      }
      const retryAfter = answer.headers.get("retry-after");
      return { status: answer.status, retryAfter, body: (await answer.json()) as Record<string, unknown> };
    },
  };
}

const sessionCookie = "__Secure-better-auth.session_token";

test("a right code signs in, at another instance than the one that sent it", async () => {
  const [browser, phoneNumber] = [createBrowser(), newPhone()];
  expect(await browser.call("send-otp", { phoneNumber })).toMatchObject({ status: 200 });
  const code = world.network.codeFor(phoneNumber);
  const signedIn = await browser.call("verify", { phoneNumber, code });
  expect(signedIn).toMatchObject({ status: 200, body: { status: true, user: { phoneNumber } } });
  expect([...browser.cookies.keys()]).toEqual([sessionCookie]);
  // A second time it is nobody's.
  expect(await createBrowser().call("verify", { phoneNumber, code })).toMatchObject({ status: 400 });
});

test("wrong codes are counted by otpd, and its reason reaches the page", async () => {
  const [browser, phoneNumber] = [createBrowser(), newPhone()];
  await browser.call("send-otp", { phoneNumber });
  const code = world.network.codeFor(phoneNumber);
  for (const left of [4, 3, 2, 1, 0]) {
    const answer = await browser.call("verify", { phoneNumber, code: wrongCode(code) });
    expect(answer).toMatchObject({ status: 400, body: { code: "INVALID_OTP", attempts_remaining: left } });
  }
  expect(await browser.call("verify", { phoneNumber, code })).toMatchObject({
    status: 400,
    body: { code: "OTP_LOCKED" },
  });
  expect(browser.cookies.has(sessionCookie)).toBe(false);
});

test("asked again, it sends the same code again, or says how long to wait, and a new one where that is over", async () => {
  const [browser, phoneNumber] = [createBrowser(), newPhone()];
  const codes = () => world.network.received.filter(({ to }) => to === phoneNumber).map(({ text }) => text.slice(0, 6));
  await browser.call("send-otp", { phoneNumber });
  const [code = ""] = codes();
  expect(await browser.call("send-otp", { phoneNumber })).toMatchObject({
    status: 429,
    retryAfter: "30",
    body: { code: "RESEND_TOO_SOON", retry_after_seconds: 30 },
  });
  world.system.advance(30_000);
  expect(await browser.call("send-otp", { phoneNumber })).toMatchObject({ status: 200 });
  expect(codes()).toEqual([code, code]);
  for (let i = 0; i < 5; i += 1) await browser.call("verify", { phoneNumber, code: wrongCode(code) });
  expect(await browser.call("send-otp", { phoneNumber })).toMatchObject({ status: 200 });
  const fresh = codes().at(-1);
  expect(codes().length).toBe(3);
  expect(await browser.call("verify", { phoneNumber, code: fresh })).toMatchObject({ status: 200 });
});

test("a code for one number does not sign in as another", async () => {
  const [owner, thief] = [createBrowser(), createBrowser()];
  const [theirs, own] = [newPhone(), newPhone()];
  await owner.call("send-otp", { phoneNumber: theirs });
  await owner.call("verify", { phoneNumber: theirs, code: world.network.codeFor(theirs) });
  await thief.call("send-otp", { phoneNumber: own });
  const answer = await thief.call("verify", { phoneNumber: theirs, code: world.network.codeFor(own) });
  expect(answer).toMatchObject({ status: 400, body: { code: "INVALID_OTP" } });
  expect(thief.cookies.has(sessionCookie)).toBe(false);
});

test("strangers who ask for codes do not get in the owner's way", async () => {
  const [owner, stranger] = [createBrowser(), createBrowser()];
  const phoneNumber = newPhone();
  await owner.call("send-otp", { phoneNumber });
  const code = world.network.codeFor(phoneNumber);
  await stranger.call("send-otp", { phoneNumber });
  for (let i = 0; i < 6; i += 1) await stranger.call("verify", { phoneNumber, code: wrongCode(code) });
  expect(await owner.call("verify", { phoneNumber, code })).toMatchObject({ status: 200 });
});

test("a code that nobody asked for in this browser, or a request_id of one's own making, opens nothing", async () => {
  const [owner, stranger] = [createBrowser(), createBrowser()];
  const phoneNumber = newPhone();
  await owner.call("send-otp", { phoneNumber });
  const code = world.network.codeFor(phoneNumber);
  const refused = { status: 400, body: { code: "INVALID_OTP" } };
  expect(await stranger.call("verify", { phoneNumber, code })).toMatchObject(refused);
  const [name = "", value = ""] = [...owner.cookies].find(([cookie]) => cookie.includes("otpd_request")) ?? [];
  stranger.cookies.set(name, `${value.slice(0, 22)}${wrongCode("000000")}${value.slice(28)}`);
  expect(await stranger.call("verify", { phoneNumber, code })).toMatchObject(refused);
});

test("a send that is refused says why, and is no send", async () => {
  const browser = createBrowser();
  const landline = await browser.call("send-otp", { phoneNumber: "+31201234567" });
  expect(landline).toMatchObject({ status: 400, body: { code: "PHONE_NOT_MOBILE" } });
  const misspelt = await browser.call("send-otp", { phoneNumber: "+31 6 1234 5678" });
  expect(misspelt).toMatchObject({ status: 400, body: { code: "INVALID_PHONE_NUMBER" } });
  // otpd would take it, and answer with +447400123456: a right code would not sign in, or as another user.
  const otherwise = await browser.call("send-otp", { phoneNumber: "+4407400123456" });
  expect(otherwise).toMatchObject({ status: 400, body: { code: "INVALID_PHONE_NUMBER" } });
  expect(browser.cookies.size).toBe(0);
});
