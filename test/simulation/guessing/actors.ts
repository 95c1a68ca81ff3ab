/**
 * The attacker on one phone, with every way he could go about it, and the owner of that phone. The attacker knows the
 * rules and all that he did himself; he sees no SMS.
 */
import { wrongCode } from "../../support/data/phones.ts";
import { seededRandom } from "../../support/service/system.ts";
import { hold } from "../violation.ts";
import { isOpened, startMs, type Actor, type World, type Opened } from "./world.ts";

const dayMs = 86_400_000;
const forgetDays = 90;
const lengthenFrom = 20;

/** What an attacker does about the lengthening of codes, and about time. */
export interface Way {
  /** On which days of the simulation he is at work. */
  readonly isAtWork: (day: number) => boolean;
  /** From which hour of those days on. */
  readonly fromHour: number;
  /** Stops one guess short of the longer codes and gives that request up, so that one more short code meets him. */
  readonly isThrifty: boolean;
  /** Opens all the requests he can before he guesses at any. */
  readonly opensFirst: boolean;
  /** Has each code sent again as often as that is allowed. */
  readonly resends: boolean;
  /** Keeps the last guess until so long after the send, by when every fallback of it has gone out. */
  readonly keepsLastMs?: number;
}

const always: Way = { isAtWork: () => true, fromHour: 0, isThrifty: true, opensFirst: false, resends: false };

/** By name, as docs/security.md calls them. */
export const ways = {
  steadily: always,
  // A burst at short codes, then 90 days of silence until it is forgotten; at the end nothing is left to wait for.
  "in bursts": { ...always, isAtWork: (day: number) => day % forgetDays === 0 || day >= 4 * forgetDays },
  // He leaves the mornings to the owner, who signs in then, verifies, and never learns of it.
  "around the owner": { ...always, fromHour: 12 },
  greedily: { ...always, isThrifty: false },
  "opening first": { ...always, isThrifty: false, opensFirst: true },
  "with resends": { ...always, resends: true },
  "around the fallbacks": { ...always, isThrifty: false, keepsLastMs: 61_000 },
} as const satisfies Record<string, Way>;

export type WayName = keyof typeof ways;

/** An attacker on one phone at one tenant, in the lanes that he has a way into. */
export class Attacker implements Actor {
  readonly #world: World;
  readonly #target: { readonly tenant: string; readonly phone: string };
  readonly #lanes: readonly boolean[];
  readonly #way: Way;
  /** His wrong codes, by day. */
  readonly #wrong = new Map<number, number>();
  #waiting: (() => Promise<number>) | undefined;

  constructor(
    world: World,
    target: { readonly tenant: string; readonly phone: string },
    wayName: WayName,
    hasFirstFactor = false,
  ) {
    this.#world = world;
    this.#target = target;
    this.#lanes = hasFirstFactor ? [false, true] : [false];
    this.#way = ways[wayName];
  }

  async act(): Promise<number> {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting !== undefined) return waiting();
    const { day, now, tomorrow } = this.#time();
    if (!this.#way.isAtWork(day)) return tomorrow;
    const fromMs = startMs + day * dayMs + this.#way.fromHour * 3_600_000;
    if (now < fromMs) return fromMs;
    const opened: Opened[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const knownUser of this.#lanes) {
      for (;;) {
        const answer = await this.#world.send("attacker", this.#target.tenant, this.#target.phone, knownUser);
        if (!isOpened(answer)) {
          next = Math.min(next, answer.reason === "PHONE_RATE_LIMITED" ? now + answer.retryAfterMs : tomorrow);
          break;
        }
        if (this.#way.keepsLastMs !== undefined) return this.#guessAround(answer, this.#way.keepsLastMs);
        if (this.#way.resends) return this.#resendThenGuess(answer, knownUser);
        if (this.#way.opensFirst) opened.push(answer);
        else await this.#guessAt(answer);
      }
    }
    for (const each of opened) await this.#guessAt(each);
    return next;
  }

  #time(): { day: number; now: number; tomorrow: number } {
    const day = this.#world.day();
    return { day, now: this.#world.now(), tomorrow: startMs + (day + 1) * dayMs };
  }

  async #resendThenGuess(opened: Opened, knownUser: boolean): Promise<number> {
    const [gapMs, ...gapsMs] = this.#world.policy.resendGapsMs;
    const again = async (leftMs: readonly number[]): Promise<number> => {
      await this.#world.resend(opened, this.#target.phone, knownUser);
      const [nextMs, ...restMs] = leftMs;
      if (nextMs !== undefined) {
        this.#waiting = () => again(restMs);
        return this.#world.now() + nextMs;
      }
      await this.#guessAt(opened);
      return this.#world.now();
    };
    this.#waiting = () => again(gapsMs);
    return this.#world.now() + (gapMs ?? 0);
  }

  /** Guesses all but once, and after a while as often as he is let. */
  async #guessAround(opened: Opened, waitMs: number): Promise<number> {
    const { attemptsMax } = this.#world.policy;
    const compared = await this.#world.guess(opened, attemptsMax - 1);
    this.#waiting = async () => {
      const more = await this.#world.guess(opened, attemptsMax, compared + 1);
      hold(compared + more === attemptsMax, "guesses", `${compared + more} of ${attemptsMax} were compared`);
      const { day } = this.#time();
      this.#wrong.set(day, (this.#wrong.get(day) ?? 0) + compared + more);
      return this.#world.now();
    };
    return this.#world.now() + waitMs;
  }

  async #guessAt(opened: Opened): Promise<void> {
    const { attemptsMax, codeLength } = this.#world.policy;
    const { day } = this.#time();
    const before = this.#remembered(day);
    const isLastShort =
      this.#way.isThrifty &&
      opened.digits === codeLength &&
      before < lengthenFrom - 1 &&
      before + attemptsMax >= lengthenFrom;
    const wanted = isLastShort ? lengthenFrom - 1 - before : attemptsMax;
    const compared = await this.#world.guess(opened, wanted);
    hold(compared === wanted, "guesses", `${compared} of ${wanted} were compared`);
    this.#wrong.set(day, (this.#wrong.get(day) ?? 0) + compared);
    if (isLastShort) await this.#world.cancel(opened);
  }

  #remembered(day: number): number {
    let sum = 0;
    for (const [at, count] of this.#wrong) if (at > day - forgetDays) sum += count;
    return sum;
  }
}

/**
 * An owner who signs in once a day, at about the same time. He takes up to nine minutes to type the code, mistypes on one
 * day in ten, and gives a request up after a wrong code on one in fifty. When the limits refuse him, since somebody else
 * has used them up, his application says that it knows him.
 */
export class Owner implements Actor {
  readonly #world: World;
  readonly #target: { readonly tenant: string; readonly phone: string };
  readonly #random = seededRandom(7);
  /** How often he signed in, and how often only as a known user. */
  readonly signIns = { all: 0, known: 0 };
  #reading: Opened | undefined;

  constructor(world: World, target: { readonly tenant: string; readonly phone: string }) {
    this.#world = world;
    this.#target = target;
  }

  async act(): Promise<number> {
    const opened = this.#reading;
    if (opened === undefined) return this.#ask();
    this.#reading = undefined;
    const isClumsy = this.#random() < 0.1;
    if (isClumsy) {
      hold(
        (await this.#world.type(opened, wrongCode(opened.code))) === "CODE_MISMATCH",
        "owner",
        "a typo is a wrong code",
      );
    }
    if (!isClumsy || this.#random() >= 0.2) {
      const result = await this.#world.typeRight(opened);
      hold(result === "verified", "admitted", `the owner's own code was told ${result}`);
    }
    const tomorrow = startMs + (this.#world.day() + 1) * dayMs;
    return tomorrow + 8 * 3_600_000 + Math.floor(this.#random() * 7_200_000);
  }

  async #ask(): Promise<number> {
    const { tenant, phone } = this.#target;
    for (const knownUser of [false, true]) {
      const answer = await this.#world.send("owner", tenant, phone, knownUser);
      if (!isOpened(answer)) {
        hold(!knownUser, "known user", `a known user was told ${answer.reason}`);
        continue;
      }
      this.signIns.all += 1;
      if (knownUser) this.signIns.known += 1;
      this.#reading = answer;
      break;
    }
    return this.#world.now() + Math.floor(this.#random() * 9 * 60_000);
  }
}
