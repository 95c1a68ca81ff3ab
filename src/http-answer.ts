/**
 * Answers of far ends, read as far as they are small: whoever answers must not fill our memory.
 */
import type { IncomingMessage } from "node:http";

/** The whole body, or undefined as soon as it is larger than that: then its connection is ended. Rejects when it breaks off. */
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

/** The same as JSON; undefined where it is none. */
export async function readJson(body: AsyncIterable<Uint8Array> | null, bytesMax: number): Promise<unknown> {
  try {
    return JSON.parse((await readAnswer(body, bytesMax))?.toString("utf8") ?? "") as unknown;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Watches an answer that another reads, or nobody: `cut` is called each time that it is found to be larger than that. */
export function boundAnswer(response: IncomingMessage, bytesMax: number, cut: () => void): void {
  let bytes = 0;
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > bytesMax) cut();
  });
}
