/**
 * As much of the store as a year of guessing needs, in memory: the decisions are the real ones, and only what they load
 * and write is kept in maps. A run of a year takes a second here, and a minute on SQLite, where `npm run test:soak` has
 * the same figures come out.
 */
import { emptyHistory, type PhoneHistory } from "../../../src/otp/verification/policy.ts";
import { minuteOf, oldestMinute, type Guesses } from "../../../src/otp/verification/spraying.ts";
import { stateAt, type Verification } from "../../../src/otp/verification/verification.ts";
import type { PhoneView, Writes } from "../../../src/otp/decisions/writes.ts";
import type { Job, PhoneRef, Store } from "../../../src/store/store.ts";
import type { System } from "../../../src/system.ts";

type Kept = Pick<Store, "now" | "openVerification" | "updateVerification" | "claimFallbacks" | "nextDue">;

const keyOf = (index: Uint8Array = new Uint8Array()) => Buffer.from(index).toString("hex");
const dueOf = ({ fallback }: Verification) => fallback?.dueMs;
const laneOf = ({ indexes, knownUser }: PhoneRef) => `${keyOf(indexes[0])} ${knownUser}`;

/** Makes one for a service with one master key. Every other act of the port is a mistake here. */
export function createMemoryStore(system: System): Store {
  const verifications = new Map<string, Verification>();
  const live = new Map<string, Set<string>>();
  const tats = new Map<string, readonly number[]>();
  const histories = new Map<string, PhoneHistory>();
  const minutes = new Map<string, Map<number, Guesses>>();
  /** Verifications that owe a message by fallback. */
  const owing = new Set<Verification>();

  function phoneAt(ref: PhoneRef): PhoneView {
    const key = keyOf(ref.indexes[0]);
    const ids = live.get(key) ?? new Set();
    let openAttempts = 0;
    for (const id of ids) {
      const v = verifications.get(id);
      if (v !== undefined && stateAt(v, system.now()) === "PENDING") openAttempts += v.attemptsMax - v.attempts;
      else ids.delete(id);
    }
    const none = Array<number>(ref.buckets).fill(0);
    return { tats: tats.get(laneOf(ref)) ?? none, history: histories.get(key) ?? emptyHistory, openAttempts };
  }

  function guessesAt(tenant: string): Guesses {
    const sum = { wrong: 0, right: 0 };
    for (const [minute, { wrong, right }] of minutes.get(tenant) ?? []) {
      if (minute < oldestMinute(system.now())) minutes.get(tenant)?.delete(minute);
      else {
        sum.wrong += wrong;
        sum.right += right;
      }
    }
    return sum;
  }

  function apply(writes: Writes, ref: PhoneRef): void {
    const key = keyOf(ref.indexes[0]);
    if (writes.verification !== undefined) {
      const before = verifications.get(writes.verification.id);
      if (before !== undefined) owing.delete(before);
      verifications.set(writes.verification.id, writes.verification);
      if (typeof dueOf(writes.verification) === "number") owing.add(writes.verification);
      live.set(key, (live.get(key) ?? new Set()).add(writes.verification.id));
    }
    if (writes.tats !== undefined) tats.set(laneOf(ref), writes.tats);
    if (writes.history !== undefined) histories.set(key, writes.history);
    if (writes.guess !== undefined) {
      const { tenant, isRight } = writes.guess;
      const counts = minutes.get(tenant) ?? new Map<number, Guesses>();
      const minute = minuteOf(system.now());
      const { wrong, right } = counts.get(minute) ?? { wrong: 0, right: 0 };
      counts.set(minute, isRight ? { wrong, right: right + 1 } : { wrong: wrong + 1, right });
      minutes.set(tenant, counts);
    }
  }

  const kept: Kept = {
    now: () => system.now(),
    async openVerification({ tenant, phone: ref }, decide) {
      if (ref === undefined) throw new Error("a send without a phone is not for this store");
      const view = { now: system.now(), phone: phoneAt(ref), guesses: guessesAt(tenant) };
      const { writes, result } = decide(view);
      apply(writes, ref);
      return result;
    },
    async updateVerification({ tenant, id, phoneOf }, decide) {
      const found = verifications.get(id);
      if (found === undefined || found.tenant !== tenant) throw new Error("nobody asks for an unknown id here");
      const ref = phoneOf(found);
      const { writes, result } = decide({ now: system.now(), verification: found, phone: phoneAt(ref) });
      apply(writes, ref);
      return result;
    },
    async claimFallbacks(max, { phoneOf, decide }) {
      const jobs: Job[] = [];
      for (const verification of [...owing].filter((each) => (dueOf(each) ?? 0) <= system.now()).slice(0, max)) {
        const ref = phoneOf(verification);
        // Every message before it has arrived.
        const view = { now: system.now(), verification, message: undefined, phone: phoneAt(ref) };
        const { writes, result } = decide(view);
        apply(writes, ref);
        if (result !== undefined) jobs.push(result);
      }
      return jobs;
    },
    async nextDue() {
      return owing.size === 0 ? undefined : Math.min(...[...owing].map((each) => dueOf(each) ?? 0));
    },
  };
  return kept as Store;
}
