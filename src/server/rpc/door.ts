/**
 * How calls are let in. Each call that is worked on has a place. When all places are taken further calls are refused,
 * since a server that takes on too much serves nobody. A call that waits for its client to send must not keep others
 * from being served, so it lends its place meanwhile. A stop waits for every call that is not over, with a place or
 * without.
 *
 * Before the places is the door, where calls wait whose key is yet to be looked up. A few are begun in each turn of the
 * event loop, and a few keys are looked up at once. In overload hundreds of requests are ready together. If all began
 * together, the event loop would do nothing else for a tenth of a second. Nobody would be refused meanwhile, and no
 * connection taken: it takes one a turn, and with 320 callers the last one waited for 10 s. To begin a few at a time costs
 * nothing: a transaction for more of them is hardly cheaper for each.
 *
 * Calls wait by their address, and addresses take turns: one's crowd never stands before another's first call. A secret
 * key that was valid lately goes before all of them, but leaves them some.
 */

export interface DoorLimits {
  /** Calls begun in one turn of the event loop. */
  readonly perTurn: number;
  /** Calls that are looked at at once; as many again of known callers. */
  readonly looksMax: number;
  readonly knownLooksMax: number;
  /** Calls that wait, of known callers and of all others. */
  readonly waitingMax: number;
}

/** Who waits: somebody whose secret key was valid lately, or somebody else. */
export type Waiting = { readonly isKnown: true } | Other;

interface Other {
  readonly isKnown: false;
  /** Undefined for all whose address many have. */
  readonly address: string | undefined;
  /** What it came by; undefined where nothing tells those of an address apart. */
  readonly connection?: object | undefined;
}

/** Tells that a call was looked at. Safe to run once. */
export type Looked = () => void;

export interface Door {
  /**
   * Lets a call be looked at, now or later; undefined, at once or later, where too many wait. `waiting` is asked only of
   * one that cannot be looked at now.
   */
  enter(waiting: () => Waiting): Looked | Promise<Looked | undefined>;
}

type Answer = (looked: Looked | undefined) => void;

/** One of an address's that wait. */
interface Waiter {
  readonly connection: object | undefined;
  readonly answer: Answer;
}

/** What is left to others of a turn in which known callers wait: a quarter. */
const othersPart = 1 / 4;

/** `isPutOff` tells that nothing is to be begun in this turn; true is not to be told for ever. */
export function createDoor(
  { perTurn, looksMax, knownLooksMax, waitingMax }: DoorLimits,
  isPutOff: () => boolean = () => false,
): Door {
  const known: Answer[] = [];
  const others = createOthers(waitingMax);
  let looks = 0;
  let knownLooks = 0;
  const turns = createTurns(perTurn, onTurn, isPutOff);

  const looked: Looked = () => {
    looks -= 1;
    if (others.count > 0) turns.schedule();
  };
  const lookedAtKnown: Looked = () => {
    knownLooks -= 1;
    if (known.length > 0) turns.schedule();
  };

  function onTurn(atMost: number): number {
    const forOthers = Math.min(Math.ceil(atMost * othersPart), others.count, looksMax - looks);
    const next = known.splice(0, Math.max(0, Math.min(atMost - forOthers, knownLooksMax - knownLooks)));
    knownLooks += next.length;
    for (const answer of next) answer(lookedAtKnown);
    let begun = next.length;
    for (; begun < atMost && looks < looksMax && others.count > 0; begun += 1) {
      const answer = others.take();
      if (answer === undefined) break;
      looks += 1;
      answer(looked);
    }
    return begun;
  }

  return {
    enter(waiting) {
      if (looks < looksMax && known.length === 0 && others.count === 0 && turns.take()) {
        looks += 1;
        return looked;
      }
      turns.schedule();
      const who = waiting();
      if (!who.isKnown) return others.add(who);
      if (known.length >= waitingMax) return Promise.resolve(undefined);
      return new Promise((resolve) => known.push(resolve));
    },
  };
}

/** Those who wait and are not known, by their addresses. */
function createOthers(waitingMax: number) {
  /** The next address's turn comes first. */
  const byAddress = new Map<string | undefined, Waiter[]>();

  /**
   * Sends one away of the address that has the most, and of these the last of the connection that has the most. False
   * where that would be the newcomer.
   */
  function makeRoom({ address, connection }: Other): boolean {
    const own = byAddress.get(address) ?? [];
    let of = address;
    let longest = own;
    for (const [each, queue] of byAddress) if (queue.length > longest.length) [of, longest] = [each, queue];
    const leaver = longest === own ? largerThan(own, connection) : lastOfLargest(longest);
    if (leaver === undefined) return false;
    longest.splice(longest.lastIndexOf(leaver), 1);
    if (longest.length === 0) byAddress.delete(of);
    others.count -= 1;
    leaver.answer(undefined);
    return true;
  }

  const others = {
    /** How many wait. */
    count: 0,
    /** Resolves when its turn comes; with undefined for one that is sent away. */
    add(who: Other): Promise<Looked | undefined> {
      if (others.count >= waitingMax && !makeRoom(who)) return Promise.resolve(undefined);
      const queue = byAddress.get(who.address) ?? [];
      byAddress.set(who.address, queue);
      others.count += 1;
      return new Promise((answer) => queue.push({ connection: who.connection, answer }));
    },
    /** Takes the first one of the address whose turn it is, which is last from now on. */
    take(): Answer | undefined {
      const [first] = byAddress;
      if (first === undefined) return undefined;
      const [address, queue] = first;
      const waiter = queue.shift();
      byAddress.delete(address);
      if (queue.length > 0) byAddress.set(address, queue);
      others.count -= 1;
      return waiter?.answer;
    },
  };
  return others;
}

/** The last one of the connection that has the most of a queue. */
function lastOfLargest(queue: readonly Waiter[], atLeast = 1): Waiter | undefined {
  const last = new Map<object | undefined, { waiter: Waiter; count: number }>();
  for (const waiter of queue)
    last.set(waiter.connection, { waiter, count: (last.get(waiter.connection)?.count ?? 0) + 1 });
  let largest: { readonly waiter?: Waiter; readonly count: number } = { count: atLeast - 1 };
  for (const each of last.values()) if (each.count > largest.count) largest = each;
  return largest.waiter;
}

/** The same, if that connection would have more than a newcomer's. */
function largerThan(queue: readonly Waiter[], newcomer: object | undefined): Waiter | undefined {
  return lastOfLargest(queue, queue.filter(({ connection }) => connection === newcomer).length + 2);
}

// ---- places ---------------------------------------------------------------------------------------------------------

/** What one call holds. It begins without a place. */
export interface Place {
  isHeld: boolean;
  isOver: boolean;
}

/** `max` calls at once. */
export class Places {
  /** True from `drain` on. */
  isDraining = false;
  readonly #max: number;
  #taken = 0;
  #underWay = 0;
  #drained = () => {};

  constructor(max: number) {
    this.#max = max;
  }

  begin(): Place {
    this.#underWay += 1;
    return { isHeld: false, isOver: false };
  }

  isFull(): boolean {
    return this.#taken >= this.#max;
  }

  /** Takes a place for a call, unless it has one; false where there is none. */
  take(place: Place): boolean {
    if (place.isHeld) return true;
    if (this.#taken >= this.#max) return false;
    this.#taken += 1;
    place.isHeld = true;
    return true;
  }

  /** Gives a call's place to others while its client has yet to send. */
  lend(place: Place): void {
    if (place.isHeld) this.#taken -= 1;
    place.isHeld = false;
  }

  /** The call is over. Safe to repeat. */
  end(place: Place): void {
    if (place.isOver) return;
    place.isOver = true;
    this.lend(place);
    this.#underWay -= 1;
    if (this.isDraining && this.#underWay === 0) this.#drained();
  }

  /** Resolves when the last call is over. */
  drain(): Promise<void> {
    this.isDraining = true;
    return this.#underWay === 0 ? Promise.resolve() : new Promise((resolve) => (this.#drained = resolve));
  }
}

// ---- turns ----------------------------------------------------------------------------------------------------------

/** Turns of the event loop: what many ask for at once is begun a few at a time, and all else has its turn in between. */
export interface Turns {
  /** Has what waits begun in the next turn. */
  schedule(): void;
  /** Whether one more may begin in this turn, which counts it. Whoever keeps order asks only when nobody waits. */
  take(): boolean;
}

/** At most `perTurn` a turn. `begin` begins at most so many of those that wait, and returns how many. */
export function createTurns(
  perTurn: number,
  begin: (atMost: number) => number,
  isPutOff: () => boolean = () => false,
): Turns {
  let begun = 0;
  let isScheduled = false;

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(onTurn);
  }

  function onTurn(): void {
    isScheduled = false;
    if (isPutOff()) return schedule();
    begun = begin(perTurn);
    // Once more, if only to know that a turn has passed.
    if (begun > 0) schedule();
  }

  return {
    schedule,
    take() {
      schedule();
      if (begun >= perTurn || isPutOff()) return false;
      begun += 1;
      return true;
    },
  };
}
