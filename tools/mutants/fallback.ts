/**
 * Mistakes about falling back: a message too many, too early or too late, and one that nobody pays for.
 */
import type { Mutant } from "./mutant.ts";

const rules = ["test/otp/message/fallback.test.ts"];
const service = ["test/server/fallback.test.ts"];

export const fallbackMutants: readonly Mutant[] = [
  {
    name: "a fallback for each instance",
    breaks: "every process that sees a fallback due calls for it",
    place: "src/store/acts/fallbacks.ts#claimFallback",
    text: `if (verification === undefined || dueMs === null || dueMs > unit.now) return undefined;`,
    replacement: `if (verification === undefined || dueMs === null) return undefined;
      const seen = unit.message(verificationId, latestCopy(verification));
      if (dueMs > unit.now) return seen && { message: seen, verification, now: unit.now };`,
    suites: ["test/postgres/fallbacks.test.ts"],
  },
  {
    name: "a fallback beside a call",
    breaks: "two calls for one verification are under way at once",
    place: "src/otp/decisions/falling-back.ts#decideFallback",
    text: `message !== undefined && isUnderWay(message, now)`,
    replacement: `message === undefined`,
    suites: rules,
  },
  {
    name: "a fallback in the last minute",
    breaks: "a code arrives when it is hardly good any more",
    place: "src/otp/decisions/falling-back.ts#decideFallback",
    text: `channels.length === 0 || isTooLate ||`,
    replacement: `channels.length === 0 ||`,
    suites: rules,
  },
  {
    name: "a fallback to a blocked number",
    breaks: "an operator's list does not hold for what goes out by itself",
    place: "src/otp/decisions/falling-back.ts#decideFallback",
    text: ` || view.verdict === "block"`,
    replacement: ``,
    suites: rules,
  },
  {
    name: "a fallback for free",
    breaks: "one send costs three messages of the phone's limits' one",
    place: "src/otp/decisions/falling-back.ts#owedNext",
    text: `...before.writes, ...spent.writes,`,
    replacement: `...before.writes,`,
    suites: rules,
  },
  {
    name: "a retry beside a fallback",
    breaks: "the message before is called for again while the next is",
    place: "src/otp/decisions/falling-back.ts#givenUpFor",
    text: `message.dueMs !== null && !isAwaitingReport(message, now)`,
    replacement: `message.dueMs === null && !isAwaitingReport(message, now)`,
    suites: rules,
  },
  {
    name: "a failure before the last channel",
    breaks: "a verification has FAILED whose code is on its way",
    place: "src/otp/decisions/settlement.ts#withoutLatest",
    text: `if (left.fallback === null) return`,
    replacement: `if (!isOfResend) return`,
    suites: rules,
  },
  {
    name: "a fallback after a resend",
    breaks: "the user who asked for a message gets a second one",
    place: "src/otp/decisions/resending.ts#decideResend",
    text: `, fallback: withoutNext(verification.fallback) }`,
    replacement: ` }`,
    suites: rules,
  },
  {
    name: "a fallback after the end",
    breaks: "the time of the next message outlives its verification",
    place: "src/otp/verification/verification.ts#end",
    text: `withoutNext(verification.fallback)`,
    replacement: `verification.fallback`,
    suites: rules,
  },
  {
    name: "two channels at once by a late report",
    breaks: "a report on the message before has it sent by another provider beside the next",
    place: "src/otp/decisions/settlement.ts#decideReport",
    text: `isSuperseded(view) ? 0 : providers.length`,
    replacement: `providers.length`,
    suites: rules,
  },
  {
    name: "a fallback by any channel",
    breaks: "a web page has its visitors called, though its key is for SMS",
    place: "src/service/send.ts#planOf",
    text: `others.filter((each) => offered.includes(each))`,
    replacement: `others`,
    suites: service,
  },
  {
    name: "a fallback that is asked for, by any channel",
    breaks: "a web page has its visitors called, though its key is for SMS",
    place: "src/service/send.ts#planOf",
    text: `findChannel(name, offered)`,
    replacement: `(findChannel(name, offered) ?? findChannel(name, ["sms", "voice", "whatsapp"]))`,
    suites: service,
  },
  {
    name: "more given back than was spent",
    breaks: "what never left is given back twice, and a phone gets more than its limit",
    place: "src/otp/verification/verification.ts#messagesSpent",
    text: ` - (verification.fallback?.unsent.length ?? 0)`,
    replacement: ``,
    suites: rules,
  },
  {
    name: "a fallback for each worker",
    breaks: "every instance sends the next message once more",
    place: "src/store/acts/fallbacks.ts#claimFallback",
    text: `dueMs === null || dueMs > unit.now`,
    replacement: `dueMs === null`,
    suites: ["test/store/sqlite.test.ts"],
  },
  {
    name: "failed with a message to come",
    breaks: "a request that has failed says that a message of it is queued",
    place: "src/otp/decisions/falling-back.ts#dropped",
    text: `isToCome ? message.delivery : verification.delivery`,
    replacement: `verification.delivery`,
    suites: rules,
  },
  {
    name: "a page's fallbacks for nothing",
    breaks: "a stranger with a page's key has ten sends of his address followed by twenty messages",
    place: "src/server/rpc/authorize.ts#createAuthorize.byMessage",
    text: `isPublishable(key.kind) ? 1 + fallbackChannels.length : 1`,
    replacement: `1`,
    suites: ["test/server/fallback-limit.test.ts"],
  },
];
