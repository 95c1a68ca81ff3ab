/**
 * What the programs of docs/integrate-more.md are held to, whichever language: each is made as the document says, in a folder
 * with `proto/`, and talks with its user against the running service.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, type TestContext } from "vitest";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { deadOrigin } from "../support/fakes/far-end.ts";
import { converse, type Conversation } from "../support/processes/conversation.ts";
import { readDocument } from "../support/readers/document.ts";
import { startWorld } from "../support/service/world.ts";
import { startStranger } from "./stage.ts";

const root = join(import.meta.dirname, "../..");
const doc = readDocument("docs/integrate-more.md");

export interface Program {
  readonly file: string;
  /** A word of the commands that make it; none where it runs as it is. */
  readonly plugin?: string;
  readonly command: string;
  readonly args: readonly string[];
}

/** Makes a program, and holds it to all that the document says of it. */
export async function expectProven(program: Program, context: TestContext): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "otpd-integrate-more-"));
  const world = await startWorld({});
  context.onTestFinished(async () => {
    await world.stop();
    rmSync(folder, { recursive: true });
  });
  symlinkSync(join(root, "proto"), join(folder, "proto"));
  const source = doc.blocks.find(({ text }) => text.split("\n", 2).some((line) => line.endsWith(` ${program.file}`)));
  writeFileSync(join(folder, program.file), String(source?.text));
  const { plugin } = program;
  if (plugin !== undefined) {
    const shell = doc.blocks.filter(({ text }) => text.startsWith("cat >") || text.includes(`v ${plugin})`));
    expect(shell.length).toBe(2);
    for (const { text } of shell) await promisify(execFile)("bash", ["-e", "-c", text], { cwd: folder });
  }
  const start = (phone: readonly string[], url = world.url): Conversation =>
    converse(program.command, [...program.args, ...phone], folder, {
      API_KEY: world.key,
      OTPD_TARGET: new URL(url).host,
      OTPD_URL: url,
    });

  const phone = newPhone();
  const client = start([phone]);
  expect(await client.heard()).toBe("sent: type the code");
  const code = world.network.codeFor(phone);
  expect(await client.say(wrongCode(code))).toBe("wrong: 4 left");
  expect(await client.say('1"2')).toBe("not a code");
  expect(await client.say(code)).toBe(`proven: ${phone}`);
  expect(await client.ended).toBe(0);

  const landline = start(["+31201234567"]);
  expect(await landline.heard()).toBe("refused: PHONE_NOT_MOBILE");
  expect(await landline.ended).toBe(1);

  const unlucky = newPhone();
  const guesser = start([unlucky]);
  expect(await guesser.heard()).toBe("sent: type the code");
  const wrong = wrongCode(world.network.codeFor(unlucky));
  for (const left of [4, 3, 2, 1]) expect(await guesser.say(wrong)).toBe(`wrong: ${left} left`);
  expect(await guesser.say(wrong)).toBe("refused: CODE_MISMATCH");
  expect(await guesser.ended).toBe(1);

  const unheard = start([newPhone()], await deadOrigin());
  expect(await unheard.heard()).toMatch(/^no answer: .*connect/i);
  expect(await unheard.ended).toBe(1);

  const unsure = start([newPhone()], await startStranger(context, "127.0.0.2"));
  expect(await unsure.heard()).toMatch(/^no answer: .*certificate/);
  expect(await unsure.ended).toBe(1);

  const nobody = start([]);
  await expect(nobody.heard()).rejects.toThrow(/usage: client/);
  expect(await nobody.ended).toBeGreaterThan(0);
}
