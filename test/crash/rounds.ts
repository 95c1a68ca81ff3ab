/**
 * kill −9 under load, in rounds: the service serves many users at once, is killed at a moment that a seed chooses, is
 * started again on the same files, and what is there is held against what was acknowledged before. Every call carries an
 * Idempotency-Key, so that what was left without an answer can be asked again, and must have one effect in all.
 *
 * The acknowledgements and the SMS are kept in this process, which lives on. kill −9 does not see a missing fsync, since
 * the machine lives on as well: synchronous=OFF would pass here, and durability has a test of its own.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { dueIn, readBook } from "../support/databases/book.ts";
import {
  codeIn,
  createDeployment,
  startCrashable,
  type Answered,
  type Crashable,
  type Deployment,
} from "../support/processes/crashable.ts";
import { wrongCode } from "../support/data/phones.ts";
import { seededRandom } from "../support/service/system.ts";

/** What the rounds came to, to show that there was something to lose. */
export interface Tally {
  rounds: number;
  acknowledged: number;
  unanswered: number;
  sms: number;
  redelivered: number;
  successes: number;
}

/** One call of a user, and the answer that came before the kill. */
interface Call {
  readonly path: string;
  readonly body: Record<string, unknown>;
  readonly key: string;
  answered: Answered | undefined;
}

/** One user: a send, then guesses, the right code among them or not. */
interface Session {
  readonly phone: string;
  readonly send: Call;
  readonly guesses: Call[];
  hasRight: boolean;
}

const usersAtOnce = 24;
const leaseAndWaitMs = 31_000;
/** Beyond the two calls that one run of the service makes at most, one for each kill. */
const smsMax = 3;

export async function runRounds(folder: string, rounds: number, seed: number): Promise<Tally> {
  const random = seededRandom(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const deployment = await createDeployment(folder);
  const tally: Tally = { rounds: 0, acknowledged: 0, unanswered: 0, sms: 0, redelivered: 0, successes: 0 };
  let providerCalls = 0;
  // Every tenth call ends without an answer that tells anything: the SMS is there, and is sent once more. More of them
  // would open the circuit breaker. Every eighth takes its time, and is likely to be under way at the kill.
  const busyNetwork = async (): Promise<SendOutcome> => {
    providerCalls += 1;
    const isLost = providerCalls % 10 === 0;
    if (providerCalls % 8 === 0) await sleep(below(100));
    return isLost ? { kind: "ambiguous", detail: "the answer was lost" } : { kind: "accepted" };
  };
  const calmNetwork = (): SendOutcome => ({ kind: "accepted" });
  let phones = 0;

  async function ask(service: Crashable, call: Call): Promise<void> {
    call.answered = await service.call(call.path, call.body, call.key);
    if (call.answered !== undefined) deployment.onEvent();
  }

  /** A user's whole visit, cut short wherever the process dies. */
  async function advance(service: Crashable, session: Session): Promise<void> {
    await ask(service, session.send);
    const request_id = session.send.answered?.body["request_id"];
    if (request_id === undefined) return;
    try {
      await service.until(() => deployment.inbox.has(session.phone));
    } catch {
      return;
    }
    const code = codeIn(deployment.inbox.get(session.phone)?.[0] ?? "");
    const wrong = below(3);
    const right = below(4) > 0;
    for (let guess = 0; guess < wrong + Number(right) && !service.gone(); guess += 1) {
      const isRight = guess === wrong;
      const call: Call = {
        path: "/v1/otp/verify",
        body: { request_id, code: isRight ? code : wrongCode(code, guess + 1) },
        key: `${session.phone}-guess-${guess}`,
        answered: undefined,
      };
      session.guesses.push(call);
      session.hasRight = isRight;
      await ask(service, call);
      if (call.answered === undefined) return;
    }
  }

  /** Users come until the process is gone. Resolves with all their visits. */
  async function load(service: Crashable): Promise<Session[]> {
    const sessions: Session[] = [];
    const user = async () => {
      while (!service.gone()) {
        const phone = `+3161${String(++phones).padStart(7, "0")}`;
        const send: Call = { path: "/v1/otp/send", body: { phone }, key: `${phone}-send`, answered: undefined };
        const session: Session = { phone, send, guesses: [], hasRight: false };
        sessions.push(session);
        await advance(service, session);
        if (session.send.answered === undefined) return;
      }
    };
    const eventsLeft = { count: 60 + below(300) };
    const extraMicroseconds = below(3_000);
    const killed = new Promise<void>((resolve, reject) => {
      deployment.onEvent = () => {
        eventsLeft.count -= 1;
        if (eventsLeft.count !== 0) return;
        deployment.onEvent = () => {};
        // Not in step with the answer that was just seen.
        const until = performance.now() + extraMicroseconds / 1_000;
        while (performance.now() < until);
        service.killed().then(resolve, reject);
      };
    });
    await Promise.all([killed, ...Array.from({ length: usersAtOnce }, user)]);
    return sessions;
  }

  /** Before anything is asked again: what was acknowledged is there, and nothing is there that was not asked for. */
  function checkKept(deploymentNow: Deployment, sessions: readonly Session[]): void {
    const { entries } = readBook(deploymentNow.databasePath);
    for (const { send, guesses } of sessions) {
      const id = send.answered?.body["request_id"];
      if (send.answered === undefined) continue;
      expect(send.answered, send.key).toMatchObject({ status: 200, replayed: false });
      const entry = entries.get(String(id));
      expect(entry, `the acknowledged ${send.key}`).toBeDefined();
      const counted = guesses.filter(({ answered }) => answered !== undefined);
      expect(entry?.attempts, send.key).toBeGreaterThanOrEqual(counted.length);
      expect(entry?.attempts, send.key).toBeLessThanOrEqual(guesses.length);
      if (counted.some(({ answered }) => answered?.status === 200)) expect(entry?.state, send.key).toBe("VERIFIED");
    }
  }

  /** Asks everything again under the same keys. Answers are what they were, and the whole had one effect. */
  async function checkRepeats(service: Crashable, session: Session): Promise<string> {
    const again = await service.call(session.send.path, session.send.body, session.send.key);
    const id = String(again?.body["request_id"]);
    expect(again?.status, session.send.key).toBe(200);
    const { answered } = session.send;
    if (answered !== undefined) {
      expect(again?.replayed, session.send.key).toBe(true);
      expect(id, session.send.key).toBe(answered.body["request_id"]);
    }
    let successes = 0;
    for (const call of session.guesses) {
      const repeated = await service.call(call.path, call.body, call.key);
      expect(repeated, call.key).toBeDefined();
      if (call.answered !== undefined) {
        expect(repeated, call.key).toMatchObject({ status: call.answered.status, replayed: true });
        expect(repeated?.body["reason"], call.key).toBe(call.answered.body["reason"]);
      }
      for (const answer of [call.answered, repeated]) {
        if (answer?.status === 200 && !answer.replayed) successes += 1;
        else if (answer?.status !== undefined && answer.status !== 200) {
          expect(answer.body["reason"], call.key).toBe("CODE_MISMATCH");
        }
      }
    }
    // A success whose answer was lost is told again as a repeat; told afresh it is told once.
    expect(successes, session.send.key).toBeLessThanOrEqual(session.hasRight ? 1 : 0);
    if (session.hasRight) {
      const last = session.guesses.at(-1);
      const without = await service.call("/v1/otp/verify", last?.body);
      expect(without?.body["reason"], session.send.key).toBe("OTP_ALREADY_VERIFIED");
      tally.successes += 1;
    }
    return id;
  }

  function checkWhole(
    deploymentNow: Deployment,
    sessions: readonly Session[],
    ids: readonly string[],
    rowsBefore: number,
  ): void {
    const book = readBook(deploymentNow.databasePath);
    expect(book.integrity).toBe("ok");
    expect(book.entries.size - rowsBefore, "verifications of this round").toBe(sessions.length);
    expect(new Set(ids).size, "requests of this round").toBe(sessions.length);
    for (const [i, session] of sessions.entries()) {
      const entry = book.entries.get(ids[i] ?? "");
      expect(entry, session.phone).toMatchObject({
        state: session.hasRight ? "VERIFIED" : "PENDING",
        attempts: session.guesses.length,
        hasSalt: !session.hasRight,
      });
      const texts = deploymentNow.inbox.get(session.phone) ?? [];
      expect(texts.length, session.phone).toBeGreaterThanOrEqual(1);
      expect(texts.length, session.phone).toBeLessThanOrEqual(smsMax);
      expect(new Set(texts.map(codeIn)).size, `codes sent to ${session.phone}`).toBe(1);
      tally.sms += texts.length;
      if (texts.length > 1) tally.redelivered += 1;
    }
  }

  // Answering before and after the provider has its turn: both have something to lose at different moments.
  const envOf = (round: number) => ({ OTP_SEND_WAIT_MS: round % 2 === 0 ? "0" : "2000" });
  let service = await startCrashable(deployment, envOf(0));
  for (let round = 0; round < rounds; round += 1) {
    const rowsBefore = readBook(deployment.databasePath).entries.size;
    deployment.respond = busyNetwork;
    const sessions = await load(service);
    deployment.respond = calmNetwork;
    checkKept(deployment, sessions);
    const verified = sessions.filter(({ guesses }) => guesses.at(-1)?.answered?.status === 200);
    const sentBefore = new Map(verified.map(({ phone }) => [phone, deployment.inbox.get(phone)?.length]));

    deployment.aheadMs += leaseAndWaitMs;
    service = await startCrashable(deployment, envOf(round + 1));
    await service.until(() => dueIn(deployment.databasePath) === 0);
    const now = service;
    const ids = await Promise.all(sessions.map((session) => checkRepeats(now, session)));
    await service.until(() => dueIn(deployment.databasePath) === 0);
    checkWhole(deployment, sessions, ids, rowsBefore);
    for (const { phone } of verified) expect(deployment.inbox.get(phone)?.length, phone).toBe(sentBefore.get(phone));

    const calls = sessions.flatMap(({ send, guesses }) => [send, ...guesses]);
    tally.rounds += 1;
    tally.acknowledged += calls.filter(({ answered }) => answered !== undefined).length;
    tally.unanswered += calls.filter(({ answered }) => answered === undefined).length;
  }
  await service.killed();
  return tally;
}
