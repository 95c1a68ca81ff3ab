/**
 * Traces, by OpenTelemetry's API: a span for each call that not anybody could make, and spans below it for acts of the store and calls of providers. They
 * need an SDK that is loaded before the service (docs/tracing.md). Without one nothing is wrapped, and costs nothing.
 *
 * A span names what was done and its outcome. It holds no phone, no code, no key, and nothing that a provider said.
 */
import {
  context,
  createTraceState,
  isSpanContextValid,
  propagation,
  ProxyTracer,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes,
  type Context,
  type Span,
  type Tracer,
  type TracerProvider,
} from "@opentelemetry/api";
import { AsyncLocalStorage } from "node:async_hooks";
import type { Provider } from "../delivery/provider.ts";
import type { Store } from "../store/store.ts";
import { codeOfRefusal } from "../otp/reason.ts";
import { inTime, type System } from "../system.ts";
import { callOutcomeOf, type FinishedCall } from "./outcome.ts";

/** A call as its span describes it. Its refusal is known once it is answered. */
export interface TracedCall extends FinishedCall {
  readonly id: string;
  readonly rpc: string;
  readonly surface: string;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

export interface Tracing {
  /** Performs a call within a span, below the span that its headers name. Undefined where nothing is traced. */
  readonly call: (<T>(call: TracedCall, headers: Headers, perform: () => Promise<T>) => Promise<T>) | undefined;
  /** A store whose acts are spans below their call's. */
  readonly store: (store: Store, kind: string) => Store;
  /** A provider whose calls are spans. */
  readonly provider: <P extends Provider>(provider: P) => P;
  /** A system whose timers belong to no call: a recurring task would belong to the call that set its first timer. */
  readonly system: (system: System) => System;
  /** Has the SDK export what it still holds, if it can; waits for a second at most, and never rejects. */
  readonly flush: (system: Pick<System, "after">) => Promise<void>;
}

/** What a provider of tracers may offer: the API's own delegates to the SDK's. */
interface Flushable extends TracerProvider {
  readonly forceFlush?: () => Promise<void>;
  readonly getDelegate?: () => TracerProvider;
}

/** For how long a stop waits for an SDK. */
const flushTimeoutMs = 1_000;

const untraced: Tracing = {
  call: undefined,
  store: (store) => store,
  provider: (provider) => provider,
  system: (system) => system,
  flush: () => Promise.resolve(),
};

/** Acts that get a span. What recurs belongs to no call. */
const acts: ReadonlySet<PropertyKey> = new Set<keyof Store>([
  "openVerification",
  "updateVerification",
  "readVerification",
  "readMessages",
  "noteAnswer",
  "settleMessage",
]);

/** Of OTEL_SEMCONV_STABILITY_OPT_IN: the names from before the release candidate too, for whoever moves dashboards. */
const oldNamesToo = "rpc/dup";

/**
 * Looks once whether there is an SDK. `service` is the full name of the RPCs' service, `optIn` what the environment has in
 * OTEL_SEMCONV_STABILITY_OPT_IN, a comma list.
 */
export function createTracing(service: string, optIn = ""): Tracing {
  const hasOldNames = optIn.split(",").some((name) => name.trim() === oldNamesToo);
  const tracer = trace.getTracer("otpd");
  // It would delegate to an SDK, and there is none.
  if (tracer instanceof ProxyTracer) return untraced;
  // The current span. The SDK's own context manager may not be set up.
  const current = new AsyncLocalStorage<Context>();

  const within = spansOf(tracer, current);

  return {
    call(call, headers, perform) {
      const isGrpc = call.surface.startsWith("grpc");
      const method = `${service}/${call.rpc}`;
      const attributes = {
        "rpc.system.name": isGrpc ? "grpc" : "connectrpc",
        "rpc.method": method,
        ...(hasOldNames ? { "rpc.system": isGrpc ? "grpc" : "connect_rpc", "rpc.service": service } : {}),
        "otp.surface": call.surface,
        "otp.call_id": call.id,
      };
      const start = { name: method, kind: SpanKind.SERVER, attributes, parent: parentOf(headers) };
      return within(start, perform, (span) => {
        const { refusal } = call;
        if (refusal === undefined) {
          if (isGrpc) span.setAttribute("rpc.response.status_code", "OK");
          return;
        }
        // As each of them spells it. Connect has a code for errors alone.
        const status = isGrpc ? codeOfRefusal(refusal) : codeOfRefusal(refusal).toLowerCase();
        span.setAttributes({ "rpc.response.status_code": status, "otp.reason": refusal.reason });
        if (!["failed", "free"].includes(callOutcomeOf(call))) return;
        span.setAttribute("error.type", status);
        span.setStatus({ code: SpanStatusCode.ERROR, message: refusal.reason });
      });
    },
    store: (store, kind) =>
      new Proxy(store, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name);
          if (typeof value !== "function") return value;
          if (!acts.has(name)) return value.bind(target) as unknown;
          return (...args: unknown[]) => {
            const act = () => value.apply(target, args) as Promise<unknown>;
            const parent = current.getStore();
            if (parent === undefined) return act();
            const attributes = { "db.system.name": kind, "db.operation.name": String(name) };
            return within({ name: `store ${String(name)}`, kind: SpanKind.CLIENT, attributes, parent }, act);
          };
        },
      }),
    provider: (provider) => ({
      ...provider,
      send(sms, signal, onStatus) {
        const attributes = { "otp.provider": provider.name, "otp.channel": sms.channel, "otp.country": sms.region };
        const parent = current.getStore() ?? ROOT_CONTEXT;
        const start = { name: `provider ${provider.name}`, kind: SpanKind.CLIENT, attributes, parent };
        return within(
          start,
          () => provider.send(sms, signal, onStatus),
          (span, { kind }) => {
            span.setAttribute("otp.outcome", kind);
            if (kind === "unavailable" || kind === "ambiguous")
              span.setStatus({ code: SpanStatusCode.ERROR, message: kind });
          },
        );
      },
    }),
    system: (system) => ({
      ...system,
      after: (ms, act) => system.after(ms, () => current.exit(() => context.with(ROOT_CONTEXT, act))),
    }),
    flush,
  };
}

interface SpanStart {
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: Attributes;
  readonly parent: Context;
}

/** Makes the function that does work within a span, and ends the span with it. */
function spansOf(tracer: Tracer, current: AsyncLocalStorage<Context>) {
  return async function within<T>(
    { name, kind, attributes, parent }: SpanStart,
    work: () => Promise<T>,
    onDone: (span: Span, result: T) => void = () => {},
  ): Promise<T> {
    const span = tracer.startSpan(name, { kind, attributes }, parent);
    const here = trace.setSpan(parent, span);
    try {
      const result = await context.with(here, () => current.run(here, work));
      onDone(span, result);
      return result;
    } catch (error) {
      // Its message may quote what it failed on.
      span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.name : typeof error });
      throw error;
    } finally {
      span.end();
    }
  };
}

async function flush(system: Pick<System, "after">): Promise<void> {
  const named: Flushable = trace.getTracerProvider();
  // Not by its class: an SDK may bring its own copy of the API.
  const provider: Flushable = named.getDelegate?.() ?? named;
  try {
    await inTime(system, flushTimeoutMs, Promise.resolve(provider.forceFlush?.()));
  } catch {
    // The SDK's far end is gone. The stop goes on.
  }
}

/** A longer baggage is left where it is: escapes that are no UTF-8 take 5 us each, and whoever has a page's key may send 15 KB of them. */
const baggageCharsMax = 1_024;

/** The parent of a call: the span of instrumentation around us, else the one that the headers name. */
function parentOf(headers: Headers): Context {
  const active = context.active();
  if (trace.getSpan(active) !== undefined) return active;
  // An SDK brings propagators of its own, usually W3C's. Without any, headers are read as W3C's.
  if (propagation.fields().length === 0) return w3cParentOf(active, headers);
  const isLong = String(headers["baggage"] ?? "").length > baggageCharsMax;
  return propagation.extract(active, isLong ? { ...headers, baggage: undefined } : headers);
}

/** Trace Context, https://www.w3.org/TR/trace-context/: a later version has these four fields first. */
function w3cParentOf(active: Context, { traceparent, tracestate }: Headers): Context {
  const [, version, traceId = "", spanId = "", flags = "", rest] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(String(traceparent)) ?? [];
  const isKnown = version !== undefined && version !== "ff" && (version !== "00" || rest === undefined);
  const parent = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(String(tracestate)) }),
  };
  return isKnown && isSpanContextValid(parent) ? trace.setSpanContext(active, parent) : active;
}
