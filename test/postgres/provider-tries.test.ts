/**
 * Tries of a provider on PostgreSQL: ten for a database, however many instances it has, each under the daily cap.
 */
import { expect, test } from "vitest";
import { createKeyRing } from "../../src/otp/keys/key-ring.ts";
import { parsePhoneNumber } from "../../src/otp/phone-number.ts";
import { spendTry, tryLimit } from "../../src/service/operators/provider-tries.ts";
import { openOnPostgres } from "../support/databases/opening.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem } from "../support/service/system.ts";
import { configOf } from "../support/service/world.ts";

async function openTwo() {
  const url = await newDatabase();
  if (url === undefined) throw new Error("this test is for PostgreSQL");
  const system = createManualSystem();
  const open = () => openOnPostgres({ url, system });
  return { stores: [await open(), await open()] as const, keys: createKeyRing([Buffer.alloc(32, 1)]) };
}

test.each([
  ["tries", 1_000, tryLimit.burst],
  ["daily-cap", 3, 3],
] as const)(
  "of many tries at once by two instances no more are made than %s allow",
  async (by, dailyMessagesMax, most) => {
    const { stores, keys } = await openTwo();
    const policy = { ...configOf({}).policy, dailyMessagesMax };
    const parsed = parsePhoneNumber("+31612345678");
    if (!parsed.ok) throw new Error("this is a number");
    const where = { region: "NL", channel: "sms", price: () => undefined } as const;
    const tries = Array.from({ length: 20 }, (_, i) => {
      const author = { actor: `key:${i % 4}`, actorTenant: "", address: "" };
      const entry = { by: author, provider: "acme", e164: parsed.value.e164 };
      return spendTry({ store: stores[i % 2] ?? stores[0], keys, policy, ...where, entry });
    });
    const verdicts = await Promise.all(tries);
    expect(verdicts.filter(({ allowed }) => allowed)).toHaveLength(most);
    expect(verdicts.filter((verdict) => !verdict.allowed && verdict.by === by)).toHaveLength(20 - most);
    // Each that is made has its entry of the audit, and none that is not.
    const all = { tenant: "", actor: "", action: "provider.try", subject: "", actorTenant: "", fromMs: 0 };
    const newest = Number.MAX_SAFE_INTEGER;
    const found = await stores[0].registry.findAudit({ ...all, toMs: newest, max: 100 });
    expect(found).toHaveLength(most);
    await Promise.all(stores.map((store) => store.close()));
  },
);
