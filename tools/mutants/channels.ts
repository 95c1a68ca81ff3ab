/**
 * Mistakes about channels: one that is not the caller's to use, one that the number is not for, one that is forgotten.
 */
import type { Mutant } from "./mutant.ts";

const rules = ["test/otp/channel.test.ts"];
const service = ["test/server/channels.test.ts"];
const speech = ["test/delivery/http/speech.test.ts"];

export const channelMutants: readonly Mutant[] = [
  {
    name: "a resend by any channel",
    breaks: "a web page has its visitors called, though its key is for SMS",
    place: "src/otp/decisions/resending.ts#channelOf",
    text: `findChannel(name, offered)`,
    replacement: `(name as Channel)`,
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
    place: "src/otp/decisions/resending.ts#channelOf",
    text: `isAsBefore ? undefined : objectionTo(numberOf(verification), channel)`,
    replacement: `undefined`,
    suites: rules,
  },
  {
    name: "a full log forgets a resend",
    breaks: "a receipt does not tell that a code was called out",
    place: "src/otp/verification/verification.ts#withEntry",
    text: `(!isMessage(each) || isTakenBack(each, i))`,
    replacement: `each.kind !== "end"`,
    suites: rules,
  },
  {
    name: "a full log keeps every resend",
    breaks: "resends that never left push a call out of a receipt's channels",
    place: "src/otp/verification/verification.ts#withEntry",
    text: `(!isMessage(each) || isTakenBack(each, i))`,
    replacement: `!isMessage(each)`,
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
    place: "src/otp/keys/api-key.ts#channelsNamed",
    text: `isPublishable(kind) ? channels : undefined`,
    replacement: `undefined`,
    suites: service,
  },
  {
    name: "a text is read out",
    breaks: "who signs as the provider of calls is told codes that were texted",
    place: "src/delivery/speak.ts#createSpeak",
    text: `view === undefined || view.message.channel !== spoken`,
    replacement: `view === undefined`,
    suites: speech,
  },
  {
    name: "a code is read out after its end",
    breaks: "a canceled code is told to whoever picks up",
    place: "src/delivery/speak.ts#createSpeak",
    text: `if (stateAt(verification, now) !== "PENDING") continue;`,
    replacement: ``,
    suites: ["test/delivery/speak.test.ts"],
  },
  {
    name: "speech for anybody",
    breaks: "whoever asks is told a code",
    place: "src/delivery/providers/http/provider.ts#createHttpProvider",
    text: `if (cause !== undefined) return { kind: "forged", cause };`,
    replacement: `if (askedFor(request) === null && cause !== undefined) return { kind: "forged", cause };`,
    suites: speech,
  },
  {
    name: "speech for a voicemail",
    breaks: "a gateway that asks when nobody pressed a key is told the code",
    place: "src/delivery/providers/http/provider.ts#createHttpProvider",
    text: `if (!hasKey(declaration, request)) return { kind: "irrelevant" };`,
    replacement: ``,
    suites: speech,
  },
  {
    name: "a brand that is markup",
    breaks: "what a tenant calls itself tells the gateway what to do",
    place: "src/delivery/providers/http/placeholders.ts#inXml",
    text: `value.replace(/[&<>"']/g, `,
    replacement: `value.replace(/[']/g, `,
    suites: speech,
  },
  {
    name: "a handshake without its secret",
    breaks: "a stranger has this origin answer what he likes",
    place: "src/delivery/providers/http/provider.ts#challengeOf",
    text: `isSame(find(handshake.token), expected)`,
    replacement: `expected !== ""`,
    suites: speech,
  },
  {
    name: "calls that voicemails keep",
    breaks: "a code lies on a voicemail that many a stranger can hear",
    place: "src/config/provider-faults.ts#faultsOfUnattended",
    text: `describedAs(name, declared).speaksUnasked === true`,
    replacement: `describedAs(name, declared).speaksUnasked !== true`,
    suites: ["test/config/channels.test.ts"],
  },
  {
    name: "calls without a cap of their own",
    breaks: "a day of calls costs ten times what the operator thought of",
    place: "src/otp/decisions/spending.ts#capsOf",
    text: `callsMax === undefined || channel !== "voice" ? []`,
    replacement: `callsMax === undefined || channel !== "sms" ? []`,
    suites: service,
  },
];
