/**
 * Rows of one kind within a transaction: as they are now, and which of them have to be written.
 */
export class ChangeSet<Row> {
  readonly #rows = new Map<string, Row>();
  readonly #changed = new Set<string>();

  load(key: string, row: Row): void {
    this.#rows.set(key, row);
  }

  get(key: string): Row | undefined {
    return this.#rows.get(key);
  }

  put(key: string, row: Row): void {
    this.#rows.set(key, row);
    this.#changed.add(key);
  }

  remove(key: string): void {
    this.#rows.delete(key);
    this.#changed.add(key);
  }

  /** The rows that are to be written, and the keys of those that are to be deleted. */
  changes(): { written: Row[]; deleted: string[] } {
    const written: Row[] = [];
    const deleted: string[] = [];
    for (const key of this.#changed) {
      const row = this.#rows.get(key);
      if (row === undefined) deleted.push(key);
      else written.push(row);
    }
    return { written, deleted };
  }
}
