/**
 * What the server is fired at with: valid requests of each protocol, changed in one to four ways that seeded chance picks.
 * An input is made from its seed and its number alone.
 */
import { create, fromJson, toBinary, type DescMessage, type JsonObject } from "@bufbuild/protobuf";
import { gzipSync } from "node:zlib";
import { OtpService } from "../../gen/otp/v1/otp_service_pb.ts";
import { Chance } from "../simulation/chance.ts";
import { httpMutations, jsonMutations, type Draft } from "./mutations.ts";
import { http1Bytes } from "./wire.ts";

export const protocols = ["REST", "Connect", "gRPC", "gRPC-web"] as const;
export type Protocol = (typeof protocols)[number];

export interface Input extends Draft {
  readonly protocol: Protocol;
  /** "raw": the bytes are written as they are, and need not be HTTP. */
  readonly transport: "http1" | "http2" | "raw";
  readonly bytes: Buffer;
  /** What was done to it. */
  readonly changes: readonly string[];
  /** True when it can only be refused. */
  readonly mustFail: boolean;
}

const rpcs = ["SendOtp", "VerifyOtp", "ResendOtp", "CancelOtp", "GetOtp"] as const;

function message(rpc: (typeof rpcs)[number], chance: Chance): JsonObject {
  const phone = `+316${10_000_000 + chance.below(9_999_999)}`;
  const request_id = Buffer.from(chance.bytes(16)).toString("base64url");
  if (rpc === "SendOtp") {
    return chance.pick<JsonObject>([
      { phone },
      { phone, purpose: "login", locale: "nl-NL", channel: "sms" },
      { phone, bind: { amount: "12.50", to: "me" }, known_user: true },
    ]);
  }
  return rpc === "VerifyOtp" ? { request_id, code: "123456" } : { request_id };
}

/** The input with this number. */
export function makeInput(protocol: Protocol, seed: number, number: number, key: string): Input {
  const chance = new Chance(seed * 1_000_003 + number * 4 + protocols.indexOf(protocol));
  const rpc = chance.pick(rpcs);
  const asked = message(rpc, chance);
  const changes: string[] = [];
  let mustFail = false;
  let draft: Draft = { method: "POST", path: "", headers: [], body: Buffer.alloc(0) };
  const authorization = ["authorization", `Bearer ${key}`] as const;
  const isBinary = protocol !== "REST" && (protocol !== "Connect" || chance.happens(0.5));

  let body: Buffer = Buffer.from(JSON.stringify(asked));
  if (isBinary) {
    body = encode(rpc, asked);
  } else if (chance.happens(0.6)) {
    const { name, change } = chance.pick(jsonMutations);
    changes.push(name);
    body = change(body, chance, asked);
  }
  if (chance.happens(isBinary ? 0.6 : 0.2)) {
    changes.push("bytes");
    body = garble(body, chance);
  }
  if (protocol === "REST") {
    const path =
      rpc === "GetOtp" ? `/v1/otp/${String(asked["request_id"])}` : `/v1/otp/${rpc.slice(0, -3).toLowerCase()}`;
    draft = {
      method: rpc === "GetOtp" ? "GET" : "POST",
      path,
      headers: [["content-type", "application/json"], authorization],
      body: rpc === "GetOtp" ? Buffer.alloc(0) : body,
    };
  } else {
    const path = `/otp.v1.OtpService/${rpc}`;
    const types = {
      Connect: isBinary ? "application/proto" : "application/json",
      gRPC: "application/grpc+proto",
      "gRPC-web": "application/grpc-web+proto",
    };
    const isFramed = protocol !== "Connect";
    const headers: [string, string][] = [["content-type", types[protocol]], [...authorization]];
    if (protocol === "gRPC") headers.push(["te", "trailers"]);
    if (protocol === "Connect" && chance.happens(0.5)) headers.push(["connect-protocol-version", "1"]);
    draft = { method: "POST", path, headers, body: isFramed ? frame(body, chance, changes, headers) : body };
    if (protocol === "Connect" && rpc === "GetOtp" && chance.happens(0.5)) {
      const query = `connect=v1&encoding=${isBinary ? "proto" : "json"}&base64=1&message=${body.toString("base64url")}`;
      draft = { ...draft, method: "GET", path: `${path}?${query}`, body: Buffer.alloc(0) };
    }
  }
  for (let left = chance.pick([0, 0, 1, 1, 2]); left > 0; left--) {
    const mutation = chance.pick(httpMutations);
    changes.push(mutation.name);
    mustFail ||= mutation.mustFail === true;
    draft = mutation.change(draft, chance);
  }
  const isHttp2 = protocol === "gRPC" || (protocol !== "REST" && chance.happens(0.5));
  const withLength = addLength(draft, isHttp2);
  let bytes = http1Bytes(withLength);
  let transport: Input["transport"] = isHttp2 ? "http2" : "http1";
  if (chance.happens(0.08)) {
    changes.push("raw");
    transport = "raw";
    bytes = isHttp2
      ? http2Garbage(chance)
      : garble(http1Bytes(withLength, chance.pick(["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTCPCP/1.0", ""])), chance);
  }
  return { ...withLength, protocol, transport, bytes, changes, mustFail };
}

function encode(rpc: string, asked: JsonObject): Buffer {
  const method = OtpService.methods.find(({ name }) => name === rpc);
  if (method === undefined) throw new Error(`no RPC ${rpc}`);
  const input: DescMessage = method.input;
  return Buffer.from(toBinary(input, create(input, fromJson(input, asked))));
}

/** HTTP/1 needs to be told where a body ends, unless a mutation has told it already. */
function addLength(draft: Draft, isHttp2: boolean): Draft {
  const hasLength = draft.headers.some(([name]) => /^(content-length|transfer-encoding)$/i.test(name));
  if (isHttp2) return draft;
  const headers: [string, string][] = [
    ["host", "otpd"],
    ["connection", "close"],
    ...draft.headers.map(([n, v]) => [n, v] as [string, string]),
  ];
  if (!hasLength && (draft.body.length > 0 || draft.method === "POST"))
    headers.push(["content-length", `${draft.body.length}`]);
  return { ...draft, headers };
}

/** A megabyte, in a thousand bytes. */
const bomb = gzipSync(Buffer.alloc(1_000_000));

/** A gRPC frame, now and then with a flag, a length or a number of frames that it should not have. */
function frame(body: Buffer, chance: Chance, changes: string[], headers: [string, string][]): Buffer {
  const whole = (flags: number, length: number, payload: Buffer) => {
    const head = Buffer.alloc(5);
    head.writeUInt8(flags, 0);
    head.writeUInt32BE(length >>> 0, 1);
    return Buffer.concat([head, payload]);
  };
  const plain = whole(0, body.length, body);
  if (chance.happens(0.5)) return plain;
  const manner = chance.pick(["flags", "length", "two", "none", "cut", "gzip", "unzipped", "bomb", "huge", "trailer"]);
  changes.push(`frame ${manner}`);
  if (["gzip", "unzipped", "bomb"].includes(manner))
    headers.push(["grpc-encoding", chance.pick(["gzip", "gzip", "br", "identity"])]);
  const made: Record<string, () => Buffer> = {
    flags: () => whole(1 + chance.below(255), body.length, body),
    length: () => whole(0, chance.pick([body.length + 1, body.length - 1, 0, 2 ** 31, 2 ** 32 - 1]), body),
    two: () => Buffer.concat([plain, plain]),
    none: () => Buffer.alloc(chance.below(5)),
    cut: () => plain.subarray(0, chance.below(plain.length)),
    gzip: () => {
      const zipped = gzipSync(body);
      return whole(1, zipped.length, zipped);
    },
    unzipped: () => whole(1, body.length, body),
    bomb: () => whole(1, bomb.length, bomb),
    huge: () => whole(0, 20_000, Buffer.alloc(20_000, 0x0a)),
    trailer: () => Buffer.concat([plain, whole(0x80, 4, Buffer.from("a:b\n"))]),
  };
  return made[manner]?.() ?? plain;
}

/** Bytes flipped, cut, doubled or put in. */
export function garble(bytes: Buffer, chance: Chance): Buffer {
  let garbled = Buffer.from(bytes);
  for (let left = 1 + chance.below(4); left > 0; left--) {
    const at = chance.below(garbled.length + 1);
    const to = Math.min(garbled.length, at + chance.below(16));
    const [head, middle, tail] = [garbled.subarray(0, at), garbled.subarray(at, to), garbled.subarray(to)];
    const flipped = Buffer.from(middle.map((byte) => byte ^ (1 << chance.below(8))));
    const parts = chance.pick([
      [head, flipped, tail],
      [head, tail],
      [head, middle, middle, tail],
      [head, Buffer.from(chance.bytes(1 + chance.below(12))), middle, tail],
      [head],
    ]);
    garbled = Buffer.concat(parts);
  }
  return garbled;
}

/** The preface of HTTP/2, and frames of any type, flags, stream and length behind it. */
function http2Garbage(chance: Chance): Buffer {
  const parts = [Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])];
  for (let left = 1 + chance.below(12); left > 0; left--) {
    const payload = Buffer.from(chance.bytes(chance.pick([0, 4, 5, 8, 6, 17, 200])));
    const head = Buffer.alloc(9);
    head.writeUIntBE(chance.happens(0.8) ? payload.length : chance.below(2 ** 24), 0, 3);
    head.writeUInt8(chance.below(12), 3);
    head.writeUInt8(chance.below(256), 4);
    head.writeUInt32BE(chance.pick([0, 1, 3, 2, 2 ** 31 - 1, chance.below(100)]), 5);
    parts.push(head, payload);
  }
  return Buffer.concat(parts);
}
