/**
 * Section "memory": what a request in flight holds. A provider that does not answer keeps sends waiting: at once they hold a
 * connection, a call, a verification that is owed a message, and a place in the worker's queue.
 */
import type { Effort } from "../effort.ts";
import { amount, range, type Findings } from "../findings.ts";
import { driveClosed, openClient } from "../drive/load.ts";
import { median } from "../drive/measure.ts";
import { randomPhone } from "../drive/phones.ts";
import { cpuMicros, residentBytes, type Server } from "../drive/processes.ts";
import { prepareSqlite, type Place } from "../drive/prepared.ts";
import { restLane, sendOver, startService } from "../drive/targets.ts";

/** Per connection or request, in bytes. */
interface Held {
  readonly idle: number;
  readonly request: number;
  /** Of the request, what is live on the heap. */
  readonly live: number;
}

/** A server is at rest when it takes less than this of a core. What it is asked comes within the first look or two. */
const [restShare, lookMs] = [0.05, 300];
/** Providers are given up on after 5 s: what is measured must be measured before. */
const restMaxMs = 4_000;

export async function memory(place: Place, effort: Effort): Promise<Findings> {
  const all: Held[] = [];
  for (let i = 0; i < effort.processes; i += 1) all.push(await held(place, effort, i));
  const request = median(all.map((each) => each.request));
  const row = (what: string, figure: (each: Held) => number) => {
    const values = all.map((each) => figure(each) / 1e3);
    return [what, amount(median(values), 1), range(values, 1)];
  };
  return {
    tables: [
      {
        title: "Memory per request in flight",
        note: [
          `${amount(effort.hanging)} sends that wait for a provider, of the 1,024 calls that the service takes at a time; the growth of its resident`,
          "memory after a full garbage collection, divided by their number. Each run is a process of its own that has been warm.",
        ].join("\n"),
        head: ["", "KB", "range"],
        rows: [
          row("an idle connection", (each) => each.idle),
          row("a request in flight on it", (each) => each.request),
          row("of that, live on the heap", (each) => each.live),
          row("both", (each) => each.idle + each.request),
        ],
      },
    ],
    figures: { memory: request / 1e3 },
  };
}

async function held(place: Place, { connections, hanging, warmUpMs }: Effort, run: number): Promise<Held> {
  const prepared = await prepareSqlite(place, `memory-${run}`);
  const env = { OTP_SEND_WAIT_MS: "10000" };
  const server = await startService(place, prepared, {}, env, { nodeArgs: ["--expose-gc"] });
  const lanes = Array.from({ length: connections }, () => restLane(server, prepared.key, place.codes));
  await driveClosed(lanes, warmUpMs);
  for (const lane of lanes) lane.close();

  const before = await settled(server);
  const clients = Array.from({ length: hanging }, () => openClient(server.port, prepared.key));
  // A read of nothing, so that each connection has carried a call.
  await Promise.all(clients.map((client) => client.get("/v1/otp/AAAAAAAAAAAAAAAAAAAAAA")));
  const idle = await settled(server);
  server.tell("hold");
  const answers = clients.map((client) => sendOver(client, randomPhone()));
  const busy = await settled(server);
  server.tell("release");
  await Promise.all(answers);
  for (const client of clients) client.close();
  await server.stop("SIGKILL");
  return {
    idle: (idle.resident - before.resident) / hanging,
    request: (busy.resident - idle.resident) / hanging,
    live: (busy.live - idle.live) / hanging,
  };
}

/** What a server holds once all is at rest and the garbage is collected, in bytes. */
async function settled(server: Server): Promise<{ resident: number; live: number }> {
  const startMs = performance.now();
  for (let isAtRest = false; !isAtRest && performance.now() - startMs < restMaxMs;) {
    const [beforeMs, before] = [performance.now(), cpuMicros(server.pid)];
    await new Promise((resolve) => setTimeout(resolve, lookMs));
    isAtRest = (cpuMicros(server.pid) - before) / 1e3 < (performance.now() - beforeMs) * restShare;
  }
  const { liveBytes } = await server.ask<{ liveBytes: number }>("settle");
  return { resident: residentBytes(server.pid), live: liveBytes };
}
