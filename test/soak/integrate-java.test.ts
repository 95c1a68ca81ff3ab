/** The program of docs/integrate.md in Java: its compiler and its starts take half a minute of CPU. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { expectComplete, expectPlainEnds, generate, setStage, startStranger, type Start } from "../docs/stage.ts";
import { newPhone } from "../support/data/phones.ts";
import { lacks } from "../support/machine.ts";
import { converse } from "../support/processes/conversation.ts";
import { readDocument } from "../support/readers/document.ts";

const needed = [
  "Java's compiler",
  "Java's gRPC",
  "Netty's OpenSSL",
  "grpc_java_plugin",
  "protoc",
  "protobuf's own .proto files",
] as const;

test.skipIf(lacks("the client of docs/integrate.md in Java", ...needed))("Java", async (context) => {
  const stage = await setStage(context);
  stage.write("Receipts.java", readDocument("docs/receipts.md").only("java"));
  stage.write("Prove.java", readDocument("docs/integrate.md").only("java"));
  await generate(stage, "grpc_java_plugin");
  const [copy = ""] = /cp \S*tcnative\.so \S+so/.exec(readDocument("docs/integrate.md").text) ?? [];
  await promisify(execFile)("bash", ["-e", "-c", copy], { cwd: stage.folder });
  const start: Start = (phone, key, url = stage.line.url) => {
    const env = { API_KEY: key, OTPD_TARGET: new URL(url).host };
    return converse("java", ["-Djava.library.path=.", "@classpath", "Prove", phone], stage.folder, env);
  };
  await expectComplete(stage, start);
  await expectPlainEnds(stage, start);
  const unsure = start(newPhone(), stage.world.key, await startStranger(context, "127.0.0.2"));
  expect(await unsure.heard()).toMatch(/^no answer: .*certificat/);
  expect(await unsure.ended).toBe(1);
  const nobody = converse("java", ["@classpath", "Prove"], stage.folder, {});
  await expect(nobody.heard()).rejects.toThrow(/more: usage: Prove PHONE\n$/);
});
