/**
 * What the checks of docs/receipts.md are shown, and what they have to say of it, whichever their language.
 */
import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { createKeyRing } from "../../src/otp/keys/key-ring.ts";
import { receiptKeys, receiptLifeSeconds } from "../../src/otp/verification/receipt.ts";
import { signClaims } from "../../src/otp/keys/signing-key.ts";
import { readDocument } from "../support/readers/document.ts";
import { newPhone } from "../support/data/phones.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";

const root = join(import.meta.dirname, "../..");
export const doc = readDocument("docs/receipts.md");
const published = "https://otp.example.com/.well-known/jwks.json";
const masterKey = Buffer.alloc(32, 0x21);
const ring = createKeyRing([masterKey]);

/** The service whose receipts are judged. The checks have the machine's clock. */
export function startIssuer(): Promise<World> {
  return startWorld(
    { OTP_PUBLIC_URL: "https://otp.example.com", OTP_MASTER_KEY: masterKey.toString("base64url") },
    createManualSystem(1, Date.now()),
  );
}

/** The one block of a language, with an origin's keys for those it names. */
export function blockOf(language: string, origin: string): string {
  const block = doc.only(language);
  expect(block.split(published)).toHaveLength(2);
  return block.replace(published, `${origin}/.well-known/jwks.json`);
}

interface Given {
  readonly receipt: string;
  readonly requestId: string;
  readonly phone: string;
}

/** A receipt of the running service, for "payment". */
export async function earn(world: World, key = world.key, phone = newPhone()): Promise<Given> {
  const call = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const answer = await fetch(world.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    return (await answer.json()) as Record<string, string>;
  };
  const { request_id = "" } = await call("/v1/otp/send", { phone, purpose: "payment" });
  const code = phone.startsWith("+1") ? "123456" : world.network.codeFor(phone);
  const { receipt = "" } = await call("/v1/otp/verify", { request_id, code, purpose: "payment" });
  return { receipt, requestId: request_id, phone };
}

const encode = (json: unknown) => Buffer.from(JSON.stringify(json)).toString("base64url");
export const claimsOf = (receipt: string) =>
  JSON.parse(Buffer.from(receipt.split(".")[1] ?? "", "base64url").toString()) as Record<string, unknown>;

/** What is shown to a check: a name, the receipt, the purpose and request_id expected, and what the check has to say. */
export type Shown = readonly [name: string, receipt: string, purpose: string, requestId: string, answer: RegExp];

export async function showings(world: World): Promise<Shown[]> {
  const [good, other] = [await earn(world), await earn(world)];
  const { receipt, requestId } = good;
  const testKey = (await world.makeKey({ kind: "test" })).text;
  const staged = await earn(world, testKey, "+14155550100");
  const claims = claimsOf(receipt);
  const key = ring.current.receipt;
  const signed = (changes: Record<string, unknown>) => signClaims(key, { ...claims, jti: "another", ...changes });
  const hmacHead = encode({ alg: "HS256", typ: "JWT", kid: key.kid });
  const confused = ["x", "jwk"].map((form) => {
    const [jwk] = receiptKeys(ring).keys;
    const secret = form === "x" ? Buffer.from(String(jwk?.x), "base64url") : JSON.stringify(jwk);
    const content = `${hmacHead}.${encode(claims)}`;
    return `${content}.${createHmac("sha256", secret).update(content).digest("base64url")}`;
  });
  const [head, , signature] = receipt.split(".");
  const now = Math.floor(Date.now() / 1000);
  const refused = /^refused: ./;
  const unpublished = signClaims(createKeyRing([Buffer.alloc(32, 0x22)]).current.receipt, claims);
  return [
    // It has the keys fetched, and must not keep the good ones from being found by that.
    ["one of a key that is not published", unpublished, "payment", requestId, refused],
    ["another purpose", receipt, "login", requestId, /^refused: .*something else$/],
    ["another session", receipt, "payment", other.requestId, /^refused: .*another session$/],
    ["a test key's", staged.receipt, "payment", staged.requestId, /^refused: .*test key$/],
    ["a good one", receipt, "payment", requestId, new RegExp(`^\\${good.phone}$`)],
    ["the same again", receipt, "payment", requestId, /^refused: .*used before$/],
    ["another good one", other.receipt, "payment", other.requestId, new RegExp(`^\\${other.phone}$`)],
    [
      "one that is over",
      signed({ iat: now - 400, exp: now - 400 + receiptLifeSeconds }),
      "payment",
      requestId,
      refused,
    ],
    ["another issuer's", signed({ iss: "otpd" }), "payment", requestId, refused],
    ["another audience's", signed({ aud: "blog" }), "payment", requestId, refused],
    ["one without an end", signed({ exp: undefined }), "payment", requestId, refused],
    [
      "a changed one",
      `${head}.${encode({ ...claims, phone: "+31699999999" })}.${signature}`,
      "payment",
      requestId,
      refused,
    ],
    ["an unsigned one", `${encode({ alg: "none", kid: key.kid })}.${encode(claims)}.`, "payment", requestId, refused],
    ...confused.map((forged) => ["an HMAC by the public key", forged, "payment", requestId, refused] as const),
    ["one of that key once more", unpublished, "payment", requestId, refused],
    ["no receipt", "receipt", "payment", requestId, refused],
  ];
}

/** Receipts that anybody can make, each by a key of a name of its own. */
export function showingsOfMadeUpKeys(count: number): Shown[] {
  const claims = encode({ sub: "somebody" });
  return Array.from({ length: count }, (_, i) => {
    const receipt = `${encode({ alg: "EdDSA", kid: `made-up-${i}` })}.${claims}.${"A".repeat(86)}`;
    return [`made up, ${i}`, receipt, "payment", "somebody", /^refused: ./];
  });
}

/** Runs a check over all that is shown to it, in one process, and holds each answer against what it has to be. */
export async function expectJudged(
  command: string,
  args: readonly string[],
  shown: readonly Shown[],
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  const cases = JSON.stringify(shown.map(([, receipt, purpose, requestId]) => [receipt, purpose, requestId]));
  const { stdout } = await promisify(execFile)(command, [...args, cases], {
    cwd: root,
    env: { ...process.env, ...env },
  });
  const answers = JSON.parse(stdout) as string[];
  const judged = shown.map(([name, , , , wanted], i) => [name, wanted.test(answers[i] ?? ""), answers[i]]);
  expect(judged).toEqual(shown.map(([name], i) => [name, true, answers[i]]));
}

/** A good receipt, to a check that cannot have the keys: it lets nothing pass, and says why. */
export async function showingWithoutKeys(world: World): Promise<Shown[]> {
  const { receipt, requestId } = await earn(world);
  return [["a good one without the keys", receipt, "payment", requestId, /^refused: ./]];
}
