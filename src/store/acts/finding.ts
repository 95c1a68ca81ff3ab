/**
 * The acts that find verifications. Each goes by an index: of the phone, of the id, or of the time at which a
 * verification was opened, which on SQLite is the time of its first message's row.
 */
import type { Engine } from "../engine.ts";
import type { Finding, FoundPage, RowKey, Sought } from "../finding.ts";
import { idBytesOf, idText } from "../rows/values.ts";
import { stateNumber, toVerification, verificationColumns, type VerificationRow } from "../rows/verification.ts";
import { list, type Value } from "../statement.ts";

/** Indexes that one statement asks for. */
const indexesAtOnce = 32;
const byIdMax = 10;
const columns = list(verificationColumns.map((column) => `v.${column}`));

/** Whether a verification stands so now, and is of one of these tenants: of `$from` on, four values. */
const isSought = (from: number) => `(CAST($${from} AS text) = '' OR v.tenant IN ($${from}, $${from + 1}))
  AND (CAST($${from + 2} AS integer) < 0
    OR (v.state = $${from + 2} AND (v.state <> 0 OR v.expire_ms > $${from + 3}))
    OR ($${from + 2} = ${stateNumber("EXPIRED")} AND v.state = 0 AND v.expire_ms <= $${from + 3}))`;
const newestFirst = "ORDER BY v.create_ms DESC, v.id DESC";

export const ofPhone = {
  name: "find-by-phone",
  text: `SELECT ${columns} FROM verifications AS v
    WHERE v.phone_index IN (${Array.from({ length: indexesAtOnce }, (_, i) => `$${i + 8}`).join(", ")})
      AND v.create_ms <= $1 AND (v.create_ms < $1 OR v.id < $2) AND v.create_ms >= $3 AND ${isSought(4)}
    ${newestFirst} LIMIT $${indexesAtOnce + 8}`,
};
export const ofId = {
  name: "find-by-id",
  text: `SELECT ${columns} FROM verifications AS v WHERE v.id >= $1 AND v.id <= $2 ORDER BY v.id LIMIT ${byIdMax}`,
};

/**
 * Statements that find by time, on one engine: its `openedOf` gives the keys `s`, a bounded number of them, and `rowOf` joins each
 * with its row `v`.
 */
export function findingStatements(openedOf: string, rowOf = "JOIN verifications AS v ON v.id = s.id") {
  return {
    found: {
      name: "find-by-time",
      text: `SELECT ${columns} FROM (${openedOf}) AS s ${rowOf}
        WHERE ${isSought(5)} ORDER BY s.create_ms DESC, s.id DESC LIMIT $9`,
    },
    /** The last row that was looked at; none where those are fewer than were asked for. */
    last: { name: "find-by-time-last", text: `SELECT s.create_ms, s.id FROM (${openedOf}) AS s LIMIT 1 OFFSET $4 - 1` },
  };
}

const end: Uint8Array = Buffer.alloc(16, 0xff);

export function findingActs(engine: Engine): Finding {
  return {
    async findByTime(sought, { max, rowsMax }) {
      const isAny = sought.tenants === undefined && sought.state === undefined;
      const rows = isAny ? Math.min(max, rowsMax) : rowsMax;
      const slice = [...startOf(sought), rows];
      const values = [...slice, ...conditionOf(sought, engine.now()), max];
      const found = await engine.longRead<VerificationRow>(engine.finding.found, values);
      if (found.length === max) return pageOf(found, max);
      const [last] = await engine.longRead<{ create_ms: number; id: Uint8Array }>(engine.finding.last, slice);
      return { ...pageOf(found, max), next: last && { createMs: last.create_ms, id: idText(last.id) } };
    },

    async findByPhone(indexes, sought, max) {
      const values = [...startOf(sought), ...conditionOf({ ...sought, tenants: undefined }, engine.now())];
      const all: VerificationRow[] = [];
      for (let from = 0; from < indexes.length; from += indexesAtOnce) {
        const some = indexes.slice(from, from + indexesAtOnce);
        const rest = Array<Value>(indexesAtOnce - some.length).fill(null);
        all.push(...(await engine.longRead<VerificationRow>(ofPhone, [...values, ...some, ...rest, max + 1])));
      }
      return pageOf(all.toSorted(byAge).slice(0, max + 1), max);
    },

    async findById(start) {
      const bytes = Buffer.from(start, "base64url");
      const [first, last] = [Buffer.alloc(16), Buffer.from(end)];
      for (const bound of [first, last]) bytes.copy(bound);
      return (await engine.query<VerificationRow>(ofId, [first, last])).map(toVerification);
    },
  };
}

/** The values before which rows are, and the time that they begin at. */
function startOf({ after, fromMs, toMs }: Sought): Value[] {
  if (after !== undefined && after.createMs < toMs) return [after.createMs, idBytesOf(after.id), fromMs];
  return [toMs - 1, beyondEach, fromMs];
}
/** No id of 16 bytes comes after it, nor is it one. */
const beyondEach: Uint8Array = Buffer.alloc(17, 0xff);

function conditionOf({ tenants = [], state }: Sought, now: number): Value[] {
  const [one = "", other = one] = tenants;
  return [one, other, state === undefined ? -1 : stateNumber(state), now];
}

function pageOf(rows: readonly VerificationRow[], max: number): FoundPage {
  const verifications = rows.slice(0, max).map(toVerification);
  const last = verifications.at(-1);
  const next: RowKey | undefined = rows.length < max || last === undefined ? undefined : last;
  return { verifications, next: next && { createMs: next.createMs, id: next.id } };
}

function byAge(a: VerificationRow, b: VerificationRow): number {
  return b.create_ms - a.create_ms || Buffer.compare(b.id, a.id);
}
