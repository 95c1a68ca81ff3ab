/**
 * Mistakes about what gRPC's libraries do by themselves: they retry what they are not told not to.
 */
import type { Mutant } from "./mutants.ts";

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
    place: "src/store/postgres/connections.ts#inDoubt",
    text: `{ cause: error, mayBeDone: true }`,
    replacement: `{ cause: error }`,
    suites: ["test/postgres/lost-commits.test.ts"],
  },
  {
    name: "a late call may be retried without a key",
    breaks: "a client's library repeats a send that went on behind its deadline",
    place: "src/server/rpc/guard.ts#createGuard",
    text: `const doubt = isHarmlessTwice(call) ? {} : { mayBeDone: true };`,
    replacement: `const doubt: { mayBeDone?: boolean } = {};`,
    suites: ["test/server/outages.test.ts"],
  },
];
