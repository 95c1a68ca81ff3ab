/**
 * Mistakes about what somebody without a secret key may have.
 */
import type { Mutant } from "./mutants.ts";

export const strangerMutants: readonly Mutant[] = [
  {
    name: "metrics by any name",
    breaks: "a site that points its name at 127.0.0.1 reads the metrics by the browser of somebody on the machine",
    file: "src/server/operations.ts",
    text: `!(isOurs && isOwnName(named?.toString()))`,
    replacement: `!isOurs`,
    suites: ["test/server/operations.test.ts"],
  },
  {
    name: "a page's key earns a connection",
    breaks: "whoever copies a page's key has all connections for half an hour each, and nobody can make him go",
    file: "src/server/gateway.ts",
    text: `if (!isPublishable(key.kind)) onAuthenticated(request);`,
    replacement: `onAuthenticated(request);`,
    suites: ["test/server/newcomers.test.ts"],
  },
  {
    name: "the cap for all alike",
    breaks: "one address holds every connection, and honest callers and probes are reset",
    file: "src/server/connections.ts",
    text: `if (address !== undefined) strangers.add(connection, address);`,
    replacement: ``,
    suites: ["test/server/newcomers.test.ts"],
  },
  {
    name: "shared networks in shares",
    breaks: "callers behind NAT or a balancer drive each other out",
    file: "src/server/client-address.ts",
    text: `return isShared(address) ? undefined : address.name;`,
    replacement: `return address.name;`,
    suites: ["test/server/newcomers.test.ts"],
  },
  {
    name: "an owed answer is no call",
    breaks: "a page's visitor loses his call to whoever opens connections beside him",
    file: "src/server/connections.ts",
    text: `[...answersDue].some(isOwed)`,
    replacement: `[...answersDue].length < 0`,
    suites: ["test/server/newcomers.test.ts"],
  },
  {
    name: "an unfinished request is a call",
    breaks: "whoever never ends a request cannot be closed, and holds every connection",
    file: "src/server/connections.ts",
    text: `[...answersDue].some(isOwed)`,
    replacement: `answersDue.size > 0`,
    suites: ["test/server/shares.test.ts"],
  },
  {
    name: "newcomers have no moment",
    breaks: "callers behind one address who come back at once drive each other out",
    file: "src/server/strangers.ts",
    text: `oldest === undefined || isNewcomer(oldest) ? undefined : oldest`,
    replacement: `oldest`,
    suites: ["test/server/newcomers.test.ts"],
  },
  {
    name: "paths in full",
    breaks: "a number, a code or a key that somebody puts into a path stands in the log",
    file: "src/observe/turned-away.ts",
    text: `path: maskedPath(request.path),`,
    replacement: `path: request.path,`,
    suites: ["test/server/turned-away.test.ts"],
  },
  {
    name: "a line for each wrong path",
    breaks: "a stranger fills the log's disk as fast as he can ask",
    file: "src/observe/turned-away.ts",
    text: `if (lines < linesPerSecond) {`,
    replacement: `if (lines >= 0) {`,
    suites: ["test/server/turned-away.test.ts"],
  },
  {
    name: "slashes folded for every path",
    breaks: "what a proxy hides by its path is read with a slash more",
    file: "src/server/route.ts",
    text: `return target.startsWith("/") ? target :`,
    replacement: `return target.startsWith("/") ? foldSlashes(target) :`,
    suites: ["test/server/spellings.test.ts"],
  },
];
