/**
 * Ways to spoil a request: in its JSON, and in its method, path and headers.
 */
import type { JsonObject } from "@bufbuild/protobuf";
import type { Chance } from "../simulation/chance.ts";
import type { Request } from "./wire.ts";

export type Draft = Request;

/** Values that no field wants, and some that look as if one did. */
const nastyValues = [
  "null",
  "true",
  "0",
  "-0",
  "1e400",
  "123456",
  "9007199254740993",
  "1".repeat(400),
  '""',
  '" "',
  "[]",
  "{}",
  '["+31612345678"]',
  '{"$ne":null}',
  '{"__proto__":{"phone":"+31612345678"}}',
  String.raw`"\u0000"`,
  String.raw`"\ud800"`,
  String.raw`"+316123456\u00378"`,
  String.raw`"\uff0b\uff13\uff11612345678"`,
  '"+31612345678\\n"',
  '"+31612345678;ext=5"',
  '"tel:+31612345678"',
  '"+1 900 123 4567"',
  `"${"9".repeat(5_000)}"`,
  '"\u202e+31612345678"',
  '"NaN"',
  "NaN",
  "Infinity",
  "undefined",
  "0x10",
  "01",
  "'single'",
];

const nastyKeys = [
  "__proto__",
  "constructor",
  "toString",
  "phone_number",
  "Phone",
  "",
  "phone\\u0000",
  "hasOwnProperty",
  "requestId",
];

export interface JsonMutation {
  readonly name: string;
  readonly change: (body: Buffer, chance: Chance, asked: JsonObject) => Buffer;
}

const whole = (text: (chance: Chance, asked: JsonObject) => string) => (_: Buffer, chance: Chance, asked: JsonObject) =>
  Buffer.from(text(chance, asked));

/** The object again, with `value` as the JSON text of one of its fields. */
function withValue(asked: JsonObject, key: string, value: string): string {
  const fields = Object.entries(asked).map(
    ([name, kept]) => `"${name}":${name === key ? value : JSON.stringify(kept)}`,
  );
  return `{${fields.join(",")}}`;
}

export const jsonMutations: readonly JsonMutation[] = [
  {
    name: "nasty value",
    change: whole((chance, asked) => withValue(asked, chance.pick(Object.keys(asked)), chance.pick(nastyValues))),
  },
  {
    name: "nasty key",
    change: whole((chance, asked) =>
      JSON.stringify(asked).replace("{", `{"${chance.pick(nastyKeys)}":${chance.pick(nastyValues)},`),
    ),
  },
  {
    name: "key twice",
    change: whole((chance, asked) =>
      JSON.stringify(asked).replace(/\}$/, `,"${chance.pick(Object.keys(asked))}":${chance.pick(nastyValues)}}`),
    ),
  },
  {
    name: "no object",
    change: whole((chance) =>
      chance.pick([
        "",
        " ",
        "null",
        "[]",
        "1",
        '"x"',
        "{",
        "}",
        "{}",
        "{}{}",
        "[".repeat(8_000),
        "\u0000",
        "//",
        "{'phone':1}",
      ]),
    ),
  },
  {
    name: "deep",
    change: whole((chance, asked) =>
      withValue(
        asked,
        Object.keys(asked)[0] ?? "",
        '{"a":'.repeat(1 + chance.below(2_500)) + "1" + "}".repeat(chance.below(2_500)),
      ),
    ),
  },
  { name: "trailing comma", change: whole((_, asked) => JSON.stringify(asked).replace(/\}$/, ",}")) },
  { name: "byte order mark", change: (body) => Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), body]) },
  { name: "UTF-16", change: (body) => Buffer.from(body.toString(), "utf16le") },
  {
    name: "bad UTF-8",
    change: (body, chance) =>
      Buffer.from(
        body
          .toString("latin1")
          .replace(":", `:${chance.pick(['"\xc3("', '"\xff\xfe"', '"\xed\xa0\x80"', '"\xf8"'])},"x":`),
        "latin1",
      ),
  },
  {
    name: "too large",
    change: (body, chance) => Buffer.concat([body, Buffer.alloc(16_384 - body.length + chance.below(40), 0x20)]),
  },
  {
    name: "camel case",
    change: (body) => Buffer.from(body.toString().replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())),
  },
  {
    name: "large map",
    change: whole((chance, asked) =>
      JSON.stringify({
        ...asked,
        bind: Object.fromEntries(Array.from({ length: chance.below(300) }, (_, i) => [`k${i}`, "v"])),
      }),
    ),
  },
];

export interface HttpMutation {
  readonly name: string;
  /** True when no request with this change can succeed. */
  readonly mustFail?: boolean;
  readonly change: (draft: Draft, chance: Chance) => Draft;
}

const replaced = (draft: Draft, header: string, values: readonly string[]): Draft => ({
  ...draft,
  headers: [...draft.headers.filter(([name]) => name !== header), ...values.map((value) => [header, value] as const)],
});

export const httpMutations: readonly HttpMutation[] = [
  { name: "no key", mustFail: true, change: (draft) => replaced(draft, "authorization", []) },
  {
    name: "wrong key",
    mustFail: true,
    change: (draft, chance) => {
      const random = Buffer.from(chance.bytes(40)).toString("base64url");
      return replaced(draft, "authorization", [
        chance.pick([
          "",
          "Bearer",
          "Bearer ",
          `Bearer ${random}`,
          "Basic eDp5",
          `Bearer otp_live_${random}`,
          "Bearer \x7f",
        ]),
      ]);
    },
  },
  {
    name: "method",
    mustFail: true,
    change: (draft, chance) => ({
      ...draft,
      method: chance.pick(["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "HEAD"]),
    }),
  },
  {
    name: "path",
    change: (draft, chance) => ({
      ...draft,
      path: chance.pick([
        "/",
        "/v1/otp",
        "/v1/otp/",
        "/v1/otp/%",
        "/v1/otp/%00",
        "/v1/otp/..%2fsend",
        "/v1/otp/send/",
        "//v1/otp/send",
        "/V1/OTP/SEND",
        "/otp.v1.OtpService/",
        "/otp.v1.OtpService/SendOtp/",
        "/otp.v1.OtpService/constructor",
        "/__proto__",
        `/v1/otp/${"a".repeat(4_000)}`,
        `${draft.path}?x=${"y".repeat(chance.below(3_000))}`,
        `${draft.path}?`,
        "*",
        "http://elsewhere/v1/otp/send",
      ]),
    }),
  },
  {
    name: "content type",
    change: (draft, chance) =>
      replaced(
        draft,
        "content-type",
        chance.pick([
          [],
          [""],
          ["text/plain"],
          ["application/json; charset=utf-16"],
          ["application/json", "application/proto"],
          ["application/grpc"],
          ["application/grpc-web-text"],
          ["application/connect+json"],
          ["multipart/form-data; boundary=x"],
          ["APPLICATION/JSON"],
          ["application/x-www-form-urlencoded"],
        ]),
      ),
  },
  {
    name: "content encoding",
    change: (draft, chance) =>
      replaced(draft, "content-encoding", [chance.pick(["gzip", "br", "deflate", "identity", "", "gzip, gzip", "x"])]),
  },
  {
    name: "timeout",
    change: (draft, chance) => {
      const header = chance.pick(["grpc-timeout", "connect-timeout-ms"]);
      return replaced(draft, header, [
        chance.pick(["", "-1", "0", "1", "1n", "99999999H", "999999999H", "10S", "1e9", "NaN", "5 m", "99999999999"]),
      ]);
    },
  },
  {
    name: "idempotency key",
    change: (draft, chance) =>
      replaced(
        draft,
        "idempotency-key",
        chance.pick([[""], [" "], ["x".repeat(256)], ["a", "b"], ["\u00e9"], [`k${chance.below(50)}`], ["with space"]]),
      ),
  },
  {
    name: "protocol headers",
    change: (draft, chance) => {
      const [header, value] = chance.pick([
        ["connect-protocol-version", "2"],
        ["grpc-encoding", "snappy"],
        ["grpc-accept-encoding", "x,,gzip"],
        ["accept-encoding", "gzip;q=0, *"],
        ["x-grpc-web", "1"],
        ["x-user-agent", "grpc-web"],
        ["expect", "100-continue"],
        ["expect", "a miracle"],
        ["origin", "null"],
        ["x-forwarded-for", "::1, 1.2.3.4"],
        ["x-http-method-override", "GET"],
        ["grpc-metadata-bin", "!!not base64!!"],
      ] as const);
      return replaced(draft, header, [value]);
    },
  },
  {
    name: "many headers",
    change: (draft, chance) => ({
      ...draft,
      headers: [...draft.headers, ...Array.from({ length: chance.below(150) }, (_, i) => [`x-${i}`, "v"] as const)],
    }),
  },
  { name: "long header", change: (draft, chance) => replaced(draft, "x-long", ["v".repeat(chance.below(20_000))]) },
  {
    name: "length",
    change: (draft, chance) =>
      replaced(
        draft,
        "content-length",
        chance.pick([["0"], ["1"], ["99999999"], ["-1"], ["0x10"], ["5", "6"], ["1e3"]]),
      ),
  },
  {
    name: "chunked",
    change: (draft, chance) => ({
      ...replaced(draft, "transfer-encoding", [chance.pick(["chunked", "chunked, gzip", "identity", "xchunked"])]),
      body: Buffer.concat([
        Buffer.from(`${draft.body.length.toString(16)}\r\n`),
        draft.body,
        Buffer.from("\r\n0\r\n\r\n"),
      ]),
    }),
  },
];
