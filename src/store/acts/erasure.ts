/**
 * The act that erases verifications. No index leads from a verification to its events and to the records of its
 * Idempotency-Keys, so those tables are read through in slices, beside the calls. That is done before and after the
 * verification is deleted, since more may come until then.
 */
import type { ChargeOf } from "../../otp/operators/statistics.ts";
import type { Verification } from "../../otp/verification/verification.ts";
import type { Engine } from "../engine.ts";
import type { Erasure } from "../erasure.ts";
import { idBytesOf } from "../rows/values.ts";
import { erase, query, queryEach, send, type Value } from "../statement.ts";
import { createErasing } from "./sums.ts";

/** Verifications that are sought at once, and rows that a slice looks at. */
const atOnce = 100;
const rowsAtOnce = 2_000;

const places = (from: number) => Array.from({ length: atOnce }, (_, i) => `$${from + i}`).join(", ");

const sql = {
  events: {
    name: "events-about",
    text: `SELECT s.endpoint_id, s.id FROM (
        SELECT endpoint_id, id, phone_box FROM events WHERE (endpoint_id, id) > ($1, $2) ORDER BY endpoint_id, id LIMIT $3
      ) AS s WHERE s.phone_box IN (${places(4)})`,
  },
  lastEvent: {
    name: "events-about-last",
    text: `SELECT endpoint_id, id FROM events WHERE (endpoint_id, id) > ($1, $2)
      ORDER BY endpoint_id, id LIMIT 1 OFFSET $3 - 1`,
  },
  records: {
    name: "records-about",
    text: `SELECT s.slot FROM (
        SELECT slot, verification_id FROM idempotency WHERE slot > $1 ORDER BY slot LIMIT $2
      ) AS s WHERE s.verification_id IN (${places(3)})`,
  },
  lastRecord: {
    name: "records-about-last",
    text: `SELECT slot FROM idempotency WHERE slot > $1 ORDER BY slot LIMIT 1 OFFSET $2 - 1`,
  },
  deleteEvent: { name: "erase-event", text: `DELETE FROM events WHERE endpoint_id = $1 AND id = $2 RETURNING id` },
  deleteRecord: { name: "erase-record", text: `DELETE FROM idempotency WHERE slot = $1` },
  ended: {
    name: "erase-ended",
    text: `SELECT id FROM verifications WHERE id = $1 AND end_ms IS NOT NULL`,
    locksRows: true,
  },
} as const;

interface About {
  readonly events: readonly (readonly Value[])[];
  readonly records: readonly (readonly Value[])[];
}

export function erasureActs(engine: Engine, chargeOf: ChargeOf): Erasure {
  const sumErased = createErasing(engine, chargeOf);
  return {
    async erase(verifications) {
      const some = verifications.slice(0, atOnce);
      if (some.length === 0) return { verifications: 0, events: 0 };
      const before = await findAbout(engine, some);
      const deleted = await engine.transact(function* () {
        const found = yield* queryEach<{ id: Uint8Array }>(
          sql.ended,
          some.map(({ id }) => [idBytesOf(id)]),
        );
        const ended = new Set(found.map(({ id }) => Buffer.from(id).toString("base64url")));
        const ids = some.filter(({ id }) => ended.has(id)).map(({ id }) => id);
        yield* sumErased(ids);
        yield* erase(ids);
        return { verifications: ended.size, events: yield* deleteAbout(before) };
      });
      const after = await findAbout(engine, some);
      const late = await engine.transact(() => deleteAbout(after));
      return { ...deleted, events: deleted.events + late };
    },
  };
}

function* deleteAbout({ events, records }: About) {
  let deleted = 0;
  for (const event of events) deleted += (yield* query(sql.deleteEvent, event)).length;
  if (records.length > 0) yield* send(sql.deleteRecord, ...records);
  return deleted;
}

/** Finds what is kept about verifications in tables that no index leads to. */
async function findAbout(engine: Engine, verifications: readonly Verification[]): Promise<About> {
  const rest = Array<Value>(atOnce - verifications.length).fill(null);
  const boxes = [...verifications.map(({ phoneBox }) => phoneBox), ...rest];
  const ids = [...verifications.map(({ id }) => idBytesOf(id)), ...rest];
  const events: Value[][] = [];
  for (let from: Value[] | undefined = ["", ""]; from !== undefined;) {
    const slice: Value[] = [...from, rowsAtOnce];
    const rows = await engine.longRead<{ endpoint_id: string; id: string }>(sql.events, [...slice, ...boxes]);
    events.push(...rows.map(({ endpoint_id, id }) => [endpoint_id, id]));
    const [last] = await engine.longRead<{ endpoint_id: string; id: string }>(sql.lastEvent, slice);
    from = last && [last.endpoint_id, last.id];
  }
  const records: Value[][] = [];
  for (let from: Uint8Array | undefined = new Uint8Array(); from !== undefined;) {
    const slice: Value[] = [from, rowsAtOnce];
    const rows = await engine.longRead<{ slot: Uint8Array }>(sql.records, [...slice, ...ids]);
    records.push(...rows.map(({ slot }) => [slot]));
    const [last] = await engine.longRead<{ slot: Uint8Array }>(sql.lastRecord, slice);
    from = last?.slot;
  }
  return { events, records };
}
