/**
 * What a thief of the database finds out: not who was texted, also where callers put the number into their
 * Idempotency-Keys. All of it is read, from every table, as a copy of the disk would give it.
 */
import { hash } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { lengthPrefixed } from "../../src/otp/keys/key-ring.ts";
import { callUntilReached, surfaces } from "../support/clients/surfaces.ts";
import { copiedTables } from "../../src/store/move/copy.ts";
import { select } from "../support/databases/rows.ts";
import { startWorld, type World } from "../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
const send = (phone: string, key: string) =>
  callUntilReached(() =>
    rest.call(world.url, "SendOtp", { phone }, { key, headers: { "idempotency-key": `send-${phone}` } }),
  );
beforeEach(async () => {
  world = await startWorld();
});
afterEach(() => world.stop());

const numbers = Array.from({ length: 40 }, (_, i) => `+3161234${1_000 + 7 * i}`);

/** The numbers in their keys that a thief who tries all of them finds in the database. */
async function readOut(keyId: string): Promise<string[]> {
  const tables = await Promise.all(copiedTables.map((table) => select(world.database, `SELECT * FROM ${table}`)));
  const everything = tables
    .flat()
    .flatMap((row) => Object.values(row))
    .map((value) => (Buffer.isBuffer(value) ? value : Buffer.from(String(value))).toString("hex"))
    .join(" ");
  return Array.from({ length: 1_000 }, (_, i) => `+3161234${1_000 + i}`).filter((phone) => {
    const digest = hash("sha256", lengthPrefixed("default", keyId, "SendOtp", `send-${phone}`), "hex");
    return [digest.slice(0, 32), digest.slice(0, 16), Buffer.from(phone).toString("hex")].some((trace) =>
      everything.includes(trace),
    );
  });
}

test("numbers in Idempotency-Keys cannot be read out of a stolen database", async () => {
  const { id, text: key } = await world.makeKey();
  for (const phone of numbers) {
    const { value } = await send(phone, key);
    expect(value).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
  }
  expect(await readOut(id)).toEqual([]);
});

test("what an earlier version left is keyed at the start, and still answers a repeat", async () => {
  const { id, text: key } = await world.makeKey();
  const answers = [];
  for (const phone of numbers) answers.push((await send(phone, key)).value);
  // Back to how it was.
  for (const [i, phone] of numbers.entries()) {
    const digest = hash("sha256", lengthPrefixed("default", id, "SendOtp", `send-${phone}`), "buffer").subarray(0, 16);
    const of = Buffer.from(String(answers[i]?.["request_id"]), "base64url");
    const update = "UPDATE idempotency SET slot = $1 WHERE verification_id = $2 RETURNING slot";
    expect(await select(world.database, update, [digest, of])).toHaveLength(1);
  }
  expect(await readOut(id)).toEqual(numbers);
  await world.restart();
  expect(await readOut(id)).toEqual([]);
  const texted = world.network.received.length;
  const again = [];
  for (const phone of numbers) again.push((await send(phone, key)).value);
  expect(again).toEqual(answers);
  expect(world.network.received).toHaveLength(texted);
});
