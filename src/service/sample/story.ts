/**
 * One request of the sample from its send to its end, told by the rules of verifications and messages.
 */
import type { Channel } from "../../otp/channel.ts";
import { emptyLog, end, withNote, type Verification } from "../../otp/verification/verification.ts";
import type { Message } from "../../otp/message/message.ts";
import type { Tally } from "../../otp/limits/pumping-guard.ts";
import type { State } from "../../otp/state.ts";
import type { Instant } from "../../system.ts";
import type { Chance } from "./chance.ts";
import { sampleProviders } from "./plan.ts";

/** What is known of a request when it is made. */
export interface StoryTerms {
  readonly tenant: string;
  readonly country: string;
  readonly channel: Channel;
  readonly atMs: Instant;
  /** Whether the first provider can be reached then. */
  readonly isOutage: boolean;
  /** Whether nobody means to type the code. */
  readonly isPumped: boolean;
  readonly tally: Tally;
}

/** What belongs to the number and to the keys, and is of no matter to sums. */
export type Sealed = Pick<Verification, "id" | "keyId" | "kid" | "phoneIndex" | "phoneBox">;

export interface Story {
  readonly verification: Verification;
  readonly messages: readonly Message[];
}

const lifeMs = 600_000;
const [first, second] = sampleProviders;

/** Tells a story. Whoever wants it whole looks whether it has ended by then. */
export function storyOf(asked: StoryTerms, sealed: Sealed, chance: Chance): Story {
  const { atMs, channel } = asked;
  const opened = withNote(openedBy(asked, sealed), { kind: "send", outcome: channel }, atMs);
  const refused = asked.isPumped ? 1 : chance.fraction();
  if (refused < 0.012) return unsent(opened, chance);
  const part = calls(opened, asked, chance);
  if (refused < 0.035) return undelivered(part, chance);
  if (asked.isPumped || refused < 0.06) return silent(part, chance);
  const fate = chance.fraction();
  if (fate < 0.88) return typed(part, chance);
  if (fate < 0.9) return guessed(part, chance);
  if (fate < 0.925) return ended(part, "CANCELED", part.reportMs + chance.about(40_000, 0.5));
  return silent(part, chance);
}

function openedBy({ tenant, country, channel, atMs, tally }: StoryTerms, sealed: Sealed): Verification {
  return {
    ...sealed,
    tenant,
    salt: null,
    region: country,
    locale: localeOf.get(country) ?? "en",
    channel,
    purpose: "",
    bind: "",
    webOrigin: undefined,
    appHash: undefined,
    knownUser: false,
    tally,
    state: "PENDING",
    delivery: "SENDING",
    digits: tenant === "demo-bank" ? 8 : 6,
    attempts: 0,
    attemptsMax: 5,
    resends: 0,
    nextResendMs: atMs + 30_000,
    createMs: atMs,
    expireMs: atMs + lifeMs,
    endMs: null,
    log: emptyLog,
    fallback: null,
    spentLimits: [],
  };
}

const localeOf: ReadonlyMap<string, string> = new Map([
  ["NL", "nl"],
  ["BE", "nl"],
  ["DE", "de"],
]);

/** A story under part: a provider has the message. */
interface StoryPart {
  readonly verification: Verification;
  readonly message: Message;
  /** When the provider reports on it. */
  readonly reportMs: Instant;
}

function messageOf({ id, channel, expireMs }: Verification): Message {
  return {
    verificationId: id,
    copy: 0,
    channel,
    delivery: "ACCEPTED",
    calls: 1,
    failures: 0,
    maybeSent: true,
    recipientRefused: false,
    providerIndex: 0,
    dueMs: null,
    deadlineMs: expireMs - 60_000,
    countedDay: null,
    countryDay: null,
    reserved: null,
    provider: first,
    providerMessageId: null,
    detail: null,
  };
}

/** The calls until a provider takes the message. */
function calls(opened: Verification, { atMs, isOutage, channel }: StoryTerms, chance: Chance): StoryPart {
  const isFailing = (isOutage || chance.fraction() < 0.004) && channel === "sms";
  let at = atMs + Math.round(chance.about(180, 0.4));
  let verification = opened;
  if (isFailing) {
    verification = withNote(verification, { kind: "call", outcome: "unavailable", provider: first }, at);
    at += Math.round(chance.about(210, 0.3));
  }
  const provider = isFailing ? second : first;
  verification = withNote(verification, { kind: "call", outcome: "accepted", provider }, at);
  const message: Message = {
    ...messageOf(verification),
    provider,
    providerMessageId: Buffer.from(chance.bytes(12)).toString("hex"),
    ...(isFailing ? { calls: 2, failures: 1, providerIndex: 1 } : {}),
  };
  return { verification, message, reportMs: Math.round(at + chance.about(2_600, 0.6)) };
}

/** With the provider's word that it has arrived, as of seven in eight. */
function arrived({ verification, message, reportMs }: StoryPart, chance: Chance, arrivingPart = 0.96): StoryPart {
  if (chance.fraction() > arrivingPart)
    return { verification: { ...verification, delivery: "ACCEPTED" }, message, reportMs };
  const note = { kind: "report", outcome: "DELIVERED", provider: message.provider } as const;
  return {
    verification: withNote({ ...verification, delivery: "DELIVERED" }, note, reportMs),
    message: { ...message, delivery: "DELIVERED" },
    reportMs,
  };
}

function ended({ verification, message }: StoryPart, state: Exclude<State, "PENDING">, atMs: Instant): Story {
  const at = Math.min(Math.round(atMs), verification.expireMs);
  return { verification: end(verification, state, at), messages: [message] };
}

function typed(part: StoryPart, chance: Chance): Story {
  const here = arrived(part, chance);
  const wrong = chance.one([
    [0, 90],
    [1, 8],
    [2, 2],
  ]);
  const at = here.reportMs + chance.about(9_500 + 7_000 * wrong, 0.75);
  const guessedAt = Math.min(at, here.verification.expireMs - 1_000);
  const { verification } = withGuesses(here.verification, wrong, { fromMs: here.reportMs, toMs: guessedAt });
  const right = withNote(
    { ...verification, attempts: wrong + 1 },
    { kind: "guess", outcome: "right" },
    Math.round(guessedAt),
  );
  return ended({ ...here, verification: right }, "VERIFIED", guessedAt);
}

/** Somebody who does not have the phone. */
function guessed(part: StoryPart, chance: Chance): Story {
  const here = arrived(part, chance);
  const toMs = here.reportMs + chance.about(25_000, 0.4);
  const { verification } = withGuesses(here.verification, 5, { fromMs: here.reportMs, toMs });
  return ended({ ...here, verification }, "LOCKED", toMs);
}

function withGuesses(
  before: Verification,
  wrong: number,
  { fromMs, toMs }: { readonly fromMs: Instant; readonly toMs: Instant },
): { readonly verification: Verification } {
  let verification: Verification = { ...before, attempts: before.attempts + wrong };
  for (let i = 1; i <= wrong; i++) {
    const at = Math.round(fromMs + ((toMs - fromMs) * i) / (wrong + 1));
    verification = withNote(verification, { kind: "guess", outcome: "wrong" }, at);
  }
  return { verification };
}

/** Nobody types anything. */
function silent(part: StoryPart, chance: Chance): Story {
  const here = arrived(part, chance);
  return ended(here, "EXPIRED", here.verification.expireMs);
}

const whyNot = ["absent subscriber", "the handset is switched off", "the number has been ported away"] as const;

/** The carrier could not deliver it, and says so. */
function undelivered({ verification, message, reportMs }: StoryPart, chance: Chance): Story {
  const note = { kind: "report", outcome: "UNDELIVERED", provider: message.provider } as const;
  const at = Math.round(reportMs + chance.about(20_000, 0.8));
  const told = withNote({ ...verification, delivery: "UNDELIVERED" }, note, Math.min(at, verification.expireMs - 1));
  const detail = whyNot[chance.below(whyNot.length)] ?? null;
  return ended(
    { verification: told, message: { ...message, delivery: "UNDELIVERED", detail }, reportMs },
    "EXPIRED",
    verification.expireMs,
  );
}

/** No provider took it. */
function unsent(opened: Verification, chance: Chance): Story {
  const at = opened.createMs + Math.round(chance.about(200, 0.4));
  const told = withNote(
    { ...opened, delivery: "REJECTED" },
    { kind: "call", outcome: "recipient", provider: first },
    at,
  );
  const message: Message = {
    ...messageOf(opened),
    delivery: "REJECTED",
    maybeSent: false,
    recipientRefused: true,
    failures: 1,
    detail: "the number is not in service",
  };
  return ended({ verification: told, message, reportMs: at }, "FAILED", at + 5);
}
