/**
 * The log of requests that were refused before they became a call: a wrong path, method or type, a page of an origin that no
 * key lists. Anybody can make them, so their lines are bounded, together with those of calls without a valid key and of a
 * page's key that was not let in. Paths are masked: they may hold a number, a code, an id or a key.
 */
import type { Reason } from "../otp/reason.ts";
import { secondMs, type System } from "../system.ts";

/** A request that was refused before it became a call. */
export interface TurnedAway {
  /** The id that was answered as `x-call-id`. */
  readonly id: string;
  readonly reason: Reason;
  readonly status: number;
  /** "?" where the bytes were no request that could be read, as `path` then. */
  readonly method: string;
  /** As it came, without the query. */
  readonly path: string;
  /** The page's origin, where that was the reason. */
  readonly origin?: string | undefined;
}

export interface TurnedAwayLog {
  /** Writes a request, or counts it where too many were written lately. */
  add(request: TurnedAway): void;
  /** Takes one of this second's lines for a call that anybody could have made, or counts the call where none is left. */
  takeLine(): boolean;
  /** Writes at once how many were counted since the last line. */
  end(): void;
}

export interface TurnedAwayLogOptions {
  readonly system: Pick<System, "monotonicMs" | "after">;
  /** Writes a line of a request, its path and origin masked. */
  readonly write: (request: TurnedAway) => void;
  /** Writes a line of how many further ones there were. */
  readonly writeRest: (count: number) => void;
}

const linesPerSecond = 10;
const textCharsMax = 200;

export function createTurnedAwayLog({ system, write, writeRest }: TurnedAwayLogOptions): TurnedAwayLog {
  let beginMs = Number.NEGATIVE_INFINITY;
  let lines = 0;
  let rest = 0;
  let cancel = () => {};

  function end(): void {
    cancel();
    if (rest > 0) writeRest(rest);
    rest = 0;
  }

  function takeLine(): boolean {
    const now = system.monotonicMs();
    if (now - beginMs >= secondMs) {
      end();
      beginMs = now;
      lines = 0;
    }
    lines += 1;
    if (lines <= linesPerSecond) return true;
    rest += 1;
    if (rest === 1) cancel = system.after(beginMs + secondMs - now, end);
    return false;
  }

  return {
    add(request) {
      if (!takeLine()) return;
      const { origin } = request;
      write({
        ...request,
        method: /^[A-Z]{1,20}$/.test(request.method) ? request.method : "?",
        path: maskedPath(request.path),
        ...(origin === undefined ? {} : { origin: maskedOrigin(origin) }),
      });
    },
    takeLine,
    end,
  };
}

/**
 * A path without digits, except a version such as v1, and without what looks like base64url: 20 characters or more that are
 * not all small letters and dashes, as words are. Pure.
 */
export function maskedPath(path: string): string {
  return printable(path)
    .replaceAll(/[\w-]{20,}/g, (run) => (/^[a-z_-]+$/.test(run) ? run : "…"))
    .replaceAll(/(?<!(?:^|[/.])v(?=\d(?:[/.]|$)))\d/g, "•");
}

/** An origin as browsers write it, but for what could be a whole number in it; of anything else what a path would show. Pure. */
export function maskedOrigin(origin: string): string {
  if (!/^(?:null|[a-z][a-z\d+.-]{0,20}:\/\/(?:[a-z\d.-]{1,255}|\[[\da-f:.]{2,45}\])(?::\d{1,5})?)$/.test(origin))
    return maskedPath(origin);
  return printable(origin).replaceAll(/\d{7,}/g, (run) => "•".repeat(run.length));
}

/** A text of visible ASCII, cut to 200 characters. */
function printable(text: string): string {
  return text.slice(0, textCharsMax).replaceAll(/[^\x21-\x7e]/g, "?");
}
