/**
 * The description of the REST paths: that it is valid OpenAPI 3.1, that it says what the service does, and how it is
 * served. Besides, every answer of the REST paths in any test is held against it (test/support/clients/surfaces.ts); what
 * that finds is shown here.
 */
import { Validator } from "@seriousme/openapi-schema-validator";
import { decodeJwt, importJWK, jwtVerify, type JWK } from "jose";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventTypes } from "../../src/otp/event-type.ts";
import type { Reason } from "../../src/otp/reason.ts";
import { restError } from "../../src/server/rpc/errors.ts";
import { contract } from "../support/data/contract.ts";
import {
  createJudge,
  documentText,
  nameOf,
  type Answered,
  type OpenApi,
  type Response,
} from "../support/readers/openapi.ts";
import { wrongCode } from "../support/data/phones.ts";
import { overHttp1, overHttp2 } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

const openApi = JSON.parse(documentText) as OpenApi;
const judge = createJudge(documentText);
const operations = Object.entries(openApi.paths).flatMap(([path, byMethod]) =>
  Object.values(byMethod).map((operation) => ({ path, operation })),
);
const responses = operations.flatMap(({ operation }) =>
  Object.entries(operation.responses).map(([status, one]) => ({
    status,
    content: judge.resolve<Response>(one).content,
  })),
);
const contents = [
  ...operations.flatMap(({ operation }) => operation.requestBody?.content ?? []),
  ...responses.flatMap(({ content }) => content ?? []),
];

type Json = Record<string, unknown>;
/** The bodies of refusals in the document, and the statuses they are under. */
const refusals = responses.flatMap(({ status, content }) =>
  Object.values(content?.["application/json"].examples ?? {}).map((reference) => {
    const { value } = judge.resolve<{ value: Json & { reason: Reason; code: string } }>(reference);
    return { status: Number(status), value };
  }),
);
/** The examples of the other messages, by their schema. */
const examples = Object.fromEntries(
  contents.flatMap(({ "application/json": { schema, example } }) =>
    example === undefined ? [] : [[nameOf(schema), example as Json]],
  ),
);

/** A world at the hour of the examples. */
const start = () => startWorld({ OTP_PUBLIC_URL: "https://otp.example.com" });
let world: World;
beforeAll(async () => {
  world = await start();
});
afterAll(() => world.stop());

async function ask({ url, key }: World, method: string, path: string, body?: Json) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(url + path, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Json };
}

describe("the document", () => {
  test("is valid by the schema of OpenAPI 3.1, and bears the version of the package", async () => {
    const validator = new Validator();
    const { valid, errors } = await validator.validate(JSON.parse(documentText) as Json);
    expect([valid, errors, validator.version]).toEqual([true, undefined, "3.1"]);
    const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
    expect(openApi.info.version).toBe((JSON.parse(manifest) as OpenApi["info"]).version);
  });

  test("has what it refers to, and examples that fit their schemas", () => {
    for (const [, reference = ""] of documentText.matchAll(/"\$ref": "([^"]+)"/g)) {
      expect(judge.resolve({ $ref: reference })).toBeTypeOf("object");
    }
    for (const [name, example] of Object.entries(examples)) expect(judge.misfitOf(name, example)).toBeUndefined();
    for (const { value } of refusals) expect(judge.misfitOf("OtpRefusal", value)).toBeUndefined();
    expect(Object.keys(examples)).toHaveLength(10);
  });

  test("has every reason, under its status and with its code", () => {
    const found = refusals.map(({ status, value: { reason, code } }) => [reason, [code.toUpperCase(), status]]);
    // A method that a path does not take is in no document.
    const { METHOD_NOT_ALLOWED: _, ...rest } = contract;
    expect(Object.fromEntries(found)).toEqual(rest);
  });

  test("has refusals as the service words them", () => {
    for (const { status, value } of refusals) {
      const { reason, message, field, attempts_remaining: attempts, retry_after_seconds: seconds } = value;
      const refusal = {
        reason,
        message: String(message),
        ...(field === undefined ? {} : { field: String(field) }),
        ...(attempts === undefined ? {} : { attemptsRemaining: Number(attempts) }),
        ...(seconds === undefined ? {} : { retryAfterMs: Number(seconds) * 1_000 }),
      };
      const said = restError(refusal);
      const { details: _, ...rest } = JSON.parse(said.body) as Json;
      expect([said.status, rest]).toEqual([status, value]);
    }
  });

  test("tells refusals apart by reason, each with what it has", () => {
    interface Body {
      readonly required: string[];
      readonly properties: Record<string, { enum?: string[] }>;
    }
    interface Told {
      readonly discriminator: { propertyName: string; mapping: Record<string, string> };
    }
    const { OtpRefusal, ...schemas } = openApi.components["schemas"] as Record<string, Told & Body>;
    const mapping = OtpRefusal?.discriminator.mapping ?? {};
    expect(OtpRefusal?.discriminator.propertyName).toBe("reason");
    expect(Object.keys(mapping).toSorted()).toEqual(Object.keys(contract).toSorted());
    const bodies = Object.entries(mapping).map(
      ([reason, path]) => [reason, schemas[path.split("/").at(-1) ?? ""]] as const,
    );
    for (const [reason, body] of bodies) expect(body?.properties["reason"]?.enum).toEqual([reason]);
    const required = (field: string) =>
      bodies.flatMap(([reason, body]) => (body?.required.includes(field) === true ? [reason] : []));
    const having = (field: string) => bodies.flatMap(([reason, body]) => (body?.properties[field] ? [reason] : []));
    expect([required("attempts_remaining"), having("attempts_remaining")]).toEqual([
      ["CODE_MISMATCH"],
      ["CODE_MISMATCH"],
    ]);
    expect(required("retry_after_seconds")).toContain("RESEND_TOO_SOON");
    expect(having("retry_after_seconds")).not.toContain("OTP_EXPIRED");
    // Names that a language has of its own would be shadowed by the classes that are made of them.
    expect(Object.keys({ OtpRefusal, ...schemas }).filter((name) => name in globalThis)).toEqual([]);
  });

  test("has a webhook of every type of event", () => {
    const { OtpEvent } = openApi.components["schemas"] as Record<string, { discriminator: { mapping: object } }>;
    expect(Object.keys(OtpEvent?.discriminator.mapping ?? {})).toEqual([...eventTypes, "webhook.test"]);
    const event = { type: "webhook.test", timestamp: "2026-01-01T12:00:00.000Z", data: { tenant: "acme" } };
    expect(judge.misfitOf("OtpEvent", event)).toBeUndefined();
    expect(judge.misfitOf("OtpEvent", { ...event, type: "verification.created" })).toBeDefined();
    expect(judge.misfitOf("OtpEvent", { ...event, data: { tenant: "acme", code: "123456" } })).toBeDefined();
  });

  test("has the answers that the service gives to its requests", async () => {
    const hour = await start();
    try {
      const sent = await ask(hour, "POST", "/v1/otp/send", examples["SendOtpRequest"]);
      const { request_id } = sent.body;
      expect(sent.body).toEqual({ ...examples["SendOtpResponse"], request_id });
      const seen = await ask(hour, "GET", `/v1/otp/${String(request_id)}`);
      const [message] = seen.body["messages"] as Json[];
      const messages = [{ ...message, provider: "messagebird" }];
      expect({ ...seen.body, messages }).toEqual({ ...examples["GetOtpResponse"], request_id, provider: "test" });
      hour.system.advance(30_000);
      const resent = await ask(hour, "POST", "/v1/otp/resend", { ...examples["ResendOtpRequest"], request_id });
      expect(resent.body).toEqual({ ...examples["ResendOtpResponse"], request_id });
      hour.system.advance(10_000);
      const { phone } = examples["SendOtpRequest"] as { phone: string };
      const right = { ...examples["VerifyOtpRequest"], request_id, code: hour.network.codeFor(phone) };
      const { receipt, ...verified } = (await ask(hour, "POST", "/v1/otp/verify", right)).body;
      const { receipt: given, ...rest } = examples["VerifyOtpResponse"] as Json;
      expect(verified).toEqual({ ...rest, request_id });
      expect(decodeJwt(String(receipt))).toEqual({ ...decodeJwt(String(given)), sub: request_id, jti: request_id });

      const other = await ask(hour, "POST", "/v1/otp/send", examples["SendOtpRequest"]);
      const canceling = { ...examples["CancelOtpRequest"], request_id: other.body["request_id"] };
      const canceled = await ask(hour, "POST", "/v1/otp/cancel", canceling);
      expect(canceled.body).toEqual({ ...examples["CancelOtpResponse"], request_id: other.body["request_id"] });

      const { keys } = examples["KeySet"] as { keys: JWK[] };
      const published = await ask(hour, "GET", "/.well-known/jwks.json");
      expect(judge.faultOf({ method: "GET", path: "/.well-known/jwks.json" }, published)).toBeUndefined();
      expect(published.body["keys"]).toEqual(expect.arrayContaining(keys));
      const currentDate = new Date(hour.system.now());
      await jwtVerify(String(given), await importJWK(keys[0] as JWK), { currentDate });
    } finally {
      await hour.stop();
    }
  });

  test("has no limit on a request that the service does not hold to", async () => {
    const sent = await ask(world, "POST", "/v1/otp/send", { phone: "+14155552671" });
    const right: Json = { phone: "+14155552671", request_id: sent.body["request_id"], code: "000000" };
    let tried = 0;
    for (const { path, operation } of operations) {
      if (operation.requestBody === undefined) continue;
      const name = nameOf(operation.requestBody.content["application/json"].schema);
      const { properties, required } = judge.resolve<RequestSchema>({ $ref: `#/components/schemas/${name}` });
      const whole = Object.fromEntries(required.map((field) => [field, right[field]]));
      const wrong = Object.entries(properties).flatMap(([field, schema]) =>
        beyond(schema).map((value) => [field, value]),
      );
      for (const [field, value] of [...wrong, ...required.map((one) => [one, ""]), ["nobodys_field", "x"]] as [
        string,
        unknown,
      ][]) {
        const request = { ...whole, [field]: value };
        expect(judge.misfitOf(name, request), field).toBeDefined();
        const { status, body } = await ask(world, "POST", path, request);
        expect([path, status, body["field"]]).toEqual([path, 400, field]);
        tried += 1;
      }
    }
    expect(tried).toBeGreaterThan(20);
  });
});

interface FieldSchema {
  readonly type: string;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly maxProperties?: number;
  readonly propertyNames?: FieldSchema;
  readonly additionalProperties?: FieldSchema;
}
interface RequestSchema {
  readonly properties: Readonly<Record<string, FieldSchema>>;
  readonly required: readonly string[];
}

/** Values just beyond each limit of a field. */
function beyond({
  type,
  maxLength,
  pattern,
  maxProperties,
  propertyNames,
  additionalProperties: values,
}: FieldSchema): unknown[] {
  const long = (most = 0) => "1".repeat(most + 1);
  return [
    type === "string" ? 1 : "1",
    ...(maxLength === undefined ? [] : [long(maxLength)]),
    ...(pattern === undefined ? [] : ["é"]),
    ...(maxProperties === undefined
      ? []
      : [Object.fromEntries(Array.from(long(maxProperties), (_, i) => [`k${i}`, ""]))]),
    ...(propertyNames === undefined ? [] : [{ [long(propertyNames.maxLength)]: "" }, { "": "" }]),
    ...(values?.maxLength === undefined ? [] : [{ k: long(values.maxLength) }]),
  ];
}

describe("an answer that is not in the document is found", () => {
  const path = "/v1/otp/verify";
  const refused = async (): Promise<{ asked: Parameters<typeof judge.faultOf>[0]; answered: Answered }> => {
    const phone = "+14155552671";
    const { body } = await ask(world, "POST", "/v1/otp/send", { phone });
    const request = { request_id: body["request_id"], code: wrongCode(world.network.codeFor(phone)) };
    return { asked: { method: "POST", path, body: request }, answered: await ask(world, "POST", path, request) };
  };

  test("and one that is, is not", async () => {
    const { asked, answered } = await refused();
    expect([answered.status, judge.faultOf(asked, answered)]).toEqual([400, undefined]);
    expect(judge.faultOf({ method: "GET", path: "/v1/otp/x" }, await ask(world, "GET", "/v1/otp/x"))).toBeUndefined();
  });

  test.each<[string, (real: Answered) => Partial<Answered>, string]>([
    [
      "a field that it does not name",
      ({ body }) => ({ body: { ...(body as Json), hint: "" } }),
      "additional properties",
    ],
    [
      "a field within a field",
      ({ body }) => ({ body: { ...(body as Json), details: [{ type: "", value: "", hint: "" }] } }),
      "details/0",
    ],
    ["a missing field", ({ body }) => ({ body: { ...(body as Json), code: undefined } }), "required property 'code'"],
    ["a value of no enum", ({ body }) => ({ body: { ...(body as Json), code: "teapot" } }), "allowed values"],
    ["an unknown reason", ({ body }) => ({ body: { ...(body as Json), reason: "TEAPOT" } }), "allowed values"],
    [
      "a reason of other calls",
      ({ body }) => ({ body: { ...(body as Json), reason: "PHONE_INVALID" } }),
      "no reason PHONE_INVALID under 400",
    ],
    [
      "fewer fields than its example",
      ({ body }) => ({ body: { ...(body as Json), field: undefined } }),
      "CODE_MISMATCH without field",
    ],
    ["a number out of range", ({ body }) => ({ body: { ...(body as Json), attempts_remaining: -1 } }), ">= 0"],
    ["a status", () => ({ status: 418 }), "no status 418"],
    [
      "a header of other statuses",
      ({ headers }) => ({ headers: withHeader(headers, "retry-after", "1") }),
      "no header Retry-After",
    ],
    [
      "a status without its header",
      ({ body }) => ({ status: 429, body: { ...(body as Json), reason: "IP_RATE_LIMITED" } }),
      "Retry-After is missing",
    ],
    ["another type", ({ headers }) => ({ headers: withHeader(headers, "content-type", "text/plain") }), "text/plain"],
    ["a success of other fields", ({ body }) => ({ status: 200, body }), "VerifyOtpResponse"],
  ])("%s", async (_, edit, fault) => {
    const { asked, answered } = await refused();
    // As it would have travelled: what is undefined is not there.
    const { body, ...rest } = { ...answered, ...edit(answered) };
    expect(judge.faultOf(asked, { ...rest, body: JSON.parse(JSON.stringify(body)) })).toContain(fault);
  });

  test.each<[string, string[], string]>([
    ["a path", ["paths", path], "no such path"],
    ["a status", ["paths", path, "post", "responses", "400"], "no status 400"],
    ["a field", ["components", "schemas", "CodeMismatchRefusal", "properties", "field"], "additional properties"],
  ])("once %s is taken out of it", async (_, names, fault) => {
    const document = JSON.parse(documentText) as Json;
    const last = names.pop() ?? "";
    delete names.reduce((part, name) => part[name] as Json, document)[last];
    const { asked, answered } = await refused();
    expect(createJudge(JSON.stringify(document)).faultOf(asked, answered)).toContain(fault);
  });
});

function withHeader(headers: Headers, name: string, value: string): Headers {
  const more = new Headers(headers);
  more.set(name, value);
  return more;
}

describe.each([
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
])("served over %s", (_, wire) => {
  const path = "/openapi.json";
  const lasting = { "cache-control": "public, max-age=300", "access-control-allow-origin": "*" };

  test("it is for anybody, from any page, and may be kept for 5 minutes", async () => {
    const { status, headers, text } = await wire(world.url, { method: "GET", path: `${path}?v=1` });
    expect([status, JSON.parse(text)]).toEqual([200, openApi]);
    const length = `${Buffer.byteLength(text)}`;
    const whole = { ...lasting, "content-type": "application/json", "content-length": length };
    expect(Object.fromEntries(headers)).toMatchObject({
      ...whole,
      etag: expect.stringMatching(/^"[\w-]{22}"$/) as string,
    });
  });

  test("it is not sent again to who has it", async () => {
    const whole = await wire(world.url, { method: "GET", path });
    const etag = String(whole.headers.get("etag"));
    for (const known of [etag, `W/${etag}`, `"old", ${etag}`, "*"]) {
      const { status, headers, text } = await wire(world.url, {
        method: "GET",
        path,
        headers: { "if-none-match": known },
      });
      expect([status, text, Object.fromEntries(headers)]).toEqual([
        304,
        "",
        expect.objectContaining({ ...lasting, etag }),
      ]);
    }
    const other = await wire(world.url, { method: "GET", path, headers: { "if-none-match": '"old"' } });
    expect([other.status, other.text]).toEqual([200, whole.text]);
  });

  test("HEAD gets its headers alone, and there is no other method", async () => {
    const whole = await wire(world.url, { method: "GET", path });
    const head = await wire(world.url, { method: "HEAD", path });
    expect([head.status, head.text]).toEqual([200, ""]);
    for (const name of ["content-length", "etag", "cache-control"]) {
      expect(head.headers.get(name)).toBe(whole.headers.get(name));
    }
    const posted = await wire(world.url, { method: "POST", path, body: "{}" });
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });
});
