/**
 * Seeded chance with the few questions a simulation asks of it.
 */
import { seededRandom } from "../support/service/system.ts";

export class Chance {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  /** A whole number from 0 to `below` − 1. */
  below(below: number): number {
    return Math.floor(this.#random() * below);
  }

  /** True in `share` of the cases, 0 to 1. */
  happens(share: number): boolean {
    return this.#random() < share;
  }

  pick<T>(options: readonly T[]): T {
    const picked = options[this.below(options.length)];
    if (picked === undefined) throw new Error("nothing to pick from");
    return picked;
  }

  /** One of several, as often as its weight says. */
  weighted<T>(options: readonly (readonly [weight: number, option: T])[]): T {
    let left = this.#random() * options.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, option] of options) {
      left -= weight;
      if (left < 0) return option;
    }
    return this.pick(options)[1];
  }

  bytes(count: number): Uint8Array<ArrayBuffer> {
    return Uint8Array.from({ length: count }, () => this.below(256));
  }
}
