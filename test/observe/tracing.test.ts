/**
 * Traces with OpenTelemetry's own SDK, in memory: which spans there are, what they are parts of, and that there is none
 * of it without an SDK.
 */
import { context, propagation, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import {
  BatchSpanProcessor,
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
  type ReadableSpan,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace-node";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createTracing } from "../../src/observe/tracing.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { Store } from "../../src/store/store.ts";
import { createSystem } from "../../src/system.ts";
import { createManualSystem } from "../support/service/system.ts";
import { surfaces, type Message, type Rpc, type Surface } from "../support/clients/surfaces.ts";
import { startWorld, type World } from "../support/service/world.ts";

const memory = new InMemorySpanExporter();
const service = "otp.v1.OtpService";
const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${spanId}-01`;
const [rest] = surfaces as readonly [Surface];

/** The shop that each RPC's baggage names. */
const shopsSeen: (string | undefined)[] = [];
const shops: SpanProcessor = {
  onStart({ kind }, parent) {
    if (kind === SpanKind.SERVER) shopsSeen.push(propagation.getBaggage(parent)?.getEntry("shop")?.value);
  },
  onEnd() {},
  forceFlush: async () => {},
  shutdown: async () => {},
};

let world: World;
afterEach(() => memory.reset());

async function end(): Promise<void> {
  await world.stop();
  for (const api of [trace, context, propagation]) api.disable();
}

/** Registers the SDK, as its operator's file does; bare without its ways to read headers and to know what is current. */
async function startTraced(isBare = false): Promise<void> {
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(memory), shops] });
  provider.register(isBare ? { propagator: null, contextManager: null } : {});
  world = await startWorld();
}

const call = (rpc: Rpc, message: Message, headers: Record<string, string> = {}, surface = rest) =>
  surface.call(world.url, rpc, message, { key: world.key, headers });

const named = (name: string) => memory.getFinishedSpans().filter((span) => span.name === name);
const rpcSpans = (rpc: string) => named(`${service}/${rpc}`);
const partOf = (span: ReadableSpan) => [span.spanContext().traceId, span.parentSpanContext?.spanId];

test("without an SDK nothing is wrapped", async () => {
  const [store, provider, system] = [
    {} as Store,
    { name: "p", send: () => Promise.reject(new Error()) },
    createManualSystem(),
  ];
  const tracing = createTracing(service);
  expect(tracing.call).toBeUndefined();
  expect(tracing.store(store, "sqlite")).toBe(store);
  expect(tracing.provider(provider)).toBe(provider);
  expect(tracing.system(system)).toBe(system);
});

describe.each([
  ["an SDK", false],
  ["an SDK that only makes spans", true],
])("with %s", (_, isBare) => {
  beforeAll(() => startTraced(isBare));
  afterAll(end);

  test.each(surfaces)(
    "a call over $name is a part of its caller's trace, and its acts are parts of it",
    async (surface) => {
      const { value } = await call(
        "SendOtp",
        { phone: "+31612345678" },
        { traceparent, tracestate: "shop=1" },
        surface,
      );
      const [rpc, ...more] = rpcSpans("SendOtp") as [ReadableSpan, ...ReadableSpan[]];
      expect(more).toEqual([]);
      expect([rpc.kind, ...partOf(rpc), rpc.parentSpanContext?.isRemote]).toEqual([
        SpanKind.SERVER,
        traceId,
        spanId,
        true,
      ]);
      expect(rpc.spanContext().traceState?.get("shop")).toBe("1");
      expect(rpc.attributes).toMatchObject({
        "rpc.method": `${service}/SendOtp`,
        "rpc.system.name": surface.name.startsWith("gRPC") ? "grpc" : "connectrpc",
        "otp.call_id": expect.stringMatching(/^[\w-]{12}$/) as string,
      });
      expect(rpc.attributes["rpc.response.status_code"]).toBe(surface.name.startsWith("gRPC") ? "OK" : undefined);
      const names = Object.keys(rpc.attributes).filter((name) => name.startsWith("rpc."));
      expect(names.filter((name) => /^rpc\.(system|service)$/.test(name))).toEqual([]);
      expect(rpc.status.code).toBe(SpanStatusCode.UNSET);
      for (const name of ["store openVerification", "provider test", "store settleMessage"]) {
        const [span, ...others] = named(name) as [ReadableSpan, ...ReadableSpan[]];
        expect([name, others, ...partOf(span)]).toEqual([name, [], traceId, rpc.spanContext().spanId]);
      }
      expect(named("store openVerification")[0]?.attributes).toEqual({
        "db.system.name": "sqlite",
        "db.operation.name": "openVerification",
      });
      expect(named("provider test")[0]).toMatchObject({
        kind: SpanKind.CLIENT,
        attributes: { "otp.provider": "test", "otp.country": "NL", "otp.outcome": "accepted" },
      });
      await call("VerifyOtp", {
        request_id: String(value?.["request_id"]),
        code: world.network.codeFor("+31612345678"),
      });
      const [verify] = rpcSpans("VerifyOtp");
      expect(named("store updateVerification").map((span) => span.parentSpanContext?.spanId)).toEqual([
        verify?.spanContext().spanId,
      ]);
    },
  );

  test.each(surfaces)("a refusal over $name has the code that its protocol has for it", async (surface) => {
    const spelt = (code: string) => (surface.name.startsWith("gRPC") ? code : code.toLowerCase());
    await call("VerifyOtp", { request_id: "A".repeat(22), code: "123456" }, {}, surface);
    world.network.script.push({ kind: "refused", cause: "content", detail: "x" });
    await call("SendOtp", { phone: "+31612345678" }, {}, surface);
    expect(
      ["VerifyOtp", "SendOtp"].map((rpc) => {
        const attributes = rpcSpans(rpc)[0]?.attributes ?? {};
        return [attributes["rpc.response.status_code"], attributes["error.type"]];
      }),
    ).toEqual([
      [spelt("NOT_FOUND"), undefined],
      [spelt("UNAVAILABLE"), spelt("UNAVAILABLE")],
    ]);
  });

  test("a refusal is told, and is an error where it was our fault", async () => {
    await call("VerifyOtp", { request_id: "A".repeat(22), code: "123456" });
    world.network.script.push({ kind: "refused", cause: "content", detail: "+31612345678" });
    await call("SendOtp", { phone: "+31612345678" });
    const { text } = await world.makeKey({ scopes: ["send"] });
    await rest.call(world.url, "CancelOtp", { request_id: "" }, { key: text });
    expect(
      ["VerifyOtp", "SendOtp", "CancelOtp"].map((rpc) => {
        const [span] = rpcSpans(rpc);
        return [span?.attributes["otp.reason"], span?.status];
      }),
    ).toEqual([
      ["REQUEST_NOT_FOUND", { code: SpanStatusCode.UNSET }],
      ["DELIVERY_FAILED", { code: SpanStatusCode.ERROR, message: "DELIVERY_FAILED" }],
      ["SCOPE_MISSING", { code: SpanStatusCode.UNSET }],
    ]);
  });

  test("of what anybody can ask there are no spans: with wrong keys, and of pages that are not let in", async () => {
    const { text } = await world.makeKey({ kind: "pub", origins: ["https://shop.example"] });
    for (const key of [`${world.key}x`, text]) {
      for (let i = 0; i < 20; i++) await rest.call(world.url, "CancelOtp", { request_id: "A".repeat(22) }, { key });
    }
    expect(rpcSpans("CancelOtp")).toEqual([]);
    const headers = { origin: "https://shop.example" };
    await rest.call(world.url, "CancelOtp", { request_id: "A".repeat(22) }, { key: text, headers });
    expect(rpcSpans("CancelOtp")).toHaveLength(1);
  });
});

describe.each([
  ["rpc/dup", ["rpc.service", "rpc.system"]],
  ["http/dup, rpc/dup,rpc", ["rpc.service", "rpc.system"]],
  ["rpc", []],
  ["http/dup,database", []],
])("with OTEL_SEMCONV_STABILITY_OPT_IN=%s", (optIn, old) => {
  beforeAll(async () => {
    process.env["OTEL_SEMCONV_STABILITY_OPT_IN"] = optIn;
    await startTraced();
  });
  afterAll(async () => {
    delete process.env["OTEL_SEMCONV_STABILITY_OPT_IN"];
    await end();
  });

  test("a span has the names of the release candidate, and the old ones only if they are asked for", async () => {
    await call("GetOtp", { request_id: "A".repeat(22) });
    const names = Object.keys(rpcSpans("GetOtp")[0]?.attributes ?? {}).filter((name) => name.startsWith("rpc."));
    expect(names.toSorted()).toEqual(["rpc.method", "rpc.response.status_code", ...old, "rpc.system.name"]);
  });
});

describe("with one that only makes spans", () => {
  beforeAll(() => startTraced(true));
  afterAll(end);

  test("calls at once each have their own, also where messages wait for their turn at the provider", async () => {
    const held: ((outcome: SendOutcome) => void)[] = [];
    const full = Promise.withResolvers<void>();
    world.network.script.push(
      ...Array.from({ length: 80 }, () => () => {
        const { promise, resolve } = Promise.withResolvers<SendOutcome>();
        held.push(resolve);
        // Those that have a place; the others wait.
        if (held.length === 64) full.resolve();
        if (held.length > 64) resolve({ kind: "accepted" });
        return promise;
      }),
    );
    const sends = Array.from({ length: 80 }, (__, i) => call("SendOtp", { phone: `+316123456${10 + i}` }));
    await full.promise;
    for (const answer of held.slice()) answer({ kind: "accepted" });
    await Promise.all(sends);
    const rpcs = new Map(rpcSpans("SendOtp").map((span) => [span.spanContext().traceId, span.spanContext().spanId]));
    expect(rpcs.size).toBe(80);
    for (const name of ["store openVerification", "provider test", "store settleMessage"]) {
      const parts = new Map(named(name).map((span) => [span.spanContext().traceId, span.parentSpanContext?.spanId]));
      expect([name, parts]).toEqual([name, rpcs]);
    }
  });

  test("what is sent later, from the outbox, is no part of the call that set the timer", async () => {
    world.network.script.push({ kind: "ambiguous", detail: "" });
    await call("SendOtp", { phone: "+31612345678" }, { traceparent });
    memory.reset();
    const again = Promise.withResolvers<void>();
    world.network.script.push(async () => {
      again.resolve();
      return { kind: "accepted" };
    });
    world.system.advance(500);
    await call("CancelOtp", { request_id: "A".repeat(22) });
    await again.promise;
    await expect.poll(() => named("provider test")).toHaveLength(1);
    const [sent] = named("provider test") as [ReadableSpan];
    expect(sent.parentSpanContext).toBeUndefined();
    expect(sent.spanContext().traceId).not.toBe(traceId);
    expect(named("store settleMessage")).toEqual([]);
    const own = memory.getFinishedSpans().map(({ name }) => name);
    expect(own.filter((name) => name.startsWith("store"))).toEqual(["store updateVerification"]);
  });

  test.each([
    "",
    "garbage",
    `00-${"0".repeat(32)}-${spanId}-01`,
    `00-${traceId}-${"0".repeat(16)}-01`,
    `ff-${traceId}-${spanId}-01`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
    `${traceparent}-more`,
    `${traceparent}, ${traceparent}`,
  ])("a header that names no parent begins a trace: %s", async (header) => {
    await call("GetOtp", { request_id: "A".repeat(22) }, { traceparent: header });
    const [span] = rpcSpans("GetOtp");
    expect(span?.parentSpanContext).toBeUndefined();
    expect(span?.spanContext().traceId).not.toBe(traceId);
  });

  test("a header of a later version names a parent", async () => {
    await call("GetOtp", { request_id: "A".repeat(22) }, { traceparent: `01-${traceId}-${spanId}-01-more` });
    expect(partOf(rpcSpans("GetOtp")[0] as ReadableSpan)).toEqual([traceId, spanId]);
  });
});

describe("the baggage of a call", () => {
  beforeAll(() => startTraced());
  afterAll(end);

  test("is handed on, but where it is longer than 1,024 characters", async () => {
    for (const baggage of ["shop=1", `shop=2,${"a=%80,".repeat(180)}`]) {
      shopsSeen.length = 0;
      await call("GetOtp", { request_id: "A".repeat(22) }, { traceparent, baggage });
      expect(shopsSeen).toEqual([baggage.length > 1_024 ? undefined : "1"]);
      expect(partOf(rpcSpans("GetOtp").at(-1) as ReadableSpan)).toEqual([traceId, spanId]);
    }
  });
});

describe("a stop has the SDK send out what it holds", () => {
  afterEach(() => trace.disable());

  test("spans that wait for their batch", async () => {
    new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(memory)] }).register({
      propagator: null,
      contextManager: null,
    });
    world = await startWorld();
    await call("GetOtp", { request_id: "A".repeat(22) });
    expect(rpcSpans("GetOtp")).toEqual([]);
    await world.stop();
    expect(rpcSpans("GetOtp")).toHaveLength(1);
  });

  test("an SDK that brings an API of its own", async () => {
    const require = createRequire(import.meta.url);
    const own = require.resolve("@opentelemetry/api");
    for (const path of Object.keys(require.cache)) if (path.startsWith(dirname(own))) delete require.cache[path];
    const other = require(own) as typeof import("@opentelemetry/api");
    expect(other.trace).not.toBe(trace);
    let flushed = 0;
    const forceFlush = async () => void (flushed += 1);
    other.trace.setGlobalTracerProvider(Object.assign(new NodeTracerProvider(), { forceFlush }));
    await createTracing(service).flush(createSystem());
    expect(flushed).toBe(1);
    other.trace.disable();
  });

  test.each<[string, () => Promise<void>]>([
    ["that fails at it", () => Promise.reject(new Error("no collector"))],
    ["that never comes to an end", () => new Promise(() => {})],
  ])("and goes on without one %s", async (_, forceFlush) => {
    trace.setGlobalTracerProvider(Object.assign(new NodeTracerProvider(), { forceFlush }));
    await expect(createTracing(service).flush(createSystem())).resolves.toBeUndefined();
  });
});
