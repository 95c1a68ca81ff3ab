/**
 * Mistakes about what may be held of a body that is not whole, or a handshake.
 */
import type { Mutant } from "./mutant.ts";

export const bodyMutants: readonly Mutant[] = [
  {
    name: "pieces of a body for nothing",
    breaks: "ten connections that send bodies byte by byte keep everybody waiting for seconds",
    place: "src/server/listener/connection.ts#takePieces",
    text: `isSpentOn(connection, pieceBytes)`,
    replacement: `connection.credit < 0`,
    suites: ["test/server/pieces.test.ts"],
  },
  {
    name: "pieces of a byte that requests pay for",
    breaks: "a stranger leaves ten thousands of them unread, 300 bytes each",
    place: "src/server/listener/connection.ts#takePieces",
    text: `isSmall || `,
    replacement: ``,
    suites: ["test/server/pieces.test.ts"],
  },
  {
    name: "bodies over HTTP/2 that are charged for with the next tick",
    breaks: "some connections send megabytes that nobody reads before they are cut, and come again: 190 MiB",
    place: "src/server/listener/connection.ts#takePieces",
    text: `connection.bodyBytes >= bodyBytesMax`,
    replacement: `connection.bodyBytes < 0`,
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
  {
    name: "bodies of secret keys without a bound",
    breaks: "one key's unfinished bodies are held by the ten thousand",
    place: "src/server/rpc/gateway.ts#createGateway",
    text: `createBudget({ max: callsMax })`,
    replacement: `createBudget({ max: 10 * callsMax })`,
    suites: ["test/server/undone-bodies.test.ts"],
  },
  {
    name: "bodies of secret keys by address alone",
    breaks: "a tenant's key, even a test key, refuses another tenant that calls by the same balancer",
    place: "src/server/rpc/gateway.ts#readWithoutPlace",
    text: `ownAddressOf(request), call.caller?.tenant`,
    replacement: `ownAddressOf(request)`,
    suites: ["test/server/undone-bodies.test.ts"],
  },
  {
    name: "bodies of secret keys by tenant alone",
    breaks: "a tenant's key in wrong hands refuses the tenant's own callers elsewhere",
    place: "src/server/rpc/gateway.ts#readWithoutPlace",
    text: `ownAddressOf(request), call.caller?.tenant`,
    replacement: `undefined, call.caller?.tenant`,
    suites: ["test/server/undone-bodies.test.ts"],
  },
  {
    name: "bodies of secret keys by group alone",
    breaks: "a tenant's key that is used from a thousand addresses refuses other tenants' second call at once",
    place: "src/server/rpc/budget.ts#makeRoom",
    text: `(byTenant.get(one.tenant) ?? 0) - (byTenant.get(other.tenant) ?? 0)`,
    replacement: `0`,
    suites: ["test/server/undone-bodies.test.ts"],
  },
  {
    name: "who has sent something waits behind the silent",
    breaks: "callers at an attacker's address wait for seconds on new connections",
    place: "src/server/listener/line.ts#createLine.came",
    text: `if (its?.others.delete(connection) === true) its.ready.add(connection);`,
    replacement: ``,
    suites: ["test/server/line.test.ts"],
  },
];
