/**
 * Bad JSON and bad values, on the REST paths and on Connect's: a clear error with its reason, naming the field; never a
 * 5xx, a spent attempt, an SMS, or an echo of what was typed. After each, a call in good order works.
 */
import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { contract, type ContractReason } from "../support/data/contract.ts";
import { rowOf } from "../support/databases/rows.ts";
import { newPhone } from "../support/data/phones.ts";
import { overHttp1, overHttp2, type WireAnswer } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
let probe = { id: "", phone: "" };
beforeAll(async () => {
  world = await startWorld();
  const phone = newPhone();
  const { text } = await post("rest", "SendOtp", JSON.stringify({ phone }));
  probe = { id: String((JSON.parse(text) as JsonObject)["request_id"]), phone };
});
afterAll(() => world.stop());

type Where = "rest" | "connect" | "connect over HTTP/2";
type Posted = "SendOtp" | "VerifyOtp";
const restPaths: Record<Posted, string> = { SendOtp: "/v1/otp/send", VerifyOtp: "/v1/otp/verify" };

function post(
  where: Where,
  rpc: Posted,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
): Promise<WireAnswer> {
  const wire = where === "connect over HTTP/2" ? overHttp2 : overHttp1;
  return wire(world.url, {
    path: where === "rest" ? restPaths[rpc] : `/otp.v1.OtpService/${rpc}`,
    headers: {
      authorization: `Bearer ${world.key}`,
      "content-type": "application/json",
      // As every browser and fetch does: an answer that comes compressed must not confuse the server itself.
      "accept-encoding": "gzip",
      ...headers,
    },
    body,
  });
}

interface Row {
  readonly name: string;
  readonly rpc: Posted;
  readonly body: () => string | Uint8Array;
  readonly reason: ContractReason;
  readonly field?: string;
}

/** A secret that no answer may hold. */
const typed = "907351";
const verify = (
  name: string,
  code: string,
  reason: ContractReason = "INVALID_REQUEST",
  field: string | null = "code",
) =>
  ({
    name,
    rpc: "VerifyOtp",
    body: () => `{"request_id":"${probe.id}","code":${code}}`,
    reason,
    ...(field === null ? {} : { field }),
  }) satisfies Row;
const send = (name: string, phone: string, reason: ContractReason = "PHONE_INVALID", field: string | null = "phone") =>
  ({
    name,
    rpc: "SendOtp",
    body: () => `{"phone":${phone}}`,
    reason,
    ...(field === null ? {} : { field }),
  }) satisfies Row;
const whole = (name: string, body: string | Uint8Array, field?: string) =>
  ({
    name,
    rpc: "VerifyOtp",
    body: () => body,
    reason: "INVALID_REQUEST",
    ...(field === undefined ? {} : { field }),
  }) satisfies Row;

const bytes = (...parts: (string | number)[]) =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.of(part))));

const rows: Row[] = [
  whole("no body at all", ""),
  whole("half a body", `{"code":"${typed}`),
  whole("text", `code=${typed}`),
  whole("a trailing comma", `{"code":"${typed}",}`),
  whole("single quotes", `{'code':'${typed}'}`),
  whole("two values", `{"code":"${typed}"}{}`),
  whole("a trailing NUL behind the body", `{"code":"${typed}"}\u0000`),
  whole("null", "null"),
  whole("true", "true"),
  whole("a number", typed),
  whole("a string", `"${typed}"`),
  whole("a list", `[{"code":"${typed}"}]`),
  whole("bad UTF-8 in a value", bytes('{"request_id":"x","code":"', 0xff, typed, '"}')),
  whole("an overlong UTF-8 NUL in a value", bytes('{"request_id":"x","code":"', 0xc0, 0x80, typed, '"}')),
  whole("UTF-16", Buffer.from(`{"code":"${typed}"}`, "utf16le")),
  whole("an unknown field", `{"request_id":"x","code":"${typed}","phone_number":"1"}`, "phone_number"),
  whole("a field of another message", `{"request_id":"x","code":"${typed}","phone":"1"}`, "phone"),
  whole("a field in capitals", `{"REQUEST_ID":"x","code":"${typed}"}`, "REQUEST_ID"),
  whole("__proto__", `{"__proto__":{"code":"${typed}"}}`, "__proto__"),
  whole("constructor", `{"constructor":{"prototype":{"code":"${typed}"}}}`, "constructor"),
  whole("a field's name that is a code", `{"request_id":"x","${typed}":"1"}`),
  whole("a field's name that breaks lines", `{"request_id":"x","a\\nb":"1"}`),
  whole("an empty field's name", `{"request_id":"x","":"1"}`),
  whole("a request_id of a wrong type", `{"request_id":${typed},"code":"1"}`, "request_id"),
  whole("a deep list", `{"request_id":"x","code":${"[".repeat(8_000)}${"]".repeat(8_000)}}`, "code"),
  whole("a deep object", `{"request_id":"x","bind":${'{"a":'.repeat(2_000)}1${"}".repeat(2_000)}}`, "bind"),
  whole("a binding of a wrong type", `{"request_id":"x","code":"1","bind":["${typed}"]}`, "bind"),
  whole("a binding to a number", `{"request_id":"x","code":"1","bind":{"a":${typed}}}`, "bind"),
  whole("a lone surrogate", `{"request_id":"x","code":"\\ud800${typed}"}`, "code"),
  whole("a field twice", `{"request_id":"x","code":"${typed}","code":"1"}`, "code"),
  whole("a field in both spellings", `{"request_id":"x","requestId":"y","code":"${typed}"}`, "request_id"),
  verify("a code that is a number", typed),
  verify("a code that is true", "true"),
  verify("a code that is null", "null", "CODE_MALFORMED"),
  verify("a code that is a list", `["${typed}"]`),
  verify("a code that is an object", `{"value":"${typed}"}`),
  verify("an empty code", '""', "CODE_MALFORMED"),
  verify("a code of 257 characters", `"${typed.repeat(43)}"`),
  verify("full-width digits", '"９０７３５１"', "CODE_MALFORMED"),
  verify("a trailing NUL", `"${typed}\\u0000"`, "CODE_MALFORMED"),
  verify("a trailing letter", `"${typed}a"`, "CODE_MALFORMED"),
  verify("a code of blanks", '"      "', "CODE_MALFORMED"),
  verify("a code between line breaks", `"\\n${typed}\\n"`, "CODE_MALFORMED"),
  verify("a signed code", `"+${typed}"`, "CODE_MALFORMED"),
  send("a phone that is a number", "31698765432", "INVALID_REQUEST"),
  send("a phone that is false", "false", "INVALID_REQUEST"),
  send("a phone that is a list", '["+31698765432"]', "INVALID_REQUEST"),
  send("an empty phone", '""', "INVALID_REQUEST"),
  send("a phone that is null", "null", "INVALID_REQUEST"),
  send("national format", '"0698765432"'),
  send("a number without its plus", '"31698765432"'),
  send("full-width digits in a phone", '"+３１６９８７６５４３２"'),
  send("a trailing NUL in a phone", '"+31698765432\\u0000"'),
  send("an extension", '"+31698765432 ext. 5"'),
  send("text around the number", '"call +31698765432 now"'),
  send("two numbers", '"+31698765432,+31687654321"'),
  send("a number too short", '"+316"'),
  send("33 characters", `"+31698765432${" ".repeat(21)}"`),
  send("an address of another kind", '"tel:+31698765432"'),
  send("a header behind the number", '"+31698765432\\r\\nBcc: x"'),
  send("a landline", '"+31201234567"', "PHONE_NOT_MOBILE"),
  send("an unknown channel", '"+31698765432","channel":"pigeon"', "CHANNEL_UNSUPPORTED", "channel"),
  send("known_user as a word", '"+31698765432","known_user":"true"', "INVALID_REQUEST", "known_user"),
  send("a locale with a blank", '"+31698765432","locale":"nl NL"', "INVALID_REQUEST", "locale"),
  send("a purpose of 65 characters", `"+31698765432","purpose":"${"p".repeat(65)}"`, "INVALID_REQUEST", "purpose"),
  send("a purpose with a line break", '"+31698765432","purpose":"a\\nb"', "INVALID_REQUEST", "purpose"),
  send("a binding without a key", '"+31698765432","bind":{"":"x"}', "INVALID_REQUEST", "bind"),
  send("a binding of 129 characters", `"+31698765432","bind":{"a":"${"b".repeat(129)}"}`, "INVALID_REQUEST", "bind"),
];

describe.each<Where>(["rest", "connect", "connect over HTTP/2"])("by %s", (where) => {
  test.each(rows)("$name is $reason", async ({ rpc, body, reason, field }) => {
    const sms = world.network.received.length;
    const attempts = (await rowOf(world.database, probe.id)).attempts;
    const answer = await post(where, rpc, body());
    const [code, status] = contract[reason];
    expect([answer.status, answer.headers.get("content-type"), answer.headers.get("cache-control")]).toEqual([
      status,
      "application/json",
      "no-store",
    ]);
    const said = JSON.parse(answer.text) as JsonObject & { details: { debug?: JsonObject }[] };
    expect(said["code"]).toBe(code.toLowerCase());
    expect(said.details[0]?.debug).toMatchObject({ reason, domain: "otpd" });
    expect(said.details[0]?.debug?.["metadata"] ?? {}).toEqual(field === undefined ? {} : { field });
    expect(field === undefined || String(said["message"]).includes(field)).toBe(true);
    expect(where === "rest" ? [said["reason"], said["field"]] : [reason, field]).toEqual([reason, field]);
    expect(answer.text).not.toMatch(/907351|698765432/);
    // Nothing was spent, and the next call in good order works.
    expect([world.network.received.length, (await rowOf(world.database, probe.id)).attempts]).toEqual([sms, attempts]);
    const next = await overHttp1(world.url, {
      method: "GET",
      path: `/v1/otp/${probe.id}`,
      headers: { authorization: `Bearer ${world.key}` },
    });
    expect(JSON.parse(next.text)).toMatchObject({ state: "STATE_PENDING", phone: probe.phone });
  });

  test.each([
    ["both spellings of a field", () => `{"requestId":"${probe.id}","code":"1"}`],
    ["a byte order mark", () => `\ufeff{"request_id":"${probe.id}","code":"1"}`],
    ["spaces around", () => ` \r\n\t{ "request_id" : "${probe.id}" , "code" : "1" } \n`],
  ])("%s is read", async (_, body) => {
    const answer = await post(where, "VerifyOtp", body());
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('"CODE_MALFORMED"')]);
  });
});
