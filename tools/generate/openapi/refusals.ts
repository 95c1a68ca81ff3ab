/**
 * What a call can be refused for. A reason's code and status are what its comment ends with; which reasons a call can
 * meet is what the comments of its RPC and of the service name.
 */
import type { DescEnum, DescMessage } from "@bufbuild/protobuf";
import { reasons as table, type Reason } from "../../../src/otp/reason.ts";
import { particulars } from "./examples.ts";
import { callHeaders, callIdIfLogged, challenge, replayed, retryAfter, retryAfterIfHarmless } from "./frame.ts";
import { commentOf, fieldSchema, refTo, type JsonObject } from "./schemas.ts";

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
  const mayBeFull = rows.some(({ name }) => name === "STORE_UNAVAILABLE");
  const wait = mayBeFull ? retryAfterIfHarmless : retryAfter;
  const examples = Object.fromEntries(rows.map(({ name }) => [name, { $ref: `#/components/examples/${name}` }]));
  return {
    description: `Refused for ${rows.map(({ name }) => `\`${name}\``).join(", ")}.`,
    headers: {
      ...callHeaders,
      ...(mayBeFull ? callIdIfLogged : {}),
      ...(rows.every(mayWait) ? wait : {}),
      ...(rows.some(({ name }) => name === "IDEMPOTENCY_KEY_REUSED") ? replayed : {}),
      ...(rows.every(({ code }) => code === "unauthenticated") ? challenge : {}),
    },
    content: { "application/json": { schema: unionOf(rows), examples } },
  };
}

// ---- schemas --------------------------------------------------------------------------------------------------------

/** The schema of a reason's body: `CodeMismatchRefusal` of CODE_MISMATCH. */
export function refusalName(reason: Reason): string {
  const words = reason.split("_").map((word) => word.slice(0, 1) + word.slice(1).toLowerCase());
  return `${words.join("")}Refusal`;
}

/** A body of any of these reasons, told apart by `reason`. */
export function unionOf(rows: readonly ReasonRow[]): JsonObject {
  const [only, ...more] = rows.map(({ name }) => refTo(refusalName(name)));
  if (only !== undefined && more.length === 0) return only;
  const mapping = rows.map(({ name }) => [name, `#/components/schemas/${refusalName(name)}`]);
  return {
    oneOf: rows.map(({ name }) => refTo(refusalName(name))),
    discriminator: { propertyName: "reason", mapping: Object.fromEntries(mapping) as JsonObject },
  };
}

/** A refusal for one of these codes may be about a field of the request. */
const codesOfFields = new Set(["invalid_argument", "failed_precondition", "permission_denied", "resource_exhausted"]);

/** The body of each reason: Connect's, with the fields of `OtpError` that the reason has at its top level. */
export function refusalSchemas({ fields }: DescMessage, desc: DescEnum, rows: readonly ReasonRow[]): JsonObject {
  const scalars = fields.filter(({ fieldKind }) => fieldKind === "scalar");
  const { field, attempts_remaining: attempts } = Object.fromEntries(
    scalars.map((one) => [one.name, fieldSchema(one)]),
  );
  if (field === undefined || attempts === undefined) throw new Error("OtpError lacks field or attempts_remaining");
  const bodies = rows.map((row) => {
    const comment = desc.values.find(({ localName }) => localName === row.name);
    const hasAttempts = row.name === "CODE_MISMATCH";
    // The rest may be told without it: a call without an Idempotency-Key that may have taken effect is not to be repeated.
    const hasWait = mayWait(row) && row.code !== "unavailable";
    const schema = {
      type: "object",
      description: comment === undefined ? "" : commentOf(comment),
      required: [
        "code",
        "message",
        "reason",
        ...(hasAttempts ? ["attempts_remaining"] : []),
        ...(hasWait ? ["retry_after_seconds"] : []),
      ],
      properties: {
        code: { type: "string", description: "The gRPC code.", enum: [row.code] },
        message: { type: "string", description: "A sentence for people, which may change. It repeats no value." },
        reason: { type: "string", description: "Why: a value of `Reason`, without its prefix.", enum: [row.name] },
        ...(codesOfFields.has(row.code) ? { field } : {}),
        ...(hasAttempts ? { attempts_remaining: attempts } : {}),
        ...(mayWait(row) ? { retry_after_seconds: waitSchema } : {}),
        details: { type: "array", description: aboutDetails, items: refTo("RefusalDetail") },
      },
    };
    return [refusalName(row.name), schema];
  });
  const any = {
    description: "Why a call was refused. Decide by `reason`, or by the status where you do not know the reason.",
    ...unionOf(rows),
  };
  return { OtpRefusal: any, ...(Object.fromEntries(bodies) as JsonObject), RefusalDetail: detailSchema };
}

const waitSchema = { type: "integer", minimum: 1, description: "The same as the header Retry-After." };
const aboutDetails = "The same once more, for typed clients of gRPC and Connect.";
const detailSchema = {
  type: "object",
  description: "A protobuf message about a refusal.",
  required: ["type", "value"],
  properties: {
    type: { type: "string", description: "The name of a protobuf message." },
    value: { type: "string", description: "The message, in base64." },
    debug: { type: "object", description: "The message, for people.", additionalProperties: true },
  },
};
