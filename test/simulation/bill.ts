/**
 * The SMS of each UTC day as a provider would bill them: every call counts that was not proven to have sent nothing. Under
 * a daily cap no day has more than the cap, and operators are warned of each share once a day.
 */
import type { Database } from "better-sqlite3";
import { hold } from "./violation.ts";

const dayMs = 86_400_000;

export class Bill {
  readonly #max: number | undefined;
  readonly #billed = new Map<number, number>();
  readonly #warned = new Set<string>();
  #late: string | undefined;

  constructor(max: number | undefined) {
    this.#max = max;
  }

  /** A call begins; what is returned is told once, if it is proven to have sent nothing. */
  called(now: number): () => void {
    const day = Math.floor(now / dayMs);
    const count = (this.#billed.get(day) ?? 0) + 1;
    this.#billed.set(day, count);
    hold(this.#max === undefined || count <= this.#max, "I17", `${count} SMS in a day, at a cap of ${this.#max}`);
    return () => void this.#billed.set(day, (this.#billed.get(day) ?? 0) - 1);
  }

  /** Operators are warned. A violation is kept for the next look: the product would catch it here. */
  warned(share: number, now: number): void {
    const name = `${share} % on day ${Math.floor(now / dayMs)}`;
    if (this.#warned.has(name)) this.#late = `operators are warned twice of ${name}`;
    this.#warned.add(name);
  }

  /** Compares what was billed with what the database counted, which is never less. */
  inspect(db: Database, now: number, isDisturbed: boolean): void {
    hold(this.#late === undefined, "I17", this.#late ?? "");
    const day = Math.floor(now / dayMs);
    const rows = db
      .prepare<unknown[], { count: number }>("SELECT count FROM counters WHERE kind = 'messages' AND day = ?")
      .all(day);
    const counted = rows.reduce((sum, { count }) => sum + count, 0);
    if (this.#max === undefined) return hold(rows.length === 0, "I17", "days are counted without a cap");
    const billed = this.#billed.get(day) ?? 0;
    hold(counted <= this.#max, "I17", `${counted} places of ${this.#max} are taken`);
    hold(billed <= counted, "I17", `${billed} SMS were sent on ${counted} places`);
    // A warning follows its commit, so a crash in between, or a store that is not heard of, takes it along.
    const isSilent = this.#warned.size === 0 && !isDisturbed;
    hold(counted * 100 < this.#max * 80 || !isSilent, "I17", "a cap was neared without a word");
  }
}
