/**
 * docs/integrate.md is true: its programs are made and run as they stand against the running service, with the answer to
 * their first call lost on the way.
 */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { build } from "esbuild";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, test, type TestContext } from "vitest";
import { publishableScopes } from "../../src/otp/api-key.ts";
import type { SendOutcome } from "../../src/otp/message.ts";
import { startBrowser } from "../support/pages/browser.ts";
import { lacks, python } from "../support/machine.ts";
import { converse, type Conversation } from "../support/processes/conversation.ts";
import { deadOrigin } from "../support/fakes/far-end.ts";
import { readDocument } from "../support/readers/document.ts";
import { layLine, type Line } from "../support/network/line.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";

const root = join(import.meta.dirname, "../..");
const doc = readDocument("docs/integrate.md");
const receipts = readDocument("docs/receipts.md");
const run = promisify(execFile);

interface Stage {
  readonly world: World;
  /** What the clients call; the answer to the first send does not come through. */
  readonly line: Line;
  /** Where the programs are, beside the contract and the packages that they ask for. */
  readonly folder: string;
  /** Writes a file there, with the running service for those that the documents name. */
  write(file: string, content: string): void;
}

/** Sets a stage that lasts as long as the test. When the answer is lost, so many new connections are refused as well. */
async function setStage({ onTestFinished }: TestContext, alsoRefused = 0): Promise<Stage> {
  // Receipts are checked by the machine's clock, and may not come from its future when ours has moved on.
  const system = createManualSystem(1, Date.now() - 60_000);
  const world = await startWorld({ OTP_PUBLIC_URL: "https://otp.example.com", OTP_MAX_ATTEMPTS: "2" }, system);
  const line = await layLine(world.url);
  const folder = mkdtempSync(join(tmpdir(), "otpd-integrate-"));
  onTestFinished(async () => {
    await line.close();
    await world.stop();
    rmSync(folder, { recursive: true });
  });
  world.network.script.push(async () => {
    line.cut(alsoRefused);
    return { kind: "accepted" };
  });
  return {
    world,
    line,
    folder,
    write(file, content) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      const here = content
        .replaceAll("https://otp.example.com/.well-known/jwks.json", `${world.url}/.well-known/jwks.json`)
        .replaceAll("http://127.0.0.1:8080", line.url);
      writeFileSync(join(folder, file), here);
    },
  };
}

const greeting = "sent: type the code, or r to have it sent again";

/** Holds a program to all that it does for a user who succeeds, from its greeting on. */
async function expectProof({ world }: Stage, client: Pick<Conversation, "say">, phone: string): Promise<void> {
  const copies = () => world.network.received.filter(({ to }) => to === phone).length;
  expect(copies()).toBe(1);
  const code = world.network.codeFor(phone);
  expect(await client.say(wrongCode(code))).toBe("wrong: 1 left");
  expect(await client.say('1"2')).toBe("not a code");
  expect(await client.say("r")).toBe("wait 30 s");
  world.system.advance(30_000);
  expect(await client.say("r")).toBe("sent again");
  expect(copies()).toBe(2);
  expect(await client.say(code)).toBe(`proven: ${phone}`);
}

/** Holds a program to what it does for a user who succeeds, and for those who do not. */
async function expectComplete(stage: Stage, start: (phone: string, key: string) => Conversation): Promise<void> {
  const phone = newPhone();
  const client = start(phone, stage.world.key);
  expect(await client.heard()).toBe(greeting);
  await expectProof(stage, client, phone);
  expect(await client.ended).toBe(0);

  const landline = start("+31201234567", stage.world.key);
  const unlucky = start(newPhone(), stage.world.key);

  expect(await landline.heard()).toBe("refused: PHONE_NOT_MOBILE");
  expect(await landline.ended).toBe(1);

  expect(await unlucky.heard()).toBe(greeting);
  const wrong = wrongCode(stage.world.network.received.at(-1)?.text.slice(0, 6) ?? "");
  for (const left of [1, 0]) expect(await unlucky.say(wrong)).toBe(`wrong: ${left} left`);
  expect(await unlucky.ended).toBe(1);
}

type Start = (phone: string, key: string, url?: string) => Conversation;

/** Holds a program to the sentence that it ends with where nobody can be proven. */
async function expectPlainEnds({ world }: Stage, start: Start): Promise<void> {
  const isDown: SendOutcome = { kind: "refused", cause: "balance", detail: "no credit" };
  world.network.script.push(isDown, isDown, isDown, isDown);
  const unsent = start(newPhone(), world.key);
  const unheard = start(newPhone(), world.key, await deadOrigin());
  const staged = start("+14155550100", (await world.makeKey({ kind: "test" })).text);

  expect(await staged.heard()).toBe(greeting);
  expect(await staged.say("123456")).toMatch(/^start over: .*\breceipt\b/);
  expect(await staged.ended).toBe(1);
  expect(await unheard.heard()).toMatch(/^no answer: ./);
  expect(await unheard.ended).toBe(1);
  expect(await unsent.heard()).toBe("refused: DELIVERY_FAILED");
  expect(await unsent.ended).toBe(1);
}

/** Stands before the service, and puts another's signature under each receipt. */
async function startForger(url: string, { onTestFinished }: TestContext): Promise<string> {
  const server = createServer((request, response) => {
    void text(request).then(async (body) => {
      const { authorization = "" } = request.headers;
      const headers = { authorization, "content-type": "application/json" };
      const answer = await fetch(`${url}${request.url}`, { method: "POST", headers, body });
      const json = (await answer.json()) as { receipt?: string };
      const forged = json.receipt?.replace(/[^.]+$/, Buffer.alloc(64, 7).toString("base64url"));
      response.writeHead(answer.status).end(JSON.stringify({ ...json, ...(forged && { receipt: forged }) }));
    });
  }).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Generates the code of a language as the document's command that holds these words says. */
async function generate({ folder }: Pick<Stage, "folder">, words: string): Promise<void> {
  for (const name of ["proto", "node_modules"]) symlinkSync(join(root, name), join(folder, name));
  const block = doc.blocks.find((each) => each.language === "sh" && each.text.includes(words));
  const command = String(block?.text).replace(/^npm install .*\n/gm, "");
  await run("bash", ["-e", "-c", command], { cwd: folder });
}

/** What the server and the page in TypeScript share, made once. */
let shared: string;
beforeAll(async () => {
  shared = mkdtempSync(join(tmpdir(), "otpd-integrate-"));
  await generate({ folder: shared }, "buf generate");
  writeFileSync(join(shared, "package.json"), '{"type":"module"}');
});
afterAll(() => rmSync(shared, { recursive: true }));
const copyShared = ({ folder }: Stage) => cpSync(shared, folder, { recursive: true, verbatimSymlinks: true });

/** The page's own server: the page as the document has it, and the check of the receipt that it hands in. Returns its origin. */
async function startBackend(stage: Stage, { onTestFinished }: TestContext): Promise<string> {
  stage.write("receipts.js", receipts.only("js"));
  type Check = (receipt: string, expected: { purpose: string; requestId: string | undefined }) => Promise<string>;
  const { provenPhone } = (await import(join(stage.folder, "receipts.js"))) as { provenPhone: Check };
  const server = createServer((request, response) => {
    if (request.url === "/session") {
      text(request)
        .then((receipt) => provenPhone(receipt, { purpose: "login", requestId: decodeJwt(receipt).sub }))
        .then((phone) => response.end(phone))
        .catch(() => response.writeHead(403).end());
    } else if (request.url === "/page.js") {
      response.setHeader("content-type", "text/javascript").end(readFileSync(join(stage.folder, "page.js")));
    } else response.setHeader("content-type", "text/html").end(doc.only("html"));
  }).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  return `http://localhost:${(server.address() as AddressInfo).port}`;
}

const forPython = [
  "Python's grpcio",
  "Python's PyJWT",
  "protoc",
  "protobuf's own .proto files",
  "grpc_python_plugin",
] as const;

describe.concurrent("the clients", () => {
  test.skipIf(lacks("the client of docs/integrate.md in a shell", "curl", "jq", "openssl"))("curl", async (context) => {
    const stage = await setStage(context);
    stage.write("otp.sh", doc.file("otp.sh"));
    const start: Start = (phone, key, url = stage.line.url) =>
      converse("bash", ["otp.sh", phone], stage.folder, { API_KEY: key, OTPD_URL: url });
    await expectComplete(stage, start);
    // The other clients have the checks of receipts that docs/receipts.md is tested for.
    const phone = newPhone();
    const deceived = start(phone, stage.world.key, await startForger(stage.world.url, context));
    expect(await deceived.heard()).toBe(greeting);
    expect(await deceived.say(stage.world.network.codeFor(phone))).toMatch(/^start over: the receipt /);
    expect(await deceived.ended).toBe(1);
    await expectPlainEnds(stage, start);
  });

  test("TypeScript, a server", async (context) => {
    const stage = await setStage(context);
    copyShared(stage);
    stage.write("receipts.js", receipts.only("js"));
    for (const file of ["calls.ts", "client.ts"]) stage.write(file, doc.file(file));
    const start: Start = (phone, key, url = stage.line.url) =>
      converse(process.execPath, ["client.ts", phone], stage.folder, { API_KEY: key, OTPD_URL: url });
    await expectComplete(stage, start);
    await expectPlainEnds(stage, start);
  });

  test.skipIf(lacks("the page of docs/integrate.md", "chromium"))("TypeScript, a page", async (context) => {
    // Chromium tries once more by itself when a connection breaks that had been of use.
    const stage = await setStage(context, 1);
    copyShared(stage);
    const backend = await startBackend(stage, context);
    const scopes = ["send", ...publishableScopes] as const;
    const { text: key } = await stage.world.makeKey({ kind: "pub", scopes, origins: [backend] });
    for (const file of ["calls.ts", "page.ts"]) stage.write(file, doc.file(file).replace("otp_pub_...", key));
    await build({
      entryPoints: [join(stage.folder, "page.ts")],
      outfile: join(stage.folder, "page.js"),
      bundle: true,
      format: "esm",
      logLevel: "silent",
    });
    const browser = await startBrowser();
    context.onTestFinished(() => browser.close());
    const page = await browser.newPage();
    await page.goto(backend);
    const say = async (line: string) => {
      await page.fill("input", line);
      await page.press("input", "Enter");
      // Empty until the answer is there.
      return (await page.locator("output", { hasText: /./ }).textContent()) ?? "";
    };
    expect(await say("+31201234567")).toBe("refused: PHONE_NOT_MOBILE");
    const phone = newPhone();
    expect(await say(phone)).toBe(greeting);
    await expectProof(stage, { say }, phone);
    expect(await say("123456")).toBe("start over: OTP_ALREADY_VERIFIED");
    // What refuses a resend for now leaves the code that came as good as it was.
    const other = newPhone();
    expect(await say(other)).toBe(greeting);
    const headers = { authorization: `Bearer ${key}`, origin: backend, "content-type": "application/json" };
    const send = () =>
      fetch(`${stage.world.url}/v1/otp/send`, { method: "POST", headers, body: JSON.stringify({ phone: newPhone() }) });
    let refused = 0;
    stage.world.system.advance(30_000);
    for (let sends = 0; sends < 20; sends += 1) if ((await send()).status === 429) refused += 1;
    expect(refused).toBeGreaterThan(0);
    expect(await say("r")).toBe("not now: IP_RATE_LIMITED");
    expect(await say(stage.world.network.codeFor(other))).toBe(`proven: ${other}`);
  });

  test.skipIf(lacks("the client of docs/integrate.md in Python", ...forPython))("Python", async (context) => {
    const stage = await setStage(context);
    await generate(stage, "grpc_python_plugin");
    stage.write("receipts.py", receipts.only("python"));
    stage.write("client.py", doc.file("client.py"));
    const start: Start = (phone, key, url = stage.line.url) =>
      converse(python, ["client.py", phone], stage.folder, { API_KEY: key, OTPD_TARGET: new URL(url).host });
    await expectComplete(stage, start);
    await expectPlainEnds(stage, start);
  });
});
