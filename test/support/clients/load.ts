/**
 * Load, from a process of its own: closed loops of sends over every surface, each loop with one call under way. It begins
 * to count anew at "mark" on standard input, and stops at "stop", or when nobody listens any more; then it prints what
 * every call came to.
 *
 *   node load.ts '{"port":8080,"key":"…","loops":{"rest":8,"grpc":8}}'
 *
 * HTTP/1 is spoken by hand: what counts is the moment a request has left this process, and a fast client.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import { once } from "node:events";
import { connect as connectHttp2, type ClientHttp2Session } from "node:http2";
import { connect, type Socket } from "node:net";
import { SendOtpRequestSchema } from "../../../gen/otp/v1/otp_service_pb.ts";

export const surfaceNames = ["rest", "connect", "grpc-web", "grpc", "connect-h2"] as const;
export type SurfaceName = (typeof surfaceNames)[number];

export interface LoadPlan {
  readonly port: number;
  readonly key: string;
  /** Loops on each surface, each with a connection of its own unless `streams` says otherwise. */
  readonly loops: Partial<Record<SurfaceName, number>>;
  /** Loops that share an HTTP/2 connection; 1 unless given. */
  readonly streams?: number;
}

/** What a call came to: "ok", a refusal's reason, or the error that ended it. */
export interface CallReport {
  readonly surface: SurfaceName;
  readonly outcome: string;
  /** When the whole request had left, on the system's monotonic clock in ns; null when it never did. */
  readonly sentNs: string | null;
  readonly tookMs: number;
}

export interface LoadReport {
  readonly seconds: number;
  readonly ok: Partial<Record<SurfaceName, number>>;
  /** How often each other outcome came, and the first few thousand of them in full. */
  readonly counts: Record<string, number>;
  readonly others: CallReport[];
  /** How long calls took that were served, and that were not, in milliseconds. */
  readonly okMs: { readonly p50: number; readonly p99: number };
  readonly othersMs: { readonly p50: number; readonly p99: number };
}

const othersMax = 5_000;

interface Exchange {
  /** Makes a call; resolves with its outcome, rejects with what ended it. Tells when the request has left. */
  call(onSent: () => void): Promise<string>;
  close(): void;
}

const path = { rest: "/v1/otp/send", other: "/otp.v1.OtpService/SendOtp" };
const types: Record<SurfaceName, string> = {
  rest: "application/json",
  connect: "application/json",
  "grpc-web": "application/grpc-web+proto",
  grpc: "application/grpc",
  "connect-h2": "application/proto",
};

/** A number that was not used before, so that no limit of a phone's is reached. */
let phones = process.pid * 9_973;
const nextPhone = () => `+3161${String((phones += 1) % 10_000_000).padStart(7, "0")}`;

function bodyOf(surface: SurfaceName, phone: string): Buffer {
  if (surface === "rest" || surface === "connect") return Buffer.from(JSON.stringify({ phone }));
  const message = toBinary(SendOtpRequestSchema, create(SendOtpRequestSchema, { phone }));
  if (surface === "connect-h2") return Buffer.from(message);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** "ok", or the reason within an answer that is not. */
function outcomeOf(status: number, grpcStatus: string | undefined, body: Buffer): string {
  if (status === 200 && (grpcStatus === undefined || grpcStatus === "0")) return "ok";
  const [, reason] = /"reason":"([A-Z_]+)"/.exec(body.toString("latin1")) ?? [];
  // gRPC has its reason in binary details; 14 is UNAVAILABLE.
  return reason ?? (grpcStatus === "14" ? "UNAVAILABLE" : `status ${status} grpc ${grpcStatus}`);
}

async function overHttp1(plan: LoadPlan, surface: SurfaceName): Promise<Exchange> {
  const socket: Socket = connect({ port: plan.port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  const { length: bodyBytes } = bodyOf(surface, nextPhone());
  const head = `POST ${surface === "rest" ? path.rest : path.other} HTTP/1.1\r\nhost: otpd\r\nauthorization: Bearer ${plan.key}\r\ncontent-type: ${types[surface]}\r\ncontent-length: ${bodyBytes}\r\n\r\n`;
  const headBytes = Buffer.from(head);
  let heard: Buffer = Buffer.alloc(0);
  let waiting: PromiseWithResolvers<string> | undefined;
  let isLast = false;
  const end = (why: string) => {
    waiting?.reject(new Error(why));
    socket.destroy();
  };
  socket.on("error", (error) => end(error.message));
  socket.on("end", () => end("closed without an answer"));
  socket.on("data", (chunk: Buffer) => {
    heard = heard.length === 0 ? chunk : Buffer.concat([heard, chunk]);
    const at = heard.indexOf("\r\n\r\n");
    if (at < 0) return;
    const header = heard.toString("latin1", 0, at);
    const chunked = /^transfer-encoding: chunked/im.test(header);
    const [, length] = /^content-length: (\d+)/im.exec(header) ?? [];
    const until = chunked ? heard.indexOf("0\r\n\r\n", at + 4) + 5 : at + 4 + Number(length ?? 0);
    if (until < at + 4 || heard.length < until) return;
    const answer = heard.subarray(at + 4, until);
    heard = heard.subarray(until);
    isLast = /^connection: close/im.test(header);
    const trailer = /grpc-status: ?(\d+)/i.exec(answer.toString("latin1"))?.[1];
    waiting?.resolve(outcomeOf(Number(header.slice(9, 12)), trailer, answer));
  });
  return {
    call(onSent) {
      if (isLast || socket.destroyed) return Promise.reject(new Error("over"));
      waiting = Promise.withResolvers<string>();
      socket.write(Buffer.concat([headBytes, bodyOf(surface, nextPhone())]), (error) => error ?? onSent());
      return waiting.promise;
    },
    close: () => socket.destroy(),
  };
}

function overHttp2(session: ClientHttp2Session, plan: LoadPlan, surface: SurfaceName): Exchange {
  const headers = {
    ":method": "POST",
    ":path": path.other,
    authorization: `Bearer ${plan.key}`,
    "content-type": types[surface],
    ...(surface === "grpc" ? { te: "trailers" } : {}),
  };
  return {
    call(onSent) {
      if (session.closed || session.destroyed) return Promise.reject(new Error("over"));
      return new Promise<string>((resolve, reject) => {
        const stream = session.request(headers);
        let status = 0;
        let grpcStatus: string | undefined;
        const chunks: Buffer[] = [];
        const note = (given: Record<string, unknown>) => {
          if (given[":status"] !== undefined) status = Number(given[":status"]);
          if (given["grpc-status"] !== undefined) grpcStatus = String(given["grpc-status"]);
        };
        stream.on("response", note).on("trailers", note);
        stream.on("data", (chunk: Buffer) => chunks.push(chunk));
        stream.on("error", (error) => reject(error));
        stream.on("close", () => {
          if (status === 0) reject(new Error(`closed without an answer, code ${stream.rstCode}`));
          else resolve(outcomeOf(status, grpcStatus, Buffer.concat(chunks)));
        });
        stream.end(bodyOf(surface, nextPhone()), onSent);
      });
    },
    close: () => session.close(),
  };
}

async function openSession(port: number): Promise<ClientHttp2Session> {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  await Promise.race([
    once(session, "connect"),
    once(session, "close").then(() => Promise.reject(new Error("refused"))),
  ]);
  return session;
}

function percentiles(all: number[]): { p50: number; p99: number } {
  const sorted = all.toSorted((a, b) => a - b);
  const at = (share: number) => Math.round((sorted[Math.floor(sorted.length * share)] ?? 0) * 10) / 10;
  return { p50: at(0.5), p99: at(0.99) };
}

async function run(plan: LoadPlan): Promise<LoadReport> {
  let ok: LoadReport["ok"] = {};
  let counts: Record<string, number> = {};
  let others: CallReport[] = [];
  let took = { ok: [] as number[], others: [] as number[] };
  let startMs = performance.now();
  let going = true;
  const unserved = new Set(Object.keys(plan.loops));
  let isServedPrinted = false;
  process.stdin.on("data", (said: Buffer) => {
    if (said.includes("stop")) going = false;
    else [ok, counts, others, took, startMs] = [{}, {}, [], { ok: [], others: [] }, performance.now()];
  });

  async function loop(surface: SurfaceName, openExchange: () => Promise<Exchange>): Promise<void> {
    while (going) {
      let exchange: Exchange;
      try {
        exchange = await openExchange();
      } catch {
        // Nobody listens any more.
        return;
      }
      for (let isOpen = true; isOpen && going;) {
        const beganMs = performance.now();
        let sentNs: bigint | null = null;
        let outcome: string;
        try {
          outcome = await exchange.call(() => (sentNs = process.hrtime.bigint()));
        } catch (error) {
          outcome = (error as Error).message;
          isOpen = false;
        }
        const tookMs = performance.now() - beganMs;
        if (outcome === "ok") {
          ok[surface] = (ok[surface] ?? 0) + 1;
          unserved.delete(surface);
          if (unserved.size === 0 && !isServedPrinted) process.stdout.write("served\n");
          isServedPrinted ||= unserved.size === 0;
          took.ok.push(tookMs);
        } else if (outcome !== "over") {
          counts[outcome] = (counts[outcome] ?? 0) + 1;
          took.others.push(tookMs);
          if (others.length >= othersMax) continue;
          const sent = sentNs as bigint | null;
          others.push({ surface, outcome, sentNs: sent === null ? null : `${sent}`, tookMs });
        }
      }
      exchange.close();
    }
  }

  const loops: Promise<void>[] = [];
  for (const [name, count] of Object.entries(plan.loops) as [SurfaceName, number][]) {
    const streams = plan.streams ?? 1;
    for (let i = 0; i < count; i += 1) {
      const isHttp2 = name === "grpc" || name === "connect-h2";
      if (!isHttp2) loops.push(loop(name, () => overHttp1(plan, name)));
      else if (i % streams === 0) {
        let session: ClientHttp2Session | undefined;
        let opening: Promise<ClientHttp2Session> | undefined;
        const sharedSession = async () => {
          if (session !== undefined && !session.closed && !session.destroyed) return session;
          opening ??= openSession(plan.port).finally(() => (opening = undefined));
          session = await opening;
          return session;
        };
        for (let s = 0; s < Math.min(streams, count - i); s += 1) {
          loops.push(loop(name, async () => overHttp2(await sharedSession(), plan, name)));
        }
      }
    }
  }
  process.stdout.write("started\n");
  await Promise.all(loops);
  const seconds = (performance.now() - startMs) / 1_000;
  return { seconds, ok, counts, others, okMs: percentiles(took.ok), othersMs: percentiles(took.others) };
}

const plan = process.argv[2];
if (plan !== undefined && import.meta.main) {
  const report = JSON.stringify(await run(JSON.parse(plan) as LoadPlan));
  process.stdout.write(`${report}\n`, () => process.exit(0));
}
