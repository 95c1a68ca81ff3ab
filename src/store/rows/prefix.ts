/**
 * Between the rows of the pumping guard and its records: prefixes, and the decisions about them.
 */
import type { DecisionKind, PrefixDecision, PrefixRecord } from "../../otp/limits/pumping-guard.ts";
import { at, namesAndTypes, Packing, type Columns, type RowOf } from "./values.ts";
import type { PrefixName } from "../store.ts";

/** Stored by position: append only. */
const phases: readonly PrefixRecord["phase"][] = ["open", "tripped", "half-open"];
const kinds: readonly DecisionKind[] = [
  "passed",
  "tripped",
  "half-opened",
  "tripped-again",
  "closed",
  "unblocked",
  "limited",
];
/** How `passed` is stored. */
export const passed = 0;

/** What a map knows a prefix by. */
export function prefixKey({ tenant, prefix }: PrefixName): string {
  return `${tenant} ${prefix}`;
}

/** `matured` is how many have ended: the columns keep their first name. */
const columns = {
  tenant: "text",
  prefix: "text",
  phase: "bigint",
  sent: "bigint",
  matured: "bigint",
  verified: "bigint",
  beyond_sent: "bigint",
  beyond_verified: "bigint",
  proven: "bigint",
  trips: "bigint",
  since_ms: "bigint",
  until_ms: "bigint",
  tat_ms: "bigint",
  last_ms: "bigint",
  refused: "bigint",
  refused_first_ms: "bigint",
  refused_last_ms: "bigint",
} as const satisfies Columns;
export const { names: prefixColumns, types: prefixTypes } = namesAndTypes(columns);
export type PrefixRow = RowOf<typeof columns>;

export function toPrefix(row: PrefixRow): PrefixRecord {
  return {
    phase: at(phases, row.phase),
    sent: row.sent,
    ended: row.matured,
    verified: row.verified,
    beyondSent: row.beyond_sent,
    beyondVerified: row.beyond_verified,
    proven: row.proven === 1,
    trips: row.trips,
    sinceMs: row.since_ms,
    untilMs: row.until_ms,
    tatMs: row.tat_ms,
    lastMs: row.last_ms,
    refused: row.refused,
    refusedFirstMs: row.refused_first_ms,
    refusedLastMs: row.refused_last_ms,
  };
}

/** The values in the order of `prefixColumns`. */
export function prefixValues({ tenant, prefix }: PrefixName, record: PrefixRecord): (string | number)[] {
  return [
    tenant,
    prefix,
    phases.indexOf(record.phase),
    record.sent,
    record.ended,
    record.verified,
    record.beyondSent,
    record.beyondVerified,
    record.proven ? 1 : 0,
    record.trips,
    record.sinceMs,
    record.untilMs,
    record.tatMs,
    record.lastMs,
    record.refused,
    record.refusedFirstMs,
    record.refusedLastMs,
  ];
}

/** A prefix and its record. */
export interface NamedPrefix {
  readonly name: PrefixName;
  readonly record: PrefixRecord;
}

/**
 * Several prefixes in a few bytes each: `prefixColumns` in their order. Texts follow their length. Numbers are 7 bits a
 * byte, the lowest first, the eighth bit set in all but the last: twice the thousands where they are whole, as of most
 * times, and else twice the number and one.
 */
export function prefixesBytes(prefixes: Iterable<NamedPrefix>): Buffer {
  const packing = new Packing();
  for (const { name, record } of prefixes) {
    for (const value of prefixValues(name, record)) {
      const number = typeof value === "number" ? value : Buffer.byteLength(value);
      packing.number(number % 1_000 === 0 ? number / 500 : 2 * number + 1);
      if (typeof value !== "number") packing.text(value);
    }
  }
  return packing.bytes();
}

export function toPrefixes(bytes: Uint8Array): NamedPrefix[] {
  let place = 0;
  const number = () => {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = bytes[place++] ?? 0;
      value += (byte & 127) * unit;
      if (byte < 128) return value % 2 === 0 ? value * 500 : (value - 1) / 2;
    }
  };
  const text = () => {
    const length = number();
    place += length;
    return Buffer.from(bytes.subarray(place - length, place)).toString();
  };
  const prefixes: NamedPrefix[] = [];
  while (place < bytes.length) {
    const cells = prefixColumns.map((column) => [
      column,
      column === "tenant" || column === "prefix" ? text() : number(),
    ]);
    const row = Object.fromEntries(cells) as PrefixRow;
    prefixes.push({ name: { tenant: row.tenant, prefix: row.prefix }, record: toPrefix(row) });
  }
  return prefixes;
}

const ofDecision = {
  tenant: "text",
  prefix: "text",
  kind: "bigint",
  at_ms: "bigint",
  matured: "bigint",
  verified: "bigint",
  refused: "bigint",
  until_ms: "bigint or null",
  enforced: "bigint",
} as const satisfies Columns;
export const { names: decisionColumns, types: decisionTypes } = namesAndTypes(ofDecision);
export type DecisionRow = RowOf<typeof ofDecision>;

export function toDecision(row: DecisionRow): PrefixDecision {
  return {
    kind: at(kinds, row.kind),
    atMs: row.at_ms,
    ended: row.matured,
    verified: row.verified,
    refused: row.refused,
    untilMs: row.until_ms,
    enforced: row.enforced === 1,
  };
}

/** The values in the order of `decisionColumns`. */
export function decisionValues({ tenant, prefix }: PrefixName, d: PrefixDecision): (string | number | null)[] {
  const { atMs, ended, verified, refused, untilMs } = d;
  return [tenant, prefix, kinds.indexOf(d.kind), atMs, ended, verified, refused, untilMs, d.enforced ? 1 : 0];
}
