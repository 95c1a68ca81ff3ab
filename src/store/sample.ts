/**
 * The part of the store port that fills a development database with a sample. Its verifications have all ended.
 */
import type { AuditEntry } from "../otp/operators/audit.ts";
import type { Message } from "../otp/message/message.ts";
import type { PrefixChange } from "../otp/limits/pumping-guard.ts";
import type { SumRow } from "../otp/operators/statistics.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { Instant } from "../system.ts";
import type { Refusals } from "./statistics.ts";

export interface Sample {
  /** As `sampleEndMs` told: all that ended by then is summed, in `sums`. */
  readonly endMs: Instant;
  readonly sums: readonly SumRow[];
  readonly refusals: readonly Refusals[];
  /** Messages that count under a tenant's cap of a UTC day. */
  readonly days: readonly {
    readonly tenant: string;
    readonly day: number;
    readonly count: number;
    readonly cap: number;
  }[];
  /** Those that are kept, with what is kept of their messages. */
  readonly verifications: readonly { readonly verification: Verification; readonly messages: readonly Message[] }[];
  readonly prefixes: readonly {
    readonly name: { readonly tenant: string; readonly prefix: string };
    readonly change: PrefixChange;
  }[];
  /** The oldest first. */
  readonly audit: readonly AuditEntry[];
}

/**
 * What came of it: nothing was written where a provider that really sends has taken a message (`occupied`), or where
 * requests are pending that ended before the sample does (`busy`): a sweep ends them.
 */
export type Sampled = "filled" | "occupied" | "busy";

export interface Samples {
  /** When a sample that is made now has to end. */
  sampleEndMs(): Instant;
  addSample(sample: Sample): Promise<Sampled>;
}
