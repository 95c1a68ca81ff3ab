/**
 * Which of the service's doings whoever watches is told (service/operators/activity.ts).
 */
import { readPhone } from "../otp/phone-number.ts";
import type { KeyRing } from "../otp/keys/key-ring.ts";
import { countryOfPrefix } from "../otp/phone-number.ts";
import type { SpendWarning } from "../otp/verification/daily-cap.ts";
import type { SendOutcome } from "../otp/message/message.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { Activities, Happened } from "../service/operators/activity.ts";
import type { Job, NamedDecision } from "../store/store.ts";

/** The part of a call that is told. */
interface RefusedCall {
  readonly caller?: { readonly tenant: string } | undefined;
  readonly refusal?: { readonly reason: string } | undefined;
  readonly requestRef?: string | undefined;
}

export interface ActivityTellers {
  owed(job: Pick<Job, "verification" | "message">): void;
  fallback(job: Pick<Job, "verification" | "message">): void;
  called(provider: string, outcome: SendOutcome, job: Pick<Job, "verification" | "message">): void;
  /** A wrong code. */
  guessed(verification: Verification): void;
  ended(verification: Verification): void;
  /** A call that was refused to a caller who is known. */
  refused(call: RefusedCall): void;
  spendWarning(tenant: string, warning: SpendWarning): void;
}

export function tellDecision({ tell }: Pick<Activities, "tell">, { tenant, prefix, decision }: NamedDecision): void {
  tell({ tenant, kind: "fraud", outcome: decision.kind, prefix, country: countryOfPrefix(prefix) });
}

export function activityTellers({ tell }: Pick<Activities, "tell">, keys: KeyRing): ActivityTellers {
  const about = (verification: Verification): Pick<Happened, "tenant" | "verification" | "phone"> => ({
    tenant: verification.tenant,
    verification,
    phone: () => {
      const { kid, id, phoneBox } = verification;
      return keys.find(kid) === undefined ? undefined : readPhone(keys, kid, id, phoneBox);
    },
  });
  const owed = (kind: string, { verification, message }: Pick<Job, "verification" | "message">) =>
    tell({ ...about(verification), kind, outcome: message.channel, channel: message.channel });
  return {
    owed: (job) => owed(job.message.copy === 0 ? "send" : "resend", job),
    fallback: (job) => owed("fallback", job),
    called: (provider, { kind: outcome }, { verification, message: { channel } }) =>
      tell({ ...about(verification), kind: "call", outcome, channel, provider }),
    guessed: (verification) => tell({ ...about(verification), kind: "guess", outcome: "wrong" }),
    ended: (verification) => tell({ ...about(verification), kind: "end", outcome: verification.state }),
    refused({ caller, refusal, requestRef }) {
      // A wrong code is told where it is counted, with its verification.
      if (caller === undefined || refusal === undefined || refusal.reason === "CODE_MISMATCH") return;
      tell({ tenant: caller.tenant, kind: "refused", outcome: refusal.reason, requestRef });
    },
    spendWarning(tenant, { share, country, channel }) {
      tell({
        tenant,
        kind: "spend",
        outcome: `${share} % of a cap`,
        ...(country === undefined ? {} : { country }),
        ...(channel === undefined ? {} : { channel }),
      });
    },
  };
}
