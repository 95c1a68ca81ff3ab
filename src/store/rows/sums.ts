/**
 * Between sums and their rows, and the SQL that makes sums of rows of verifications and messages. It is the same on
 * every database, and the same for a slice that is summed, for one row that is erased, and for what is not summed yet.
 */
import { channels } from "../../otp/channel.ts";
import {
  charged,
  countOfState,
  hourMs,
  measures,
  stepEndsMs,
  type ChargeOf,
  type Count,
  type Measure,
  type SumRow,
} from "../../otp/statistics.ts";
import type { AndroidAppHash, WebOrigin } from "../../otp/template/last-line.ts";
import { list, valuesOf } from "../statement.ts";
import { deliveryNumber } from "./message.ts";
import { at } from "./values.ts";
import { states } from "./verification.ts";

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

const ifs = (condition: string) => `sum(CASE WHEN ${condition} THEN 1 ELSE 0 END)`;
const oneOf = (...deliveries: Parameters<typeof deliveryNumber>[0][]) =>
  `(${list(deliveries.map((d) => `${deliveryNumber(d)}`))})`;

const taken = (m: string) =>
  `(${m}.delivery IN ${oneOf("ACCEPTED", "DELIVERED", "UNDELIVERED")} OR ${m}.provider_message_id IS NOT NULL)`;

/** Each measure of verifications `v`, and of messages `m`: what is not there is 0. */
const ofVerifications: Partial<Record<Measure, string>> = {
  asked: "count(*)",
  ...Object.fromEntries(
    states.flatMap((state, number): [Count, string][] => {
      const count = countOfState[state];
      return count === undefined ? [] : [[count, ifs(`v.state = ${number}`)]];
    }),
  ),
  ...Object.fromEntries(
    [...stepEndsMs, undefined].map((end, i) => {
      const after = i === 0 ? "" : ` AND v.end_ms - v.create_ms > ${stepEndsMs[i - 1]}`;
      const until = end === undefined ? "" : ` AND v.end_ms - v.create_ms <= ${end}`;
      return [`step_${i}`, ifs(`v.state = ${states.indexOf("VERIFIED")}${after}${until}`)];
    }),
  ),
};
const ofMessages: Partial<Record<Measure, string>> = {
  messages: ifs(taken("m")),
  delivered: ifs(`m.delivery = ${deliveryNumber("DELIVERED")}`),
  undelivered: ifs(
    `m.delivery IN ${oneOf("UNDELIVERED", "REJECTED")} OR (m.delivery = ${deliveryNumber("EXPIRED")} AND NOT ${taken("m")})`,
  ),
};
const measured = (of: Partial<Record<Measure, string>>) => measures.map((each) => `${of[each] ?? "0"} AS ${each}`);

/** What besides tenant, country, channel and provider decides what a message takes. */
const facts = ["locale", "purpose", "web_origin", "app_hash", "digits"] as const;
const factColumns = list(facts.map((fact) => `v.${fact}`));
const verificationFields = list(["id", "tenant", "region", "channel", "state", "create_ms", "end_ms", ...facts]);

/** What rows are summed of: a condition on verifications, or several of which no row meets two. */
export interface Tallied {
  readonly where: readonly string[];
  /** How an engine joins the messages `m` of verifications `v`: a table, and a condition that more may be added to. */
  readonly join: string;
}

/** The sandbox is left out: nothing of it leaves. */
const isReal = `tenant NOT LIKE '%+test'`;

/** Verifications and messages as sums, in rows of `TallyRow`. */
export function tallyText({ where, join }: Tallied): string {
  const rows = where.map((each) => `SELECT ${verificationFields} FROM verifications WHERE ${isReal} AND ${each}`);
  const from = `(${rows.join(" UNION ALL ")}) AS v`;
  const hour = `v.create_ms / ${hourMs}`;
  const first = `CASE WHEN ${taken("m")} THEN coalesce(m.provider, '') ELSE '' END`;
  return `SELECT ${hour} AS hour, v.tenant AS tenant, v.region AS country, ${first} AS provider, v.channel AS channel,
      '' AS currency, ${list(measured(ofVerifications))}, ${list(facts.map((fact) => (fact === "digits" ? "0 AS digits" : `NULL AS ${fact}`)))}
    FROM ${from} LEFT JOIN ${join} AND m.copy = 0
    GROUP BY ${hour}, v.tenant, v.region, ${first}, v.channel
    UNION ALL
    SELECT ${hour}, v.tenant, v.region, coalesce(m.provider, ''), m.channel, '', ${list(measured(ofMessages))}, ${factColumns}
    FROM ${from} JOIN ${join}
    GROUP BY ${hour}, v.tenant, v.region, coalesce(m.provider, ''), m.channel, ${factColumns}`;
}

export interface TallyRow extends Record<Measure, number> {
  hour: number;
  tenant: string;
  country: string;
  provider: string;
  channel: number;
  currency: string;
  locale: string | null;
  purpose: string | null;
  web_origin: string | null;
  app_hash: string | null;
  /** 0 for what is of no message, or is charged already. */
  digits: number;
}

/** A row of sums; one of messages with what they take. */
export function toSums(row: TallyRow, chargeOf: ChargeOf): SumRow {
  const { hour, tenant, country, provider, currency, digits } = row;
  const channel = at(channels, row.channel);
  const sums = Object.fromEntries(measures.map((measure) => [measure, row[measure]]));
  const summed: SumRow = { hour, tenant, country, provider, channel, currency, sums };
  if (digits === 0) return summed;
  return charged(summed, () =>
    chargeOf({
      tenant,
      region: country,
      channel,
      provider,
      locale: row.locale ?? "",
      purpose: row.purpose ?? "",
      webOrigin: (row.web_origin ?? undefined) as WebOrigin | undefined,
      appHash: (row.app_hash ?? undefined) as AndroidAppHash | undefined,
      digits,
    }),
  );
}
