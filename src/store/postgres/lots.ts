/**
 * The counts of tenants' days. Counts of messages go by lots. Those of countries and of money go by their rows, which a
 * batch locks: their caps are near, and an amount may be larger than a lot.
 *
 * A lot is messages of a tenant's day that an instance takes in advance, so that its sends need not wait for those of
 * others. A row of `counters` counts what is used and what is in lots; a row of `counter_lots` says how much of a lot
 * is unused. What a batch uses leaves its lot in the batch's own transaction. So a lot is always worth what its row
 * says, whether its holder lives or not. Whoever finds little left takes all lots back and counts in the row, one batch
 * after the other.
 *
 * A lot never reaches the next count that is warned of or refused (`nextNotable`). Those messages are counted in the
 * row, where all is known.
 */
import { newDay, nextNotable, type DailyCount, type CountKind } from "../../otp/verification/daily-cap.ts";
import { dayOf } from "../../otp/verification/policy.ts";
import type { Instant } from "../../system.ts";
import { toDaily, type CounterRow } from "../rows/tenant.ts";
import type { DayUse } from "../unit-of-work.ts";
import type { Cell } from "./columns.ts";
import type { Transaction } from "./connections.ts";
import { statements as sql } from "./statements.ts";

/** Some seconds' worth of a busy instance. */
const unitsMax = 512;
/** A lot is at most such a part of the room there is, so that the others find some too. */
const roomParts = 8;

/** The count that lots are of. */
const messageKind: CountKind = "messages";

/** The day has turned while a batch was loaded: its lots are of yesterday, and it is to be run again. */
export class DayTurned extends Error {}

/** What is known of a lot: good until somebody takes it back, which the next use of it shows. */
interface Lot {
  readonly day: number;
  /** The cap that it was taken under. */
  readonly max: number;
  /** The count that it may not reach. */
  readonly below: number;
  readonly units: number;
  readonly daily: DailyCount;
}

/** A row of the day, with what of it is in lots. */
export type CountedRow = CounterRow & {
  readonly tenant: string;
  readonly kind: CountKind;
  readonly in_lots: number;
  readonly in_hand: number;
};

/** The name of a count. */
export interface CountName {
  readonly tenant: string;
  readonly kind: CountKind;
}

/** What a batch does with a count of one tenant. */
interface Use extends CountName {
  /** Messages that it counts, at most, and gives back. */
  wants: number;
  backs: number;
  /** The cap of all that it counts; undefined where there are several. */
  max: number | undefined;
  /** The lot that it uses. */
  lot: Lot | undefined;
  /** It counts in the row, which is locked then: its lot has too little or is of another cap. All uses of a batch do, or none. */
  isOfRow: boolean;
}

/** What a batch has found, as its acts see it first, and how what they make of it is written. */
type Found =
  | (CountName & { readonly by: "lot"; readonly seen: DailyCount; readonly lot: Lot | undefined })
  /** `seen` is of a lot that is new or larger, of so many units; so many are in the row then. */
  | (CountName & { readonly by: "new lot"; readonly seen: DailyCount; readonly lot: Lot; readonly count: number })
  | (CountName & { readonly by: "row"; readonly seen: DailyCount; readonly isEmptied: boolean });

/** The lots of one holder. An instance is as many holders as it has batches under way, so that they do not wait for each other. */
export class Lots {
  readonly holder: string;
  readonly #known = new Map<string, Lot>();

  constructor(holder: string) {
    this.holder = holder;
  }

  find(tenant: string): Lot | undefined {
    return this.#known.get(tenant);
  }
  know(tenant: string, lot: Lot | undefined): void {
    if (lot === undefined) this.#known.delete(tenant);
    else this.#known.set(tenant, lot);
  }
  /** Nobody knows what became of what a batch has used, or another has taken a lot back. */
  forget(): void {
    this.#known.clear();
  }
}

/** The days that a batch counts in. */
export class BatchDays {
  readonly #lots: Lots;
  readonly #day: number;
  readonly #uses: readonly Use[];
  #found: Found[] = [];

  constructor(lots: Lots, uses: readonly DayUse[], now: Instant) {
    this.#lots = lots;
    this.#day = dayOf(now);
    const byName = new Map<string, Use>();
    for (const { tenant, kind, max } of uses) {
      const name = `${tenant} ${kind}`;
      const lot = kind === messageKind ? lots.find(tenant) : undefined;
      const use = byName.get(name) ?? { tenant, kind, wants: 0, backs: 0, max, lot, isOfRow: kind !== messageKind };
      byName.set(name, use);
      use.backs += 1;
      if (max === undefined) continue;
      use.max = use.wants === 0 || use.max === max ? max : undefined;
      use.wants += 1;
    }
    const all = [...byName].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, use]) => use);
    for (const use of all) if (!isEnough(use, this.#day)) use.lot = undefined;
    // A use of a row may take back others' lots. A batch that holds those may not wait for a lot that another has taken back.
    const needsRow = all.some(({ kind, wants, lot }) => kind === messageKind && wants > 0 && lot === undefined);
    if (needsRow) for (const use of all) [use.lot, use.isOfRow] = [undefined, true];
    this.#uses = all;
  }

  /** The counts whose rows are to be locked. */
  locked(): CountName[] {
    return this.#uses.filter(({ isOfRow }) => isOfRow);
  }

  /** The keys of their rows. A batch that is begun at midnight may be decided on the other side of it. */
  keys(): Cell[][] {
    const days = [this.#day, this.#day + 1];
    return this.locked().flatMap(({ tenant, kind }) => days.map((day) => [tenant, day, kind, this.#lots.holder]));
  }

  /** Takes new lots where there is room for them, and takes all back where there is not. */
  async load(transaction: Transaction, rows: readonly CountedRow[], now: Instant): Promise<readonly Found[]> {
    const day = dayOf(now);
    const today = rows.filter((row) => row.day === day);
    for (const use of this.#uses) {
      if (!use.isOfRow) {
        if (use.lot !== undefined && day !== use.lot.day) throw new DayTurned();
        this.#found.push(foundInHand(use, now));
        continue;
      }
      const row = today.find(({ tenant, kind }) => tenant === use.tenant && kind === use.kind);
      const daily = row === undefined ? newDay(now) : toDaily(row);
      const lot = newLot(use, daily, row?.in_hand ?? 0);
      if (lot !== undefined || use.wants === 0 || row === undefined || row.in_lots === 0) {
        this.#found.push(foundInRow(use, daily, lot, { inHand: row?.in_hand ?? 0, isEmptied: false }));
        continue;
      }
      const [emptied] = await transaction.query<{ units: number }>(sql.emptyLots, [use.tenant, day, messageKind]);
      const exact = { ...daily, count: daily.count - (emptied?.units ?? 0) };
      this.#found.push(foundInRow(use, exact, newLot(use, exact, 0), { inHand: 0, isEmptied: true }));
    }
    return this.#found;
  }

  /** What is to be written, by statement, given what acts have made of each day. */
  writes(dayOfCount: (name: CountName) => DailyCount): Record<"putCounters" | "putLots" | "changeLots", Cell[][]> {
    const written: Record<"putCounters" | "putLots" | "changeLots", Cell[][]> = {
      putCounters: [],
      putLots: [],
      changeLots: [],
    };
    const { holder } = this.#lots;
    for (const found of this.#found) {
      const { tenant, kind, seen } = found;
      const daily = dayOfCount(found);
      const used = daily.count - seen.count;
      const row = (count: number) => [tenant, seen.day, kind, count, daily.warned, daily.warnedCap];
      const lot = (units: number) => [tenant, seen.day, kind, holder, units];
      if (found.by === "row") {
        if (found.isEmptied || daily !== seen) written.putCounters.push(row(daily.count));
      } else if (found.by === "new lot") {
        written.putCounters.push(row(found.count));
        written.putLots.push(lot(found.lot.units - used));
      } else if (used !== 0) written.changeLots.push(lot(-used));
    }
    return written;
  }

  /** Notes what is left of the lots, once the batch is durable. */
  committed(dayOfCount: (name: CountName) => DailyCount): void {
    for (const found of this.#found) {
      const { tenant, kind, seen } = found;
      if (kind !== messageKind) continue;
      const used = dayOfCount(found).count - seen.count;
      if (found.by === "row") this.#lots.know(tenant, undefined);
      else if (found.lot !== undefined) this.#lots.know(tenant, { ...found.lot, units: found.lot.units - used });
    }
  }
}

function isEnough({ wants, max, lot }: Use, day: number): boolean {
  return lot !== undefined && lot.day === day && (wants === 0 || (lot.max === max && lot.units >= wants));
}

function foundInHand({ tenant, kind, backs, lot }: Use, now: Instant): Found {
  // What only gives back needs no lot: what it gives is its lot, should it have none.
  const seen = lot === undefined ? { ...newDay(now), count: backs } : seenWith(lot);
  return { by: "lot", tenant, kind, seen, lot };
}

function foundInRow(
  { tenant, kind }: Use,
  daily: DailyCount,
  lot: Lot | undefined,
  { inHand, isEmptied }: { readonly inHand: number; readonly isEmptied: boolean },
): Found {
  if (lot === undefined) return { by: "row", tenant, kind, seen: daily, isEmptied };
  return { by: "new lot", tenant, kind, seen: seenWith(lot), lot, count: daily.count + lot.units - inHand };
}

/** A lot for a use, with what is in hand; undefined where the room that the day has left is too small for one. */
function newLot({ kind, wants, max }: Use, daily: DailyCount, inHand: number): Lot | undefined {
  if (kind !== messageKind || max === undefined || wants === 0) return undefined;
  const below = nextNotable(daily, max);
  const room = below - 1 - daily.count;
  // What is in hand is within the count. Under a lower cap it may be beyond that.
  if (room < 0) return undefined;
  const units = inHand + Math.max(0, Math.min(unitsMax - inHand, Math.floor(room / roomParts)));
  return units < wants ? undefined : { day: daily.day, max, below, units, daily };
}

/** The day as the holder of a lot sees it: as if all others had used theirs. */
function seenWith({ daily, below, units }: Lot): DailyCount {
  return { ...daily, count: below - 1 - units };
}
