/**
 * Rounds: a target under load, and what it cost and took. Targets take turns, and what is told of each is the median of its
 * rounds: a ratio from one run says something on a noisy machine, an absolute figure little.
 */
import { amount, type Spread } from "../findings.ts";
import type { Driven, Lane } from "./load.ts";
import { cpuMicros, machineMicros } from "./processes.ts";
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
  /** True where other processes of the machine took next to nothing meanwhile. */
  readonly stood: boolean;
  /** In milliseconds. */
  readonly send: Percentiles;
  readonly verify: Percentiles;
}

/** A round stands where others took less than this of a core. */
const othersMax = 0.15;
/** How many rounds were driven so far, and how many of them stood. */
export const tally = { rounds: 0, stood: 0 };

/**
 * The ratio of two targets' rounds, turn by turn: of the turns in which both stood, or of all where there are none. A round
 * beside another's of the same turn has seen the same machine.
 */
export function ratioOf(
  rounds: readonly Round[],
  base: readonly Round[],
  figure: (round: Round) => number = ({ cpuMicros: micros }) => micros,
): Spread {
  const turns = rounds.flatMap((round, i) => {
    const beside = base[i];
    return beside === undefined ? [] : [{ ratio: figure(round) / figure(beside), stood: round.stood && beside.stood }];
  });
  const stood = turns.filter((turn) => turn.stood);
  const ratios = (stood.length > 0 ? stood : turns).map(({ ratio }) => ratio);
  return { value: median(ratios), least: Math.min(...ratios), most: Math.max(...ratios) };
}

type Drive = (lanes: readonly Lane[]) => Promise<Driven>;

/** Drives a target over `count` fresh lanes. */
export async function measureRound(target: Target, count: number, drive: Drive): Promise<Round> {
  const lanes = target.open(count);
  try {
    const [before, othersBefore] = [billOf(target), othersMicros(target)];
    const { done, seconds, sendMs, verifyMs } = await drive(lanes);
    const [after, othersAfter] = [billOf(target), othersMicros(target)];
    const stood = (othersAfter - othersBefore) / 1e6 < othersMax * seconds;
    tally.rounds += 1;
    if (stood) tally.stood += 1;
    const parts = Object.fromEntries(
      Object.entries(after).map(([part, micros]) => [part, (micros - (before[part] ?? 0)) / done]),
    );
    return {
      perSecond: done / seconds,
      cpuMicros: Object.values(parts).reduce((sum, micros) => sum + micros, 0),
      parts,
      stood,
      send: percentiles(sendMs),
      verify: percentiles(verifyMs),
    };
  } finally {
    for (const lane of lanes) lane.close();
  }
}

/** What the machine does beside a target and this process, which makes the load. */
function othersMicros({ bill }: Target): number {
  const { user, system } = process.cpuUsage();
  const billed = Object.values(bill).flat();
  return machineMicros() - user - system - billed.reduce((sum, pid) => sum + cpuMicros(pid), 0);
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
