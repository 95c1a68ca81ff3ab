/**
 * Rows of the last moments: what acts have just read or written, so that the next act on the same row need not ask SQLite
 * for it. A send, what its provider says and often its verify are three acts on one row within a second.
 *
 * They hold as long as nobody else writes and nothing is taken back. So they are all forgotten when another process has
 * written, and when a batch or an act of it is rolled back (group-commit.ts). Only acts look here, which run one after the
 * other within a transaction; a plain read asks the database.
 */
export class Recent<Row> {
  readonly #rows = new Map<string, Row>();
  readonly #max: number;

  /** Keeps at most `max` rows, and lets go of the one that came first. */
  constructor(max: number) {
    this.#max = max;
  }

  get(key: string): Row | undefined {
    return this.#rows.get(key);
  }

  set(key: string, row: Row): void {
    if (this.#rows.size >= this.#max && !this.#rows.has(key)) {
      for (const first of this.#rows.keys()) {
        this.#rows.delete(first);
        break;
      }
    }
    this.#rows.set(key, row);
  }

  delete(key: string): void {
    this.#rows.delete(key);
  }

  clear(): void {
    this.#rows.clear();
  }
}
