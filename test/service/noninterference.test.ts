/**
 * What a tenant is answered does not depend on what another does: thousands of calls of two tenants on the same phones, with the
 * same Idempotency-Keys and each other's ids, are answered word for word as when each tenant is alone.
 */
import Sqlite from "better-sqlite3";
import { decodeJwt } from "jose";
import { expect, test } from "vitest";
import { deriveCode } from "../../src/otp/message/code.ts";
import type { Policy } from "../../src/otp/verification/policy.ts";
import { Secret } from "../../src/otp/keys/secret.ts";
import type { TenantOf } from "../../src/otp/operators/tenant.ts";
import type { Answer, Caller } from "../../src/service/calls.ts";
import { createVerifications } from "../../src/service/verifications.ts";
import { migrate } from "../../src/store/sqlite/migrate.ts";
import { migrations } from "../../src/store/sqlite/migrations.ts";
import { createStore } from "../../src/store/acts.ts";
import { SqliteEngine } from "../../src/store/sqlite/engine.ts";
import { LongReads } from "../../src/store/sqlite/long-reads.ts";
import { ringOf, testPolicy } from "../store/acts.ts";
import { createManualSystem, seededRandom } from "../support/service/system.ts";
import { ofOneMind } from "../support/service/tenants.ts";
import { extent } from "../support/extent.ts";

type Name = "acme" | "bolt";

/** Tight and unlike each other, so that a shared bucket, past or policy would show. */
const policies: Readonly<Record<Name, Policy>> = {
  acme: { ...testPolicy, phoneLimits: [{ burst: 4, intervalMs: 40_000 }], attemptsMax: 3, ttlMs: 300_000 },
  bolt: {
    ...testPolicy,
    codeLength: 7,
    codeLengthMax: 10,
    phoneLimits: [
      { burst: 6, intervalMs: 20_000 },
      { burst: 30, intervalMs: 60_000 },
      { burst: 1, intervalMs: 1_000 },
    ],
    resendGapsMs: [10_000],
  },
};

/** One call: which verification, code or key is meant is told by its place among its tenant's, since ids are drawn. */
interface Step {
  readonly at: number;
  readonly tenant: Name;
  readonly rpc: "send" | "verify" | "resend" | "cancel" | "get";
  readonly phone: string;
  readonly knownUser: boolean;
  /** How many verifications back. */
  readonly back: number;
  /** Means the other tenant's verification instead of its own. */
  readonly foreign: boolean;
  readonly right: boolean;
  readonly idempotencyKey: string | undefined;
}

const calls = extent(4_000, 10_000);
const keyEvery = 3;

function script(seed: number): Step[] {
  const random = seededRandom(seed);
  const below = (n: number) => Math.floor(random() * n);
  const rpcs = ["send", "send", "verify", "verify", "verify", "resend", "cancel", "get"] as const;
  let at = 0;
  return Array.from({ length: calls }, () => {
    at += below(800);
    return {
      at,
      tenant: random() < 0.5 ? "acme" : "bolt",
      rpc: rpcs[below(rpcs.length)] ?? "get",
      phone: `+3161234567${below(5)}`,
      knownUser: random() < 0.1,
      back: below(4),
      foreign: random() < 0.2,
      right: random() < 0.3,
      idempotencyKey: below(keyEvery) === 0 ? `key-${below(200)}` : undefined,
    };
  });
}

/** A receipt by what it says: its signature is over an id that is drawn. */
const shownReceipt = (name: string, value: unknown) => (name === "receipt" ? decodeJwt(String(value)) : value);

/** Plays the steps of these tenants alone; resolves with what each step was answered, ids told by their place. */
async function play(steps: readonly Step[], present: readonly Name[]): Promise<Map<number, string>> {
  const db = new Sqlite(":memory:");
  migrate(db, migrations);
  const system = createManualSystem(present.length);
  const epochMs = system.now();
  const store = createStore(
    new SqliteEngine({
      db,
      system,
      lock: undefined,
      longReads: new LongReads({ path: db.name }),
      checkpoints: undefined,
    }),
  );
  const keys = ringOf(9);
  const tenants = { acme: ofOneMind(policies.acme)("acme"), bolt: ofOneMind(policies.bolt)("bolt") };
  const tenantOf: TenantOf = (id) => tenants[id as Name];
  // Nothing is sent: each send is answered at once, as when the provider takes its time.
  const service = createVerifications({
    store,
    system,
    keys,
    tenantOf,
    deliver: async () => undefined,
    sendWaitMs: 0,
    channelsOn: ["sms"],
    issuer: "otpd",
    onSpendWarnings: () => {},
  });
  const opened: Record<Name, string[]> = { acme: [], bolt: [] };
  const answers = new Map<number, string>();
  const newcomers = new Set<string>();
  const nobody = Buffer.alloc(16, 0x5a).toString("base64url");

  async function ask(step: Step): Promise<Answer<unknown>> {
    const { tenant, rpc, phone, knownUser, idempotencyKey } = step;
    const caller: Caller = { tenant, keyId: "key", idempotencyKey, isPublishable: false };
    if (rpc === "send") {
      const plain = { channel: "", locale: "", purpose: "", bind: {}, webOrigin: undefined, appHash: undefined };
      return service.send(caller, { ...plain, phone, knownUser, challengeToken: new Secret("") });
    }
    const owner = step.foreign ? (tenant === "acme" ? "bolt" : "acme") : tenant;
    const id = opened[owner].at(-1 - step.back) ?? nobody;
    if (rpc === "resend") return service.resend(caller, { id, channel: "" });
    if (rpc !== "verify") return service[rpc](caller, id);
    const verification = await store.readVerification(owner, id);
    const code = verification === undefined ? undefined : deriveCode(keys, verification);
    const typed = step.right && code !== undefined ? code.reveal() : "0".repeat(verification?.digits ?? 6);
    return service.verify(caller, { id, code: new Secret(typed), purpose: "", bind: {} });
  }

  for (const [index, step] of steps.entries()) {
    if (!present.includes(step.tenant)) continue;
    system.advance(epochMs + step.at - system.now());
    const answer = await ask(step);
    const { result } = answer;
    const own = opened[step.tenant];
    const id = result.ok ? (result.value as { id: string }).id : undefined;
    if (id !== undefined && !own.includes(id)) {
      newcomers.add(answer.replayed ? `a replayed ${step.rpc}` : step.rpc);
      own.push(id);
    }
    const text = JSON.stringify({ ...answer, ordinal: id === undefined ? -1 : own.indexOf(id) }, shownReceipt);
    answers.set(index, text.replaceAll(id ?? nobody, "ID"));
  }
  await store.close();
  // Only a send that is no replay brings an id that its tenant has not seen.
  expect([...newcomers]).toEqual(["send"]);
  return answers;
}

test("two tenants are answered together as each is alone", { timeout: 600_000 }, async () => {
  const steps = script(11);
  const together = await play(steps, ["acme", "bolt"]);
  const apart = new Map([...(await play(steps, ["acme"])), ...(await play(steps, ["bolt"]))]);
  expect(together.size).toBe(calls);
  const differing = [...together].filter(([index, text]) => apart.get(index) !== text);
  expect(differing.map(([index, text]) => ({ step: steps[index], text, apart: apart.get(index) })).slice(0, 3)).toEqual(
    [],
  );

  // And it was no idle talk: everything that could leak was there to leak.
  const count = (words: string) => [...together.values()].filter((text) => text.includes(words)).length;
  for (const words of [
    '"replayed":true',
    '"PHONE_RATE_LIMITED"',
    '"REQUEST_NOT_FOUND"',
    '"IDEMPOTENCY_KEY_REUSED"',
    '"CODE_MISMATCH"',
    '"OTP_LOCKED"',
    '"VERIFIED"',
    '"digits":8',
  ]) {
    expect([words, count(words) > extent(1, 10)]).toEqual([words, true]);
  }
});
