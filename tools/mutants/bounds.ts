/** Mistakes about what a stranger may hold up, or have us hold. */
import type { Mutant } from "./mutants.ts";

const suites = ["test/server/unfinished.test.ts"];

export const boundsMutants: readonly Mutant[] = [
  {
    name: "a place is kept while the body is on its way",
    breaks: "a few kilobytes of calls without an end refuse everybody else's",
    place: "src/server/gateway.ts#readWithoutPlace",
    text: `    place.lend();`,
    replacement: ``,
    suites,
  },
  {
    name: "a place is given back when the answer is written",
    breaks: "answers that nobody takes are held without a bound",
    place: "src/server/gateway.ts#serve",
    text: `if (call.reached && !isGone(request))`,
    replacement: `if (call.reached && isGone(request))`,
    suites,
  },
  {
    name: "a refusal keeps its place until it was taken",
    breaks: "strangers who take no answer refuse everybody else's calls",
    place: "src/server/gateway.ts#serve",
    text: `if (call.reached && !isGone(request))`,
    replacement: `if (!isGone(request))`,
    suites,
  },
  {
    name: "a page's caller has no share",
    breaks: "whoever copies a page's key takes the places of all",
    place: "src/server/gateway.ts#takeShare",
    text: `if (caller === undefined || !isPublishable(caller.kind)) return undefined;`,
    replacement: `if (caller === undefined || isPublishable(caller.kind)) return undefined;`,
    suites,
  },
  {
    name: "the stream of an answered page stays open",
    breaks: "requests without an end are held for as long as their client likes",
    place: "src/server/request-body.ts#answerAtOnce",
    text: `  if (!stream.endAfterHeaders && !isGone(request)) stream.close(constants.NGHTTP2_NO_ERROR);`,
    replacement: ``,
    suites,
  },
  {
    name: "HTTP/1 requests are parsed as they come",
    breaks: "a few connections of pipelined requests fill the memory",
    place: "src/server/server.ts#serverLimits",
    text: `pipelinedMax: 16,`,
    replacement: `pipelinedMax: 100_000,`,
    suites: ["test/server/pipelining.test.ts"],
  },
  {
    name: "a stranger gets answers however few it takes",
    breaks: "each connection has us hold 100 answers",
    place: "src/server/connections.ts#isSated",
    text: `answersDue.size >= untakenMax && untaken(answersDue) >= untakenMax`,
    replacement: `answersDue.size > 100`,
    suites,
  },
  {
    name: "whoever waits for us pays as everybody does",
    breaks: "an honest caller's first calls are cut off because of what strangers hold",
    place: "src/server/holdings.ts#makeRoom",
    text: `        if (!mayGo(holder)) continue;`,
    replacement: ``,
    suites: ["test/server/holdings.test.ts"],
  },
  {
    name: "a preflight takes a call's place",
    breaks: "preflights refuse calls while origins are looked up",
    place: "src/server/gateway.ts#preflight",
    text: `    const place = places.begin();
    const answer`,
    replacement: `    const place = places.begin();
    if (!place.take()) throw new Error("no place");
    const answer`,
    suites,
  },
];
