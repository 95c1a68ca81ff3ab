/**
 * docs/receipts.md is true: its checks are run as they stand against the running service, and let a good receipt pass and
 * nothing else.
 */
import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createKeyRing } from "../../src/otp/key-ring.ts";
import { receiptKeys, receiptLifeSeconds } from "../../src/otp/receipt.ts";
import { signClaims } from "../../src/otp/signing-key.ts";
import { lacks, python } from "../support/machine.ts";
import { readDocument } from "../support/readers/document.ts";
import { newPhone } from "../support/data/phones.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";

const root = join(import.meta.dirname, "../..");
const doc = readDocument("docs/receipts.md");
const published = "https://otp.example.com/.well-known/jwks.json";
const masterKey = Buffer.alloc(32, 0x21);
const ring = createKeyRing([masterKey]);

let world: World;
beforeAll(async () => {
  // The checks have the machine's clock.
  world = await startWorld(
    { OTP_PUBLIC_URL: "https://otp.example.com", OTP_MASTER_KEY: masterKey.toString("base64url") },
    createManualSystem(1, Date.now()),
  );
});
afterAll(() => world.stop());

/** The one block of a language, with the running service's keys for those it names. */
function blockOf(language: string): string {
  const block = doc.only(language);
  expect(block.split(published)).toHaveLength(2);
  return block.replace(published, `${world.url}/.well-known/jwks.json`);
}

interface Given {
  readonly receipt: string;
  readonly requestId: string;
  readonly phone: string;
}

/** A receipt of the running service, for "payment". */
async function earn(key = world.key, phone = newPhone()): Promise<Given> {
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
const claimsOf = (receipt: string) =>
  JSON.parse(Buffer.from(receipt.split(".")[1] ?? "", "base64url").toString()) as Record<string, unknown>;

/** What is shown to a check: a name, the receipt, the purpose and request_id expected, and what the check has to say. */
type Shown = readonly [name: string, receipt: string, purpose: string, requestId: string, answer: RegExp];

async function showings(): Promise<Shown[]> {
  const [good, other] = [await earn(), await earn()];
  const { receipt, requestId } = good;
  const testKey = (await world.makeKey({ kind: "test" })).text;
  const staged = await earn(testKey, "+14155550100");
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
  return [
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
    [
      "one of a key that is not published",
      signClaims(createKeyRing([Buffer.alloc(32, 0x22)]).current.receipt, claims),
      "payment",
      requestId,
      refused,
    ],
    ["no receipt", "receipt", "payment", requestId, refused],
  ];
}

/** Runs a check over all that is shown to it, in one process, and holds each answer against what it has to be. */
async function expectJudged(command: string, args: readonly string[], shown: readonly Shown[]): Promise<void> {
  const cases = JSON.stringify(shown.map(([, receipt, purpose, requestId]) => [receipt, purpose, requestId]));
  const { stdout } = await promisify(execFile)(command, [...args, cases], { cwd: root });
  const answers = JSON.parse(stdout) as string[];
  const judged = shown.map(([name, , , , wanted], i) => [name, wanted.test(answers[i] ?? ""), answers[i]]);
  expect(judged).toEqual(shown.map(([name], i) => [name, true, answers[i]]));
}

test("the check in Node", async () => {
  const source = `${blockOf("js")}
    const answers = [];
    for (const [receipt, purpose, requestId] of JSON.parse(process.argv[1])) {
      answers.push(await provenPhone(receipt, { purpose, requestId }).catch((error) => "refused: " + error.message));
    }
    console.log(JSON.stringify(answers));`;
  await expectJudged(process.execPath, ["--input-type=module", "-e", source], await showings());
});

test.skipIf(lacks("the check of docs/receipts.md in Python", "Python's PyJWT"))("the check in Python", async () => {
  const source = `${blockOf("python")}
import json, sys
def judge(case):
    try:
        return proven_phone(*case)
    except Exception as error:
        return "refused: " + str(error)
print(json.dumps([judge(case) for case in json.loads(sys.argv[1])]))`;
  await expectJudged(python, ["-c", source], await showings());
});

test("the document names every claim that a receipt has, and no other", async () => {
  const named = [...doc.text.matchAll(/^\| `(\w+)` /gm)].map(([, name = ""]) => name);
  const staged = await earn((await world.makeKey({ kind: "test" })).text, "+14155550100");
  expect(new Set(named)).toEqual(new Set([...Object.keys(claimsOf(staged.receipt)), "bind"]));
});
