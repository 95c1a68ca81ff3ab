/**
 * Of the section "growth": CPU per cycle on PostgreSQL beside few and many pending verifications.
 */
import type { Effort } from "../effort.ts";
import { amount, range, spreadText, type Spread, type Table } from "../findings.ts";
import { driveClosed } from "../drive/load.ts";
import { measureRound, medianOf, ratioOf, sendTimes, takeTurns } from "../drive/measure.ts";
import { bytesOf, multiplyInto } from "../drive/preload-postgres.ts";
import { sendReal } from "../drive/real-sends.ts";
import { prepare, type Place } from "../drive/prepared.ts";
import { postgresTarget, startDatabase, startService } from "../drive/targets.ts";

export async function growthOnPostgres(place: Place, effort: Effort): Promise<{ table: Table; ratio: Spread }> {
  const { connections, rounds, roundMs, warmUpMs, realSends } = effort;
  const postgres = await startDatabase();
  try {
    const real = await prepare(await postgres.createDatabase());
    await sendReal(place, real, effort);
    const sizes: { count: number; url: string; bytes: number }[] = [];
    const targets = [];
    for (const size of effort.sizes) {
      const prepared = await prepare(await postgres.createDatabase());
      const count = await multiplyInto(postgres, real.url, prepared.url, Math.ceil(size / realSends));
      sizes.push({ count, url: prepared.url, bytes: await bytesOf(postgres, prepared.url) });
      const server = await startService(place, prepared);
      const target = postgresTarget(place, amount(count), postgres, prepared, [server]);
      targets.push({ ...target, close: () => server.stop() });
    }
    for (const target of targets) await measureRound(target, connections, (lanes) => driveClosed(lanes, warmUpMs));
    const taken = await takeTurns(targets, rounds, connections, (lanes) => driveClosed(lanes, roundMs));
    for (const target of targets) await target.close();
    const table: Table = {
      title: "Growth, on PostgreSQL",
      note: [
        "The same closed loop, one instance, beside so many pending verifications. What a round adds stays. The server is as it",
        "comes (128 MB of its own cache), and the tables were vacuumed before.",
      ].join("\n"),
      head: ["pending verifications", "CPU µs per cycle", "range", "÷ fewest", "cycles/s", "send p50 / p99 ms", "MB"],
      rows: sizes.map(({ count, bytes }, i) => {
        const all = taken[i] ?? [];
        return [
          amount(count),
          amount(medianOf(all, (round) => round.cpuMicros)),
          range(all.map((round) => round.cpuMicros)),
          spreadText(ratioOf(all, taken[0] ?? [])),
          amount(medianOf(all, (round) => round.perSecond)),
          sendTimes(all),
          amount(bytes / 1e6),
        ];
      }),
    };
    return { table, ratio: ratioOf(taken.at(-1) ?? [], taken[0] ?? []) };
  } finally {
    await postgres.stop();
  }
}
