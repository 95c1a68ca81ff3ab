/**
 * What a declared provider's answer means, by the rules of its declaration and by nothing else. Refusals are looked at
 * first, since some gateways refuse with the status of a success. After an answer that no rule describes the message
 * may have been sent, whatever the status: nobody has said what this gateway means by it.
 */
import type { SendOutcome } from "../../../otp/message/message.ts";
import { waitAskedMs } from "../outcome.ts";
import { readFormOrJson } from "./form.ts";
import { lookUp } from "./pointer.ts";
import type { AnswerRule, Declaration, DeclaredRefusal } from "./shape.ts";

/** An answer whose status has come. */
export interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The media type that it says it is. */
  readonly type: string | undefined;
  /** Undefined where it broke off, came too late or is too large. */
  readonly body: string | undefined;
}

type Rules = Pick<Declaration, "accepted" | "refused" | "id">;

/** Whether the body of an answer with this status decides what it means. Pure. */
export function needsBody({ accepted, refused }: Rules, status: number): boolean {
  return [accepted, ...refused].some((rule) => rule.status.includes(status) && isAboutBody(rule));
}

/** The outcome of an answer. It holds no words of the answer's but the provider's id, and the file's own. Pure. */
export function outcomeOf(rules: Rules, answer: Answer): SendOutcome {
  const { status, body } = answer;
  if (body === undefined && needsBody(rules, status)) return { kind: "ambiguous", detail: `HTTP ${status}, no answer` };
  const json = readFormOrJson(answer.type ?? "", body ?? "");
  for (const refusal of rules.refused) {
    if (!suits(refusal, answer, json)) continue;
    const detail = `HTTP ${status}${saidBy(refusal, json)}`;
    if (refusal.cause !== "throttled") return { kind: "refused", cause: refusal.cause, detail };
    const retryAfterMs = waitMs(refusal, answer, json);
    return { kind: "throttled", detail, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
  if (!suits(rules.accepted, answer, json)) return { kind: "ambiguous", detail: `HTTP ${status}` };
  const id = rules.id === undefined ? undefined : textOf(lookUp(json, rules.id));
  return { kind: "accepted", ...(id === undefined || id === "" ? {} : { providerMessageId: id }) };
}

/** A value as it is compared: the text of a text, a number, true or false; undefined of all else. Pure. */
export function textOf(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : undefined;
}

function isAboutBody({ pointer, match }: AnswerRule): boolean {
  return pointer !== undefined || match !== undefined;
}

function suits({ status, pointer, equals, match }: AnswerRule, answer: Answer, json: unknown): boolean {
  if (!status.includes(answer.status)) return false;
  if (match !== undefined) return match.some((text) => matches(answer.body ?? "", text));
  if (pointer === undefined) return true;
  const found = lookUp(json, pointer);
  if (equals === undefined) return found !== undefined && found !== null;
  const text = textOf(found);
  return equals.some((each) => String(each) === text);
}

/**
 * Whether a text is in an answer: `^` at its beginning is the answer's beginning, `$` at its end the answer's end, and all else
 * stands for itself. White space around the answer does not count. It takes the time of one look through the answer.
 */
function matches(body: string, text: string): boolean {
  const [atStart, atEnd] = [text.startsWith("^"), text.endsWith("$")];
  const wanted = text.slice(atStart ? 1 : 0, atEnd ? -1 : undefined);
  const said = body.trim();
  if (atStart && atEnd) return said === wanted;
  if (atStart) return said.startsWith(wanted);
  return atEnd ? said.endsWith(wanted) : said.includes(wanted);
}

/** What the answer said, as far as the file has it: an answer's own words may quote the number or the text. */
function saidBy({ pointer, equals }: DeclaredRefusal, json: unknown): string {
  return pointer === undefined || equals === undefined ? "" : `: ${textOf(lookUp(json, pointer))}`;
}

const waitSecondsMax = 86_400;

function waitMs({ retry_after: named }: DeclaredRefusal, { retryAfter }: Answer, json: unknown): number | undefined {
  const found = typeof named === "string" ? Number(textOf(lookUp(json, named)) ?? "none") : Number.NaN;
  if (found > 0) return Math.ceil(Math.min(found, waitSecondsMax) * 1_000);
  const asked = waitAskedMs(retryAfter);
  return asked ?? (typeof named === "number" ? named * 1_000 : undefined);
}
