/**
 * Section "network": PostgreSQL behind a network of 0, 1 and 5 ms a round trip, with so many batches under way at a time, and
 * with as many as the service chooses.
 */
import { startServer, type Server } from "../drive/processes.ts";
import { driveClosed } from "../drive/load.ts";
import { measureRound, medianOf, sendTimes, takeTurns } from "../drive/measure.ts";
import { prepare, type Place } from "../drive/prepared.ts";
import { postgresTarget, startDatabase, startService, type Target } from "../drive/targets.ts";
import type { Effort } from "../effort.ts";
import { amount, range, type Findings } from "../findings.ts";
import type { DelayOptions } from "../servers/delay.ts";

const delaysMs = [0, 1, 5];
const batches = [1, 3, 6, undefined];

export async function network(
  place: Place,
  effort: Effort,
  without: { readonly postgres: boolean },
): Promise<Findings> {
  if (without.postgres) return { tables: [], figures: {} };
  const postgres = await startDatabase();
  const servers: Server[] = [];
  try {
    const targets: Target[] = [];
    const prepared = await prepare(await postgres.createDatabase());
    for (const ms of delaysMs) {
      const url = new URL(prepared.url);
      if (ms > 0) {
        const options: DelayOptions = { port: Number(url.port), ms };
        const proxy = await startServer(place.folder, "delay.ts", [JSON.stringify(options)]);
        servers.push(proxy);
        url.port = `${proxy.port}`;
      }
      for (const underWay of batches) {
        const through = { ...prepared, url: url.href.replaceAll("+", "%20") };
        const server = await startService(place, through, underWay === undefined ? {} : { batches: underWay });
        servers.push(server);
        targets.push(postgresTarget(place, `${ms} ms, ${underWay ?? "as chosen"}`, postgres, prepared, [server]));
      }
    }
    const { connections, rounds, roundMs, warmUpMs } = effort;
    for (const target of targets) await measureRound(target, connections, (lanes) => driveClosed(lanes, warmUpMs));
    const taken = await takeTurns(targets, rounds, connections, (lanes) => driveClosed(lanes, roundMs));
    const table = {
      title: "Batches under way on PostgreSQL, by what a round trip costs",
      note: "A closed loop of 32 connections. The network is a proxy that holds answers back, in a process of its own that is not billed.",
      head: ["added to a round trip, batches", "CPU µs per cycle", "range", "cycles/s", "send p50 / p99 ms"],
      rows: targets.map(({ name }, i) => {
        const own = taken[i] ?? [];
        return [
          name,
          amount(medianOf(own, (round) => round.cpuMicros)),
          range(own.map((round) => round.cpuMicros)),
          amount(medianOf(own, (round) => round.perSecond)),
          sendTimes(own),
        ];
      }),
    };
    return { tables: [table], figures: {} };
  } finally {
    for (const server of servers) await server.stop("SIGKILL");
    await postgres.stop();
  }
}
