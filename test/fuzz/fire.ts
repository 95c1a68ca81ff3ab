/**
 * Fires a protocol's inputs at the server, some at a time, and judges every answer: no crash, no 5xx, no fault of the
 * server's own, a gRPC status on every gRPC answer, no success for what can only be refused; between them a valid call
 * that must succeed; and in the end not one SMS more than was acknowledged.
 */
import type { Surface } from "../support/clients/surfaces.ts";
import { surfaces } from "../support/clients/surfaces.ts";
import { makeInput, type Input, type Protocol } from "./inputs.ts";
import { startTarget, type Target } from "./target.ts";
import { Http2Sessions, writeRaw, type Response } from "./wire.ts";

export interface Fired {
  readonly inputs: number;
  /** How many inputs ended with each HTTP status; 0 stands for no answer. */
  readonly statuses: ReadonlyMap<number, number>;
  readonly probes: number;
  /** Sends that were acknowledged, those whose end is unknown, and SMS that went out. */
  readonly acknowledged: number;
  readonly unknown: number;
  readonly smsCount: number;
  readonly exitCode: number | null;
}

/** Connections at once. */
const lanes = 12;
const probeEvery = 250;

const probes: Record<Protocol, Surface["name"]> = {
  REST: "REST",
  Connect: "Connect JSON",
  gRPC: "gRPC",
  "gRPC-web": "gRPC-web",
};

/** Fires the inputs of a seed from number `from` on. Throws at the first answer that is none, with the input. */
export async function fire(protocol: Protocol, seed: number, count: number, from = 0): Promise<Fired> {
  const target = await startTarget();
  // A session to each lane, so that an input which has its connection ended takes no other's answer along.
  const sessions = Array.from({ length: lanes }, () => new Http2Sessions(target.url));
  const statuses = new Map<number, number>();
  const sums = { acknowledged: 0, unknown: 0, probes: 0 };
  let next = from;

  async function lane(session: Http2Sessions): Promise<void> {
    while (next < from + count) {
      const number = next++;
      if (number % probeEvery === 0) await probe(target, protocol, number, sums);
      const input = makeInput(protocol, seed, number, target.key);
      const response =
        input.transport === "http2"
          ? await session.request(input)
          : await writeRaw(target.port, input.bytes, mayBeTorn(input));
      const fault = faultOf(input, response, target);
      if (fault !== undefined) throw new Error(describe(input, response, seed, number, fault));
      statuses.set(response.status ?? 0, (statuses.get(response.status ?? 0) ?? 0) + 1);
      tally(input, response, sums);
    }
  }

  try {
    await Promise.all(sessions.map(lane));
    await probe(target, protocol, next, sums);
  } finally {
    for (const session of sessions) session.end();
    const exitCode = await target.end();
    Object.assign(sums, { exitCode });
  }
  const { acknowledged, unknown } = sums;
  const exitCode = (sums as { exitCode?: number | null }).exitCode ?? null;
  return { inputs: count, statuses, probes: sums.probes, acknowledged, unknown, smsCount: target.smsCount(), exitCode };
}

async function probe(
  target: Target,
  protocol: Protocol,
  number: number,
  sums: { acknowledged: number; probes: number },
): Promise<void> {
  const surface = surfaces.find(({ name }) => name === probes[protocol]);
  const phone = `+3162${1_000_000 + (number % 8_000_000)}`;
  const outcome = await surface?.call(target.url, "SendOtp", { phone }, { key: target.key, timeoutMs: 10_000 });
  if (outcome?.value?.["state"] !== "STATE_PENDING") throw new Error(`a valid call failed: ${JSON.stringify(outcome)}`);
  sums.acknowledged += 1;
  sums.probes += 1;
}

/** True for what need not be a whole request, or may have its stream reset. */
function mayBeTorn({ transport, changes, path }: Input): boolean {
  if (transport === "http2" && (!path.startsWith("/") || path.length > 8_000)) return true;
  const tearing = ["length", "chunked", "protocol headers"];
  const resetting = ["many headers", "long header"];
  const suspects = transport === "http2" ? [...tearing, ...resetting] : tearing;
  return transport === "raw" || changes.some((change) => suspects.includes(change));
}

/** INVALID_ARGUMENT … : all but UNKNOWN, UNAVAILABLE and DATA_LOSS, which speak of a broken server. */
const brokenGrpcStatuses = new Set(["2", "14", "15"]);

function faultOf(input: Input, response: Response, target: Target): string | undefined {
  const { status } = response;
  if (!target.isAlive()) return "the server is gone";
  if (target.faults.length > 0) return `the server had a fault: ${target.faults[0]}`;
  if (status !== undefined && status >= 500 && !isLate(response)) return `status ${status}`;
  if (status === undefined && !mayBeTorn(input)) return "no answer";
  if (input.mustFail && isSuccess(response)) return "success for what can only be refused";
  if (input.protocol !== "gRPC" || status !== 200) return undefined;
  const grpcStatus = grpcStatusOf(response);
  if (grpcStatus === undefined) return "no grpc-status";
  return brokenGrpcStatuses.has(grpcStatus) ? `grpc-status ${grpcStatus}` : undefined;
}

function grpcStatusOf({ headers, body }: Response): string | undefined {
  const isText = headers.get("content-type")?.startsWith("application/grpc-web-text") === true;
  const frames = isText ? Buffer.from(body.toString("latin1"), "base64") : body;
  return headers.get("grpc-status") ?? /grpc-status: *(\d+)/i.exec(frames.toString("latin1"))?.[1];
}

/** A deadline that the input itself has set. */
function isLate(response: Response): boolean {
  return response.status === 504 || grpcStatusOf(response) === "4";
}

function isSuccess(response: Response): boolean {
  if (response.status !== 200) return false;
  const type = response.headers.get("content-type") ?? "";
  return type.startsWith("application/grpc") ? grpcStatusOf(response) === "0" : true;
}

function tally(input: Input, response: Response, sums: { acknowledged: number; unknown: number }): void {
  if (!/send|resend/i.test(input.path) && input.transport !== "raw") return;
  const isReplay = response.headers.get("idempotency-replayed") === "true";
  if (isLate(response) || response.status === undefined) sums.unknown += 1;
  else if (isSuccess(response) && !isReplay) sums.acknowledged += 1;
}

function describe(input: Input, response: Response, seed: number, number: number, fault: string): string {
  const { protocol, transport, changes, method, path } = input;
  return [
    `${protocol} input ${number} of seed ${seed} (${changes.join(", ") || "unchanged"}) over ${transport}: ${fault}`,
    `answered ${response.status}: ${JSON.stringify(response.body.toString("latin1").slice(0, 600))}`,
    `${method} ${path.slice(0, 200)}`,
    JSON.stringify(input.bytes.toString("latin1").slice(0, 2_000)),
    `Replay: OTPD_FUZZ=${protocol}:${seed}:${number} npx vitest run --config test/vitest.config.ts test/fuzz`,
  ].join("\n");
}
