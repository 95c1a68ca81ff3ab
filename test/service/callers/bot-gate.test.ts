/**
 * Where the bot check stands in a send: the acts on real SQLite, with a far end in a process of its own.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Secret } from "../../../src/otp/keys/secret.ts";
import { createBotCheck } from "../../../src/service/callers/bot-check.ts";
import type { Caller, SendCommand } from "../../../src/service/calls.ts";
import { createVerifications, type Verifications } from "../../../src/service/verifications.ts";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import type { Store } from "../../../src/store/store.ts";
import { keys, policy } from "../../support/data/examples.ts";
import { newPhone } from "../../support/data/phones.ts";
import { secretText, startSiteverify, type Siteverify } from "../../support/fakes/siteverify.ts";
import { createManualSystem } from "../../support/service/system.ts";
import { ofOneMind } from "../../support/service/tenants.ts";

const folder = mkdtempSync(join(tmpdir(), "otpd-bots-"));
let far: Siteverify;
let store: Store;
let verifications: Verifications;
let texted = 0;
beforeAll(async () => {
  far = await startSiteverify();
  const system = createManualSystem();
  store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: true });
  await store.registry.admitMasterKeys(keys.all);
  const settings = { verifyUrl: new URL(far.url), secret: new Secret(secretText) };
  verifications = createVerifications({
    store,
    system,
    keys,
    tenantOf: ofOneMind({ ...policy, allowedCountries: new Set(["NL"]) }),
    deliver: async () => void (texted += 1),
    sendWaitMs: 0,
    channelsOn: ["sms"],
    issuer: "otpd",
    onSpendWarnings: () => {},
    botCheck: createBotCheck(settings, () => {}),
  });
});
afterAll(async () => {
  await store.close();
  far.stop();
  rmSync(folder, { recursive: true });
});

const browser: Caller = { tenant: "default", keyId: "page", idempotencyKey: undefined, isPublishable: true };
const page = (idempotencyKey: string): Caller => ({ ...browser, idempotencyKey });

function send(caller: Caller, brought: string, more: Partial<SendCommand> = {}) {
  const shape = { channel: "", locale: "", purpose: "", bind: {}, knownUser: false, webOrigin: undefined };
  const command = { ...shape, appHash: undefined, phone: newPhone(), challengeToken: new Secret(brought), ...more };
  return verifications.send(caller, command);
}

/** What an act adds to the messages texted and to the questions asked. */
async function costs<T>(act: () => Promise<T>): Promise<{ came: T; texts: number; asked: number }> {
  const [texts, asked] = [texted, (await far.asked()).length];
  const came = await act();
  return { came, texts: texted - texts, asked: (await far.asked()).length - asked };
}
const refused = (reason: string) => ({ result: { ok: false, refusal: { reason } }, replayed: false });

test("a page's send passes with a yes, from its address", async () => {
  const { came, texts, asked } = await costs(() => send({ ...browser, address: "192.0.2.7" }, "good 1"));
  expect({ ok: came.result.ok, texts, asked }).toEqual({ ok: true, texts: 1, asked: 1 });
  expect((await far.asked()).at(-1)?.form).toMatchObject({ response: "good 1", remoteip: "192.0.2.7" });
});

test.each([
  ["a no", "bad", 1],
  ["nothing brought", "", 0],
  ["no answer", "reset", 1],
])("with %s it is refused, and spends nothing", async (_, brought, questions) => {
  const { came, texts, asked } = await costs(() => send(browser, brought));
  expect(came).toMatchObject(refused("CHALLENGE_FAILED"));
  expect({ texts, asked }).toEqual({ texts: 0, asked: questions });
});

test("a secret key is never asked, whatever it brings", async () => {
  const backend: Caller = { ...browser, isPublishable: false };
  const { came, texts, asked } = await costs(() => send(backend, "bad"));
  expect({ ok: came.result.ok, texts, asked }).toEqual({ ok: true, texts: 1, asked: 0 });
});

test.each<[string, Partial<SendCommand>, string]>([
  ["channel", { channel: "pigeon" }, "CHANNEL_UNSUPPORTED"],
  ["phone", { phone: "+3161234" }, "PHONE_INVALID"],
  ["destination", { phone: "+4915123456710" }, "COUNTRY_NOT_ALLOWED"],
])("a send refused for its %s does not use up what was brought", async (field, more, reason) => {
  for (const caller of [browser, page(`spared ${field}`)]) {
    const { came, asked } = await costs(() => send(caller, "good spared", more));
    expect(came).toMatchObject(refused(reason));
    expect(asked).toBe(0);
  }
});

test("a repeat is answered the same without asking again, though it brings the used one, another or none", async () => {
  const phone = newPhone();
  const first = await costs(() => send(page("repeat"), "good repeat", { phone }));
  expect({ ok: first.came.result.ok, texts: first.texts, asked: first.asked }).toEqual({
    ok: true,
    texts: 1,
    asked: 1,
  });
  for (const brought of ["good repeat", "good fresh", "bad", ""]) {
    const again = await costs(() => send(page("repeat"), brought, { phone }));
    expect(again).toEqual({ came: { result: first.came.result, replayed: true }, texts: 0, asked: 0 });
  }
  const other = await costs(() => send(page("repeat"), "good other"));
  expect(other.came).toMatchObject(refused("IDEMPOTENCY_KEY_REUSED"));
  expect(other.asked).toBe(0);
});

test("a refused one may come again under the same Idempotency-Key, with a fresh one", async () => {
  const phone = newPhone();
  expect((await send(page("again"), "bad", { phone })).result).toMatchObject({
    refusal: { reason: "CHALLENGE_FAILED" },
  });
  const { came, texts } = await costs(() => send(page("again"), "good again", { phone }));
  expect({ ok: came.result.ok, replayed: came.replayed, texts }).toEqual({ ok: true, replayed: false, texts: 1 });
});

test("while one is asked about, another under the same Idempotency-Key waits its turn, and asks nothing", async () => {
  const phone = newPhone();
  const before = (await far.asked()).length;
  const texts = texted;
  const first = send(page("pair"), "hold pair", { phone });
  await far.asked(before + 1);
  const second = send(page("pair"), "good pair", { phone });
  expect(await second).toMatchObject(refused("IDEMPOTENCY_IN_PROGRESS"));
  expect(await send(page("pair"), "good pair", { phone: newPhone() })).toMatchObject(refused("IDEMPOTENCY_KEY_REUSED"));
  await far.release();
  const { result } = await first;
  expect([result.ok, texted]).toEqual([true, texts + 1]);
  expect(await send(page("pair"), "good pair", { phone })).toEqual({ result, replayed: true });
  expect(await far.asked()).toHaveLength(before + 1);
});

test("twenty at once under one Idempotency-Key text once and ask once", async () => {
  const phone = newPhone();
  const { came, texts, asked } = await costs(() =>
    Promise.all(Array.from({ length: 20 }, (_, i) => send(page("crowd"), `good crowd ${i}`, { phone }))),
  );
  expect({ texts, asked, passed: came.filter(({ result }) => result.ok).length }).toEqual({
    texts: 1,
    asked: 1,
    passed: 1,
  });
  const reasons = came.flatMap(({ result }) => (result.ok ? [] : [result.refusal.reason]));
  expect(new Set(reasons)).toEqual(new Set(["IDEMPOTENCY_IN_PROGRESS"]));
});

test("verify and resend are not asked", async () => {
  const { result } = await send(browser, "good for the rest");
  const id = result.ok ? result.value.id : "";
  const { came, asked } = await costs(() => verifications.resend(browser, { id, channel: "" }));
  expect(came).toMatchObject(refused("RESEND_TOO_SOON"));
  const guess = { id, code: new Secret("12345"), purpose: "", bind: {} };
  expect(await verifications.verify(browser, guess)).toMatchObject(refused("CODE_MALFORMED"));
  expect(asked).toBe(0);
});
