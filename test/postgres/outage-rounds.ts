/**
 * The database goes away under load, in rounds: two instances serve many users through one proxy, the database crashes,
 * or its connections are cut, or the network swallows everything; then it is back. What callers were told is kept here,
 * outside of it all, and held against what the database and the phones have.
 */
import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { select, stateNumbers } from "../support/databases/rows.ts";
import {
  codeIn,
  createDeployment,
  startCrashable,
  type Crashable,
  type Deployment,
} from "../support/processes/crashable.ts";
import { wrongCode } from "../support/data/phones.ts";
import type { PostgresServer } from "../support/databases/postgres.ts";
import { startPostgresPair, type PostgresPair } from "../support/databases/standby.ts";
import { makeSurfaces, type Message, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { seededRandom } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { startTcpProxy, through, type TcpProxy } from "../support/network/tcp-proxy.ts";
import { attemptsModel, isLinearizable, type AttemptInput, type Operation } from "./linearizability.ts";

/**
 * How the database goes away: it crashes, it crashes for good and its standby takes its place, its connections are cut, or
 * nothing gets through.
 */
export type Outage = "crash" | "failover" | "cut" | "silence";

/** What goes away: one server, or a pair behind one address. */
export type Breakable = Pick<PostgresServer, "port" | "createDatabase" | "crash" | "startAgain">;

/** What the rounds came to. */
export interface Tally {
  rounds: number;
  calls: number;
  succeeded: number;
  /** Calls refused as UNAVAILABLE. */
  unavailable: number;
  /** Of those, sends and guesses that had taken effect all the same. */
  doneUnanswered: number;
  /** The longest that any call took, and that an instance took to its first success after the database was back. */
  longestCallMs: number;
  longestToSuccessMs: number;
}

interface Call {
  readonly instance: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly outcome: Outcome;
}

interface Guess extends Call {
  readonly input: "right" | "wrong";
}

/** One user: a send under an Idempotency-Key, then guesses from all sides, several at once. */
interface Session {
  readonly phone: string;
  readonly send: Call;
  readonly guesses: Guess[];
}

export const attemptsMax = 5;
const usersPerInstance = 6;
const guessesAtOnce = 3;
const guessesPerSession = 7;
/** A refused caller comes again so much later. */
const pauseMs = 100;
/** How long a silence may go unnoticed, and how long a call may take that comes while it is known. */
const noticedWithinMs = 2_500;
const refusedWithinMs = 1_000;
/** Calls of each instance that are served before the database goes away, and after it is back. */
const servedAround = 40;
const smsWithinMs = 1_000;
/** Connections are cut until so many calls have failed for it. */
const lostMin = 8;
/** When a database that is there, and serves nobody, is given up. */
const servedWithinMs = 120_000;

const idOf = ({ outcome }: Call) => outcome.value?.["request_id"] as string | undefined;

export interface ProxiedCluster {
  readonly server: Breakable;
  readonly proxy: TcpProxy;
  readonly deployment: Deployment;
  readonly instances: readonly Crashable[];
  stop(): Promise<void>;
}

/** Starts instances on a database of their own, behind a proxy. */
export async function startProxiedCluster(server: Breakable, folder: string, count = 2): Promise<ProxiedCluster> {
  const url = await server.createDatabase();
  const deployment = await createDeployment(folder, url);
  const proxy = await startTcpProxy(server.port);
  const instances = await Promise.all(
    Array.from({ length: count }, (_, i) =>
      startCrashable(deployment, {
        OTP_DATABASE_URL: through(proxy, url),
        OTP_SEND_WAIT_MS: i % 2 === 0 ? "0" : "2000",
        OTP_KEY_LIMIT: "none",
      }),
    ),
  );
  return {
    server,
    proxy,
    deployment,
    instances,
    async stop() {
      await Promise.all(instances.map((instance) => instance.killed()));
      await proxy.stop();
    },
  };
}

/** What the tests of a suite start clusters with, on a primary and its standby that are there for all of them. */
export function onPair(): (count?: number) => Promise<ProxiedCluster & { readonly pair: PostgresPair }> {
  const folder = temporaryFolder();
  let pair: PostgresPair;
  beforeAll(async () => {
    pair = await startPostgresPair();
  });
  afterAll(async () => {
    await pair.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  return async (count) => {
    const cluster = await startProxiedCluster(pair, folder, count);
    onTestFinished(() => cluster.stop());
    return { ...cluster, pair };
  };
}

let phones = 0;

/** Plays rounds of one kind of outage. Fails where a promise is broken. */
export async function playOutages(
  { server, proxy, deployment, instances }: ProxiedCluster,
  { kind, rounds, awayMs, seed }: { kind: Outage; rounds: number; awayMs: number; seed: number },
): Promise<Tally> {
  const random = seededRandom(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const surfaces = makeSurfaces();
  const tally: Tally = {
    rounds: 0,
    calls: 0,
    succeeded: 0,
    unavailable: 0,
    doneUnanswered: 0,
    longestCallMs: 0,
    longestToSuccessMs: 0,
  };
  const database = { kind: "postgres", url: deployment.databaseUrl } as const;

  async function ask(at: number, rpc: Rpc, message: Message, headers: Record<string, string> = {}): Promise<Call> {
    const instance = at % instances.length;
    const { url = "" } = instances[instance] ?? {};
    const surface = surfaces[below(surfaces.length)] ?? surfaces[0];
    if (surface === undefined) throw new Error("there are surfaces");
    const startMs = performance.now();
    expect(instances[instance]?.gone(), `instance ${instance} has died`).toBe(false);
    const outcome = await surface.call(url, rpc, message, { key: deployment.key, headers });
    const call = { instance, startMs, endMs: performance.now(), outcome };
    calls.push(call);
    return call;
  }
  let calls: Call[] = [];

  async function advance(at: number, sessions: Session[]): Promise<void> {
    const phone = `+3161${String(1_000_000 + ++phones)}`;
    const send = await ask(at, "SendOtp", { phone }, { "idempotency-key": phone });
    const session: Session = { phone, send, guesses: [] };
    sessions.push(session);
    const request_id = idOf(send);
    if (request_id === undefined) return sleep(pauseMs);
    for (let waited = 0; !deployment.inbox.has(phone) && waited < smsWithinMs; waited += 5) await sleep(5);
    const [text] = deployment.inbox.get(phone) ?? [];
    if (text === undefined) return;
    const code = codeIn(text);
    const rightAt = below(guessesPerSession + 2);
    const guess = async (number: number) => {
      const input = number === rightAt ? "right" : "wrong";
      const typed = input === "right" ? code : wrongCode(code, number + 1);
      const call = await ask(at + number, "VerifyOtp", { request_id, code: typed });
      session.guesses.push({ ...call, input });
    };
    for (let from = 0; from < guessesPerSession; from += guessesAtOnce) {
      const numbers = Array.from({ length: Math.min(guessesAtOnce, guessesPerSession - from) }, (_, i) => from + i);
      await Promise.all(numbers.map(guess));
      if (session.guesses.at(-1)?.outcome.code === "UNAVAILABLE") await sleep(pauseMs);
    }
  }

  /** Has the database go away and come back; resolves with the moment from which it was there again. */
  async function goAway(): Promise<number> {
    if (kind === "crash" || kind === "failover") {
      await server.crash();
      await sleep(awayMs);
      await server.startAgain();
    } else if (kind === "cut") {
      // A fast machine has few calls under way at any one moment.
      const lost = () => calls.filter(({ outcome }) => outcome.code === "UNAVAILABLE").length;
      do {
        proxy.cut();
        await sleep(10);
      } while (lost() < lostMin);
    } else {
      const fromMs = performance.now();
      proxy.swallow();
      await sleep(awayMs);
      // An instance that has not noticed keeps connections that are dead, and trips over them in the next round.
      const isRefused = (_: unknown, at: number) =>
        calls.some((call) => call.instance === at && call.endMs > fromMs && call.outcome.code === "UNAVAILABLE");
      await until(() => instances.every(isRefused), servedWithinMs);
      proxy.restore(() => random() < 0.5);
    }
    return performance.now();
  }

  const of = (at: number, since: number) =>
    calls.filter((call) => call.instance === at && call.startMs >= since && call.outcome.code !== "UNAVAILABLE");
  const isServedSince = (since: number) =>
    instances.every((_, at) => {
      const served = of(at, since);
      return served.length >= servedAround && served.some(isSuccess);
    });

  async function until(holds: () => boolean, withinMs: number): Promise<void> {
    for (const startMs = performance.now(); !holds() && performance.now() < startMs + withinMs;) await sleep(10);
  }

  async function playRound(): Promise<void> {
    calls = [];
    const sessions: Session[] = [];
    let isOver = false;
    const users = Array.from({ length: usersPerInstance * instances.length }, async (_, at) => {
      while (!isOver) await advance(at, sessions);
    });
    // A user who cannot reach an instance at all ends the round.
    const left = Promise.all(users);
    left.catch(() => {});
    await Promise.race([until(() => isServedSince(0), servedWithinMs), left]);
    const awayFrom = performance.now();
    const back = await goAway();
    await Promise.race([until(() => isServedSince(back), servedWithinMs), left]);
    isOver = true;
    await left;

    checkAnswers(awayFrom, back);
    await checkRepeats(sessions);
    const rows = await readRows();
    expect(rows.size, "verifications of all rounds").toBe(asked + sessions.length);
    asked = rows.size;
    for (const session of sessions) checkSession(session, rows);
    tally.rounds += 1;
  }

  /** Only UNAVAILABLE, only around the outage; and a success soon after it. */
  function checkAnswers(awayFrom: number, back: number): void {
    for (const { startMs, endMs, outcome } of calls) {
      tally.calls += 1;
      tally.longestCallMs = Math.max(tally.longestCallMs, endMs - startMs);
      if (outcome.value !== undefined) tally.succeeded += 1;
      else if (outcome.code === "UNAVAILABLE") {
        tally.unavailable += 1;
        expect(outcome.reason, JSON.stringify(outcome)).toBe("STORE_UNAVAILABLE");
        expect(outcome.http ?? 503).toBe(503);
        // On a starved machine the database may fall silent by itself.
        const wasSilent = proxy.pauses.some(({ fromMs, toMs }) => fromMs < endMs && toMs > startMs - noticedWithinMs);
        const told = { startMs, endMs, awayFrom, outcome, pauses: proxy.pauses.slice(-5) };
        const why = `refused while the database was there: ${JSON.stringify(told)}`;
        expect(endMs > awayFrom || wasSilent, why).toBe(true);
        // Where the outage is meant to be known, and not where the database only takes its time to come back.
        if (awayMs > noticedWithinMs && startMs > awayFrom + noticedWithinMs && endMs < back) {
          expect(endMs - startMs, "to a refusal in an outage that is known").toBeLessThan(refusedWithinMs);
        }
      } else expect(outcome.reason).toMatch(/^(CODE_MISMATCH|OTP_LOCKED|OTP_ALREADY_VERIFIED)$/);
    }
    for (const [at] of instances.entries()) {
      const tookMs =
        Math.min(
          ...of(at, back)
            .filter(isSuccess)
            .map(({ endMs }) => endMs),
        ) - back;
      tally.longestToSuccessMs = Math.max(tally.longestToSuccessMs, tookMs);
    }
  }

  /** A machine that is busy enough may take its own pause for a silence: asks again unchanged, as a client does. */
  async function askUntilServed(at: number, phone: string): Promise<Call> {
    for (const startMs = performance.now(); ;) {
      const call = await ask(at, "SendOtp", { phone }, { "idempotency-key": phone });
      const isToBeRetried = call.outcome.code === "UNAVAILABLE" || call.outcome.code === "ABORTED";
      if (!isToBeRetried || performance.now() > startMs + servedWithinMs) return call;
      await sleep(10);
    }
  }

  /** Every send is asked again under its key: whatever it was told before, it has had one effect. */
  async function checkRepeats(sessions: Session[]): Promise<void> {
    // A first call that was cut off is taken for under way for 20 s; nothing is under way here any more.
    await select(database, "UPDATE idempotency SET busy_until_ms = 0");
    const repeat = async ({ phone, send }: Session, at: number) => {
      const again = await askUntilServed(at, phone);
      const id = idOf(again);
      const replayed = again.outcome.headers.get("idempotency-replayed") === "true";
      expect(id, `${phone} again: ${again.outcome.message}`).toBeDefined();
      if (idOf(send) !== undefined)
        expect([id, replayed], `the acknowledged send to ${phone}`).toEqual([idOf(send), true]);
      else if (replayed) tally.doneUnanswered += 1;
    };
    await Promise.all(sessions.map(repeat));
  }

  /** What is in the database of each verification: its row, and how many messages are still owed. */
  async function readRows(): Promise<Map<string, Record<string, unknown>>> {
    const rows = await select(
      database,
      `SELECT id, attempts, state, (SELECT count(*) FROM messages WHERE verification_id = id AND due_ms IS NOT NULL) AS owed
       FROM verifications`,
    );
    return new Map(rows.map((row) => [(row["id"] as Buffer).toString("base64url"), row]));
  }

  function checkSession({ phone, send, guesses }: Session, rows: Map<string, Record<string, unknown>>): void {
    const id = idOf(send);
    if (id === undefined) return;
    const row = rows.get(id);
    expect(row, `the acknowledged verification of ${phone}`).toBeDefined();
    const texts = deployment.inbox.get(phone) ?? [];
    expect(texts.length + Number(row?.["owed"]), `texts to ${phone}, or still owed`).toBeGreaterThanOrEqual(1);
    expect(new Set(texts.map(codeIn)).size, `codes sent to ${phone}`).toBeLessThanOrEqual(1);

    const attempts = Number(row?.["attempts"]);
    const state = Object.entries(stateNumbers).find(([, number]) => number === Number(row?.["state"]))?.[0];
    const evaluated = guesses.filter(({ outcome }) => isEvaluated(outcome));
    expect(evaluated.length, `guesses of ${phone} that were evaluated`).toBeLessThanOrEqual(attemptsMax);
    expect(attempts).toBeLessThanOrEqual(attemptsMax);
    expect(evaluated.filter(({ outcome }) => outcome.value !== undefined).length, "successes").toBeLessThanOrEqual(1);
    tally.doneUnanswered += attempts - evaluated.length;
    const history = [...guesses.map(operationOf), look(`${state} ${attempts}`)];
    expect(isLinearizable(attemptsModel(attemptsMax), history), JSON.stringify(history)).toBe(true);
  }

  let asked = (await readRows()).size;
  for (let round = 0; round < rounds; round += 1) await playRound();
  return tally;
}

const isSuccess = ({ outcome }: Call) => outcome.value !== undefined;
const isEvaluated = ({ value, reason }: Outcome) => value !== undefined || reason === "CODE_MISMATCH";

/** A guess as the checker of histories takes it. */
export function operationOf({ startMs, endMs, input, outcome }: Guess): Operation<AttemptInput, string> {
  const { value, reason, attemptsRemaining } = outcome;
  if (value !== undefined) return { startMs, endMs, input, output: "OK" };
  if (outcome.code === "UNAVAILABLE") return { startMs, endMs: Number.POSITIVE_INFINITY, input, output: undefined };
  return { startMs, endMs, input, output: reason === "CODE_MISMATCH" ? `${reason} ${attemptsRemaining}` : `${reason}` };
}

/** What the row says once everything is over. */
export function look(output: string): Operation<AttemptInput, string> {
  const now = performance.now();
  return { startMs: now, endMs: now, input: "look", output };
}
