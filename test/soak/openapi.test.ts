/**
 * The document of `/openapi.json` in the hands of those who would use it: two linters with the rules that they recommend, and
 * two makers of TypeScript clients, whose code compiles strictly and verifies a code. npm fetches all of them for the purpose.
 */
import { execFile } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { npm } from "../support/processes/packages.ts";
import { cleanEnv, runOtpd, startOtpd, type Otpd } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";

const packages = [
  "@hey-api/openapi-ts@0.99.0",
  "@redocly/cli@2.77.0",
  "@stoplight/spectral-cli@6.16.3",
  "openapi-fetch@0.17.0",
  "openapi-typescript@7.13.0",
  "typescript@5.9.3",
];

/** Prints what a wrong code and the right one of a test number come to. To name a reason that verify never has does not compile. */
const withOpenApiFetch = `
import createClient from "openapi-fetch";
import type { paths } from "./otpd.js";

const [baseUrl = "", key = ""] = process.argv.slice(2);
const otp = createClient<paths>({ baseUrl, headers: { authorization: "Bearer " + key } });
const sent = await otp.POST("/v1/otp/send", { body: { phone: "+14155550100" } });
if (sent.data === undefined) throw new Error(sent.error.reason);
const { request_id } = sent.data;
const { error } = await otp.POST("/v1/otp/verify", { body: { request_id, code: "000000" } });
const left: number = error?.reason === "CODE_MISMATCH" ? error.attempts_remaining : -1;
// @ts-expect-error: verify never has it
if (error?.reason === "PHONE_INVALID") throw new Error("not a reason of verify");
const { data } = await otp.POST("/v1/otp/verify", { body: { request_id, code: "123456" } });
console.log(JSON.stringify({ left, phone: data?.phone }));
`;

const withHeyApi = `
import { client } from "./hey/client.gen.js";
import { sendOtp, verifyOtp } from "./hey/sdk.gen.js";

const [baseUrl = "", auth = ""] = process.argv.slice(2);
client.setConfig({ baseUrl, auth });
const sent = await sendOtp({ body: { phone: "+14155550100" } });
if (sent.data === undefined) throw new Error(sent.error.reason);
const { request_id } = sent.data;
const { error } = await verifyOtp({ body: { request_id, code: "000000" } });
const left: number = error?.reason === "CODE_MISMATCH" ? error.attempts_remaining : -1;
// @ts-expect-error: verify never has it
if (error?.reason === "PHONE_INVALID") throw new Error("not a reason of verify");
const { data } = await verifyOtp({ body: { request_id, code: "123456" } });
console.log(JSON.stringify({ left, phone: data?.phone }));
`;

const strict = {
  compilerOptions: {
    module: "nodenext",
    target: "es2024",
    lib: ["es2024", "dom", "dom.iterable"],
    types: ["node"],
    strict: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    outDir: "out",
  },
  include: ["*.ts", "hey"],
};

const folder = temporaryFolder();
const data = join(folder, "data");
let otpd: Otpd;
let key: string;

beforeAll(async () => {
  mkdirSync(data);
  writeFileSync(join(folder, "package.json"), `{"private":true,"type":"module"}`);
  await npm(folder, ["install", "--ignore-scripts", ...packages, "@types/node@24.19.2"]);
  otpd = await startOtpd(data);
  const made = await runOtpd(data, ["keys", "create", "--test", "--name", "clients", "--json"]);
  ({ key } = JSON.parse(made.output) as { key: string });
  writeFileSync(join(folder, "openapi.json"), await (await fetch(`${otpd.url}/openapi.json`)).text());
}, 600_000);
afterAll(async () => {
  await otpd.end();
  rmSync(folder, { recursive: true });
});

/** Runs a program that npm installed, and resolves with its output. */
async function run(program: string, ...args: string[]): Promise<string> {
  const file = program === "node" ? process.execPath : join(folder, "node_modules/.bin", program);
  const { stdout } = await promisify(execFile)(file, args, { cwd: folder, env: cleanEnv() });
  return stdout;
}

test("Redocly's and Spectral's recommended rules find nothing", async () => {
  writeFileSync(join(folder, ".spectral.json"), `{"extends":["spectral:oas"]}`);
  await run("redocly", "lint", "--extends", "recommended", "--max-problems", "0", "openapi.json");
  const found = await run("spectral", "lint", "--fail-severity", "hint", "--ruleset", ".spectral.json", "openapi.json");
  expect(found).toContain("No results");
});

test("clients of openapi-typescript and of hey-api compile strictly, and verify a code", async () => {
  // hey-api's output depends on it.
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(strict));
  await run("openapi-typescript", "openapi.json", "-o", "otpd.ts");
  await run("openapi-ts", "-i", "openapi.json", "-o", "hey");
  writeFileSync(join(folder, "with-openapi-fetch.ts"), withOpenApiFetch);
  writeFileSync(join(folder, "with-hey-api.ts"), withHeyApi);
  await run("tsc", "-p", ".");
  for (const program of ["with-openapi-fetch.js", "with-hey-api.js"]) {
    const printed = await run("node", join("out", program), otpd.url, key);
    expect(JSON.parse(printed)).toEqual({ left: 4, phone: "+14155550100" });
  }
});
