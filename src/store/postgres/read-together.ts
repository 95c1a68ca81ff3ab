/**
 * Reads of what anybody can ask for, and of any number of things: an origin by a preflight, a key by making up its id. If each
 * of them had a connection, calls would have none left. So all who ask while a read is under way share the next one, which is
 * one statement for all that they ask for.
 */
import type { Connections, Statement } from "./connections.ts";
import { SharedReads } from "./shared-reads.ts";

/** A row with the place of whoever asked for it, from 1 on. */
type Placed<Row> = Row & { readonly place: number };

export class ReadTogether<Row = object> {
  readonly #connections: Pick<Connections, "query">;
  readonly #statement: Statement;
  readonly #ofOne: Statement | undefined;
  readonly #reads = new SharedReads();
  /** What the next read is to ask for, a list for each column, and the places of what was asked. */
  #columns: (string | number)[][] = [];
  #places = new Map<string, number>();

  /**
   * The statement's values are arrays, one per column, and its rows have the place of what they are read for. `ofOne` reads
   * one thing alone, by its values: PostgreSQL plans that once, and the other at each use, since it expects more of an array.
   */
  constructor(connections: Pick<Connections, "query">, statement: Statement, ofOne?: Statement) {
    this.#connections = connections;
    this.#statement = statement;
    this.#ofOne = ofOne;
  }

  /** Reads the rows of what is asked for, by a value for each column. */
  async read(...values: readonly (string | number)[]): Promise<Row[]> {
    const place = this.#placeOf(values);
    const byPlace = await this.#reads.read("", () => this.#readAll());
    return byPlace.get(place) ?? [];
  }

  #placeOf(values: readonly (string | number)[]): number {
    const name = JSON.stringify(values);
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    for (const [at, value] of values.entries()) (this.#columns[at] ??= []).push(value);
    const place = this.#places.size + 1;
    this.#places.set(name, place);
    return place;
  }

  async #readAll(): Promise<ReadonlyMap<number, Row[]>> {
    const columns = this.#columns;
    const isOne = this.#places.size === 1;
    this.#columns = [];
    this.#places = new Map();
    if (isOne && this.#ofOne !== undefined) {
      return new Map([[1, await this.#connections.query<Row>(this.#ofOne, columns.flat())]]);
    }
    const rows = await this.#connections.query<Placed<Row>>(this.#statement, columns);
    const byPlace = new Map<number, Row[]>();
    for (const row of rows) {
      const its = byPlace.get(row.place);
      if (its === undefined) byPlace.set(row.place, [row]);
      else its.push(row);
    }
    return byPlace;
  }
}
