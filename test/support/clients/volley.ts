/**
 * A volley: many calls fired at once from a process of its own, over all surfaces mixed and as many connections as told.
 * As a program it reads its orders from standard input and prints what came of every shot; `fireVolley` runs it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent } from "node:http";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import type { Database } from "../../../src/store/open.ts";
import { programAt } from "../processes/programs.ts";
import { callUntilReached, makeSurfaces, type Message, type Rpc } from "./surfaces.ts";

export interface Shot {
  readonly rpc: Rpc;
  readonly message: Message;
  readonly headers?: Record<string, string>;
}

export interface Orders {
  /** Where to; several are fired at in turn. */
  readonly url: string | readonly string[];
  readonly key: string;
  /** To each of them. A multiple of five: as many for each surface. */
  readonly connections: number;
  readonly shots: readonly Shot[];
  /** How many are under way at once; `underWayMax` unless given. */
  readonly atOnce?: number;
  /** What the instances stand on; SQLite unless given. On PostgreSQL a shot is fired again where that was out of reach. */
  readonly database?: Database["kind"];
}

/**
 * Each call has 15 s, and waits for all before it: with a thousand under way that is too little on a machine that answers
 * fifty a second, with 250 on one that answers fifteen. So many are two for each connection of most tests.
 */
export const underWayMax = 100;

/** What came of one shot. */
export interface Hit {
  readonly surface: string;
  /** The reason of the refusal, or "OK". */
  readonly outcome: string;
  readonly attemptsRemaining?: number;
  readonly requestId?: string;
  /** When it was fired and when it was answered, on the machine's monotonic clock, which is one for all processes. */
  readonly startMs: number;
  readonly endMs: number;
}

const monotonicMs = () => Number(process.hrtime.bigint()) / 1e6;

/** Fires all shots, in turn over every surface. */
async function fire({ url, key, connections, shots, atOnce = underWayMax, database }: Orders): Promise<Hit[]> {
  const urls = [url].flat();
  const barrels = Array.from({ length: connections / 5 }, () =>
    // An HTTP/1.1 surface keeps one connection per set, an HTTP/2 one too.
    urls.map((to) => makeSurfaces(new Agent({ keepAlive: true, maxSockets: 1 })).map((surface) => ({ surface, to }))),
  );
  // Neighbours in this list are of different instances.
  const inTurn = barrels.flatMap((sets) => (sets[0] ?? []).flatMap((_, at) => sets.flatMap((set) => set[at] ?? [])));
  // Every connection is open and in use before the first shot, or the first few calls would be alone.
  await Promise.all(inTurn.map(({ surface, to }) => surface.call(to, "GetOtp", { request_id: "warm" }, { key })));
  const fireOne = async ({ rpc, message, headers = {} }: Shot, at: number): Promise<Hit> => {
    const { surface, to } = inTurn[at % inTurn.length] ?? {};
    if (surface === undefined || to === undefined) throw new Error("a volley needs connections");
    const startMs = monotonicMs();
    const call = () => surface.call(to, rpc, message, { key, headers });
    const outcome = database === "postgres" ? await callUntilReached(call) : await call();
    const { value, reason, code, attemptsRemaining } = outcome;
    return {
      startMs,
      endMs: monotonicMs(),
      surface: surface.name,
      outcome: value === undefined ? (reason ?? `without a reason: ${code}`) : "OK",
      ...(attemptsRemaining === undefined ? {} : { attemptsRemaining }),
      ...(value === undefined ? {} : { requestId: String(value["request_id"]) }),
    };
  };
  const hits: Hit[] = [];
  let next = 0;
  const keepFiring = async () => {
    for (let at = next++; at < shots.length; at = next++) hits[at] = await fireOne(shots[at] as Shot, at);
  };
  await Promise.all(Array.from({ length: atOnce }, keepFiring));
  return hits;
}

/** Fires a volley from another process. */
export async function fireVolley(orders: Orders): Promise<Hit[]> {
  const child = spawn(process.execPath, [programAt("src/volley")], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify(orders));
  const [output] = await Promise.all([text(child.stdout), once(child, "close")]);
  if (child.exitCode !== 0) throw new Error(`the volley failed: ${output}`);
  return JSON.parse(output) as Hit[];
}

/** How many hits came to each outcome. */
export function tally(hits: readonly Hit[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcome } of hits) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const hits = await fire(JSON.parse(await text(process.stdin)) as Orders);
  process.stdout.write(JSON.stringify(hits), () => process.exit(0));
}
