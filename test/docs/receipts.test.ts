/**
 * docs/receipts.md is true: its checks are run as they stand against the running service, and let a good receipt pass and
 * nothing else. That in Java is in the soak.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { deadOrigin, startFarEnd } from "../support/fakes/far-end.ts";
import { goCompiler, lacks, python } from "../support/machine.ts";
import type { World } from "../support/service/world.ts";
import {
  blockOf,
  claimsOf,
  doc,
  earn,
  expectJudged,
  showings,
  showingsOfMadeUpKeys,
  showingWithoutKeys,
  startIssuer,
  type Shown,
} from "./judging.ts";

let world: World;
beforeAll(async () => {
  world = await startIssuer();
});
afterAll(() => world.stop());

type Judge = (origin: string, shown: readonly Shown[]) => Promise<void>;

/** What all checks are held to. */
async function expectRight(judge: Judge): Promise<void> {
  await judge(world.url, await showings(world));
  await judge(await deadOrigin(), await showingWithoutKeys(world));
  const body = await (await fetch(`${world.url}/.well-known/jwks.json`)).text();
  const farEnd = await startFarEnd({ status: 200, headers: { "content-type": "application/json" }, body });
  onTestFinished(() => farEnd.stop());
  const madeUp = showingsOfMadeUpKeys(40);
  await judge(farEnd.url, madeUp);
  // Once, and once more in 10 s. Each one by itself would be 40.
  expect(farEnd.asked.length).toBeLessThan(madeUp.length / 2);
}

test("the check in Node", () =>
  expectRight(async (origin, shown) => {
    const source = `${blockOf("js", origin)}
    const answers = [];
    for (const [receipt, purpose, requestId] of JSON.parse(process.argv[1])) {
      answers.push(await provenPhone(receipt, { purpose, requestId }).catch((error) => "refused: " + error.message));
    }
    console.log(JSON.stringify(answers));`;
    await expectJudged(process.execPath, ["--input-type=module", "-e", source], shown);
  }));

test.skipIf(lacks("the check of docs/receipts.md in Python", "Python's PyJWT"))("the check in Python", () =>
  expectRight(async (origin, shown) => {
    const source = `${blockOf("python", origin)}
import json, sys
def judge(case):
    try:
        return proven_phone(*case)
    except Exception as error:
        return "refused: " + str(error)
print(json.dumps([judge(case) for case in json.loads(sys.argv[1])]))`;
    await expectJudged(python, ["-c", source], shown);
  }),
);

const judgeInGo = `package main

import (
	"encoding/json"
	"os"

	"receipts"
)

func main() {
	var cases [][3]string
	if err := json.Unmarshal([]byte(os.Args[1]), &cases); err != nil {
		panic(err)
	}
	checker := receipts.Checker{}
	answers := []string{}
	for _, each := range cases {
		phone, err := checker.ProvenPhone(each[0], each[1], each[2])
		if err != nil {
			phone = "refused: " + err.Error()
		}
		answers = append(answers, phone)
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
`;

test.skipIf(lacks("the check of docs/receipts.md in Go", "go"))("the check in Go", () =>
  expectRight(async (origin, shown) => {
    const folder = mkdtempSync(join(tmpdir(), "otpd-receipts-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const name of ["receipts", "judge"]) mkdirSync(join(folder, "src", name), { recursive: true });
    writeFileSync(join(folder, "src/receipts/receipts.go"), blockOf("go", origin));
    writeFileSync(join(folder, "src/judge/main.go"), judgeInGo);
    const env = { ...goCompiler, GOPATH: folder, GO111MODULE: "off" };
    await expectJudged("go", ["run", join(folder, "src/judge/main.go")], shown, env);
  }),
);

test("the document names every claim that a receipt has, and no other", async () => {
  const named = [...doc.text.matchAll(/^\| `(\w+)` /gm)].map(([, name = ""]) => name);
  const staged = await earn(world, (await world.makeKey({ kind: "test" })).text, "+14155550100");
  expect(new Set(named)).toEqual(new Set([...Object.keys(claimsOf(staged.receipt)), "bind"]));
});
