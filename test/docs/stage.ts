/**
 * What the programs of docs/integrate.md are held to, whichever language: each runs as it stands against the running service, with
 * the answer to its first call lost on the way.
 */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { promisify } from "node:util";
import { expect, type TestContext } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { deadOrigin } from "../support/fakes/far-end.ts";
import { certificateIn } from "../support/network/certificate.ts";
import { layLine, type Line } from "../support/network/line.ts";
import type { Conversation } from "../support/processes/conversation.ts";
import { readDocument } from "../support/readers/document.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";

const root = join(import.meta.dirname, "../..");
const doc = readDocument("docs/integrate.md");
const run = promisify(execFile);

export interface Stage {
  readonly world: World;
  /** What the clients call; the answer to the first send does not come through. */
  readonly line: Line;
  /** Where the programs are, beside the contract and the packages that they ask for. */
  readonly folder: string;
  /** Writes a file there, with the running service for those that the documents name. */
  write(file: string, content: string): void;
}

/** Sets a stage that lasts as long as the test. When the answer is lost, so many new connections are refused as well. */
export async function setStage({ onTestFinished }: TestContext, alsoRefused = 0): Promise<Stage> {
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

export const greeting = "sent: type the code, or r to have it sent again";

/** Holds a program to all that it does for a user who succeeds, from its greeting on. */
export async function expectProof({ world }: Stage, client: Pick<Conversation, "say">, phone: string): Promise<void> {
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
export async function expectComplete(stage: Stage, start: (phone: string, key: string) => Conversation): Promise<void> {
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

export type Start = (phone: string, key: string, url?: string) => Conversation;

/** Holds a program to the sentence that it ends with where nobody can be proven. */
export async function expectPlainEnds({ world }: Stage, start: Start): Promise<void> {
  const isDown: SendOutcome = { kind: "refused", cause: "balance", detail: "no credit" };
  world.network.script.push(isDown, isDown, isDown, isDown);
  const unsent = start(newPhone(), world.key);
  const unheard = start(newPhone(), world.key, await deadOrigin());
  const staged = start("+14155550100", (await world.makeKey({ kind: "test" })).text);

  expect(await staged.heard()).toBe(greeting);
  expect(await staged.say("123456")).toMatch(/^start over: .*\breceipt\b/);
  expect(await staged.ended).toBe(1);
  expect(await unheard.heard()).toMatch(/^no answer: .*connect/i);
  expect(await unheard.ended).toBe(1);
  expect(await unsent.heard()).toBe("refused: DELIVERY_FAILED");
  expect(await unsent.ended).toBe(1);
}

/** A server whose certificate no authority has signed. gRPC programs speak TLS to 127.0.0.2, not to 127.0.0.1. Returns its origin. */
export async function startStranger({ onTestFinished }: TestContext, host = "127.0.0.1"): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "otpd-stranger-"));
  const { cert, key } = certificateIn(folder);
  const server = createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }).listen(0, host);
  onTestFinished(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });
  await once(server, "listening");
  return `https://${host}:${(server.address() as AddressInfo).port}`;
}

/** Generates the code of a language as the document's command that holds these words says. */
export async function generate(
  { folder }: Pick<Stage, "folder">,
  words: string,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  for (const name of ["proto", "node_modules"]) symlinkSync(join(root, name), join(folder, name));
  const block = doc.blocks.find((each) => each.language === "sh" && each.text.includes(words));
  const command = String(block?.text).replace(/^npm install .*\n/gm, "");
  await run("bash", ["-e", "-c", command], { cwd: folder, env: { ...process.env, ...env } });
}
