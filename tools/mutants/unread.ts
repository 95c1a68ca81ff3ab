/**
 * Mistakes about what strangers leave unread.
 */
import type { Mutant } from "./mutant.ts";

export const unreadMutants: readonly Mutant[] = [
  {
    name: "unread answers stay with the system",
    breaks: "strangers who read nothing fill the memory that a container has, past every bound of the process",
    place: "src/server/listener/send-queues.ts#cutDown",
    text: `stranger.socket.destroy();`,
    replacement: ``,
    suites: ["test/server/send-queues.test.ts"],
  },
  {
    name: "a long look forgets what was given meanwhile",
    breaks: "whoever is given a document during a look leaves it unread for ever",
    place: "src/server/listener/send-queues.ts#queuesOf",
    text: `stranger.bytesAtLook - bytes)`,
    replacement: `stranger.bytesHanded - bytes)`,
    suites: ["test/server/send-queues.test.ts"],
  },
  {
    name: "a long look has everybody wait",
    breaks: "56,000 connections that were closed in the last minute stop the event loop for 80 to 110 ms a look",
    place: "src/server/listener/system-queues.ts#readQueues",
    text: `yield;`,
    replacement: ``,
    suites: ["test/server/system-queues.test.ts"],
  },
  {
    name: "a look reads on behind the end",
    breaks:
      "56,000 connections that were closed in the last minute stop the event loop for 7 ms once more in each look",
    place: "src/server/listener/system-queues.ts#linesOf",
    text: `bytes > pageBytes - lineBytesMax`,
    replacement: `bytes > 0`,
    suites: ["test/server/system-queues.test.ts"],
  },
  {
    name: "a line that is cut by a page is lost",
    breaks: "whoever leaves much unread is not seen to",
    place: "src/server/listener/system-queues.ts#linesOf",
    text: `begun = text.slice(end);`,
    replacement: ``,
    suites: ["test/server/system-queues.test.ts"],
  },
  {
    name: "what ends during a long look is forgotten",
    breaks: "who ends connections while the system is asked leaves more unread behind them than there may be",
    place: "src/server/listener/send-queues.ts#createClosed",
    text: `for (const [address, more] of meanwhile) add(byAddress, address, more);`,
    replacement: ``,
    suites: ["test/server/send-queues.test.ts"],
  },
  {
    name: "unread answers stay behind closed connections",
    breaks: "the same by strangers whose connections end",
    place: "src/server/listener/send-queues.ts#createClosed",
    text: `return false;`,
    replacement: ``,
    suites: ["test/server/send-queues.test.ts"],
  },
  {
    name: "documents for strangers never wait",
    breaks: "who asks for documents without an end has them queue faster than anybody may look",
    place: "src/server/pages/pages.ts#inItsTurn",
    text: `room !== undefined; room`,
    replacement: `false; room`,
    suites: ["test/server/send-queues.test.ts"],
  },
  {
    name: "nobody is let go for what others left",
    breaks: "an honest client loses the end of a document because many neighbours are connected",
    place: "src/server/listener/send-queues.ts#levelOf",
    text: `rest / (sizes.length - i)`,
    replacement: `most / sizes.length`,
    suites: ["test/server/send-queues.test.ts"],
  },
  {
    name: "a session that its own error keeps",
    breaks: "whoever sends 46 bytes and goes, again and again, has the process grow without end",
    place: "src/server/listener/connections.ts#upgraded",
    text: `session.once("close"`,
    replacement: `session.once("never"`,
    suites: ["test/server/memory.test.ts"],
  },
];
