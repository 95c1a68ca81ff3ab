/** Mistakes about what a stranger may hold up, or have us hold. */
import type { Mutant } from "./mutant.ts";

const suites = ["test/server/unfinished.test.ts"];

export const boundsMutants: readonly Mutant[] = [
  {
    name: "a place is kept while the body is on its way",
    breaks: "a few kilobytes of calls without an end refuse everybody else's",
    place: "src/server/rpc/gateway.ts#readWithoutPlace",
    text: `  places.lend(place);`,
    replacement: ``,
    suites,
  },
  {
    name: "deadlines are for ever",
    breaks: "a few bodies without an end hold all that there is for bodies",
    place: "src/server/http/deadlines.ts#createDeadlines.onTick",
    text: `if (endTick > tick) break;`,
    replacement: `if (endTick > tick || tick > 0) break;`,
    suites: ["test/server/deadline-ticks.test.ts"],
  },
  {
    name: "a place is given back when the answer is written",
    breaks: "answers that nobody takes are held without a bound",
    place: "src/server/rpc/gateway.ts#serveCall",
    text: `if (!call.reached || isGone(request)) leave(way, entry);`,
    replacement: `leave(way, entry);`,
    suites,
  },
  {
    name: "a refusal keeps its place until it was taken",
    breaks: "strangers who take no answer refuse everybody else's calls",
    place: "src/server/rpc/gateway.ts#serveCall",
    text: `if (!call.reached || isGone(request)) leave(way, entry);`,
    replacement: `if (isGone(request)) leave(way, entry);`,
    suites,
  },
  {
    name: "a page's caller takes no grant",
    breaks: "whoever copies a page's key takes the places of all",
    place: "src/server/rpc/gateway.ts#refusalAtDoor",
    text: `key !== undefined && isPublishable(key.kind) ? takeGrant(way, entry) : undefined;`,
    replacement: `key !== undefined && !isPublishable(key.kind) ? takeGrant(way, entry) : undefined;`,
    suites,
  },
  {
    name: "a bound holds for an address that many have",
    breaks: "behind one carrier's NAT 33 visitors of a page refuse each other",
    place: "src/server/rpc/gateway.ts#takeGrant",
    text: `options.ownAddressOf(address.text)`,
    replacement: `address.name`,
    suites,
  },
  {
    name: "a page's key goes first",
    breaks: "whoever copies a page's key stands before everybody's first call",
    place: "src/service/callers/key-check.ts#createKeyCheck",
    text: `presented.ok && !isReadable(presented.value.kind) && seenValid`,
    replacement: `presented.ok && seenValid`,
    suites: ["test/service/callers/api-keys.test.ts"],
  },
  {
    name: "pages' keys are remembered with callers'",
    breaks: "whoever copies a page's key, and spells it in many ways, makes every caller's calls dearer",
    place: "src/service/callers/known-headers.ts#createKnownHeaders",
    text: `      const known = isReadable ? readable : secret;`,
    replacement: `      const known = secret;`,
    suites: ["test/service/callers/known-headers.test.ts"],
  },
  {
    name: "white space is matched from each place on",
    breaks: "two connections of white space as a key have everybody wait for seconds",
    place: "src/otp/keys/api-key.ts#hasKey",
    text: `!/^(?:bearer)?$/i.test(header.trim())`,
    replacement: `!/^\\s*(?:bearer)?\\s*$/i.test(header)`,
    suites: ["test/otp/keys/api-key.test.ts"],
  },
  {
    name: "every key was valid lately",
    breaks: "a crowd with wrong keys goes before everybody's first call",
    place: "src/service/callers/key-check.ts#createKeyCheck",
    text: `seenValid.get(presented.value.name) > clock()`,
    replacement: `seenValid.get(presented.value.name) >= 0`,
    suites: ["test/service/callers/api-keys.test.ts"],
  },
  {
    name: "a stop by the clock alone",
    breaks: "a process that stood still at a stop closes connections whose calls it has not read",
    place: "src/server/listener/stop-steps.ts#afterSteps",
    text: `  for (let step = 0; step < ms / stepMs; step += 1) {
    await sleep(stepMs);
    await nextTurn();
    if (over.aborted) return;
  }
`,
    replacement: `  await sleep(ms);
  if (over.aborted) return;
`,
    suites: ["test/server/server.test.ts"],
  },
  {
    name: "the stream of an answered page stays open",
    breaks: "requests without an end are held for as long as their client likes",
    place: "src/server/http/body.ts#answerAtOnce",
    text: `  if (!stream.endAfterHeaders && !isGone(request)) closeOnceAnswered(stream);`,
    replacement: ``,
    suites,
  },
  {
    name: "a call's tick never comes",
    breaks: "an answer that nobody takes holds its place and its connection for as long as its client likes",
    place: "src/server/listener/call-ticks.ts#createCallTicks.end",
    text: `return earlier.length > ticks ? (earlier.shift() ?? none) : none;`,
    replacement: `return none;`,
    suites: ["test/server/call-ticks.test.ts"],
  },
  {
    name: "HTTP/1 requests are parsed as they come",
    breaks: "a few connections of pipelined requests fill the memory",
    place: "src/server/listener/server.ts#serverLimits",
    text: `pipelinedMax: 16,`,
    replacement: `pipelinedMax: 100_000,`,
    suites: ["test/server/pipelining.test.ts"],
  },
  {
    name: "a stranger gets answers however few it takes",
    breaks: "each connection has us hold 100 answers",
    place: "src/server/listener/connections.ts#isSated",
    text: `answersDue.size >= untakenMax && untaken(answersDue) >= untakenMax`,
    replacement: `answersDue.size > 100`,
    suites,
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
    name: "chunks of a body for nothing",
    breaks: "twenty connections that send bodies in chunks of a byte keep new connections waiting for seconds",
    place: "src/server/listener/pipeline.ts#onData",
    text: `book.brought(socket, chunksIn(chunk, at, end));`,
    replacement: ``,
    suites: ["test/server/pipeline.test.ts"],
  },
  {
    name: "whoever waits for us pays as everybody does",
    breaks: "an honest caller's first calls are cut off because of what strangers hold",
    place: "src/server/listener/holdings.ts#makeRoom",
    text: `        if (!mayGo(holder)) continue;`,
    replacement: ``,
    suites: ["test/server/holdings.test.ts"],
  },
  {
    name: "a preflight takes a call's place",
    breaks: "preflights refuse calls while origins are looked up",
    place: "src/server/rpc/cors.ts#preflight",
    text: `      const place = places.begin();
`,
    replacement: `      const place = places.begin();
      if (!places.take(place)) throw new Error("no place");
`,
    suites,
  },
  {
    name: "no key is looked at like any other",
    breaks: "a crowd without keys takes every place, and honest calls are refused",
    place: "src/server/rpc/gateway.ts#serve",
    text: `if (!hasKey(request.headers.authorization) && !places.isDraining) {`,
    replacement: `if (!hasKey(request.headers.authorization) && !places.isDraining && places.isDraining) {`,
    suites: ["test/server/overload.test.ts", "test/server/door.test.ts"],
  },
  {
    name: "a place before the key",
    breaks: "a crowd with wrong keys takes every place, and honest calls are refused",
    place: "src/server/rpc/gateway.ts#serveCall",
    text: `  const place = way.places.begin();
`,
    replacement: `  const place = way.places.begin();
  way.places.take(place);
`,
    suites: ["test/server/door.test.ts"],
  },
  {
    name: "first come, first looked at",
    breaks: "one address's crowd stands before everybody else's first call",
    place: "src/server/rpc/door.ts#createOthers",
    text: `      byAddress.delete(address);
      if (queue.length > 0) byAddress.set(address, queue);`,
    replacement: `      if (queue.length === 0) byAddress.delete(address);`,
    suites: ["test/server/door.test.ts"],
  },
  {
    name: "a full door sends newcomers away",
    breaks: "one address's crowd has every newcomer refused",
    place: "src/server/rpc/door.ts#createOthers",
    text: `others.count >= waitingMax && !makeRoom(who)`,
    replacement: `others.count >= waitingMax`,
    suites: ["test/server/door.test.ts"],
  },
  {
    name: "known callers leave nothing",
    breaks: "a busy backend keeps every newcomer waiting",
    place: "src/server/rpc/door.ts#othersPart",
    text: `const othersPart = 1 / 4;`,
    replacement: `const othersPart = 0;`,
    suites: ["test/server/door.test.ts"],
  },
  {
    name: "unfinished reports stay",
    breaks: "eight addresses keep every provider's report out",
    place: "src/server/pages/pages.ts#readAndShow",
    text: `  grant.yieldTo(() => abandon(request));
`,
    replacement: `  abandon.toString();
`,
    suites: ["test/server/door.test.ts"],
  },
  {
    name: "answers that nobody takes keep their grant",
    breaks: "16 addresses shut all visitors out of all pages",
    place: "src/server/rpc/gateway.ts#serveCall",
    text: `entry.grant?.yieldTo(() => abandon(request));`,
    replacement: `abandon.toString();`,
    suites: ["test/server/door.test.ts"],
  },
  {
    name: "what is worked on gives way",
    breaks: "visitors lose calls that we are working on to whoever comes",
    place: "src/server/rpc/gateway.ts#takeGrant",
    text: `  entry.grant = grant;
`,
    replacement: `  entry.grant = grant;
  grant.yieldTo(() => giveUp(entry.call, "the client is gone"));
`,
    suites: ["test/server/door.test.ts"],
  },
  {
    name: "whoever has as much gives way",
    breaks: "strangers of one address drive their own answers out for ever, and others' with them",
    place: "src/server/rpc/budget.ts#makeRoom",
    text: `group.yielding.size > (most?.yielding.size ?? 0)`,
    replacement: `most === undefined || group.yielding.size < most.yielding.size`,
    suites: ["test/server/door.test.ts"],
  },
  {
    name: "everybody pays for a stranger's bodies",
    breaks: "a stranger behind a proxy that speaks HTTP/2 to us has everybody's connection cut",
    place: "src/server/listener/connections.ts#isNoise",
    text: `return credit < 0 && !hasBroughtKey && !isProxys;`,
    replacement: `return credit < 0;`,
    suites: ["test/server/shared-connections.test.ts"],
  },
  {
    name: "calls without a key are logged without a bound",
    breaks: "anybody fills the log: 10 MB in 10 s",
    place: "src/main/observers.ts#createCallLog",
    text: `if (!isAnybodys || log.hasRoom()) telemetry`,
    replacement: `telemetry`,
    suites: ["test/server/turned-away.test.ts"],
  },
  {
    name: "a tenant's admin raises its caps",
    breaks: "whoever has the key of one tenant's admin sends at the operator's cost without a bound",
    place: "src/server/admin/tenants.ts#tenantHandlers.prepare",
    text: `asker.tenant === undefined ? [] : loosened(`,
    replacement: `asker.tenant !== undefined ? [] : loosened(`,
    suites: ["test/server/admin/tenants.test.ts"],
  },
  {
    name: "a cap that is taken away is none",
    breaks: "a tenant's admin who may not raise a cap takes it away",
    place: "src/otp/operators/tenant-bounds.ts#noHigher",
    text: `(after !== undefined && after <= before)`,
    replacement: `(after === undefined || after <= before)`,
    suites: ["test/otp/operators/tenant-bounds.test.ts"],
  },
  {
    name: "shared networks never make room",
    breaks: "a stranger within OTP_SHARED_NETWORKS holds every connection, and everybody else is reset",
    place: "src/server/listener/strangers.ts#leaver",
    text: `largestSize <= shareMin && sizeOf(shared) > largestSize`,
    replacement: `false`,
    suites: ["test/server/shares.test.ts"],
  },
  {
    name: "whoever waits for a handshake is not looked at",
    breaks:
      "clients who send a hello and leave wait with those who are there, by the thousand, and new connections behind them",
    place: "src/server/listener/wire.ts#Wire.stop",
    text: `if (this.#isHandshakeDone) this.#stopReading();`,
    replacement: `this.#stopReading();`,
    suites: ["test/server/wire.test.ts"],
  },
  {
    name: "TLS from the first moment",
    breaks: "each client who sends a hello and leaves has 35 KB made for it, and our key works for it",
    place: "src/server/listener/wire.ts#Wire.#came",
    text: `(this.#isHandshakeDone || !this.#isStopped)`,
    replacement: `(this.#begin !== undefined || this.#isHandshakeDone || !this.#isStopped)`,
    suites: ["test/server/wire.test.ts"],
  },
];
