/** The program of docs/integrate.md in Go: its compiler takes half a minute of CPU. */
import { expect, test } from "vitest";
import { expectComplete, expectPlainEnds, generate, setStage, startStranger, type Start } from "../docs/stage.ts";
import { newPhone } from "../support/data/phones.ts";
import { goCompiler, lacks } from "../support/machine.ts";
import { converse } from "../support/processes/conversation.ts";
import { readDocument } from "../support/readers/document.ts";

const needed = [
  "go",
  "grpc-go",
  "Go's protobuf",
  "Go's plugins of protoc",
  "protoc",
  "protobuf's own .proto files",
] as const;

test.skipIf(lacks("the client of docs/integrate.md in Go", ...needed))("Go", async (context) => {
  const stage = await setStage(context);
  stage.write("receipts/receipts.go", readDocument("docs/receipts.md").only("go"));
  stage.write("main.go", readDocument("docs/integrate.md").file("main.go"));
  await generate(stage, "--go_out", goCompiler);
  const start: Start = (phone, key, url = stage.line.url) => {
    const env = { API_KEY: key, OTPD_TARGET: new URL(url).host, GRPC_GO_RETRY: "on" };
    return converse("./prove", [phone], stage.folder, env);
  };
  await expectComplete(stage, start);
  await expectPlainEnds(stage, start);
  const unsure = start(newPhone(), stage.world.key, await startStranger(context, "127.0.0.2"));
  expect(await unsure.heard()).toMatch(/^no answer: .*certificat/);
  expect(await unsure.ended).toBe(1);
  const nobody = converse("./prove", [], stage.folder, {});
  await expect(nobody.heard()).rejects.toThrow(/more: usage: prove PHONE\n$/);
});
