/**
 * Values as rows have them: an id is 16 bytes (22 characters of base64url everywhere else), a word its position in a list. Where
 * a value holds several, whole numbers are in few bytes each: 7 bits a byte, the lowest first, the eighth bit set in all but
 * the last.
 */
export function idBytes(id: string): Buffer | undefined {
  // 16 bytes are 22 characters, of which the last carries 4 unused bits: only the one canonical spelling is an id.
  if (id.length !== 22) return undefined;
  const bytes = Buffer.from(id, "base64url");
  return bytes.length === 16 && bytes.toString("base64url") === id ? bytes : undefined;
}

export function idText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64url");
}

/** The same for an id of ours, of whose spelling there is no doubt. */
export function idBytesOf(id: string): Buffer {
  const bytes = Buffer.from(id, "base64url");
  if (bytes.length !== 16) throw new Error("not an id");
  return bytes;
}

// ---- columns -----------------------------------------------------------------------------------------------------------

type Kind = "bytea" | "text" | "bigint";

/** A table's columns in their order, each with what it holds, by PostgreSQL's names; SQLite takes any value anywhere. */
export type Columns = Readonly<Record<string, Kind | `${Kind} or null`>>;

/** A row of such columns. */
export type RowOf<Of extends Columns> = { -readonly [Name in keyof Of]: Held<Of[Name]> };
type Held<Of> = Of extends `${infer Some} or null` ? Held<Some> | null : HeldIn[Of & Kind];
interface HeldIn {
  readonly bytea: Uint8Array;
  readonly text: string;
  readonly bigint: number;
}

/** The names of columns, and PostgreSQL's types of them, in their order. */
export function namesAndTypes<Of extends Columns>(
  columns: Of,
): { readonly names: readonly (keyof Of & string)[]; readonly types: readonly Kind[] } {
  return {
    names: Object.keys(columns),
    types: Object.values(columns).map((held) => held.replace(" or null", "") as Kind),
  };
}

// ---- values ------------------------------------------------------------------------------------------------------------

/** What a map knows bytes by: one character for each. */
export function keyOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

/** The word at a position. */
export function at<T>(list: readonly T[], position: number): T {
  const value = list[position];
  if (value === undefined) throw new Error(`the database holds a value from a newer version: ${position}`);
  return value;
}

/** Seven bits of each of four bytes: below it whole numbers are what the machine counts in. */
const fourBytes = 2 ** 28;

/** Numbers and texts, put one after the other. */
export class Packing {
  #bytes = Buffer.allocUnsafe(128);
  #end = 0;

  /** Throws unless it is whole, and 0 or more. */
  number(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0) throw new Error("not a whole number");
    const bytes = this.#withRoom(8);
    let rest = value;
    for (; rest >= fourBytes; rest = Math.floor(rest / fourBytes)) {
      for (let bits = rest % fourBytes, i = 0; i < 4; i += 1, bits >>>= 7) bytes[this.#end++] = (bits & 127) | 128;
    }
    for (; rest > 127; rest >>>= 7) bytes[this.#end++] = (rest & 127) | 128;
    bytes[this.#end++] = rest;
  }

  /** Without its length. */
  text(value: string): void {
    this.#end += this.#withRoom(Buffer.byteLength(value)).write(value, this.#end);
  }

  /** All that was put. */
  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#end);
  }

  #withRoom(bytes: number): Buffer {
    if (this.#end + bytes > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(2 * (this.#end + bytes));
      larger.set(this.#bytes.subarray(0, this.#end));
      this.#bytes = larger;
    }
    return this.#bytes;
  }
}

/** Makes what reads one number after the other. It gives 0 beyond the end. */
export function numberReader(bytes: Uint8Array, from = 0): () => number {
  let place = from;
  return () => {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = bytes[place++] ?? 0;
      value += (byte & 127) * unit;
      if (byte < 128) return value;
    }
  };
}
