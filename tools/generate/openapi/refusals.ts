/**
 * What a call can be refused for. A reason's code and status are what its comment ends with; which reasons a call can
 * meet is what the comments of its RPC and of the service name.
 */
import type { DescEnum } from "@bufbuild/protobuf";
import { reasons as table, type Reason } from "../../../src/otp/reason.ts";
import { particulars } from "./examples.ts";
import { callHeaders, challenge, replayed, retryAfter, retryAfterIfHarmless } from "./frame.ts";
import { commentOf, refTo, type JsonObject } from "./schemas.ts";

export interface ReasonRow {
  readonly name: Reason;
  /** As REST and Connect spell it, such as "invalid_argument". */
  readonly code: string;
  readonly status: string;
}

/** Reads the table of reasons. Throws for one whose comment does not end with its code and status. */
export function reasonRows(desc: DescEnum): readonly ReasonRow[] {
  return desc.values
    .filter(({ number }) => number !== 0)
    .map((value) => {
      const [, code, status] = / ([A-Z_]+), (\d{3})\.$/.exec(commentOf(value)) ?? [];
      if (code === undefined || status === undefined) {
        throw new Error(`the comment of ${value.name} does not end with its code and status, like "NOT_FOUND, 404."`);
      }
      return { name: value.localName as Reason, code: code.toLowerCase(), status };
    });
}

/** Whoever is refused with one of these codes is told when to try again, unless the body itself is at fault. */
const retryCodes = new Set(["resource_exhausted", "aborted", "unavailable"]);
const mayWait = ({ name, code }: ReasonRow) => retryCodes.has(code) && name !== "BODY_TOO_LARGE";

/** A body for each reason, without its `details`. */
export function errorExamples(rows: readonly ReasonRow[]): JsonObject {
  return Object.fromEntries(
    rows.map((row) => {
      const { name, code } = row;
      const wait = mayWait(row) ? { retry_after_seconds: 1 } : {};
      return [name, { value: { code, message: table[name].sentence, reason: name, ...wait, ...particulars[name] } }];
    }),
  );
}

/** The responses of a call that can be refused for these reasons, by status. */
export function refusals(rows: readonly ReasonRow[]): JsonObject {
  const byStatus = Map.groupBy(rows, ({ status }) => status);
  return Object.fromEntries([...byStatus].map(([status, some]) => [status, refusal(some)]));
}

function refusal(rows: readonly ReasonRow[]): JsonObject {
  const wait = rows.some(({ name }) => name === "STORE_UNAVAILABLE") ? retryAfterIfHarmless : retryAfter;
  const examples = Object.fromEntries(rows.map(({ name }) => [name, { $ref: `#/components/examples/${name}` }]));
  return {
    description: `Refused for ${rows.map(({ name }) => `\`${name}\``).join(", ")}.`,
    headers: {
      ...callHeaders,
      ...(rows.every(mayWait) ? wait : {}),
      ...(rows.some(({ name }) => name === "IDEMPOTENCY_KEY_REUSED") ? replayed : {}),
      ...(rows.every(({ code }) => code === "unauthenticated") ? challenge : {}),
    },
    content: { "application/json": { schema: refTo("Error"), examples } },
  };
}
