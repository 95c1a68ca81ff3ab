/**
 * Four instances on one database, their clocks up to an hour off, fired at all at once: whatever is
 * limited is limited once, for all of them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import {
  codeIn,
  createDeployment,
  startCrashable,
  type Crashable,
  type Deployment,
} from "../support/processes/crashable.ts";
import { rowOf, select, stateNumbers } from "../support/databases/rows.ts";
import { dayMs, hourMs, minuteMs } from "../support/data/examples.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { callUntilReached, connectByFetch, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { fireVolley, tally, type Hit, type Shot } from "../support/clients/volley.ts";
import { attemptsModel, isLinearizable, type AttemptInput, type Operation } from "./linearizability.ts";

export const clocksAheadMs = [-hourMs, hourMs, -hourMs / 2, hourMs / 2];
const connectionsEach = 25;

export interface Cluster {
  readonly deployment: Deployment;
  readonly database: { readonly kind: "postgres"; readonly url: string };
  readonly instances: readonly Crashable[];
  /** Calls one instance, by the deployment's key unless another is given. */
  call(at: number, rpc: Rpc, message: Shot["message"], key?: string): Promise<Outcome>;
  /** Fires shots at all instances at once, in turn; hits come in the order of the shots. */
  fire(shots: readonly Shot[], key?: string): Promise<Hit[]>;
  stop(): Promise<void>;
}

/** Starts the instances on an empty database. The day's cap begins anew at midnight, so not right before that. */
export async function startCluster(folder: string, url: string, env: Record<string, string> = {}): Promise<Cluster> {
  while (Date.now() % dayMs > dayMs - 2 * minuteMs) await sleep(1_000);
  const deployment = await createDeployment(folder, url);
  const given = { OTP_SEND_WAIT_MS: "0", OTP_KEY_LIMIT: "none", ...env };
  const instances = await Promise.all(
    clocksAheadMs.map((aheadMs) => startCrashable(deployment, { ...given, CRASH_AHEAD_MS: `${aheadMs}` })),
  );
  const urlOf = (at: number) => instances[at % instances.length]?.url ?? "";
  return {
    deployment,
    database: { kind: "postgres", url },
    instances,
    call: (at, rpc, message, key = deployment.key) =>
      callUntilReached(() => connectByFetch.call(urlOf(at), rpc, message, { key })),
    fire: (shots, key = deployment.key) =>
      fireVolley({
        url: instances.map(({ url: to }) => to),
        key,
        connections: connectionsEach,
        shots,
        database: "postgres",
      }),
    async stop() {
      await Promise.all(instances.map((instance) => instance.killed()));
    },
  };
}

/** Sends a code through an instance, and waits for its SMS. */
export async function sendThrough(cluster: Cluster, at: number): Promise<{ id: string; code: string }> {
  const phone = newPhone();
  const { value } = await cluster.call(at, "SendOtp", { phone });
  const instance = cluster.instances[at % cluster.instances.length];
  await instance?.until(() => cluster.deployment.inbox.has(phone));
  return { id: String(value?.["request_id"]), code: codeIn(cluster.deployment.inbox.get(phone)?.[0] ?? "") };
}

/**
 * Fires `each` guesses at each of so many verifications, all at once: of every other one, one guess is right. Exactly five
 * are evaluated of those that no right one ends, and every history is that of one counter.
 */
export async function guessAtAll(cluster: Cluster, verifications: number, each: number): Promise<Hit[]> {
  const sent = await Promise.all(Array.from({ length: verifications }, (_, at) => sendThrough(cluster, at)));
  // Late enough to race with the lock, in some.
  const rightAt = (at: number) => (at % 2 === 0 ? undefined : at % 8);
  // Each round begins one further on, so that every instance has guesses at every verification.
  const shots = Array.from({ length: each * verifications }, (_, i) => {
    const number = Math.floor(i / verifications);
    const at = (i + number) % verifications;
    const { id, code } = sent[at] as { id: string; code: string };
    const typed = number === rightAt(at) ? code : wrongCode(code, number + 1);
    return { at, input: typed === code ? ("right" as const) : ("wrong" as const), id, typed };
  });
  const hits = await cluster.fire(
    shots.map(({ id, typed }) => ({ rpc: "VerifyOtp", message: { request_id: id, code: typed } })),
  );

  for (const [at, { id }] of sent.entries()) {
    const of = shots.flatMap((shot, i) => (shot.at === at ? [{ input: shot.input, hit: hits[i] as Hit }] : []));
    const wrong = of.filter(({ hit }) => hit.outcome === "CODE_MISMATCH").length;
    const right = of.filter(({ hit }) => hit.outcome === "OK").length;
    const { attempts, state } = await rowOf(cluster.database, id);
    expect(right, `successes of verification ${at}`).toBe(state === stateNumbers.VERIFIED ? 1 : 0);
    expect(wrong + right, `guesses evaluated of verification ${at}`).toBe(attempts);
    if (rightAt(at) === undefined) expect([attempts, state]).toEqual([5, stateNumbers.LOCKED]);
    else expect(attempts).toBeLessThanOrEqual(5);
    const name = state === stateNumbers.VERIFIED ? "VERIFIED" : "LOCKED";
    const history = [...of.map(({ input, hit }) => operationOf(input, hit)), lookAfter(hits, `${name} ${attempts}`)];
    const counted = history.filter(({ output }) => output?.startsWith("OTP_") !== true);
    expect(isLinearizable(attemptsModel(5), history), JSON.stringify(counted)).toBe(true);
  }
  return hits;
}

function operationOf(
  input: AttemptInput,
  { startMs, endMs, outcome, attemptsRemaining }: Hit,
): Operation<AttemptInput, string> {
  // Refused for want of room, most likely before it came to anything; nobody knows.
  if (outcome === "STORE_UNAVAILABLE") return { startMs, endMs: Number.POSITIVE_INFINITY, input, output: undefined };
  const output = outcome === "CODE_MISMATCH" ? `${outcome} ${attemptsRemaining}` : outcome;
  return { startMs, endMs, input, output };
}

function lookAfter(hits: readonly Hit[], output: string): Operation<AttemptInput, string> {
  const endMs = Math.max(...hits.map((hit) => hit.endMs));
  return { startMs: endMs, endMs: endMs + 1, input: "look", output };
}

/**
 * Sends to one phone beyond its limit, then to many beyond what is left of the day's cap: each is exact. Tells how many SMS
 * came in all.
 */
export async function sendToAll(
  cluster: Cluster,
  { onePhone, limit, manyPhones, dailyCap }: { onePhone: number; limit: number; manyPhones: number; dailyCap: number },
): Promise<number> {
  const phone = newPhone();
  const before = await messagesToday(cluster);
  const sends = await cluster.fire(Array.from({ length: onePhone }, () => ({ rpc: "SendOtp", message: { phone } })));
  expect(tally(sends)).toEqual({ OK: limit, PHONE_RATE_LIMITED: onePhone - limit });
  expect(await messagesToday(cluster)).toBe(before + limit);

  const left = dailyCap - before - limit;
  const others = Array.from({ length: manyPhones }, newPhone);
  const more = await cluster.fire(others.map((other) => ({ rpc: "SendOtp", message: { phone: other } })));
  expect(tally(more)).toEqual({ OK: left, SPEND_LIMIT: manyPhones - left });
  expect(await messagesToday(cluster)).toBe(dailyCap);
  const texts = () => [...cluster.deployment.inbox.values()].flat().length;
  await expect.poll(texts).toBe(dailyCap);
  return texts();
}

/** The messages that count under today's cap. */
async function messagesToday({ database }: Cluster): Promise<number> {
  const [row] = await select(
    database,
    `SELECT ((SELECT coalesce(sum(count), 0) FROM counters WHERE kind = 'messages')
      - (SELECT coalesce(sum(units), 0) FROM counter_lots))::int AS n`,
  );
  return Number(row?.["n"]);
}

/** The database's own time, in milliseconds. */
export async function databaseNow(cluster: Cluster): Promise<number> {
  const [row] = await select(cluster.database, "SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now_ms");
  return Number(row?.["now_ms"]);
}
