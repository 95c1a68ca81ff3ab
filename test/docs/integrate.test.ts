/**
 * docs/integrate.md is true: its programs are made and run as they stand against the running service, with the answer to
 * their first call lost on the way.
 */
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { build } from "esbuild";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, test, type TestContext } from "vitest";
import { publishableScopes } from "../../src/otp/keys/api-key.ts";
import { pageMsMax, startBrowser } from "../support/pages/browser.ts";
import { lacks, python } from "../support/machine.ts";
import { converse } from "../support/processes/conversation.ts";
import { readDocument } from "../support/readers/document.ts";
import {
  expectComplete,
  expectPlainEnds,
  expectProof,
  generate,
  greeting,
  setStage,
  startStranger,
  type Stage,
  type Start,
} from "./stage.ts";
import { newPhone } from "../support/data/phones.ts";

const doc = readDocument("docs/integrate.md");
const receipts = readDocument("docs/receipts.md");

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
    const unsure = start(newPhone(), stage.world.key, await startStranger(context));
    expect(await unsure.heard()).toMatch(/^no answer: .*certificate/);
    expect(await unsure.ended).toBe(1);
    const nobody = converse("bash", ["otp.sh"], stage.folder, {});
    await expect(nobody.heard()).rejects.toThrow("usage: otp.sh PHONE");
    expect(await nobody.ended).toBe(2);
  });

  test.skipIf(lacks("TypeScript and a certificate", "openssl"))("TypeScript, a server", async (context) => {
    const stage = await setStage(context);
    copyShared(stage);
    stage.write("receipts.js", receipts.only("js"));
    for (const file of ["calls.ts", "client.ts"]) stage.write(file, doc.file(file));
    const start: Start = (phone, key, url = stage.line.url) =>
      converse(process.execPath, ["client.ts", phone], stage.folder, { API_KEY: key, OTPD_URL: url });
    await expectComplete(stage, start);
    await expectPlainEnds(stage, start);
    const unsure = start(newPhone(), stage.world.key, await startStranger(context));
    expect(await unsure.heard()).toMatch(/^no answer: .*certificate/);
    expect(await unsure.ended).toBe(1);
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
    page.setDefaultTimeout(pageMsMax);
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
    const isDown = { kind: "refused", cause: "balance", detail: "no credit" } as const;
    stage.world.network.script.push(isDown, isDown, isDown, isDown);
    expect(await say("r")).toBe("not now: DELIVERY_FAILED");
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
    const unsure = start(newPhone(), stage.world.key, await startStranger(context, "127.0.0.2"));
    expect(await unsure.heard()).toMatch(/^no answer: .*certificate/);
    // The key never leaves this machine in cleartext: what another is told first is TLS's record of a handshake.
    const elsewhere = createTcpServer().listen(0, "127.0.0.2");
    context.onTestFinished(() => void elsewhere.close());
    await once(elsewhere, "listening");
    const connected = once(elsewhere, "connection") as Promise<[Socket]>;
    start(newPhone(), stage.world.key, `http://127.0.0.2:${(elsewhere.address() as AddressInfo).port}`);
    const [socket] = await connected;
    const [bytes] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(bytes[0]).toBe(0x16);
  });
});
