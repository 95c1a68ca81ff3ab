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
];
