/**
 * Mistakes about what gRPC's libraries do by themselves, who retry what they are not told not to, and about how messages are
 * wrapped.
 */
import type { Mutant } from "./mutant.ts";

export const grpcMutants: readonly Mutant[] = [
  {
    name: "headers before a refusal",
    breaks: "no client's library ever retries, since the headers are an answer begun",
    place: "src/server/http/response.ts#writeWhole",
    text: `if ("stream" in response && trailers !== undefined && body.length === 0) return`,
    replacement: `if ("stream" in response && trailers !== undefined && body.length < 0) return`,
    suites: ["test/server/trailers-only.test.ts"],
  },
  {
    name: "a lost commit is taken for none",
    breaks: "a client's library repeats a send that took effect, and its user gets two codes",
    place: "src/store/postgres/faults.ts#inDoubt",
    text: `{ cause: error, mayBeDone: true }`,
    replacement: `{ cause: error }`,
    suites: ["test/postgres/lost-commits.test.ts"],
  },
  {
    name: "a late call may be retried without a key",
    breaks: "a client's library repeats a send that went on behind its deadline",
    place: "src/server/rpc/faults.ts#refusalOfLate",
    text: `isHarmlessTwice ? {} : { mayBeDone: true }`,
    replacement: `isHarmlessTwice ? {} : {}`,
    suites: ["test/server/outages.test.ts"],
  },
  {
    name: "unknown compression is none",
    breaks: "a client that compresses is told that its message cannot be read, and does not fall back",
    place: "src/server/http/headers.ts#encodingOf",
    text: `given === "gzip" ? given : "unknown"`,
    replacement: `given === "gzip" ? given : "identity"`,
    suites: ["test/server/protocols.test.ts"],
  },
  {
    name: "compressed by nothing is the caller's fault",
    breaks: "a broken proxy is taken for a broken request",
    place: "src/server/rpc/frames.ts#unwrap",
    text: `names no encoding.", "INTERNAL")`,
    replacement: `names no encoding.")`,
    suites: ["test/server/protocols.test.ts"],
  },
  {
    name: "JSON for gRPC's unknown paths",
    breaks: "a gRPC client is shown an HTTP status that it makes a guess of",
    place: "src/server/rpc/errors.ts#refusalBefore",
    text: `if (!isGrpc || isOfHttp || method !== "POST")`,
    replacement: `if (isGrpc || isOfHttp || method !== "POST")`,
    suites: ["test/server/protocols.test.ts"],
  },
  {
    name: "text is answered in binary",
    breaks: "Google's web client cannot read an answer",
    place: "src/server/rpc/codecs.ts#overConnect",
    text: `return isGrpcWebText(type) ? asText(whole) : whole;`,
    replacement: `return whole;`,
    suites: ["test/server/protocols.test.ts"],
  },
  {
    name: "a gRPC client is not told that its call was made before",
    breaks: "a client takes a repeated answer for a second code",
    place: "src/server/rpc/codecs.ts#inGrpc",
    text: `return isReplayed ? { ...answer, trailers`,
    replacement: `return !isReplayed ? { ...answer, trailers`,
    suites: ["test/server/protocols.test.ts"],
  },
  {
    name: "a refusal of text in binary",
    breaks: "Google's web client cannot read why it was refused",
    place: "src/server/rpc/errors.ts#errorOn",
    text: `return isGrpcWebText(type) ? asText(answer) : answer;`,
    replacement: `return answer;`,
    suites: ["test/server/protocols.test.ts"],
  },
  {
    name: "pieces of text are padded once",
    breaks: "a client that pads each piece is refused",
    place: "src/server/rpc/frames.ts#fromText",
    text: `text.split(/(?<==)(?!=)/).map((piece) => Buffer.from(piece, "base64"))`,
    replacement: `[Buffer.from(text, "base64")]`,
    suites: ["test/server/protocols.test.ts"],
  },
  {
    name: "a bomb is no gzip",
    breaks: "a message too large is told to be malformed",
    place: "src/server/rpc/frames.ts#inflate",
    text: `error instanceof RangeError ?`,
    replacement: `bytes.length < 0 ?`,
    suites: ["test/server/protocols.test.ts"],
  },
  {
    name: "whoever calls may act",
    breaks: "a path that forgets the gate lets anybody send",
    place: "src/server/rpc/handlers.ts#createPerform.act",
    text: `if (key === undefined) return refuse("API_KEY_MISSING");`,
    replacement: `if (key === undefined) refuse("API_KEY_MISSING");`,
    suites: ["test/server/perform.test.ts"],
  },
];
