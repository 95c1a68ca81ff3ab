/**
 * Between a verification's log and the bytes in its row. Layout 1, numbers in one byte unless said otherwise:
 *
 *     1 | omitted | names | each name: bytes, UTF-8 | each entry: kind + 16 × copy | offset | outcome | name
 *
 * The offset is in milliseconds, 7 bits a byte, the lowest first, the eighth bit set in all but the last. Names are those
 * of providers; an entry has one only where its kind has a provider: its place in the list plus 1, or 0 for none. A row
 * without a log has NULL: one that an earlier version wrote.
 */
import { channels } from "../../otp/channel.ts";
import { eventTypes } from "../../otp/event-type.ts";
import { emptyLog, type Log, type LogEntry, type Outcomes } from "../../otp/log.ts";
import { at } from "./values.ts";

const layout = 1;
/** Stored by position: append only, 16 at most. */
const kinds = [
  "send",
  "resend",
  "call",
  "report",
  "guess",
  "end",
  "posted",
  "dropped",
  "fallback",
] as const satisfies (keyof Outcomes)[];

/** Stored by position: append only. */
const outcomes: { readonly [Kind in keyof Outcomes]: readonly Outcomes[Kind][] } = {
  send: channels,
  resend: channels,
  fallback: channels,
  call: [
    "accepted",
    "delivered",
    "undelivered",
    "recipient",
    "credentials",
    "balance",
    "content",
    "throttled",
    "unavailable",
    "ambiguous",
    "given-up",
  ],
  report: ["ACCEPTED", "DELIVERED", "UNDELIVERED"],
  guess: ["right", "wrong"],
  end: ["VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"],
  posted: eventTypes,
  dropped: eventTypes,
};

const hasProvider = (kind: LogEntry["kind"]) => kind === "call" || kind === "report";
const nameBytesMax = 255;

/** Where bytes are put together: a log with 32 names of 255 bytes fits. */
const scratch = Buffer.alloc(16_384);

export function logBytes({ entries, omitted }: Log): Buffer {
  const names: string[] = [];
  for (const { provider } of entries) if (provider !== null && !names.includes(provider)) names.push(provider);
  let end = 0;
  scratch[end++] = layout;
  scratch[end++] = omitted;
  scratch[end++] = names.length;
  for (const name of names) {
    const length = scratch.write(name, end + 1, nameBytesMax);
    scratch[end] = length;
    end += length + 1;
  }
  for (const { kind, copy, offsetMs, outcome, provider } of entries) {
    scratch[end++] = kinds.indexOf(kind) | (copy << 4);
    let rest = offsetMs;
    for (; rest > 127; rest = Math.floor(rest / 128)) scratch[end++] = (rest % 128) | 128;
    scratch[end++] = rest;
    scratch[end++] = (outcomes[kind] as readonly string[]).indexOf(outcome);
    if (hasProvider(kind)) scratch[end++] = provider === null ? 0 : names.indexOf(provider) + 1;
  }
  return Buffer.from(scratch.subarray(0, end));
}

/** Throws where a newer version wrote it. */
export function toLog(bytes: Uint8Array | null): Log {
  if (bytes === null) return emptyLog;
  let place = 0;
  const next = () => at(bytes as unknown as readonly number[], place++);
  if (next() !== layout) throw new Error("the database holds a log from a newer version");
  const omitted = next();
  const names = Array.from({ length: next() }, () => {
    const length = next();
    place += length;
    return Buffer.from(bytes.subarray(place - length, place)).toString();
  });
  const entries: LogEntry[] = [];
  while (place < bytes.length) {
    const first = next();
    const kind = at(kinds, first & 15);
    let offsetMs = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = next();
      offsetMs += (byte & 127) * unit;
      if (byte < 128) break;
    }
    const outcome = at<string>(outcomes[kind], next());
    const provider = hasProvider(kind) ? (names[next() - 1] ?? null) : null;
    entries.push({ kind, copy: first >> 4, offsetMs, outcome, provider } as LogEntry);
  }
  return { entries, omitted };
}
