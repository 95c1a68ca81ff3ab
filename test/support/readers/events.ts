/**
 * Events as their receiver reads them: each must be one that gen/openapi.json has.
 */

import { expectDocumentedEvent } from "./openapi.ts";

export interface ReadEvent {
  readonly type: string;
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Reads the body of an event; throws when it has not just the three parts that it is to have. */
export function parseEvent(body: string): ReadEvent {
  const read = JSON.parse(body) as ReadEvent;
  const keys = Object.keys(read).join(" ");
  if (keys !== "type timestamp data") throw new Error(`an event has ${keys}`);
  expectDocumentedEvent(read);
  return read;
}
