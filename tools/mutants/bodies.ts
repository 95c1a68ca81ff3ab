/**
 * Mistakes about what a body may cost that is not whole.
 */
import type { Mutant } from "./mutant.ts";

export const bodyMutants: readonly Mutant[] = [
  {
    name: "pieces of a body for nothing",
    breaks: "ten connections that send bodies byte by byte keep everybody waiting for seconds",
    place: "src/server/listener/connection.ts#takePieces",
    text: `!isSpentOn(connection, pieceBytes)`,
    replacement: `connection.credit >= 0`,
    suites: ["test/server/pieces.test.ts"],
  },
  {
    name: "pieces of a byte that requests pay for",
    breaks: "a stranger leaves ten thousands of them unread, 300 bytes each",
    place: "src/server/listener/connection.ts#takePieces",
    text: `!isSmall && `,
    replacement: ``,
    suites: ["test/server/pieces.test.ts"],
  },
  {
    name: "a piece is kept as it came",
    breaks: "each byte of an unfinished body keeps 64 KiB, and the process grows until it dies",
    place: "src/server/http/body.ts#createGathered",
    text: `room.set(piece, length);`,
    replacement: `room.set(piece, length); ((room as { kept?: Uint8Array[] }).kept ??= []).push(piece);`,
    suites: ["test/server/memory.test.ts"],
  },
];
