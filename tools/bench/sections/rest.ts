/**
 * Section "rest": what a server takes that nobody calls, fresh and after load: memory, CPU and how often it wakes the machine.
 * It is the real command, as it is installed, with its webhook provider.
 */
import { fromClone, fromPackage, startInstalled, type Installed } from "../drive/installed.ts";
import { driveClosed } from "../drive/load.ts";
import { residentBytes, startServer, threadsOf } from "../drive/processes.ts";
import { prepareSqlite, type Place } from "../drive/prepared.ts";
import { restLane } from "../drive/targets.ts";
import type { Effort } from "../effort.ts";
import { amount, type Findings } from "../findings.ts";
import type { ReceiverOptions } from "../servers/receiver.ts";

export interface Rest {
  readonly residentBytes: number;
  /** Of all its threads. */
  readonly cpuMsPerSecond: number;
  readonly wakesPerSecond: number;
}

export interface Seen {
  readonly fresh: Rest;
  readonly after: Rest;
  /** Right after the last answer. */
  readonly loadedBytes: number;
}

export async function rest(place: Place, effort: Effort): Promise<Findings> {
  const ways = [fromPackage(place), fromClone()];
  const all: Seen[] = [];
  for (const [i, way] of ways.entries()) all.push(await look(place, effort, way, `rest-${i}`));
  const [asInstalled] = all as [Seen];
  return {
    tables: [
      {
        title: "A server at rest, on SQLite",
        note: [
          `Its memory, its CPU and how often the system wakes one of its threads, over ${amount(effort.restMs / 1_000)} s in which nobody calls: from`,
          `${amount(effort.settleMs / 1_000)} s after its first answer, and again after ${amount(effort.loadMs / 1_000)} s of ${effort.connections} connections in a closed loop.`,
        ].join("\n"),
        head: ["", "RSS MB", "CPU ms/s", "wakes/s", "under load: RSS MB", "after: RSS MB", "CPU ms/s", "wakes/s"],
        rows: all.map(({ fresh, after, loadedBytes }, i) => [
          ways[i]?.name ?? "",
          ...cells(fresh),
          amount(loadedBytes / 1e6),
          ...cells(after),
        ]),
      },
    ],
    figures: {
      idleMemory: asInstalled.fresh.residentBytes / 1e6,
      loadedMemory: Math.max(asInstalled.loadedBytes, asInstalled.after.residentBytes) / 1e6,
      idleCpu: asInstalled.fresh.cpuMsPerSecond,
      idleCpuAfterLoad: asInstalled.after.cpuMsPerSecond,
    },
  };
}

const cells = (found: Rest) => [
  amount(found.residentBytes / 1e6),
  amount(found.cpuMsPerSecond, 1),
  amount(found.wakesPerSecond),
];

/** Watches a server that was started in one way, loads it, and watches it again. */
export async function look(place: Place, effort: Effort, way: Installed, name: string): Promise<Seen> {
  const options: ReceiverOptions = { codes: place.codes.path, takesMs: 0 };
  const receiver = await startServer(place.folder, "receiver.ts", [JSON.stringify(options)]);
  const prepared = await prepareSqlite(place, name);
  const more = { OTP_WEBHOOK_URL: `http://127.0.0.1:${receiver.port}/` };
  const service = await startInstalled(place, way, prepared, { more });
  const fresh = await watch(service.pid, effort);
  const lanes = Array.from({ length: effort.connections }, () => restLane(service, prepared.key, place.codes));
  await driveClosed(lanes, effort.loadMs);
  const loadedBytes = residentBytes(service.pid);
  for (const lane of lanes) lane.close();
  const after = await watch(service.pid, effort);
  await service.stop();
  await receiver.stop();
  return { fresh, after, loadedBytes };
}

async function watch(pid: number, { settleMs, restMs }: Effort): Promise<Rest> {
  // The first seconds after a start or a load are of what those left to do.
  await sleep(settleMs);
  const [startMs, before] = [performance.now(), threadsOf(pid)];
  await sleep(restMs);
  const after = threadsOf(pid);
  const seconds = (performance.now() - startMs) / 1_000;
  return {
    residentBytes: residentBytes(pid),
    cpuMsPerSecond: (after.cpuMs - before.cpuMs) / seconds,
    wakesPerSecond: (after.wakes - before.wakes) / seconds,
  };
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
