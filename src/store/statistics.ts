/**
 * The part of the store port that keeps statistics (otp/operators/statistics.ts). Sums are written by the sweep, from verifications
 * that have ended and before it deletes any; what is not summed yet is counted from the rows. A verification is in one of
 * the two, never in both and never in neither.
 */
import type { CountKind } from "../otp/verification/daily-cap.ts";
import type { Dimension, Interval, StatsRow, SumsQuery } from "../otp/operators/statistics.ts";

/** Calls of an hour that were refused for a reason. */
export interface Refusals {
  /** Whole hours since the epoch. */
  readonly hour: number;
  readonly tenant: string;
  readonly reason: string;
  readonly count: number;
}

export type RefusalsQuery = Pick<SumsQuery, "fromHour" | "toHour" | "tenant"> &
  Partial<Pick<SumsQuery, "interval" | "groupBy">>;

/** Asks for a period as one looks at it: whole, by time, and by groups. */
export interface PeriodQuery extends Pick<SumsQuery, "fromHour" | "toHour" | "tenant"> {
  /** The step of time; none where it is all. */
  readonly interval: Interval;
  /** Undefined for no groups. */
  readonly groupBy: Dimension | undefined;
  /** How many groups are told of by time: those with the most verifications. */
  readonly linesMax: number;
}

/** Rows in the order of time and then of the groups, all as they are at one moment. */
export interface Period {
  readonly byTime: readonly StatsRow[];
  readonly byGroup: readonly StatsRow[];
  readonly byProvider: readonly StatsRow[];
  /** Verifications by time and group, `asked` alone, in the order of time. */
  readonly lines: readonly StatsRow[];
  /** Calls by the reason for which they were refused. */
  readonly refused: ReadonlyMap<string, number>;
}

/** What is counted of a tenant's day. */
export interface DayUsed {
  readonly tenant: string;
  readonly kind: CountKind;
  readonly count: number;
}

export interface Statistics {
  /**
   * Reads sums, in the order of time and then of the groups; undefined where there would be more than `max` rows. Hours that
   * are not summed yet are counted from the rows as they are at one moment.
   */
  readSums(query: SumsQuery, max: number): Promise<readonly StatsRow[] | undefined>;
  /** Reads a period in one go; undefined where there would be 20,000 rows or more. */
  readPeriod(query: PeriodQuery): Promise<Period | undefined>;
  /**
   * Reads what is counted of a UTC day, the highest counts first and `max` at most; of one tenant unless undefined. What an
   * instance has taken in advance (a lot, on PostgreSQL) is counted.
   */
  readDay(day: number, tenant: string | undefined, max: number): Promise<readonly DayUsed[]>;
  /** Adds refusals that were counted elsewhere. */
  addRefusals(refusals: readonly Refusals[]): Promise<void>;
  /**
   * Reads refusals of whole hours, from one until before another; of one tenant unless undefined. By the hour and the tenant,
   * unless asked for otherwise: `hour` is then the step's first, 0 of the whole period, and `tenant` is empty. Undefined where
   * there would be more than 40,000.
   */
  readRefusals(asked: RefusalsQuery): Promise<readonly Refusals[] | undefined>;
}
