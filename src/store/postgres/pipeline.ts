/**
 * Statements that are sent in one step of the event loop, and answered together. The driver has the database write out the
 * answer to each statement by itself (a Sync for each), by which either process is woken a dozen times a batch; here there is
 * one for all of them. What rows look like is asked once for each connection, not with each run.
 */
import { Query, type CustomTypesConfig, type PoolClient } from "pg";
import type { Value } from "./connections.ts";

/** What is sent: prepared once for each connection where it has a name. */
export interface Request {
  readonly name: string;
  readonly text: string;
  readonly values: readonly Value[];
}

export interface Answer {
  /** The first word of what the database says was done. */
  readonly command: string;
  readonly rows: Record<string, unknown>[];
}

interface Field {
  readonly name: string;
  readonly parse: (text: string) => unknown;
}

interface Asked extends Request {
  readonly answer: PromiseWithResolvers<Answer>;
  readonly rows: Record<string, unknown>[];
  fields: readonly Field[] | undefined;
  command: string;
}

/** What the driver has of the protocol. */
interface Wire {
  readonly stream: { cork(): void; uncork(): void };
  close(message: { readonly type: "S"; readonly name: string }): void;
  parse(message: { readonly name: string; readonly text: string; readonly types: readonly number[] }): void;
  bind(message: { readonly statement: string; readonly values: readonly unknown[] }): void;
  describe(message: { readonly type: "P"; readonly name: string }): void;
  execute(message: { readonly portal: string; readonly rows: number }): void;
  sync(): void;
}

interface FieldMessage {
  readonly fields: readonly { readonly name: string; readonly dataTypeID: number }[];
}

/** The statements of one connection. */
export class Pipeline {
  readonly #client: PoolClient;
  readonly #types: CustomTypesConfig;
  /** What the connection has prepared, with the fields of the rows of each. */
  readonly #prepared = new Map<string, readonly Field[]>();
  #group: Group | undefined;

  constructor(client: PoolClient, types: CustomTypesConfig) {
    this.#client = client;
    this.#types = types;
  }

  /** Sends a statement along with all that is asked for in this step. */
  ask(request: Request): Promise<Answer> {
    if (this.#group === undefined) {
      this.#group = new Group(this.#prepared, this.#types);
      process.nextTick(() => this.flush());
    }
    return this.#group.add(request);
  }

  /** Sends what waits now: for whatever is sent past it. */
  flush(): void {
    const group = this.#group;
    this.#group = undefined;
    if (group !== undefined) this.#client.query(group);
  }
}

/** To the driver it is one query, which it hands the messages that come for it. */
class Group extends Query {
  readonly #prepared: Map<string, readonly Field[]>;
  readonly #types: CustomTypesConfig;
  readonly #asked: Asked[] = [];
  /** How many were answered. */
  #done = 0;
  #fault: unknown;
  /** The driver puts its own in its place, which ends its time limit. */
  callback = (_error: unknown) => {};

  constructor(prepared: Map<string, readonly Field[]>, types: CustomTypesConfig) {
    super({ text: "" });
    this.#prepared = prepared;
    this.#types = types;
  }

  add({ name, text, values }: Request): Promise<Answer> {
    const answer = Promise.withResolvers<Answer>();
    this.#asked.push({ name, text, values, answer, rows: [], fields: undefined, command: "" });
    return answer.promise;
  }

  override submit = (connection: unknown) => {
    const wire = connection as Wire;
    wire.stream.cork();
    for (const asked of this.#asked) this.#send(wire, asked);
    wire.sync();
    wire.stream.uncork();
  };

  #send(wire: Wire, asked: Asked): void {
    const { name, text, values } = asked;
    asked.fields = this.#prepared.get(name);
    const isNew = asked.fields === undefined;
    if (isNew) {
      // It may be there: where a group fails nobody says how far it came.
      if (name !== "") wire.close({ type: "S", name });
      wire.parse({ name, text, types: [] });
    }
    wire.bind({ statement: name, values: values.map(wireValue) });
    if (isNew) wire.describe({ type: "P", name: "" });
    wire.execute({ portal: "", rows: 0 });
  }

  handleRowDescription({ fields }: FieldMessage): void {
    const asked = this.#asked[this.#done];
    if (asked === undefined) return;
    asked.fields = fields.map(({ name, dataTypeID }) => ({
      name,
      parse: this.#types.getTypeParser(dataTypeID, "text") as Field["parse"],
    }));
  }

  handleDataRow({ fields: texts }: { readonly fields: readonly (string | null)[] }): void {
    const asked = this.#asked[this.#done];
    try {
      const row: Record<string, unknown> = {};
      asked?.fields?.forEach(({ name, parse }, i) => {
        const text = texts[i] ?? null;
        row[name] = text === null ? null : parse(text);
      });
      asked?.rows.push(row);
    } catch (error) {
      this.#fault ??= error;
    }
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    const asked = this.#asked[this.#done];
    this.#done += 1;
    if (asked === undefined) return;
    asked.command = text.split(" ", 1)[0] ?? "";
    if (asked.name !== "") this.#prepared.set(asked.name, asked.fields ?? []);
  }

  /** After one that fails the database does none of the others. */
  handleError(error: unknown): void {
    this.#settle(this.#done);
    for (const { answer } of this.#asked) answer.reject(error);
    this.callback(error);
  }

  handleReadyForQuery(): void {
    this.#settle(this.#asked.length);
    this.callback(null);
  }

  #settle(count: number): void {
    for (const { answer, rows, command } of this.#asked.slice(0, count)) {
      if (this.#fault === undefined) answer.resolve({ command, rows });
      else answer.reject(this.#fault);
    }
  }
}

/** A value as the driver's `bind` takes it: bytes as they are, arrays in PostgreSQL's own text. */
function wireValue(value: Value): string | Buffer | null {
  if (value === null || typeof value === "string") return value;
  if (typeof value === "number") return String(value);
  if (value instanceof Uint8Array) return bufferOf(value);
  return `{${value.map(elementText).join(",")}}`;
}

function elementText(element: string | number | Uint8Array | null): string {
  if (element === null) return "NULL";
  if (typeof element === "number") return String(element);
  if (typeof element === "string") return `"${element.replaceAll(/["\\]/g, "\\$&")}"`;
  return `"\\\\x${bufferOf(element).toString("hex")}"`;
}

const bufferOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
