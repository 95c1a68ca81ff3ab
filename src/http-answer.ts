/**
 * Answers of far ends, read up to a limit, so that nobody who answers can fill our memory.
 */
import type { IncomingMessage } from "node:http";

/** The whole body; undefined, and the connection ended, once it is larger than `bytesMax`. Rejects when it breaks off. */
export async function readAnswer(
  body: AsyncIterable<Uint8Array> | null,
  bytesMax: number,
): Promise<Buffer<ArrayBuffer> | undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    // Leaving the loop ends the connection.
    if (bytes > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The body as JSON; undefined where it is not JSON. */
export async function readJson(body: AsyncIterable<Uint8Array> | null, bytesMax: number): Promise<unknown> {
  try {
    return JSON.parse((await readAnswer(body, bytesMax))?.toString("utf8") ?? "") as unknown;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** A number of so many digits may be more than JavaScript holds exactly. */
const longNumber = /\d{16}|\d[eE]/;

/**
 * Parses JSON. A number that JavaScript does not hold exactly, such as an id of 20 digits, becomes a text as it was written.
 * Throws a SyntaxError for what is no JSON. Pure.
 */
export function parseJson(text: string): unknown {
  if (!longNumber.test(text)) return JSON.parse(text) as unknown;
  const exactly = (_: string, value: unknown, { source }: { readonly source?: string } = {}): unknown =>
    typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER ? (source ?? value) : value;
  return JSON.parse(text, exactly) as unknown;
}

/** Counts the bytes of an answer that something else reads; calls `cut` for each chunk beyond `bytesMax`. */
export function boundAnswer(response: IncomingMessage, bytesMax: number, cut: () => void): void {
  let bytes = 0;
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > bytesMax) cut();
  });
}
