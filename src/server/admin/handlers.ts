/**
 * What a handler of AdminService is: it gets a message and who asks, both checked, and gives what its answer is made
 * of, or a refusal. A handler of a stream gives its messages one by one, until `signal` ends it.
 */
import type { MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs, timestampMs, type Duration, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { Instant } from "../../system.ts";
import type { Asker } from "./asker.ts";
import { ok } from "../../otp/reason.ts";
import { badField, type AdminResult } from "./refusal.ts";
import type { AdminMethods, AdminRpc } from "./rpcs.ts";

type Input<Rpc extends AdminRpc> = MessageShape<AdminMethods[Rpc]["input"]>;
type Output<Rpc extends AdminRpc> = MessageInitShape<AdminMethods[Rpc]["output"]>;

export type AdminHandler<Rpc extends AdminRpc> = AdminMethods[Rpc]["methodKind"] extends "unary"
  ? (request: Input<Rpc>, asker: Asker) => Promise<AdminResult<Output<Rpc>>>
  : (request: Input<Rpc>, asker: Asker, signal: AbortSignal) => Promise<AdminResult<AsyncIterable<Output<Rpc>>>>;

/** Handlers by RPC. An RPC without one is UNIMPLEMENTED. */
export type AdminHandlers = { readonly [Rpc in keyof AdminMethods]?: AdminHandler<Rpc> };

/** The handlers of a group of RPCs. */
export type HandlersOf<Rpc extends AdminRpc> = {
  readonly [Each in keyof Pick<AdminMethods, Rpc>]: AdminHandler<Each>;
};

/** A duration of the wire's: it has nanoseconds, and JSON knows no part of one. */
export function durationOf(ms: number): Duration {
  return durationFromMs(Math.round(ms));
}

/** A field for an instant, which is left out where there is none. */
export function timeField<Name extends string>(
  name: Name,
  instant: number | null | undefined,
): Partial<Record<Name, Timestamp>> {
  if (instant === null || instant === undefined) return {};
  return { [name]: timestampFromMs(instant) } as Record<Name, Timestamp>;
}

/** The instant that a field holds; undefined where it is left out. */
export function instantOf(time: Timestamp | undefined): Instant | undefined {
  return time && timestampMs(time);
}

/** The instants of a period, each undefined where it is left out. Refuses one that ends before it begins, as GetStats does. */
export function periodAsked(asked: {
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
}): AdminResult<{ readonly fromMs: Instant | undefined; readonly toMs: Instant | undefined }> {
  const [fromMs, toMs] = [instantOf(asked.from), instantOf(asked.to)];
  const isTurned = fromMs !== undefined && toMs !== undefined && fromMs > toMs;
  return isTurned ? badField("to", "is refused: It must not be before `from`") : ok({ fromMs, toMs });
}
