/**
 * Mistakes that the tests must not let pass: each is a change of the product that somebody could make, with what it
 * breaks. `npm run test:mutants` makes each in a copy of the tree and demands that a test fails; `npm test` holds that
 * every text still stands in its function, so that the list cannot rot.
 */
import { atRestMutants } from "./at-rest.ts";
import { eventMutants } from "./events.ts";
import type { Mutant } from "./mutant.ts";
import { backupMutants } from "./backup.ts";
import { bodyMutants } from "./bodies.ts";
import { boundsMutants } from "./bounds.ts";
import { channelMutants } from "./channels.ts";
import { copyMutants } from "./copy.ts";
import { declaredMutants } from "./declared.ts";
import { fallbackMutants } from "./fallback.ts";
import { grpcMutants } from "./grpc.ts";
import { http2Mutants } from "./http2.ts";
import { postgresMutants } from "./postgres.ts";
import { pumpingMutants } from "./pumping.ts";
import { recentMutants } from "./recent.ts";
import { spendingMutants } from "./spending.ts";
import { strangerMutants } from "./strangers.ts";
import { turnMutants } from "./turns.ts";
import { unreadMutants } from "./unread.ts";

export const mutants: readonly Mutant[] = [
  {
    name: "increment after compare",
    breaks: "parallel guesses all see the same count, and one code succeeds twice",
    place: "src/service/verify.ts#verify",
    text: `  const decided = await store.updateVerification(scopeOf(tools, caller, id, claim), (view) =>`,
    replacement: `  const view = await store.updateVerification(scopeOf(tools, caller, id, claim), (seen) => ({ writes: {}, result: seen }));
  const decided = await store.updateVerification(scopeOf(tools, caller, id, claim), () =>`,
  },
  {
    name: "wrong code not counted",
    breaks: "guessing goes on for ever",
    place: "src/otp/decisions/verifying.ts#decideVerify",
    text: `attemptsRemaining > 0 ? counted("wrong") :`,
    replacement: `attemptsRemaining > 0 ? verification :`,
  },
  {
    name: "one attempt too many",
    breaks: "the verification is not locked by its last wrong code",
    place: "src/otp/decisions/verifying.ts#decideVerify",
    text: `verification: attemptsRemaining > 0 ? counted`,
    replacement: `verification: attemptsRemaining >= 0 ? counted`,
  },
  {
    name: "no expiry check",
    breaks: "a code works until the sweep comes by",
    place: "src/otp/verification/verification.ts#stateAt",
    text: `verification.state === "PENDING" && now >= verification.expireMs ? "EXPIRED"`,
    replacement: `verification.state === "PENDING" && now < 0 ? "EXPIRED"`,
  },
  {
    name: "> for >= on expiry",
    breaks: "a code works in the millisecond of its expiry",
    place: "src/otp/verification/verification.ts#stateAt",
    text: `verification.state === "PENDING" && now >= verification.expireMs ? "EXPIRED"`,
    replacement: `verification.state === "PENDING" && now > verification.expireMs ? "EXPIRED"`,
  },
  {
    name: "consume without state check",
    breaks: "terminal verifications change again",
    place: "src/otp/decisions/standing.ts#standingOf",
    text: `if (verification.state !== "PENDING") return { kind: "terminal", verification, writes: noWrites };`,
    replacement: ``,
  },
  {
    name: "purpose not compared",
    breaks: "a code sent for one thing approves another",
    place: "src/otp/decisions/verifying.ts#decideVerify",
    text: `if (facts.purpose !== verification.purpose)`,
    replacement: `if (facts.purpose === "never")`,
  },
  {
    name: "GCRA without its floor",
    breaks: "an idle phone saves up for a flood",
    place: "src/otp/limits/rate-limit.ts#effectiveTat",
    text: `Math.min(Math.max(tatMs, now), now + limit.burst * limit.intervalMs)`,
    replacement: `Math.min(tatMs, now + limit.burst * limit.intervalMs)`,
  },
  {
    name: "GCRA without its clamp",
    breaks: "a bucket stays empty for as long as a clock once jumped",
    place: "src/otp/limits/rate-limit.ts#effectiveTat",
    text: `Math.min(Math.max(tatMs, now), now + limit.burst * limit.intervalMs)`,
    replacement: `Math.max(tatMs, now)`,
  },
  {
    name: "clamp not kept",
    breaks: "an overfull bucket promises a wait that is never enough",
    place: "src/otp/limits/rate-limit.ts#spendAll",
    text: `isCorrected ||= spending.tatMs !== tatMs;`,
    replacement: `isCorrected ||= unspent.length === 0;`,
  },
  {
    name: "spend on denial",
    breaks: "whoever knocks too often never gets in",
    place: "src/otp/limits/rate-limit.ts#spendAll",
    text: `return isCorrected ? { allowed: false, retryAfterMs, tatsMs: unspent } : { allowed: false, retryAfterMs };`,
    replacement: `const more = unspent.map((tatMs, i) => Math.max(tatMs, now) + (limits[i]?.intervalMs ?? 0));
  return { allowed: false, retryAfterMs, tatsMs: isCorrected ? unspent : more };`,
  },
  {
    name: "resend resets attempts",
    breaks: "every resend buys five more guesses",
    place: "src/otp/decisions/resending.ts#decideResend",
    text: `resends, delivery: "SENDING",`,
    replacement: `resends, attempts: 0, delivery: "SENDING",`,
  },
  {
    name: "resend extends lifetime",
    breaks: "callers are told of a life that the code does not have",
    place: "src/otp/decisions/resending.ts#decideResend",
    text: `resends, delivery: "SENDING",`,
    replacement: `resends, expireMs: now + policy.ttlMs, delivery: "SENDING",`,
  },
  {
    name: "new salt on resend",
    breaks: "the first SMS stops working when the second is asked for",
    place: "src/otp/decisions/resending.ts#decideResend",
    text: `resends, delivery: "SENDING",`,
    replacement: `resends, salt: Uint8Array.from(verification.salt ?? [], (byte) => byte ^ 1), delivery: "SENDING",`,
  },
  {
    name: "resend without a gap",
    breaks: "a phone is flooded as fast as a button can be pressed",
    place: "src/otp/decisions/resending.ts#decideResend",
    text: `if (now < verification.nextResendMs)`,
    replacement: `if (now < 0)`,
  },
  {
    name: "send after terminal",
    breaks: "a retry texts a code that was used or canceled",
    place: "src/store/acts/messages.ts#claimMessage.run",
    text: `if (stateAt(verification, now) === "PENDING" && now < message.deadlineMs`,
    replacement: `if (now < message.deadlineMs`,
  },
  {
    name: "send after the deadline",
    breaks: "an SMS arrives when its code is about to die",
    place: "src/store/acts/messages.ts#claimMessage.run",
    text: `stateAt(verification, now) === "PENDING" && now < message.deadlineMs`,
    replacement: `stateAt(verification, now) === "PENDING"`,
  },
  {
    name: "no lease",
    breaks: "a message is called for again while its first call is under way",
    place: "src/otp/message/message.ts#newMessage",
    text: `    providerIndex: 0,
    dueMs: leaseEnd(now, facts.deadlineMs),`,
    replacement: `    providerIndex: 0,
    dueMs: now,`,
  },
  {
    name: "who refused a resend has the message",
    breaks: "support asks the wrong provider about a message that has arrived",
    place: "src/otp/verification/verification.ts#messageShown",
    text: `last.copy > latest && last.delivery !== verification.delivery`,
    replacement: `last.copy > latest && last.delivery === verification.delivery`,
    suites: ["test/otp/verification/verification.test.ts"],
  },
  {
    name: "patience taken for a failure",
    breaks: "two providers that ask for half a minute fail a message that has nine",
    place: "src/otp/message/message.ts#settle",
    text: `outcome.kind === "throttled"
      ? putOff(ended, outcome, isReturned ? ended.provider : provider)
      : failed(`,
    replacement: `failed(`,
    suites: ["test/otp/message/message.test.ts"],
  },
  {
    name: "the last one's failure ends all",
    breaks: "a message that the first provider throttles is not sent where the second one is down",
    place: "src/otp/message/message.ts#nextTry",
    text: `if (goesRound && isProven && providerIndex > 0 && failures === 1) return { waitMs, providerIndex: 0 };`,
    replacement: ``,
    suites: ["test/otp/message/message.test.ts"],
  },
  {
    name: "retry for ever",
    breaks: "a provider that refuses is called until the code expires",
    place: "src/otp/message/message.ts#nextTry",
    text: `if (message.failures >= failuresMax) return undefined;`,
    replacement: ``,
  },
  {
    name: "refund without cap",
    breaks: "whoever owns a phone can have unlimited SMS sent",
    place: "src/otp/verification/policy.ts#withRefunds",
    text: `const count = Math.max(0, Math.min(wanted, refundsPerDayMax - recent.length));`,
    replacement: `const count = wanted;`,
  },
  {
    name: "salt kept at terminal",
    breaks: "a thief of database and key reads codes of the past",
    place: "src/otp/verification/verification.ts#end",
    text: `salt: null, endMs: now, fallback`,
    replacement: `endMs: now, fallback`,
  },
  {
    name: "history forgiven wholly on success",
    breaks: "the owner's sign-in hands an attacker a fresh budget",
    place: "src/otp/verification/policy.ts#forgive",
    text: `  let left = count;`,
    replacement: `  let left = count + 1_000_000;`,
  },
  {
    name: "open attempts not counted",
    breaks: "whoever opens his requests first guesses all of them at six digits",
    place: "src/otp/verification/policy.ts#nextCodeLength",
    text: `const guesses = wrongCodesOf(history, now) + openAttempts;`,
    replacement: `const guesses = wrongCodesOf(history, now) + Math.min(0, openAttempts);`,
  },
  {
    name: "wrong codes forgotten after a month",
    breaks: "three times as many guesses a year meet six digits",
    place: "src/otp/verification/policy.ts#forgetDays",
    text: `const forgetDays = 90;`,
    replacement: `const forgetDays = 30;`,
  },
  {
    name: "spray not counted",
    breaks: "five guesses at each of a thousand phones meet six digits",
    place: "src/otp/decisions/verifying.ts#guessOf",
    text: `return isSandbox(tenant) ? {} : { guess: { tenant, isRight } };`,
    replacement: `return isSandbox(tenant) || !isRight ? {} : { guess: { tenant, isRight } };`,
  },
  {
    name: "spray measured without right codes",
    breaks: "typos of a busy tenant make everybody's codes longer",
    place: "src/otp/verification/spraying.ts#isSpraying",
    text: `return wrong >= wrongFrom && wrong > wrongPerRight * right;`,
    replacement: `return wrong >= wrongFrom && wrong > 0 * right;`,
  },
  {
    name: "idempotency record not stored",
    breaks: "a retried send texts and charges twice",
    place: "src/otp/verification/idempotency.ts#recordOf",
    text: `return claim === undefined ? {} : { record: newRecord(claim, verificationId, answer, now) };`,
    replacement: `return now < 0 && claim !== undefined ? { record: newRecord(claim, verificationId, answer, now) } : {};`,
  },
  {
    name: "fingerprint not compared",
    breaks: "a key answers for a request that it was not given with",
    place: "src/otp/verification/idempotency.ts#precedentOf",
    text: `if (mine === undefined || Buffer.compare(mine.mac, record.fingerprint) !== 0)`,
    replacement: `if (mine === undefined)`,
  },
  {
    name: "reply before commit",
    breaks: "what was acknowledged is gone after a full disk",
    place: "src/store/sqlite/group-commit.ts##runTogether",
    text: `for (const each of batch) each.value = each.act.run(this.#unit);`,
    replacement: `for (const each of batch) each.resolve((each.value = each.act.run(this.#unit)));`,
  },
  {
    name: "tenant not compared",
    breaks: "one tenant acts on another's verifications",
    place: "src/store/acts/calls.ts#find",
    text: `return found?.tenant === tenant ? found : undefined;`,
    replacement: `return found;`,
  },
  {
    name: "failed behind a resend",
    breaks: "a code that was delivered stops working",
    place: "src/otp/decisions/settlement.ts#concluded",
    text: `!pending || !latest ? moved :`,
    replacement: `!pending ? moved :`,
  },
  {
    name: "settled out of hand",
    breaks: "a late answer takes a message from the worker that has it",
    place: "src/otp/decisions/settlement.ts#decideSettle",
    text: `isInHand(call.claimed, view.message)`,
    replacement: `isInHand(view.message, view.message)`,
  },
  {
    name: "called without a second look",
    breaks: "what waited in the worker's hand goes out after its end",
    place: "src/delivery/worker.ts#runThenNext",
    text: `begin(runThenNext(next.job, runLate))`,
    replacement: `begin(runThenNext(next.job, run))`,
  },
  {
    name: "clock runs backwards",
    breaks: "an expired code lives again when somebody sets the clock back",
    place: "src/system.ts#now",
    text: `last = Math.max(Math.floor(wall), last + Math.floor(monotonic - lastMonotonic));`,
    replacement: `last = Math.floor(wall);`,
  },
  {
    name: "clock forgotten across a restart",
    breaks: "an expired code lives again after a restart with a wrong clock",
    place: "src/store/sqlite/engine.ts#constructor",
    text: `system.resumeFrom(this.#sql.clock.get()?.now_ms ?? 0);`,
    replacement: `this.#sql.clock.get();`,
  },
  {
    name: "another tenant's is read",
    breaks: "a key reads the verifications of every tenant",
    place: "src/store/acts/calls.ts#readVerification",
    text: `row?.tenant === tenant ? toVerification(row) : undefined`,
    replacement: `row && toVerification(row)`,
    suites: ["test/service"],
  },
  {
    name: "tenant's limits ignored",
    breaks: "a tenant sends as much as the operator allows for all, whatever is set for it",
    place: "src/config/tenant-settings.ts#readTenant",
    text: `phoneLimits: own.phone_limits ?? operator.policy.phoneLimits,`,
    replacement: `phoneLimits: operator.policy.phoneLimits,`,
    suites: ["test/config/tenant-settings.test.ts"],
  },
  {
    name: "tenant missing from an Idempotency-Key",
    breaks: "one tenant is answered with what another was told",
    place: "src/otp/verification/idempotency.ts#idempotencyClaim",
    text: `slot: slotsUnder(keys)(digest(scope.tenant, scope.keyId,`,
    replacement: `slot: slotsUnder(keys)(digest(scope.keyId,`,
    suites: ["test/service"],
  },
  {
    name: "tenants read once",
    breaks: "a tenant that was disabled goes on until the next start",
    place: "src/service/callers/tenants.ts#refresh",
    text: `if ((await store.registry.tenantsRevision()) === revision) return;`,
    replacement: `if (revision >= 0 || (await store.registry.tenantsRevision()) === revision) return;`,
    suites: ["test/service"],
  },
  {
    name: "the revision of a key's look-up not looked at",
    breaks: "the keys of a tenant that was disabled pass until the next start",
    place: "src/service/callers/tenants.ts#createTenants.admit",
    text: `(judged.value.tenantsRevision ?? (await store.registry.tenantsRevision())) !== revision`,
    replacement: `judged.value.tenantsRevision === undefined && (await store.registry.tenantsRevision()) !== revision`,
    suites: ["test/service/callers/tenants.test.ts"],
  },
  {
    name: "a disabled tenant's message",
    breaks: "what was still to be sent for a tenant goes out after it was disabled",
    place: "src/delivery/outgoing.ts#outgoingOf",
    text: `if (tenant.isDisabled) return`,
    replacement: `if (tenant.isDisabled && message.calls < 0) return`,
    suites: ["test/server/tenants.test.ts"],
  },
  {
    name: "every message an SMS",
    breaks: "what was asked for by another channel is texted",
    place: "src/store/rows/message.ts#messageValues",
    text: `channels.indexOf(m.channel)`,
    replacement: `0`,
    suites: ["test/store"],
  },
  {
    name: "an answer without end",
    breaks: "a far end fills the memory of whoever calls it",
    place: "src/http-answer.ts#readAnswer",
    text: `if (bytes > bytesMax) return undefined;`,
    replacement: ``,
    suites: ["test/http-answer.test.ts"],
  },
  {
    name: "HTTP 500 is proof",
    breaks: "a text that may be on its way goes out by the next provider too",
    place: "src/delivery/providers/outcome.ts#outcomeOfAnswer",
    text: `if (status >= 500) return { kind: "ambiguous", detail };`,
    replacement: `if (status >= 500) return { kind: "unavailable", detail };`,
    suites: ["test/delivery"],
  },
  ...pumpingMutants,
  ...spendingMutants,
  ...eventMutants,
  ...channelMutants,
  ...atRestMutants,
  ...backupMutants,
  ...bodyMutants,
  ...boundsMutants,
  ...copyMutants,
  ...declaredMutants,
  ...fallbackMutants,
  ...grpcMutants,
  ...http2Mutants,
  ...postgresMutants,
  ...recentMutants,
  ...strangerMutants,
  ...turnMutants,
  ...unreadMutants,
];
