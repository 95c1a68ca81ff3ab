/**
 * The callers of a simulated service. Each call notes what it came to, whenever that is, and compares it with what is
 * known: a repeat with what the first call was told, a retry hint with what it must hold, an answer with the database.
 */
import { isDeepStrictEqual } from "node:util";
import { endsWithinMs } from "../../src/otp/limits/pumping-guard.ts";
import type { Reason, Refusal } from "../../src/otp/reason.ts";
import { Secret } from "../../src/otp/keys/secret.ts";
import type { Answer, Caller } from "../../src/service/calls.ts";
import { StoreUnavailable } from "../../src/store/store.ts";
import { hold } from "./violation.ts";
import type { World } from "./world.ts";

/** What a caller asks for. */
export type Ask =
  | { readonly rpc: "send"; readonly phone: string; readonly knownUser: boolean; readonly purpose: string }
  | { readonly rpc: "verify"; readonly id: string; readonly code: string; readonly purpose: string }
  | { readonly rpc: "resend" | "cancel" | "get"; readonly id: string };

export interface Call {
  readonly ask: Ask;
  readonly key: string | undefined;
  readonly atMs: number;
  /** What it came to; undefined while under way, and for ever when nobody will hear of it. */
  answer?: Answer<Success>;
  /** True when the service could not say. */
  failed?: boolean;
}

/** The union of what the acts tell. */
export interface Success {
  readonly id: string;
  readonly state?: string;
  readonly expireMs?: number;
  readonly digits?: number;
  readonly at?: number;
}

/** Refusals that come with a time to wait. */
const withHint = new Set<Reason>([
  "RESEND_TOO_SOON",
  "PHONE_RATE_LIMITED",
  "SPEND_LIMIT",
  "DELIVERY_FAILED",
  "STORE_UNAVAILABLE",
  "IDEMPOTENCY_IN_PROGRESS",
]);

/** Refusals that spend nothing and write nothing. */
export const harmless = new Set<Reason>([
  "CODE_MALFORMED",
  "PURPOSE_MISMATCH",
  "REQUEST_NOT_FOUND",
  "RESENDS_EXHAUSTED",
  "RESEND_TOO_SOON",
  "PHONE_RATE_LIMITED",
  "SPEND_LIMIT",
  "PHONE_INVALID",
  "PHONE_NOT_MOBILE",
  "DESTINATION_BLOCKED",
  "IDEMPOTENCY_KEY_REUSED",
  "IDEMPOTENCY_IN_PROGRESS",
  "OTP_ALREADY_VERIFIED",
  "OTP_LOCKED",
  "OTP_CANCELED",
  "OTP_FAILED",
]);

/** Refusals that are kept under an Idempotency-Key, because they spent something. */
const kept = new Set<Reason>(["CODE_MISMATCH", "PHONE_UNREACHABLE"]);

const keptMs = 86_400_000;

function takesEffect({ answer }: Call): boolean {
  if (answer === undefined || answer.replayed) return false;
  return answer.result.ok || kept.has(answer.result.refusal.reason);
}

export class Callers {
  /** How often each answer came, over the whole run. */
  readonly answerCounts = new Map<string, number>();
  /** The calls that were made with each Idempotency-Key, in their order. */
  readonly keyed = new Map<string, Call[]>();
  readonly #world: World;
  #keys = 0;

  constructor(world: World) {
    this.#world = world;
  }

  newKey(): string {
    return `key-${this.#keys++}`;
  }

  /** Makes a call, and returns at once. */
  call(ask: Ask, key?: string, tenant = "default"): Call {
    const world = this.#world;
    const call: Call = { ask, key, atMs: world.now() };
    if (key !== undefined) this.keyed.set(key, [...(this.keyed.get(key) ?? []), call]);
    const caller: Caller = { tenant, keyId: `of ${tenant}`, idempotencyKey: key, isPublishable: false };
    if (ask.rpc === "verify") world.invariants.guessing(ask.id);
    this.#ask(caller, ask).then(
      (answer) => {
        call.answer = answer as Answer<Success>;
        this.#onAnswer(call, call.answer);
      },
      (error: unknown) => {
        call.failed = true;
        this.#count(error instanceof StoreUnavailable ? "STORE_UNAVAILABLE" : "a bug");
        world.note("failed", ask.rpc);
        if (!(error instanceof StoreUnavailable)) this.#bugs.push(error);
      },
    );
    return call;
  }

  readonly #bugs: unknown[] = [];

  /** Throws what a call threw that is no refusal and no unavailability. */
  inspect(): void {
    if (this.#bugs.length > 0) throw this.#bugs[0];
  }

  #ask(caller: Caller, ask: Ask): Promise<Answer<unknown>> {
    const { verifications } = this.#world.life;
    if (ask.rpc === "send") {
      const { phone, knownUser, purpose } = ask;
      const rest = { channel: "", locale: "", bind: {}, webOrigin: undefined, appHash: undefined };
      const challengeToken = new Secret("");
      return verifications.send(caller, { ...rest, phone, purpose, knownUser, challengeToken });
    }
    if (ask.rpc === "verify") {
      return verifications.verify(caller, { id: ask.id, code: new Secret(ask.code), purpose: ask.purpose, bind: {} });
    }
    if (ask.rpc === "resend") return verifications.resend(caller, { id: ask.id, channel: "" });
    return verifications[ask.rpc](caller, ask.id);
  }

  #onAnswer(call: Call, answer: Answer<Success>): void {
    const { ask } = call;
    const { result, replayed } = answer;
    this.#world.note(ask.rpc, replayed, result);
    this.#count(result.ok ? `${ask.rpc} ok` : result.refusal.reason);
    if (replayed) this.#count("replayed");
    try {
      if (ask.rpc === "verify") this.#guessed(ask.id, answer);
      if (!result.ok) this.#inspectRefusal(result.refusal);
      else this.#inspectSuccess(ask, result.value);
    } catch (error) {
      this.#bugs.push(error);
    }
  }

  #guessed(id: string, { result, replayed }: Answer<Success>): void {
    const { invariants } = this.#world;
    const now = this.#world.now();
    if (replayed) invariants.guessed(id, "not compared");
    else if (result.ok) invariants.guessed(id, "right", 0, now);
    else if (result.refusal.reason !== "CODE_MISMATCH") invariants.guessed(id, "not compared");
    else invariants.guessed(id, "wrong", result.refusal.attemptsRemaining ?? -1, now);
  }

  #inspectRefusal({ reason, retryAfterMs }: Refusal): void {
    hold(withHint.has(reason) === (retryAfterMs ?? 0) > 0, "I15", `${reason} says to wait ${retryAfterMs} ms`);
    const { phoneLimits, fraudGuard } = this.#world.policy;
    const guardMs = fraudGuard === "enforce" ? endsWithinMs : 0;
    const slowest = Math.max(guardMs, ...phoneLimits.map(({ intervalMs }) => intervalMs));
    const isStuck = reason === "PHONE_RATE_LIMITED" && (retryAfterMs ?? 0) > slowest;
    hold(!isStuck, "I15", `a bucket is stuck for ${retryAfterMs} ms`);
  }

  #inspectSuccess(ask: Ask, success: Success): void {
    const known = this.#world.invariants.known.get(success.id);
    hold(known !== undefined, "I7", "an acknowledged verification was committed");
    if (ask.rpc !== "send") hold(success.id === ask.id, "I14", "the answer is about the verification asked for");
    if (ask.rpc === "verify") {
      const typed = ask.code.replaceAll(/[ -]/g, "");
      hold(typed === known.code, "I4", "a success needs the verification's own code");
    }
    if (ask.rpc === "send" || ask.rpc === "resend" || ask.rpc === "get") {
      hold(success.expireMs === known.first.expireMs, "I3", "no answer tells of a longer life");
      hold(success.digits === known.code.length, "I8", "the answer tells the code's length");
    }
    // A random id, and a phone, may hold any six digits by chance.
    const texts = Object.values(success).filter((value) => value !== success.id && value !== known.phone);
    hold(!texts.some((value) => String(value) === known.code), "I13", "no answer holds the code");
  }

  /** Compares the latest call of a key with the one before it that took effect, if that was heard of. */
  inspectRepeat(key: string): void {
    const calls = this.keyed.get(key) ?? [];
    const { ask, atMs, answer } = calls.at(-1) ?? {};
    const first = calls.slice(0, -1).findLast((call) => call.answer === undefined || takesEffect(call));
    const firstAnswer = first?.answer;
    if (answer === undefined || first === undefined || firstAnswer === undefined) return;
    // A get changes nothing, and a canceled verification is answered again without a word to the record.
    if (ask?.rpc === "get" || ask?.rpc === "cancel" || (atMs ?? 0) - first.atMs >= keptMs) return;
    hold(answer.replayed, "I12", `a repeat of ${ask?.rpc} was taken for a first call`);
    hold(isDeepStrictEqual(answer.result, firstAnswer.result), "I12", "a repeat is told the same");
  }

  #count(what: string): void {
    this.answerCounts.set(what, (this.answerCounts.get(what) ?? 0) + 1);
  }
}
