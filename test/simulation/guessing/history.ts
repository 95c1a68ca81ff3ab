/**
 * What a phone's guess budget follows from, kept a second time and in another way than the product keeps it: wrong codes
 * by request and by day, and the requests that are still open. From it comes the length that the next code must have.
 */
import type { Policy } from "../../../src/otp/verification/policy.ts";

interface Request {
  readonly phone: Phone;
  readonly createMs: number;
  readonly wrongDays: number[];
  isOver: boolean;
}

interface Phone {
  readonly wrongByDay: Map<number, number>;
  live: Request[];
}

const dayMs = 86_400_000;
const forgetDays = 90;

export class History {
  readonly #requests = new Map<string, Request>();
  readonly #phones = new Map<string, Phone>();

  opened(id: string, name: string, now: number): void {
    const phone = this.#phoneOf(name);
    const request: Request = { phone, createMs: now, wrongDays: [], isOver: false };
    this.#requests.set(id, request);
    phone.live.push(request);
  }

  wrong(id: string, now: number): void {
    const request = this.#requests.get(id);
    if (request === undefined) return;
    const day = Math.floor(now / dayMs);
    request.wrongDays.push(day);
    const { wrongByDay } = request.phone;
    wrongByDay.set(day, (wrongByDay.get(day) ?? 0) + 1);
  }

  /** Its wrong codes are forgiven if it was verified. */
  ended(id: string, isVerified: boolean): void {
    const request = this.#requests.get(id);
    if (request === undefined) return;
    request.isOver = true;
    const { wrongByDay } = request.phone;
    if (isVerified) for (const day of request.wrongDays) wrongByDay.set(day, (wrongByDay.get(day) ?? 0) - 1);
  }

  /** The length of the next code by the phone's past alone. */
  digitsDue(name: string, policy: Policy, now: number): number {
    const { codeLength, codeLengthMax, guessPolicy, ttlMs, attemptsMax } = policy;
    if (guessPolicy === "strict") return codeLength;
    const phone = this.#phoneOf(name);
    phone.live = phone.live.filter(({ isOver, createMs }) => !isOver && now < createMs + ttlMs);
    let guesses = 0;
    for (const { wrongDays } of phone.live) guesses += attemptsMax - wrongDays.length;
    for (const [day, count] of phone.wrongByDay) if (day > Math.floor(now / dayMs) - forgetDays) guesses += count;
    const wanted = guesses >= 100 ? 10 : guesses >= 20 ? 8 : 6;
    return Math.max(codeLength, Math.min(wanted, codeLengthMax));
  }

  #phoneOf(name: string): Phone {
    const known = this.#phones.get(name) ?? { wrongByDay: new Map<number, number>(), live: [] };
    this.#phones.set(name, known);
    return known;
  }
}
