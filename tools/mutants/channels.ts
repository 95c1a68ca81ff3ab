/**
 * Mistakes about channels: one that is not the caller's to use, one that the number is not for, one that is forgotten.
 */
import type { Mutant } from "./mutants.ts";

const rules = ["test/otp/channel.test.ts"];
const service = ["test/server/channels.test.ts"];

export const channelMutants: readonly Mutant[] = [
  {
    name: "a resend by any channel",
    breaks: "a web page has its visitors called, though its key is for SMS",
    place: "src/otp/resending.ts#channelOf",
    text: `findChannel(asked ?? verification.channel, offered)`,
    replacement: `((asked ?? verification.channel) as Channel)`,
    suites: rules,
  },
  {
    name: "a landline is texted",
    breaks: "a message is paid for that nobody reads",
    place: "src/otp/phone-number.ts#objectionTo",
    text: `(kind === "landline" && channel === "voice")`,
    replacement: `kind === "landline"`,
    suites: rules,
  },
  {
    name: "a resend suits as its send did",
    breaks: "the number of a landline that was called is texted",
    place: "src/otp/resending.ts#channelOf",
    text: `isAsBefore ? undefined : objectionTo(numberOf(verification), channel)`,
    replacement: `undefined`,
    suites: rules,
  },
  {
    name: "a full log forgets a resend",
    breaks: "a receipt does not tell that a code was called out",
    place: "src/otp/log.ts#withEntry",
    text: `i >= half && each.kind !== "resend"`,
    replacement: `i >= half && each.kind !== "end"`,
    suites: rules,
  },
  {
    name: "a resend without its channel",
    breaks: "a repeated key answers of another channel than the one that is asked for",
    place: "src/service/resend.ts#resend",
    text: `asked === undefined ? [id] : [id, asked]`,
    replacement: `[id]`,
    suites: service,
  },
  {
    name: "every key may call",
    breaks: "whoever has a page's key has people called",
    place: "src/otp/api-key.ts#channelsNamed",
    text: `isPublishable(kind) ? channels : undefined`,
    replacement: `undefined`,
    suites: service,
  },
];
