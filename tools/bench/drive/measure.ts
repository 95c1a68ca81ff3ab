/**
 * Rounds: a target under load, and what it cost and took. Targets take turns, and what is told of each is the median of its
 * rounds: a ratio from one run says something on a noisy machine, an absolute figure little.
 */
import { amount } from "../findings.ts";
import type { Driven, Lane } from "./load.ts";
import { cpuMicros } from "./processes.ts";
import type { Target } from "./targets.ts";

export interface Percentiles {
  readonly p50: number;
  readonly p99: number;
}

export interface Round {
  readonly perSecond: number;
  /** User and system time of all that is billed, per cycle. */
  readonly cpuMicros: number;
  /** The same by what is billed. */
  readonly parts: Readonly<Record<string, number>>;
  /** In milliseconds. */
  readonly send: Percentiles;
  readonly verify: Percentiles;
}

type Drive = (lanes: readonly Lane[]) => Promise<Driven>;

/** Drives a target over `count` fresh lanes. */
export async function measureRound(target: Target, count: number, drive: Drive): Promise<Round> {
  const lanes = target.open(count);
  try {
    const before = billOf(target);
    const { done, seconds, sendMs, verifyMs } = await drive(lanes);
    const after = billOf(target);
    const parts = Object.fromEntries(
      Object.entries(after).map(([part, micros]) => [part, (micros - (before[part] ?? 0)) / done]),
    );
    return {
      perSecond: done / seconds,
      cpuMicros: Object.values(parts).reduce((sum, micros) => sum + micros, 0),
      parts,
      send: percentiles(sendMs),
      verify: percentiles(verifyMs),
    };
  } finally {
    for (const lane of lanes) lane.close();
  }
}

function billOf({ bill }: Target): Record<string, number> {
  return Object.fromEntries(
    Object.entries(bill).map(([part, pids]) => [part, pids.reduce((sum, pid) => sum + cpuMicros(pid), 0)]),
  );
}

/** Drives each target in turn, `rounds` times over; `between` is called after each. */
export async function takeTurns(
  targets: readonly Target[],
  rounds: number,
  count: number,
  drive: Drive,
  between: (target: Target) => void = () => {},
): Promise<Round[][]> {
  const all: Round[][] = targets.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [i, target] of targets.entries()) {
      all[i]?.push(await measureRound(target, count, drive));
      between(target);
    }
  }
  return all;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** The median over rounds of one figure of theirs. */
export function medianOf(rounds: readonly Round[], figure: (round: Round) => number): number {
  return median(rounds.map(figure));
}

/** What sends took: the medians of the rounds' percentiles. */
export function sendTimes(rounds: readonly Round[]): string {
  return [medianOf(rounds, ({ send }) => send.p50), medianOf(rounds, ({ send }) => send.p99)]
    .map((ms) => amount(ms, 1))
    .join(" / ");
}

export function percentiles(all: readonly number[]): Percentiles {
  const sorted = all.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}
