/**
 * Reports of declared providers: of every kind of signature a genuine one is read, and one that is missing, forged or old is
 * not.
 */
import { createHash, createHmac, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import type { ReportRequest } from "../../../src/delivery/provider.ts";
import type { HttpOptions } from "../../../src/delivery/providers/http/provider.ts";
import { declared, publicUrl, sms } from "./setup.ts";

const { reference } = sms;
const nowMs = 1_790_000_000_000;
const nowSeconds = nowMs / 1_000;
const key = "the gateway's signing key";
/** An Ed25519 key that is the same in every run. */
const privateKey = createPrivateKey({
  key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, 7)]),
  format: "der",
  type: "pkcs8",
});
const publicKey = createPublicKey(privateKey).export({ type: "spki", format: "der" });

type Parts = Partial<{ target: string; type: string; body: string; headers: Record<string, string>; at: number }>;

/** A request as it comes in; `headers` are in small letters, as Node has them. */
function request({
  target = "/webhooks/acme",
  type = "application/json",
  body = "",
  headers = {},
}: Parts): ReportRequest {
  return {
    method: body === "" ? "GET" : "POST",
    target,
    headers: { "content-type": type, ...headers },
    body: Buffer.from(body),
  };
}

const json = JSON.stringify({ ref: reference, state: "DELIVRD", id: "m-1", why: "ok" });
const fields = {
  reference: "/ref",
  status: "/state",
  id: "/id",
  detail: "/why",
  delivered: ["DELIVRD", 1],
  undelivered: ["FAILED"],
  accepted: ["SENT"],
};

/** What is signed, by the parts of `over`; the marks between them stand for themselves. */
const mac = (algorithm: string, ...parts: string[]) => createHmac(algorithm, key).update(parts.join(""));

interface Kind {
  readonly name: string;
  readonly signature: object;
  readonly secret?: string;
  readonly fields?: object;
  /** A genuine report. */
  readonly genuine: (given?: Parts) => Promise<ReportRequest> | ReportRequest;
  /** Whether a report is bound to its time. */
  readonly isTimed?: true;
}

const form = `ref=${reference}&state=DELIVRD&id=m-1&why=ok`;
const sortedForm = `idm-1ref${reference}stateDELIVRDwhyok`;
const formType = "application/x-www-form-urlencoded";
const query = `?ref=${reference}&state=DELIVRD&id=m-1&why=ok`;
const inQuery = { ...fields, reference: "?ref", status: "?state", id: "?id", detail: "?why" };
const pathSecret = "q7Zk2mV9xT4bR8nW3cY6pL";

const kinds: Kind[] = [
  {
    name: "hmac-sha256 over the body, in hex behind a prefix",
    signature: { kind: "hmac-sha256", header: "X-Signature", prefix: "sha256=", over: ["body"], secret: "R" },
    genuine: ({ body = json } = {}) =>
      request({ body, headers: { "x-signature": `sha256=${mac("sha256", body).digest("hex")}` } }),
  },
  {
    name: "hmac-sha256 over body and timestamp",
    signature: {
      kind: "hmac-sha256",
      header: "X-Signature",
      over: ["body", "timestamp"],
      timestamp: "X-Timestamp",
      secret: "R",
    },
    isTimed: true,
    genuine: ({ body = json, at = nowSeconds } = {}) =>
      request({ body, headers: { "x-timestamp": `${at}`, "x-signature": mac("sha256", body, `${at}`).digest("hex") } }),
  },
  {
    name: "hmac-sha1 over the URL and the sorted form, in base64",
    signature: { kind: "hmac-sha1", header: "X-Twilio-Signature", over: ["url", "form"], secret: "R" },
    genuine: ({ body = form } = {}) => {
      const covered = body === form ? sortedForm : body;
      const said = mac("sha1", publicUrl, "/webhooks/acme", covered).digest("base64");
      return request({ body, type: formType, headers: { "x-twilio-signature": said } });
    },
  },
  {
    name: "hmac-sha256 over the URL, of a GET",
    signature: { kind: "hmac-sha256", header: "X-Signature", over: ["url"], secret: "R" },
    fields: inQuery,
    genuine: ({ target = `/webhooks/acme${query}` } = {}) =>
      request({ target, headers: { "x-signature": mac("sha256", publicUrl, target).digest("base64") } }),
  },
  {
    name: "ed25519 over timestamp|body",
    signature: {
      kind: "ed25519",
      header: "Telnyx-Signature",
      over: ["timestamp", "|", "body"],
      timestamp: "Telnyx-Time",
      secret: "R",
    },
    secret: publicKey.subarray(-32).toString("base64"),
    isTimed: true,
    genuine: ({ body = json, at = nowSeconds } = {}) => {
      const said = sign(null, Buffer.from(`${at}|${body}`), privateKey).toString("base64");
      return request({ body, headers: { "telnyx-time": `${at}`, "telnyx-signature": said } });
    },
  },
  {
    name: "jwt-hs256 that names the body by its hash",
    signature: { kind: "jwt-hs256", secret: "R" },
    isTimed: true,
    genuine: async ({ body = json, at = nowSeconds } = {}) => {
      const hash = createHash("sha256").update(body).digest("hex");
      const claims = new SignJWT({ payload_hash: hash }).setProtectedHeader({ alg: "HS256" }).setIssuedAt(at);
      return request({ body, headers: { authorization: `Bearer ${await claims.sign(Buffer.from(key))}` } });
    },
  },
  {
    name: "basic",
    signature: { kind: "basic", user: "gate", secret: "R" },
    genuine: ({ body = json } = {}) =>
      request({ body, headers: { authorization: `Basic ${Buffer.from(`gate:${key}`).toString("base64")}` } }),
  },
  {
    name: "a secret in the path",
    signature: { kind: "path", secret: "R" },
    secret: pathSecret,
    fields: inQuery,
    genuine: ({ target = `/webhooks/acme/${pathSecret}${query}` } = {}) => request({ target }),
  },
];

function providerOf({ signature, secret = key, fields: named = fields }: Kind, options: Partial<HttpOptions> = {}) {
  const reports = { signature, ...named };
  return declared({ url: "https://gw.example", reports }, { reportSecret: secret, now: () => nowMs, ...options });
}

const read = {
  kind: "genuine",
  reports: [{ reference, providerMessageId: "m-1", delivery: "DELIVERED", detail: "ok" }],
};
const forged = expect.objectContaining({ kind: "forged" }) as unknown;
const forgedFor = (cause: string) => ({ kind: "forged", cause });

describe.each(kinds)("a report by $name", (kind) => {
  const reading = async (sent: ReportRequest | Promise<ReportRequest>, options: Partial<HttpOptions> = {}) =>
    providerOf(kind, options).readReport?.(await sent);

  test("that is genuine is read", async () => expect(await reading(kind.genuine())).toEqual(read));

  test("without its signature is forged", async () => {
    const { headers, ...rest } = await kind.genuine();
    const target = rest.target.replace(`/${pathSecret}`, "");
    expect(await reading({ ...rest, target, headers: { "content-type": headers["content-type"] } })).toEqual(forged);
  });

  test("by another key is forged", async () => {
    const other = kind.name.startsWith("ed25519")
      ? generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "der" }).toString("base64")
      : `${kind.secret ?? key}x`;
    expect(await reading(kind.genuine(), { reportSecret: other })).toEqual(forged);
  });

  test("whose signature is cut, longer, empty or of another alphabet is forged", async () => {
    const sent = await kind.genuine();
    const names = Object.keys(sent.headers).filter((name) => /signature|authorization/.test(name));
    const spoils = [
      (s: string) => s.slice(0, -4),
      (s: string) => `${s}00`,
      () => "",
      () => "Ω",
      (s: string) => `zz${s.slice(2)}`,
    ];
    for (const spoil of spoils) {
      const headers = Object.fromEntries(names.map((name) => [name, spoil(String(sent.headers[name]))]));
      const target = sent.target.replace(pathSecret, spoil(pathSecret));
      if (names.length === 0 && target === sent.target) continue;
      expect(await reading({ ...sent, target, headers: { ...sent.headers, ...headers } })).toEqual(forged);
    }
  });
});

const covering = kinds.filter(({ name }) => /over|names the body/.test(name));
test.each(covering)("a report by $name with another word in it is forged", async (kind) => {
  const sent = await kind.genuine();
  const body = Buffer.from(Buffer.from(sent.body).toString().replace("DELIVRD", "FAILED"));
  const target = sent.target.replace("DELIVRD", "FAILED");
  expect(body.equals(sent.body) && target === sent.target).toBe(false);
  expect(await providerOf(kind).readReport?.({ ...sent, body, target })).toEqual(forged);
});

const timed = kinds.filter(({ isTimed }) => isTimed === true);
test.each(timed)("a report by $name is good for five minutes around its time", async (kind) => {
  const verdicts: unknown[] = [];
  for (const seconds of [-3_600, -301, -299, 299, 301, 3_600]) {
    const reading = await providerOf(kind).readReport?.(await kind.genuine({ at: nowSeconds + seconds }));
    verdicts.push(reading?.kind);
  }
  // A token from the future is not its issuer's mistake to make.
  expect(verdicts).toEqual(["forged", "forged", "genuine", "genuine", "forged", "forged"]);
});

test("a timestamp in milliseconds is read as such, and one that is no number is forged", async () => {
  const [, kind] = kinds as [Kind, Kind];
  expect(await providerOf(kind).readReport?.(await kind.genuine({ at: nowMs }))).toEqual(read);
  const sent = await kind.genuine({ at: Number.NaN });
  expect(await providerOf(kind).readReport?.(sent)).toEqual(forgedFor("timestamp"));
});

test("what is signed with the URL is forged where no public URL is known", async () => {
  const [, , kind] = kinds as [Kind, Kind, Kind];
  expect(await providerOf(kind, { publicUrl: undefined }).readReport?.(await kind.genuine())).toEqual(
    forgedFor("no public URL"),
  );
});

test.each(kinds)("a report by $name that is refused is told with why", async (kind) => {
  const why = async (sent: ReportRequest, of = {}) => {
    const reading = await providerOf(kind, of).readReport?.(sent);
    return reading?.kind === "forged" ? reading.cause : reading?.kind;
  };
  const sent = await kind.genuine();
  const isInPath = kind.name.includes("path");
  const target = isInPath ? sent.target.replace(/\/[^/?]+(?=\?|$)/, "") : sent.target;
  const bare = { ...sent, target, headers: { "content-type": String(sent.headers["content-type"]) } };
  expect(await why(bare)).toBe(isInPath ? "signature" : "unsigned");
  expect(await why(sent, { reportSecret: "another" })).toBe("signature");
  if (kind.isTimed !== true) return;
  expect(await why(await kind.genuine({ at: nowSeconds - 3_600 }))).toBe("timestamp");
});

test("a JWT that names no body, another one, or is of another kind is forged", async () => {
  const kind = kinds.find(({ name }) => name.startsWith("jwt")) as Kind;
  const tokens = [
    new SignJWT({}).setProtectedHeader({ alg: "HS256" }).setIssuedAt(nowSeconds),
    new SignJWT({ payload_hash: "0".repeat(64) }).setProtectedHeader({ alg: "HS256" }).setIssuedAt(nowSeconds),
    new SignJWT({ payload_hash: createHash("sha256").update(json).digest("hex") }).setProtectedHeader({ alg: "HS256" }),
  ];
  const made = await Promise.all(tokens.map((token) => token.sign(Buffer.from(key))));
  const none = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${made[0]?.split(".")[1]}.`;
  for (const token of [...made, none, "x.y.z", ""]) {
    const sent = request({ body: json, headers: { authorization: `Bearer ${token}` } });
    expect(await providerOf(kind).readReport?.(sent)).toEqual(forged);
  }
});

test("a form that is signed as one counts as nothing else", async () => {
  const kind = kinds.find(({ name }) => name.startsWith("hmac-sha1")) as Kind;
  const sent = await kind.genuine();
  expect(
    await providerOf(kind).readReport?.({ ...sent, headers: { ...sent.headers, "content-type": "text/plain" } }),
  ).toEqual(forged);
});

describe("what a genuine report says", () => {
  const [kind] = kinds as [Kind];
  const said = async (body: unknown) =>
    providerOf(kind).readReport?.(await kind.genuine({ body: typeof body === "string" ? body : JSON.stringify(body) }));

  test.each<[unknown, string]>([
    ["DELIVRD", "DELIVERED"],
    [1, "DELIVERED"],
    ["FAILED", "UNDELIVERED"],
    ["SENT", "ACCEPTED"],
  ])("%j is %s", async (state, delivery) => {
    const detail = delivery === "UNDELIVERED" ? String(state) : undefined;
    expect(await said({ ref: reference, state })).toMatchObject({ reports: [{ reference, delivery, detail }] });
  });

  test.each<[string, unknown]>([
    ["a status that nobody described", { ref: reference, state: "LOST" }],
    ["no status", { ref: reference }],
    ["no reference", { state: "DELIVRD" }],
    ["a reference that is an object", { ref: { toString: 1 }, state: "DELIVRD" }],
    ["what is no JSON", "{"],
    ["null", "null"],
    ["nothing of its own", '{"__proto__":{"ref":"x","state":"DELIVRD"}}'],
  ])("%s is of no meaning", async (_, body) => {
    expect(await said(body)).toEqual({ kind: "irrelevant" });
  });
});
