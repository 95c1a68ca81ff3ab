/** Mistakes by which frames of HTTP/2 end the process, or cost what nobody counts. */
import type { Mutant } from "./mutant.ts";

export const http2Mutants: readonly Mutant[] = [
  {
    name: "an answer that goes on without its client",
    breaks: "each watch whose client ends its side leaves a timer of half an hour, and the process grows until it dies",
    place: "src/server/http/response.ts#writeAsItComes",
    text: `await pieces?.return?.();`,
    replacement: `await undefined;`,
    suites: ["test/server/left-watches.test.ts"],
  },
  {
    name: "stream told to close before its answer is taken",
    breaks: "a connection that breaks off has nghttp2 send empty frames for ever, until there is no memory left",
    place: "src/server/http/body.ts#closeOnceAnswered",
    text: `if (stream.writableEnded && !stream.writableFinished)`,
    replacement: `if (stream.closed)`,
    suites: ["test/server/broken-off.test.ts"],
  },
  {
    name: "session collected in the turn in which it goes",
    breaks: "a stranger ends the process with too many headers and a goodbye, when the collector runs just then",
    place: "src/server/listener/http2-sessions.ts#keepForTurn",
    text: `setImmediate(() => ofSession)`,
    replacement: `setImmediate(() => undefined)`,
    suites: ["test/server/broken-off.test.ts"],
  },
  {
    name: "Node goes on for who asks",
    breaks: "a stranger ends the process with two frames",
    place: "src/server/listener/http2.ts#createHttp2.serverOf",
    text: `server.on("checkContinue", onContinue);`,
    replacement: ``,
    suites: ["test/server/broken-off.test.ts"],
  },
  {
    name: "streams that were reset are answered to nobody",
    breaks: "30 connections that open and reset streams have every call wait for seconds",
    place: "src/server/listener/server.ts#startServer.take",
    text: `if ("stream" in request && isOver(request.stream)) return;`,
    replacement: ``,
    suites: ["test/server/resets.test.ts"],
  },
  {
    name: "what HTTP/2 reads past everybody is counted with the next tick",
    breaks: "30 connections of WINDOW_UPDATE have every call wait for half a second",
    place: "src/server/listener/held.ts#watchProcess",
    text: `if (isLate) onLate();`,
    replacement: ``,
    suites: ["test/server/late.test.ts"],
  },
];
