/**
 * Mistakes about whose turn it is, and what a turn does.
 */
import type { Mutant } from "./mutant.ts";

export const turnMutants: readonly Mutant[] = [
  {
    name: "those beside the greedy one are stopped unread",
    breaks: "sixty connections that pipeline keep the open ones of all other addresses unread for seconds",
    place: "src/server/listener/pace.ts#spend",
    text: `|| areBesideDone || !beside.has(each)`,
    replacement: `|| areBesideDone || true`,
    suites: ["test/server/beside-greedy.test.ts"],
  },
  {
    name: "all of an address beside the greedy one",
    breaks: "two addresses that pipeline keep the open connections of all others unread for seconds",
    place: "src/server/listener/pace.ts#createPace.resumeSome",
    text: `if (![...beside].some((each) => networkOf(each) === networkOf(connection))) beside.add(connection);`,
    replacement: `beside.add(connection);`,
    suites: ["test/server/beside-greedy.test.ts"],
  },
  {
    name: "none of the greedy address's own",
    breaks:
      "sixty connections that pipeline keep the open ones of everybody else behind their address unread for seconds",
    place: "src/server/listener/pace.ts#createPace.resumeSome",
    text: `resumeUpTo(1, line, line.nextEmptyOfGreedy, (own) => beside.add(own));`,
    replacement: ``,
    suites: ["test/server/beside-greedy.test.ts"],
  },
  {
    name: "those beside the greedy one for nothing",
    breaks: "strangers of many addresses take all of the time while a call with a key waits",
    place: "src/server/listener/pace.ts#spend",
    text: `costBeside >= turnCostMax`,
    replacement: `costBeside < 0`,
    suites: ["test/server/turns.test.ts", "test/server/beside-greedy.test.ts"],
  },
  {
    name: "a head that was answered is answered again",
    breaks: "a client takes the second answer for that of its next request, and refusals count twice",
    place: "src/server/listener/pipeline.ts#createPipeline",
    text: ` && !last.headersSent`,
    replacement: ``,
    suites: ["test/server/pipelining.test.ts"],
  },
  {
    name: "told to go on out of turn",
    breaks: "a 100 stands between head and body of an answer, and all behind it are read wrong",
    place: "src/server/listener/http2.ts#tellInTurn",
    text: `if (response.socket !== null) return response.writeContinue();`,
    replacement: `return response.writeContinue();`,
    suites: ["test/server/pipelining.test.ts"],
  },
  {
    name: "a call refused and then unreadable",
    breaks: "a client takes the second answer for that of its next request, and its call counts twice",
    place: "src/server/listener/pipeline.ts#createPipeline",
    text: `if (last?.req.complete === false && last.headersSent) socket.destroySoon();
    else runLast?.();`,
    replacement: `runLast?.();`,
    suites: ["test/server/pipelining.test.ts"],
  },
  {
    name: "more are told to go on than a turn has room for",
    breaks:
      "where a proxy opens a connection for each request, 2,000 of a stranger's have others by it wait for 3 to 6 s",
    place: "src/server/listener/pace.ts#createPace.resumeSome",
    text: `Math.min(requestsMax, Math.max(resumed, Math.ceil(line.size * resumedPart)))`,
    replacement: `Math.max(resumed, Math.ceil(line.size * resumedPart))`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "a client who is gone already takes no turn",
    breaks: "thousands who reset their connections behind what they ask have new ones wait for 15 s and more",
    place: "src/server/listener/pace.ts#createPace",
    text: `    taken() {
      hasTaken = true;`,
    replacement: `    taken() {`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "whoever asks a lot comes first again",
    breaks:
      "an address that asks for more than a turn does each time keeps all newcomers waiting for as long as it likes",
    place: "src/server/listener/pace.ts#createPace.spend",
    text: `whose.line.putLast(connection);`,
    replacement: ``,
    suites: ["test/server/pace.test.ts"],
  },
  {
    name: "newcomers wait with all others of their address",
    breaks: "who shares an address with a flood and connects anew over TLS waits for all of it three times",
    place: "src/server/listener/pace.ts#createPace.wait",
    text: `isNewcomer(connection) ? newcomers : others`,
    replacement: `others`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "newcomers always first",
    breaks: "whoever only opens connections keeps all others of his address from being read from",
    place: "src/server/listener/pace.ts#createPace.resumeSome",
    text: `const next = whose === others ? newcomers : others;`,
    replacement: `const next = whose === others || newcomers.line.size > 0 ? newcomers : others;`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "whoever is taken is read from at once",
    breaks:
      "a thousand connections that each ask for one thing, and are followed by others, keep everybody's new ones waiting",
    place: "src/server/listener/pace.ts#createPace.opened",
    text: `newcomers.line.addFresh(connection);
      stop(connection);`,
    replacement: `reading.add(connection);`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "as many are read from while there are more to take",
    breaks: "connections that come as fast as others were answered keep those of all addresses waiting in one line",
    place: "src/server/listener/pace.ts#createPace.resumeSome",
    text: `const areMoreToTake = takingTurns.readingBegins();`,
    replacement: `takingTurns.readingBegins();
    const areMoreToTake = false;`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "fifteen turns take connections, however long those were read from",
    breaks:
      "1,200 connections of an address that bring 30 requests each, and come again, keep new ones of all addresses waiting for 2 to 8 s",
    place: "src/server/listener/taking-turns.ts#createTakingTurns",
    text: `turns < turnsMin || nowMs() < untilMs`,
    replacement: `turns < turnsMin`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "turns that take a connection may be as long as any",
    breaks: "sixty connections that ask for one thing at a time have new connections wait for ten times as long",
    place: "src/server/listener/pace.ts#createPace.turn",
    text: `for (const each of active) wait(each);`,
    replacement: `void wait;`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "a newcomer for as long as nothing is asked",
    breaks: "connections that send a byte now and then have the newcomers' turns for ever",
    place: "src/server/listener/pace.ts#isNewcomer",
    text: `return connection.turnsRead < newcomerTurnsMax;`,
    replacement: `return true;`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "the latest newcomer first, always",
    breaks: "who shares an address with a flood and was not read from at once waits for as long as it lasts",
    place: "src/server/listener/line.ts#createLine.earliest",
    text: `return its.fresh[its.gone];`,
    replacement: `return latest(its);`,
    suites: ["test/server/turns.test.ts", "test/server/line.test.ts"],
  },
  {
    name: "connections that closed while they waited are kept",
    breaks: "whoever opens and closes connections while others wait has each of them kept in memory",
    place: "src/server/listener/line.ts#createLine.leave",
    text: `if (2 * (its.gone + its.left) <= its.fresh.length) return;`,
    replacement: `if (its.left >= 0) return;`,
    suites: ["test/server/line.test.ts"],
  },
  {
    name: "strangers never rest",
    breaks: "calls with a key wait behind what strangers ask for in every one of their turns",
    place: "src/server/listener/strangers-rest.ts#createRest",
    text: `        untilMs = now + Math.min(now - began, restMsMax);`,
    replacement: `        untilMs = now;`,
    suites: ["test/server/turns.test.ts"],
  },
  {
    name: "strangers are read from however much they ask for",
    breaks: "1,000 connections of 100 requests make turns of seconds, for which everybody waits",
    place: "src/server/listener/pace.ts#createPace.spend",
    text: `if (cost < turnCostMax) return;`,
    replacement: `if (cost !== 0) return;`,
    suites: ["test/server/pace.test.ts"],
  },
  {
    name: "as much ahead as comes",
    breaks: "thousands who wait send 64 KiB each at once, and the process dies of it",
    place: "src/server/listener/pace.ts#createPace.cameAhead",
    text: `if (bytesAhead < turnCostMax) return;`,
    replacement: `if (bytesAhead < Number.POSITIVE_INFINITY) return;`,
    suites: ["test/server/ahead.test.ts"],
  },
];
