/**
 * Reads that many calls ask for at once. Some are of what anybody can ask for, and of any number of things: an origin by a
 * preflight, a key by making up its id. If each of them had a connection, calls would have none left. So all who ask while a
 * read is under way share the next one, which is one statement for all that they ask for. Each answer was read after its call
 * had come: a key that was revoked before a call never lets it pass.
 */
import type { Connections, Statement } from "./connections.ts";

/** A row with the place of whoever asked for it, from 1 on. */
type Placed<Row> = Row & { readonly place: number };

/** What one read asks for: a list for each column, and the place of each thing. */
interface Read<Row> {
  readonly columns: (string | number)[][];
  readonly places: Map<string, number>;
  readonly rows: PromiseWithResolvers<ReadonlyMap<number, readonly Row[]>>;
}

/** A connection may be lost without a word while others are well. So after this the next read no longer waits for one that is under way. */
const patienceMs = 500;
/** So many are left behind so, at most. */
const slowMax = 1;

export class LookUps<Row = object> {
  readonly #connections: Pick<Connections, "query">;
  readonly #statement: Statement;
  readonly #ofOne: Statement | undefined;
  #isBusy = false;
  #slow = 0;
  #next: Read<Row> | undefined;

  /**
   * The statement's values are arrays, one per column, and its rows have the place of what they are read for. `ofOne` reads
   * one thing alone, by its values: PostgreSQL plans that once, and the other at each use, since it expects more of an array.
   */
  constructor(connections: Pick<Connections, "query">, statement: Statement, ofOne?: Statement) {
    this.#connections = connections;
    this.#statement = statement;
    this.#ofOne = ofOne;
  }

  /** Reads the rows of what is asked for, by a value for each column. Rejects as the read does, for all who share it. */
  async read(...values: readonly (string | number)[]): Promise<readonly Row[]> {
    this.#next ??= { columns: values.map(() => []), places: new Map(), rows: Promise.withResolvers() };
    const { rows } = this.#next;
    const place = placeIn(this.#next, values);
    if (!this.#isBusy) this.#begin();
    return (await rows.promise).get(place) ?? [];
  }

  #begin(): void {
    if (this.#next === undefined) return;
    const { rows, ...read } = this.#next;
    this.#next = undefined;
    this.#isBusy = true;
    const goOn = () => {
      this.#isBusy = false;
      this.#begin();
    };
    let isSlow = false;
    const patience = setTimeout(() => {
      if (this.#slow === slowMax) return;
      this.#slow += 1;
      isSlow = true;
      goOn();
    }, patienceMs);
    const end = () => {
      clearTimeout(patience);
      if (isSlow) this.#slow -= 1;
      else goOn();
    };
    void this.#readAll(read).then(rows.resolve, rows.reject).then(end);
  }

  async #readAll({ columns, places }: Omit<Read<Row>, "rows">): Promise<ReadonlyMap<number, readonly Row[]>> {
    if (places.size === 1 && this.#ofOne !== undefined) {
      return new Map([[1, await this.#connections.query<Row>(this.#ofOne, columns.flat())]]);
    }
    return Map.groupBy(await this.#connections.query<Placed<Row>>(this.#statement, columns), ({ place }) => place);
  }
}

/** Whoever asks for the same has the same place. */
function placeIn({ columns, places }: Omit<Read<unknown>, "rows">, values: readonly (string | number)[]): number {
  const name = JSON.stringify(values);
  const known = places.get(name);
  if (known !== undefined) return known;
  for (const [at, value] of values.entries()) columns[at]?.push(value);
  const place = places.size + 1;
  places.set(name, place);
  return place;
}
