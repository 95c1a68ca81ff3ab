/**
 * The act that fills a development database with the sample month, so that a newcomer sees the console at work. Sums
 * are written as the sweep would have written them, verifications as if they had ended and been summed.
 */
import { merge, noCharge } from "../../otp/operators/statistics.ts";
import type { Engine } from "../engine.ts";
import { auditColumns, auditValues } from "../rows/audit.ts";
import { addSums, sumsOf, sumValues, tallyText, type TallyRow } from "../rows/sums.ts";
import type { Sample, Sampled, Samples } from "../sample.ts";
import { list, query, queryEach, send, valuesOf, type Statement } from "../statement.ts";
import { behindMs, summing } from "./sums.ts";

/** Acts that wait for one transaction. */
const atOnce = 200;

const sql = {
  ...summing,
  /** What a provider that really sends has taken, now or ever. The console only prints. */
  real: {
    name: "really-sent",
    text: `SELECT 'sent' AS why FROM messages WHERE provider <> 'console'
      UNION ALL SELECT 'sent' FROM sums WHERE provider NOT IN ('', 'console') LIMIT 1`,
  },
  addAudit: {
    name: "sample-audit",
    text: `INSERT INTO audit (${list(auditColumns)}) VALUES (${valuesOf(auditColumns)})`,
  },
  addDay: {
    name: "sample-day",
    text: `INSERT INTO counters (tenant, day, kind, count, warned, warned_cap) VALUES ($1, $2, $3, $4, 80, $5)`,
  },
} as const;

export function sampleActs(engine: Engine): Samples {
  const slice: Statement = {
    name: "sample-sum-slice",
    text: tallyText({ where: ["end_ms > $1 AND end_ms <= $2"], join: engine.messagesJoin }),
  };

  /** Writes what is told by sums alone, unless something here is real; once, with all that tells that it is there. */
  const begin = ({ endMs, sums, refusals, days, audit }: Sample) =>
    engine.transact<Sampled>(function* () {
      const [note] = yield* query<{ end_ms: number }>(sql.summed);
      const [real] = yield* query(sql.real);
      if (real !== undefined) return "occupied";
      const fromMs = note?.end_ms ?? 0;
      const [pending] = yield* query<{ expire_ms: number | null }>(sql.oldestPending);
      if (fromMs > endMs || (pending?.expire_ms ?? Number.POSITIVE_INFINITY) <= endMs) return "busy";
      // What the console has printed meanwhile is summed here, since from now on all that ended by then counts as summed.
      const own = yield* query<TallyRow>(slice, [fromMs, endMs]);
      const all = merge([...sumsOf(own, noCharge), ...sums]);
      yield* queryEach(addSums, all.map(sumValues));
      yield* send(sql.advance, [endMs]);
      yield* send(sql.addRefusals, ...refusals.map(({ hour, tenant, reason, count }) => [hour, tenant, reason, count]));
      yield* send(sql.addDay, ...days.map(({ tenant, day, count, cap }) => [tenant, day, "messages", count, cap]));
      yield* send(sql.addAudit, ...audit.map(auditValues));
      return "filled";
    });

  return {
    sampleEndMs: () => engine.now() - behindMs,
    async addSample(sample) {
      const began = await begin(sample);
      if (began !== "filled") return began;
      for (let from = 0; from < sample.verifications.length; from += atOnce) {
        const some = sample.verifications.slice(from, from + atOnce);
        const written = some.map(({ verification, messages }) =>
          engine.perform({
            run(unit) {
              unit.insertVerification(verification);
              for (const message of messages) unit.putMessage(message);
            },
          }),
        );
        await Promise.all(written);
      }
      for (const { name, change } of sample.prefixes) {
        await engine.perform({ prefix: () => name, run: (unit) => unit.putPrefix(name, change) });
      }
      return began;
    },
  };
}
