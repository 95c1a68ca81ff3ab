/**
 * The log, JSON lines on standard error: one function per kind of entry, each with an allow-list of fields. Numbers are
 * masked; no function takes a code or a key.
 */
import { pino, type Logger } from "pino";
import { createLogLines } from "./log-lines.ts";
import type { SpendWarning } from "./otp/verification/daily-cap.ts";
import type { Channel } from "./otp/channel.ts";
import type { SendOutcome } from "./otp/message/message.ts";
import { moneyText } from "./otp/message/prices.ts";
import { providerName } from "./otp/message/provider-text.ts";
import type { PrefixDecision } from "./otp/limits/pumping-guard.ts";

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

/** A call as it is logged: no field of its message, and of a key only its id. */
export interface AnsweredCall {
  readonly id: string;
  readonly rpc: string;
  readonly surface: string;
  readonly caller?: { readonly tenant: string; readonly id: string };
  readonly refusal?: { readonly reason: string; readonly keyId?: string };
  readonly isCanceled?: boolean;
  readonly requestRef?: string | undefined;
}

/** Whose message a provider was called for: the verification by the reference that logs have (otp/verification/verification.ts). */
export interface CalledFor {
  readonly channel: Channel;
  readonly tenant: string;
  /** The call that handed it over; undefined where it came from the outbox. */
  readonly callId: string | undefined;
  readonly requestRef: string;
}

/** How long a provider took, and the HTTP status of its answer, where one came. */
export interface Answered {
  readonly durationMs: number;
  readonly httpStatus: number | undefined;
}

/** A request that became no call, as it is logged. */
export interface UncalledRequest {
  readonly id: string;
  readonly reason: string;
  readonly status: number;
  readonly method: string;
  readonly path: string;
  readonly origin?: string | undefined;
}

export interface Telemetry {
  call(call: AnsweredCall, status: number, durationMs: number): void;
  /** A request was refused before it became a call; its path and origin are masked. */
  turnedAway(request: UncalledRequest): void;
  /** So many further ones were. */
  turnedAwayRest(count: number): void;
  providerCall(provider: string, outcome: SendOutcome, answered: Answered, calledFor: CalledFor): void;
  /** A provider is not called any more, since it failed too often; or is called again. */
  breaker(provider: string, isClosed: boolean, channel: Channel): void;
  /** A genuine report is on no message of ours. Of its reference, which may be anything, three characters are told. */
  unmatchedReport(provider: string, reference: string): void;
  /** A report was refused as not genuine, and so many before it without a line. */
  refusedReport(provider: string, cause: string, omitted: number): void;
  /** A failure whose cause no caller was told. */
  fault(where: string, error: unknown, callId?: string): void;
  /** The pumping guard blocked a prefix, or would have if it were not to observe only. */
  tripped(trip: { readonly tenant: string; readonly prefix: string; readonly decision: PrefixDecision }): void;
  /** A prefix had no room for a send before its codes are typed: it was refused, or would be if the guard enforced. */
  prefixLimited(of: { readonly tenant: string; readonly prefix: string; readonly decision: PrefixDecision }): void;
  /** The machine's clock was set, by so many milliseconds. */
  clockJump(jumpMs: number): void;
  /** A stage of the service's life, such as "listening". */
  lifecycle(event: string, fields?: Record<string, string | number>): void;
  /** A tenant has reached a share of a cap on its UTC day: once a day for each share of each cap. */
  spendWarning(tenant: string, warning: SpendWarning): void;
  warning(message: string): void;
  /** Resolves once all entries so far are written, or cannot be. */
  flush(): Promise<void>;
}

/** `lines` takes what is told; standard error does unless given. */
export function createTelemetry(level: LogLevel, version: string, lines = createLogLines(2)): Telemetry {
  const log: Logger = pino(
    { level, base: { service: "otpd", version }, timestamp: pino.stdTimeFunctions.isoTime },
    lines,
  );
  const isTold = log.isLevelEnabled("info");
  const lineOf = callLines(version);
  return {
    call(...of) {
      if (isTold) lines.write(lineOf(...of));
    },
    turnedAway({ id, reason, status, method, path, origin }) {
      log.info({ call_id: id, reason, status, method, path, origin }, "turned away");
    },
    turnedAwayRest(count) {
      log.info({ count }, "more were turned away, and are not listed");
    },
    providerCall(provider, outcome, { durationMs, httpStatus }, calledFor) {
      // While a provider is not called, every message would say so.
      const told = outcome.kind === "accepted" || "isUnasked" in outcome ? "debug" : "warn";
      if (!log.isLevelEnabled(told)) return;
      const cause = outcome.kind === "refused" ? outcome.cause : undefined;
      const took = { duration_ms: durationMs, http_status: httpStatus };
      log[told]({ provider, ...took, ...callFields(outcome, calledFor), cause }, "provider call");
    },
    breaker(provider, isClosed, channel) {
      if (isClosed) log.info({ provider, channel }, "the provider is called again");
      else log.warn({ provider, channel }, "the provider failed too often and is left alone until a trial succeeds");
    },
    unmatchedReport(provider, reference) {
      const shown = `${reference.slice(0, 3).replaceAll(/[^A-Za-z0-9_.-]/g, "?")}…`;
      log.warn(
        { provider, reference: shown, length: reference.length },
        "a genuine report is on no message of ours: its reference is not what messages are sent with, or the message is forgotten",
      );
    },
    refusedReport(provider, cause, omitted) {
      log.warn(
        { provider, cause, omitted: omitted || undefined },
        "a report was refused: it is not proven to be the provider's",
      );
    },
    fault(where, error, callId) {
      log.error({ where, call_id: callId, error: describe(error) }, "fault");
    },
    tripped({ tenant, prefix, decision }) {
      const { ended, verified, untilMs, enforced } = decision;
      const until = untilMs === null ? undefined : new Date(untilMs).toISOString();
      log.warn(
        { tenant, prefix, ended, matured: ended, verified, until, enforced },
        "few of a prefix's codes are typed, as when somebody pumps messages: otpd destinations explain tells more",
      );
    },
    prefixLimited({ tenant, prefix, decision: { ended, verified, enforced } }) {
      log.warn(
        { tenant, prefix, ended, verified, enforced },
        "more is sent to a prefix than it takes before its codes are typed: otpd destinations explain tells more",
      );
    },
    clockJump(jumpMs) {
      log.warn({ jump_ms: jumpMs }, "the machine's clock was set; time goes on from the latest moment seen");
    },
    lifecycle(event, fields = {}) {
      log.info(fields, event);
    },
    spendWarning(tenant, { share, cap, currency, country, channel }) {
      log.warn(
        { tenant, share_percent: share, cap: capShown(cap, currency), country, channel },
        share === 100 ? "the daily cap is reached" : "the daily cap is near",
      );
    },
    warning(message) {
      log.warn(message);
    },
    flush: lines.written,
  };
}

/** Makes what writes the line of a call: by hand, in two thirds of the time that pino takes for the same bytes. */
function callLines(version: string): (...of: Parameters<Telemetry["call"]>) => string {
  const text = JSON.stringify;
  const head = `,"service":"otpd","version":${text(version)},"call_id":`;
  return ({ id, rpc, surface, refusal, isCanceled, caller, requestRef }, status, durationMs) => {
    const why = refusal === undefined ? "" : `,"reason":${text(refusal.reason)}`;
    const canceled = isCanceled === true ? `,"canceled":true` : "";
    const which = requestRef === undefined ? "" : `,"request_ref":${text(requestRef)}`;
    const what = `${text(id)},"rpc":${text(rpc)},"surface":${text(surface)},"status":${status}${why}${canceled}`;
    const time = pino.stdTimeFunctions.isoTime();
    return `{"level":30${time}${head}${what},"duration_ms":${durationMs}${whose(caller, refusal)}${which},"msg":"call"}\n`;
  };
}

/** A cap as it is logged: of money with its currency. */
function capShown(cap: number, currency: string | undefined): number | string {
  return currency === undefined ? cap : `${moneyText(cap)} ${currency}`;
}

/** Whose call it was, as the rest of a line: of a key that is revoked or has expired only the id. */
function whose(caller: AnsweredCall["caller"], refusal: AnsweredCall["refusal"]): string {
  const keyId = caller?.id ?? refusal?.keyId;
  const tenant = caller === undefined ? "" : `,"tenant":${JSON.stringify(caller.tenant)}`;
  return keyId === undefined ? tenant : `${tenant},"key_id":${JSON.stringify(keyId)}`;
}

/** What a provider's call came to, and for whom it was. */
function callFields(
  outcome: SendOutcome,
  { channel, tenant, callId, requestRef }: CalledFor,
): Record<string, string | undefined> {
  const named = outcome.kind === "accepted" ? providerName(outcome.providerMessageId) : null;
  return {
    channel,
    outcome: outcome.kind,
    tenant,
    call_id: callId,
    request_ref: requestRef,
    provider_message_id: named ?? undefined,
  };
}

/** An error as it is logged: its name, code and stack, and its message if the error is the database's or ours. */
function describe(error: unknown): { name: string; code?: string; message?: string; stack?: string } {
  if (!(error instanceof Error)) return { name: typeof error };
  const places = (error.stack ?? "").split("\n").filter((line) => /^ {4}at /.test(line));
  // Other messages may quote values; the database's and ours hold none, nor do codes.
  const ours = error.name === "StoreUnavailable" || error.name === "SqliteError";
  const { code } = error as { code?: unknown };
  return {
    name: error.name,
    ...(typeof code === "string" && /^[A-Z0-9_]{1,64}$/.test(code) ? { code } : {}),
    ...(ours ? { message: error.message } : {}),
    stack: places.slice(0, 8).join("\n"),
  };
}
