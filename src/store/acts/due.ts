/**
 * When the next message and the next event are due. Both workers ask once a second, also while nothing happens: those who
 * ask in one turn of the event loop share one read. It is sent after the last of them has asked.
 */
import type { Instant } from "../../system.ts";
import type { Engine } from "../engine.ts";

const due = {
  name: "next-due",
  text: `SELECT (SELECT min(due) FROM (
        SELECT min(due_ms) AS due FROM messages WHERE due_ms IS NOT NULL
        UNION ALL SELECT min(fallback_ms) FROM verifications WHERE fallback_ms IS NOT NULL
      ) AS soonest) AS message, (SELECT min(due_ms) FROM events) AS event`,
};

interface DueRow {
  readonly message: Instant | null;
  readonly event: Instant | null;
}

export function dueActs(engine: Engine) {
  let next: Promise<DueRow | undefined> | undefined;

  function read(): Promise<DueRow | undefined> {
    return (next ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        next = undefined;
        engine.query<DueRow>(due, []).then(([row]) => resolve(row), reject);
      });
    }));
  }

  return {
    nextDue: async (): Promise<Instant | undefined> => (await read())?.message ?? undefined,
    nextEventDue: async (): Promise<Instant | undefined> => (await read())?.event ?? undefined,
  };
}
