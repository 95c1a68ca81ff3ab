/**
 * Between sums and their rows, and the SQL that brings verifications and messages together that are counted alike: one
 * row with how many they are, which the rule of one (otp/operators/statistics.ts) counts. It is the same on every database, and the
 * same for a slice that is summed, for one row that is erased, and for what is not summed yet.
 */
import { channels } from "../../otp/channel.ts";
import {
  measures,
  stepEndsMs,
  takenDeliveries,
  tally,
  type Charge,
  type ChargeOf,
  type Sent,
  type SumRow,
} from "../../otp/operators/statistics.ts";
import type { AndroidAppHash, WebOrigin } from "../../otp/template/last-line.ts";
import { list, valuesOf } from "../statement.ts";
import { deliveries, deliveryNumber } from "./message.ts";
import { at, type Columns, type RowOf } from "./values.ts";
import { states } from "./verification.ts";
import { hourMs } from "../../system.ts";

export const sumKeys = ["hour", "tenant", "country", "provider", "channel", "currency"] as const;
const sumColumns = [...sumKeys, ...measures];

/** The values in the order of the key and `measures`. */
export function sumValues({ hour, tenant, country, provider, channel, currency, sums }: SumRow): (string | number)[] {
  const key = [hour, tenant, country, provider, channels.indexOf(channel), currency];
  return [...key, ...measures.map((measure) => sums[measure] ?? 0)];
}

const adds = list(measures.map((measure) => `${measure} = sums.${measure} + excluded.${measure}`));
const onConflict = `ON CONFLICT (${list(sumKeys)}) DO UPDATE SET ${adds}`;

/** Adds to what there is. */
export const addSums = {
  name: "add-sums",
  text: `INSERT INTO sums (${list(sumColumns)}) VALUES (${valuesOf(sumColumns)}) ${onConflict}`,
};

/** The type of a key's column; sums are whole numbers. */
const typeOf = (column: string) => (["tenant", "country", "provider", "currency"].includes(column) ? "text" : "bigint");

/**
 * Adds what a late report changes, where the verification that ended at the moment of the last value is summed already; `lock`
 * holds the note of how far summing has come until the transaction is over. The note is read by itself: PostgreSQL would
 * take the condition into a subquery, and neither lock nor wait for a note that does not meet it yet.
 */
export const addLateSums = (lock: string) => ({
  name: "add-late-sums",
  text: `WITH s AS MATERIALIZED (SELECT end_ms FROM summing WHERE id = 1 ${lock})
    INSERT INTO sums (${list(sumColumns)})
    SELECT ${list(sumColumns.map((column, i) => `CAST($${i + 1} AS ${typeOf(column)})`))}
    FROM s WHERE s.end_ms >= CAST($${sumColumns.length + 1} AS bigint)
    ${onConflict}`,
});

// ---- from verifications and messages --------------------------------------------------------------------------------

/** What verifications and messages that are counted alike have in common, and how many they are. */
const tallied = {
  hour: "bigint",
  tenant: "text",
  region: "text",
  channel: "bigint",
  state: "bigint",
  locale: "text or null",
  purpose: "text or null",
  web_origin: "text or null",
  app_hash: "text or null",
  digits: "bigint",
  copy: "bigint or null",
  provider: "text or null",
  message_channel: "bigint or null",
  delivery: "bigint or null",
  has_id: "bigint",
  /** The shortest time from send to end, in milliseconds; all are of one step. */
  took: "bigint or null",
  times: "bigint",
} as const satisfies Columns;
export type TallyRow = RowOf<typeof tallied>;
export const tallyColumns = Object.keys(tallied) as readonly (keyof TallyRow)[];

/** What is selected as something else than its name of a verification `v`. */
const expressions: Partial<Record<keyof TallyRow, string>> = {
  hour: `v.create_ms / ${hourMs}`,
  copy: "m.copy",
  provider: "m.provider",
  message_channel: "m.channel",
  delivery: "m.delivery",
  has_id: "CASE WHEN m.provider_message_id IS NULL THEN 0 ELSE 1 END",
  took: "min(v.end_ms - v.create_ms)",
  times: "count(*)",
};
const step = `CASE WHEN v.state <> ${states.indexOf("VERIFIED")} THEN -1
  ${stepEndsMs.map((end, i) => `WHEN v.end_ms - v.create_ms <= ${end} THEN ${i}`).join(" ")} ELSE ${stepEndsMs.length} END`;

/** Of such rows: those in which verifications are counted, and the provider that they count at. */
export const asked = "(copy IS NULL OR copy = 0)";
export const firstProvider = `CASE WHEN delivery IN (${list(takenDeliveries.map((each) => `${deliveryNumber(each)}`))}) OR has_id = 1
  THEN coalesce(provider, '') ELSE '' END`;

/** What rows are summed of: a condition on verifications, or several of which no row meets two. */
export interface Tallied {
  readonly where: readonly string[];
  /** How an engine joins the messages `m` of verifications `v`: a table, and a condition that more may be added to. */
  readonly join: string;
}

const verificationFields = `id, tenant, region, channel, state, create_ms, end_ms,
  locale, purpose, web_origin, app_hash, digits`;
/** The sandbox is left out: nothing of it leaves. */
const isReal = `tenant NOT LIKE '%+test'`;

/** Verifications with their messages, in rows of `TallyRow`: each is read once. */
export function tallyText({ where, join }: Tallied): string {
  const rows = where.map((each) => `SELECT ${verificationFields} FROM verifications WHERE ${isReal} AND ${each}`);
  const alike = tallyColumns.filter((column) => column !== "took" && column !== "times");
  return `SELECT ${list(tallyColumns.map((column) => `${expressions[column] ?? `v.${column}`} AS ${column}`))}
    FROM (${rows.join(" UNION ALL ")}) AS v LEFT JOIN ${join}
    GROUP BY ${list(alike.map((_, i) => `${i + 1}`))}, ${step}`;
}

/** A row as an array of its values, in the order of `tallyColumns`. */
export const tallyRowOf = (values: readonly (string | number | null)[]): TallyRow =>
  Object.fromEntries(tallyColumns.map((column, i) => [column, values[i]])) as unknown as TallyRow;

/** The sums of such rows. What a message takes is asked once for all that are alike. */
export function sumsOf(rows: readonly TallyRow[], chargeOf: ChargeOf): SumRow[] {
  const known = new Map<string, Charge>();
  const chargeOnce: ChargeOf = (sent) => {
    const key = keyOfCharge(sent);
    const charge = known.get(key) ?? chargeOf(sent);
    known.set(key, charge);
    return charge;
  };
  return rows.flatMap((row) => {
    const { copy, delivery, message_channel: channel, provider, times } = row;
    const message = {
      copy: copy ?? 0,
      channel: at(channels, channel ?? row.channel),
      provider,
      // Of no message, none is counted.
      delivery: delivery === null ? "QUEUED" : at(deliveries, delivery),
      providerMessageId: row.has_id === 1 ? "" : null,
    };
    return tally(verificationOf(row), message, chargeOnce, times);
  });
}

function verificationOf(row: TallyRow) {
  const createMs = row.hour * hourMs;
  return {
    tenant: row.tenant,
    region: row.region,
    channel: at(channels, row.channel),
    state: at(states, row.state),
    createMs,
    endMs: row.took === null ? null : createMs + row.took,
    locale: row.locale ?? "",
    purpose: row.purpose ?? "",
    webOrigin: (row.web_origin ?? undefined) as WebOrigin | undefined,
    appHash: (row.app_hash ?? undefined) as AndroidAppHash | undefined,
    digits: row.digits,
  };
}

function keyOfCharge({ tenant, region, channel, provider, locale, purpose, webOrigin, appHash, digits }: Sent): string {
  return JSON.stringify([tenant, region, channel, provider, locale, purpose, webOrigin, appHash, digits]);
}
