/**
 * The decision about a resend: the same code is owed once more, by the channel that the send was for or by another.
 */
import { channelRefused, findChannel, type Channel } from "../channel.ts";
import { blocked } from "../verification/destination.ts";
import { withoutNext } from "../message/fallback.ts";
import { recordOf } from "../verification/idempotency.ts";
import { askGuard, owedMessage, spendFor, type Owed, type Refused, type SendTerms } from "./spending.ts";
import { objectionTo, type PhoneNumber } from "../phone-number.ts";
import * as policies from "../verification/policy.ts";
import { judgeResend } from "../limits/pumping-guard.ts";
import { ok, type Result } from "../reason.ts";
import { isSandbox } from "../message/sandbox.ts";
import { decidedBy, refused, standingOf, type Replay, type UpdateView } from "./standing.ts";
import { withNote, type Verification } from "../verification/verification.ts";
import { nothing, type Decided } from "./writes.ts";

/** What a resend is asked for, and by whom. */
export interface ResendFacts {
  /** The name of a channel in one spelling (`channelName`); undefined for that which the send was for. */
  readonly channel: string | undefined;
  /** The channels that the caller may use. */
  readonly offered: readonly Channel[];
  /** Those that it might use if their daily cap were not 0. */
  readonly uncapped?: readonly Channel[];
  /** Reads the number of a verification. */
  readonly numberOf: (verification: Verification) => PhoneNumber;
}

export type ResendResult = ({ readonly kind: "resent" } & Owed) | Replay | Refused;

/**
 * Decides a resend. In order: idempotency, REQUEST_NOT_FOUND, the terminal state's reason, expiry, the channel and whether
 * it suits the phone, RESENDS_EXHAUSTED (also when the next one would come too late), RESEND_TOO_SOON, DESTINATION_BLOCKED
 * (by an entry made since), the prefix, `limited` as in `decideSend`, the phone's limits, the daily cap. Gaps and resends
 * count for the verification, over all channels. It ends the plan to fall back: who asks for a message decides how it goes
 * on. Never extends the lifetime, never resets attempts.
 */
export function decideResend(view: UpdateView, facts: ResendFacts, terms: SendTerms): Decided<ResendResult> {
  const { claim, policy, limited, priceOf } = terms;
  const standing = standingOf(view, claim);
  if (standing.kind !== "pending") return decidedBy(standing);
  const { verification, phone, now } = standing;
  const channel = channelOf(verification, facts, view);
  if (!channel.ok) return nothing({ kind: "refused", refusal: channel.refusal });
  if (policies.resendsLeft(verification, policy, now).count === 0) return nothing(refused("RESENDS_EXHAUSTED"));
  if (now < verification.nextResendMs) {
    return nothing(refused("RESEND_TOO_SOON", { retryAfterMs: verification.nextResendMs - now }));
  }
  if (view.verdict === "block") return nothing({ kind: "refused", refusal: blocked });
  const guarded = askGuard(view, judgeResend, terms);
  if (!guarded.admitted) return guarded.decided;
  if (limited !== undefined) return nothing({ kind: "refused", refusal: limited });

  const resends = verification.resends + 1;
  const nextResendMs = now + (policy.resendGapsMs[resends] ?? 0);
  const resent = withNote(
    { ...verification, resends, delivery: "SENDING", nextResendMs, fallback: withoutNext(verification.fallback) },
    { kind: "resend", outcome: channel.value },
    now,
  );
  const spent = spendFor({ ...view, phone }, resent, channel.value, { policy, priceOf });
  if (!spent.allowed) return spent.decided;
  const message = owedMessage(resent, channel.value, now, spent.taken);
  return {
    writes: {
      verification: resent,
      message,
      ...spent.writes,
      ...guarded.writes,
      ...recordOf(claim, resent.id, null, now),
    },
    result: { kind: "resent", verification: resent, message, now, tatsMs: spent.tatsMs, ...spent.warnings },
  };
}

/** The channel of a resend. CHANNEL_UNSUPPORTED, or what speaks against the number where it is another than before. */
function channelOf(
  verification: Verification,
  { channel: asked, offered, uncapped, numberOf }: ResendFacts,
  { verdict }: UpdateView,
): Result<Channel> {
  const name = asked ?? verification.channel;
  const channel = findChannel(name, offered);
  if (channel === undefined) return { ok: false, refusal: channelRefused(offered, { names: [name], uncapped }) };
  const isAsBefore = channel === verification.channel || isSandbox(verification.tenant) || verdict === "allow";
  const objection = isAsBefore ? undefined : objectionTo(numberOf(verification), channel);
  return objection === undefined ? ok(channel) : { ok: false, refusal: objection };
}
