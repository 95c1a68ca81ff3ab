/**
 * Mistakes that the tests must not let pass: each is a change of the product that somebody could make, with what it
 * breaks. `npm run test:mutants` makes each in a copy of the tree and demands that a test fails; `npm test` holds that
 * every text still stands where it is said to, so that the list cannot rot.
 */
import { atRestMutants } from "./at-rest.ts";
import { eventMutants } from "./events.ts";
import { backupMutants } from "./backup.ts";
import { boundsMutants } from "./bounds.ts";
import { copyMutants } from "./copy.ts";
import { grpcMutants } from "./grpc.ts";
import { postgresMutants } from "./postgres.ts";
import { pumpingMutants } from "./pumping.ts";
import { recentMutants } from "./recent.ts";
import { spendingMutants } from "./spending.ts";
import { strangerMutants } from "./strangers.ts";

export interface Mutant {
  readonly name: string;
  /** What would go wrong in the world. */
  readonly breaks: string;
  readonly file: string;
  /** Occurs exactly once in the file. */
  readonly text: string;
  readonly replacement: string;
  /** The tests that it is looked for in; the simulation unless given. */
  readonly suites?: readonly string[];
}

const rules = "src/otp/verification.ts";
const decisions = "src/otp/decisions.ts";
const limits = "src/otp/rate-limit.ts";
const acts = "src/service/verify.ts";
const storeActs = "src/store/acts.ts";

export const mutants: readonly Mutant[] = [
  {
    name: "increment after compare",
    breaks: "parallel guesses all see the same count, and one code succeeds twice",
    file: acts,
    text: `  const decided = await store.updateVerification(scopeOf(tools, caller, id, claim), (view) =>`,
    replacement: `  const view = await store.updateVerification(scopeOf(tools, caller, id, claim), (seen) => ({ writes: {}, result: seen }));
  const decided = await store.updateVerification(scopeOf(tools, caller, id, claim), () =>`,
  },
  {
    name: "wrong code not counted",
    breaks: "guessing goes on for ever",
    file: decisions,
    text: `verification: attemptsRemaining > 0 ? counted : end(counted, "LOCKED", now),`,
    replacement: `verification: attemptsRemaining > 0 ? verification : end(counted, "LOCKED", now),`,
  },
  {
    name: "one attempt too many",
    breaks: "the verification is not locked by its last wrong code",
    file: decisions,
    text: `verification: attemptsRemaining > 0 ? counted`,
    replacement: `verification: attemptsRemaining >= 0 ? counted`,
  },
  {
    name: "no expiry check",
    breaks: "a code works until the sweep comes by",
    file: rules,
    text: `verification.state === "PENDING" && now >= verification.expireMs ? "EXPIRED"`,
    replacement: `verification.state === "PENDING" && now < 0 ? "EXPIRED"`,
  },
  {
    name: "> for >= on expiry",
    breaks: "a code works in the millisecond of its expiry",
    file: rules,
    text: `verification.state === "PENDING" && now >= verification.expireMs ? "EXPIRED"`,
    replacement: `verification.state === "PENDING" && now > verification.expireMs ? "EXPIRED"`,
  },
  {
    name: "consume without state check",
    breaks: "terminal verifications change again",
    file: "src/otp/standing.ts",
    text: `if (verification.state !== "PENDING") return { kind: "terminal", verification, writes: noWrites };`,
    replacement: ``,
  },
  {
    name: "purpose not compared",
    breaks: "a code sent for one thing approves another",
    file: decisions,
    text: `if (facts.purpose !== verification.purpose)`,
    replacement: `if (facts.purpose === "never")`,
  },
  {
    name: "GCRA without its floor",
    breaks: "an idle phone saves up for a flood",
    file: limits,
    text: `Math.min(Math.max(tatMs, now), now + limit.burst * limit.intervalMs)`,
    replacement: `Math.min(tatMs, now + limit.burst * limit.intervalMs)`,
  },
  {
    name: "GCRA without its clamp",
    breaks: "a bucket stays empty for as long as a clock once jumped",
    file: limits,
    text: `Math.min(Math.max(tatMs, now), now + limit.burst * limit.intervalMs)`,
    replacement: `Math.max(tatMs, now)`,
  },
  {
    name: "clamp not kept",
    breaks: "an overfull bucket promises a wait that is never enough",
    file: limits,
    text: `const corrected = unspent.some((tatMs, i) => tatMs !== (tatsMs[i] ?? 0));`,
    replacement: `const corrected = unspent.length === 0;`,
  },
  {
    name: "spend on denial",
    breaks: "whoever knocks too often never gets in",
    file: limits,
    text: `return corrected ? { allowed: false, retryAfterMs, tatsMs: unspent } : { allowed: false, retryAfterMs };`,
    replacement: `const more = unspent.map((tatMs, i) => Math.max(tatMs, now) + (limits[i]?.intervalMs ?? 0));
  return { allowed: false, retryAfterMs, tatsMs: corrected ? unspent : more };`,
  },
  {
    name: "resend resets attempts",
    breaks: "every resend buys five more guesses",
    file: decisions,
    text: `    resends,
    delivery: "SENDING",`,
    replacement: `    resends,
    attempts: 0,
    delivery: "SENDING",`,
  },
  {
    name: "resend extends lifetime",
    breaks: "callers are told of a life that the code does not have",
    file: decisions,
    text: `    resends,
    delivery: "SENDING",`,
    replacement: `    resends,
    expireMs: now + policy.ttlMs,
    delivery: "SENDING",`,
  },
  {
    name: "new salt on resend",
    breaks: "the first SMS stops working when the second is asked for",
    file: decisions,
    text: `    resends,
    delivery: "SENDING",`,
    replacement: `    resends,
    salt: Uint8Array.from(verification.salt ?? [], (byte) => byte ^ 1),
    delivery: "SENDING",`,
  },
  {
    name: "resend without a gap",
    breaks: "a phone is flooded as fast as a button can be pressed",
    file: decisions,
    text: `if (now < verification.nextResendMs)`,
    replacement: `if (now < 0)`,
  },
  {
    name: "send after terminal",
    breaks: "a retry texts a code that was used or canceled",
    file: storeActs,
    text: `if (stateAt(verification, now) === "PENDING" && now < message.deadlineMs)`,
    replacement: `if (now < message.deadlineMs)`,
  },
  {
    name: "send after the deadline",
    breaks: "an SMS arrives when its code is about to die",
    file: storeActs,
    text: `stateAt(verification, now) === "PENDING" && now < message.deadlineMs)`,
    replacement: `stateAt(verification, now) === "PENDING")`,
  },
  {
    name: "no lease",
    breaks: "a message is called for again while its first call is under way",
    file: "src/otp/message.ts",
    text: `    providerIndex: 0,
    dueMs: now + leaseMs,`,
    replacement: `    providerIndex: 0,
    dueMs: now,`,
  },
  {
    name: "patience taken for a failure",
    breaks: "two providers that ask for half a minute fail a message that has nine",
    file: "src/otp/message.ts",
    text: `isPutOff(outcome) ? putOff(message, outcome, provider) : failed(`,
    replacement: `failed(`,
    suites: ["test/otp/message.test.ts"],
  },
  {
    name: "retry for ever",
    breaks: "a provider that refuses is called until the code expires",
    file: "src/otp/message.ts",
    text: `if (message.failures >= failuresMax) return undefined;`,
    replacement: ``,
  },
  {
    name: "refund without cap",
    breaks: "whoever owns a phone can have unlimited SMS sent",
    file: "src/otp/policy.ts",
    text: `const count = Math.max(0, Math.min(wanted, refundsPerDayMax - recent.length));`,
    replacement: `const count = wanted;`,
  },
  {
    name: "salt kept at terminal",
    breaks: "a thief of database and key reads codes of the past",
    file: rules,
    text: `return { ...verification, state, salt: null, endMs: now };`,
    replacement: `return { ...verification, state, endMs: now };`,
  },
  {
    name: "history forgiven wholly on success",
    breaks: "the owner's sign-in hands an attacker a fresh budget",
    file: "src/otp/policy.ts",
    text: `  let left = count;`,
    replacement: `  let left = count + 1_000_000;`,
  },
  {
    name: "open attempts not counted",
    breaks: "whoever opens his requests first guesses all of them at six digits",
    file: "src/otp/policy.ts",
    text: `const guesses = wrongCodesOf(history, now) + openAttempts;`,
    replacement: `const guesses = wrongCodesOf(history, now) + Math.min(0, openAttempts);`,
  },
  {
    name: "wrong codes forgotten after a month",
    breaks: "three times as many guesses a year meet six digits",
    file: "src/otp/policy.ts",
    text: `const forgetDays = 90;`,
    replacement: `const forgetDays = 30;`,
  },
  {
    name: "spray not counted",
    breaks: "five guesses at each of a thousand phones meet six digits",
    file: decisions,
    text: `return isSandbox(tenant) ? {} : { guess: { tenant, isRight } };`,
    replacement: `return isSandbox(tenant) || !isRight ? {} : { guess: { tenant, isRight } };`,
  },
  {
    name: "spray measured without right codes",
    breaks: "typos of a busy tenant make everybody's codes longer",
    file: "src/otp/spray.ts",
    text: `return wrong >= wrongFrom && wrong > wrongPerRight * right;`,
    replacement: `return wrong >= wrongFrom && wrong > 0 * right;`,
  },
  {
    name: "idempotency record not stored",
    breaks: "a retried send texts and charges twice",
    file: "src/otp/idempotency.ts",
    text: `return claim === undefined ? {} : { record: newRecord(claim, verificationId, answer, now) };`,
    replacement: `return now < 0 && claim !== undefined ? { record: newRecord(claim, verificationId, answer, now) } : {};`,
  },
  {
    name: "fingerprint not compared",
    breaks: "a key answers for a request that it was not given with",
    file: "src/otp/idempotency.ts",
    text: `if (mine === undefined || Buffer.compare(mine.mac, record.fingerprint) !== 0)`,
    replacement: `if (mine === undefined)`,
  },
  {
    name: "reply before commit",
    breaks: "what was acknowledged is gone after a full disk",
    file: "src/store/sqlite/group-commit.ts",
    text: `        return () => act.resolve(value);
      });
      this.#run.release();`,
    replacement: `        act.resolve(value);
        return () => {};
      });
      this.#run.release();`,
  },
  {
    name: "tenant not compared",
    breaks: "one tenant acts on another's verifications",
    file: storeActs,
    text: `return found?.tenant === tenant ? found : undefined;`,
    replacement: `return found;`,
  },
  {
    name: "failed behind a resend",
    breaks: "a code that was delivered stops working",
    file: "src/otp/settlement.ts",
    text: `!pending || !latest ? noted :`,
    replacement: `!pending ? noted :`,
  },
  {
    name: "settled out of hand",
    breaks: "a late answer takes a message from the worker that has it",
    file: "src/delivery/worker.ts",
    text: `outcome.kind === "accepted" || isInHand(job.message, view.message)`,
    replacement: `outcome.kind === "accepted" || isInHand(job.message, job.message)`,
  },
  {
    name: "called without a second look",
    breaks: "what waited in the worker's hand goes out after its end",
    file: "src/delivery/worker.ts",
    text: `begin(occupy(() => carryLate(next.job)))`,
    replacement: `begin(occupy(() => carry(next.job)))`,
  },
  {
    name: "clock runs backwards",
    breaks: "an expired code lives again when somebody sets the clock back",
    file: "src/system.ts",
    text: `last = Math.max(Math.floor(wall), last + Math.floor(monotonic - lastMonotonic));`,
    replacement: `last = Math.floor(wall);`,
  },
  {
    name: "clock forgotten across a restart",
    breaks: "an expired code lives again after a restart with a wrong clock",
    file: "src/store/sqlite/engine.ts",
    text: `system.resumeFrom(this.#sql.clock.get()?.now_ms ?? 0);`,
    replacement: `this.#sql.clock.get();`,
  },
  {
    name: "another tenant's is read",
    breaks: "a key reads the verifications of every tenant",
    file: storeActs,
    text: `return verification?.tenant === tenant ? verification : undefined;`,
    replacement: `return verification;`,
    suites: ["test/service"],
  },
  {
    name: "tenant's limits ignored",
    breaks: "a tenant sends as much as the operator allows for all, whatever is set for it",
    file: "src/config/tenant-settings.ts",
    text: `phoneLimits: own.phone_limits ?? operator.policy.phoneLimits,`,
    replacement: `phoneLimits: operator.policy.phoneLimits,`,
    suites: ["test/config/tenant-settings.test.ts"],
  },
  {
    name: "tenant missing from an Idempotency-Key",
    breaks: "one tenant is answered with what another was told",
    file: "src/otp/idempotency.ts",
    text: `slot: slotsUnder(keys)(digest(scope.tenant, scope.keyId,`,
    replacement: `slot: slotsUnder(keys)(digest(scope.keyId,`,
    suites: ["test/service"],
  },
  {
    name: "tenants read once",
    breaks: "a tenant that was disabled goes on until the next start",
    file: "src/service/tenants.ts",
    text: `if ((await store.registry.tenantsRevision()) === revision) return;`,
    replacement: `if (revision >= 0 || (await store.registry.tenantsRevision()) === revision) return;`,
    suites: ["test/service"],
  },
  {
    name: "a disabled tenant's message",
    breaks: "what was still to be sent for a tenant goes out after it was disabled",
    file: "src/delivery/worker.ts",
    text: `if (isDisabled) return`,
    replacement: `if (isDisabled && job.message.calls < 0) return`,
    suites: ["test/server/tenants.test.ts"],
  },
  ...pumpingMutants,
  ...spendingMutants,
  ...eventMutants,
  ...atRestMutants,
  ...backupMutants,
  ...boundsMutants,
  ...copyMutants,
  ...grpcMutants,
  ...postgresMutants,
  ...recentMutants,
  ...strangerMutants,
];
