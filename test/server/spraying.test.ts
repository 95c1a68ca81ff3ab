/**
 * Guesses at many phones of one tenant, through the whole service: what callers, operators and support see of it.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { createKeyRing } from "../../src/otp/keys/key-ring.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { showPhone } from "../../src/service/operators/phones.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { minuteMs, policy } from "../support/data/examples.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { surfaces, type Message, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { configOf, startWorld, type World } from "../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

const call = (rpc: Rpc, message: Message): Promise<Outcome> => rest.call(world.url, rpc, message, { key: world.key });

async function send(more: Message = {}) {
  const phone = newPhone();
  const { value } = await call("SendOtp", { phone, ...more });
  return { id: String(value?.["request_id"]), length: value?.["code_length"], code: world.network.codeFor(phone) };
}

async function guessAt(): Promise<void> {
  const { id, code } = await send();
  for (let i = 1; i <= 5; i++) await call("VerifyOtp", { request_id: id, code: wrongCode(code, i) });
}

const warnings = () => world.observed.filter(({ event }) => event === "warning").map((observed) => observed.with[0]);

/** What support is told of a phone that nobody has heard of. */
async function shown() {
  const store = await openSqlite({ path: world.databasePath, system: world.system, exclusive: false });
  try {
    const { masterKeys = [] } = configOf({ OTP_MASTER_KEY: Buffer.alloc(32, 7).toString("base64url") });
    const options = { store, keys: createKeyRing(masterKeys), policy };
    const { codeLength, isTenantGuessedAt } = await showPhone(options, "default", {
      e164: newPhone() as E164,
      region: "NL",
      kind: "mobile",
    });
    return { codeLength, isTenantGuessedAt };
  } finally {
    await store.close();
  }
}

test("200 wrong codes make new codes longer, refuse nobody, and are over after ten minutes", async () => {
  const admitted = await send();
  await Promise.all(Array.from({ length: 39 }, guessAt));
  expect((await send()).length).toBe(6);
  expect(await shown()).toEqual({ codeLength: 6, isTenantGuessedAt: false });
  await guessAt();
  expect((await send()).length).toBe(8);
  expect((await send({ known_user: true })).length).toBe(8);
  expect(await shown()).toEqual({ codeLength: 8, isTenantGuessedAt: true });
  const { value } = await call("VerifyOtp", { request_id: admitted.id, code: admitted.code });
  expect(value?.["state"]).toBe("STATE_VERIFIED");

  await world.restart();
  expect((await send()).length).toBe(8);
  expect(warnings()).toEqual([
    expect.stringMatching(/^many phones of tenant default are being guessed at: 200 wrong codes and 1 right ones/),
  ]);
  world.system.advance(11 * minuteMs);
  expect((await send()).length).toBe(6);
});
