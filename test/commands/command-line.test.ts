/**
 * How a command line is understood: which page is shown, what is said of one that is wrong, and on which Node it runs.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runHere } from "../support/service/command-line.ts";
import { runOtpd } from "../support/processes/process.ts";

const manifest = readFileSync(join(import.meta.dirname, "../../package.json"), "utf8");
const { version: ours } = JSON.parse(manifest) as { version: string };
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "otpd-cli-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("a command line", () => {
  let before: string;
  beforeAll(() => {
    before = process.cwd();
    process.chdir(folder);
  });
  afterAll(() => process.chdir(before));

  test.each([
    { args: [], says: /^Usage: otpd COMMAND/ },
    { args: ["--help"], says: /^Usage: otpd COMMAND/ },
    { args: ["help"], says: /^Usage: otpd COMMAND/ },
    {
      args: ["keys", "--help"],
      says: /^Usage: otpd keys COMMAND\n\n {2}keys create .*\n {2}keys list .*\n {2}keys revoke /,
    },
    { args: ["help", "keys"], says: /^Usage: otpd keys COMMAND\n/ },
    { args: ["help", "keys", "create"], says: /^Usage: otpd keys create / },
    { args: ["--help", "keys", "revoke"], says: /^Usage: otpd keys revoke ID\n/ },
    { args: ["help", "serve"], says: /^Usage: otpd serve\n/ },
    { args: ["serve", "--help"], says: /^Usage: otpd serve\n/ },
    { args: ["migrate", "-h"], says: /^Usage: otpd migrate\n/ },
    { args: ["keys", "create", "--help"], says: /^Usage: otpd keys create .*--name.*--scopes.*--expires.*--json/s },
    { args: ["keys", "list", "--help"], says: /^Usage: otpd keys list .*--json/s },
    { args: ["keys", "revoke", "--help"], says: /^Usage: otpd keys revoke ID\n/ },
    { args: ["--version"], says: /^\d+\.\d+\.\d+\n$/ },
  ])("otpd $args is answered on standard output with exit code 0", async ({ args, says }) => {
    const { code, output, errors } = await runHere(args);
    expect(output).toMatch(says);
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
  });

  test("--help lists every command", async () => {
    const { output } = await runHere(["--help"]);
    for (const command of ["serve", "migrate", "keys create", "keys list", "keys revoke"]) {
      expect(output).toMatch(new RegExp(`^  ${command} +\\w`, "m"));
    }
  });

  test.each([
    { args: ["srve"], says: 'There is no command "srve".' },
    { args: ["srve", "--help"], says: 'There is no command "srve".' },
    { args: ["help", "srve"], says: 'There is no command "srve".' },
    { args: ["keys"], says: "Say what otpd keys is to do." },
    { args: ["keys", "delete", "--help"], says: 'There is no command "keys delete".' },
    { args: ["help", "keys", "delete"], says: 'There is no command "keys delete".' },
    { args: ["constructor"], says: 'There is no command "constructor".' },
    { args: ["toString", "--help"], says: 'There is no command "toString".' },
    { args: ["help", "__proto__"], says: 'There is no command "__proto__".' },
    { args: ["keys", "toString"], says: 'There is no command "keys toString".' },
    { args: ["keys", "create", "--constructor"], says: "--constructor" },
    {
      args: ["keys", "create", "--name", "shop\u202Eteb"],
      says: "--name must be one line of visible text: U+202E is in it.",
    },
    { args: ["keys", "list", "--tenant", "a", "\u001B[2J"], says: "\\u001b[2J" },
    { args: ["keys", "delete"], says: 'There is no command "keys delete".' },
    { args: ["serve", "now"], says: "now" },
    { args: ["serve", "--port", "1"], says: "--port" },
    { args: ["migrate", "--force"], says: "--force" },
    { args: ["keys", "create", "--nmae", "web"], says: "--nmae" },
    { args: ["keys", "create", "--name"], says: "--name" },
    { args: ["tenants", "create", "acme", "--countries", "NL", "--countries=BE"], says: "--countries is given twice." },
    { args: ["keys", "create", "--name", "x".repeat(65)], says: "--name must be one line" },
    { args: ["keys", "create", "--name", "a\nb"], says: "--name must be one line" },
    { args: ["keys", "create", "--scopes", "send,admin"], says: "--scopes must be a list of send,verify,resend,read" },
    { args: ["keys", "create", "--scopes", ""], says: "--scopes must be a list of send,verify,resend,read,cancel" },
    { args: ["keys", "create", "--expires", "soon"], says: "--expires must be a date to come" },
    { args: ["keys", "create", "--expires", "2020-01-31"], says: "--expires must be a date to come" },
    { args: ["keys", "create", "--expires", "2100-02-31"], says: "--expires must be a date to come" },
    { args: ["keys", "create", "--expires", "2100"], says: "--expires must be a date to come" },
    { args: ["keys", "create", "--expires", "0d"], says: "--expires must be a date to come" },
    { args: ["keys", "revoke"], says: "Give the id of one key" },
    { args: ["keys", "revoke", "a", "b"], says: "Give the id of one key" },
  ])("otpd $args is not understood: exit code 2, nothing on standard output", async ({ args, says }) => {
    const { code, output, errors } = await runHere(args);
    expect(errors).toContain(says);
    // First what is wrong, then how it is meant, in a few lines.
    expect(errors.indexOf("\n\nUsage: otpd")).toBeGreaterThan(0);
    expect(errors.split("\n").length).toBeLessThanOrEqual(12);
    expect({ code, output }).toEqual({ code: 2, output: "" });
  });

  test("a command that was not understood has made nothing", () => expect(readdirSync(folder)).toEqual([]));

  test("what it comes to is the exit code of the process", async () => {
    expect(await runOtpd(folder, ["--version"])).toEqual({ code: 0, output: `${ours}\n`, errors: "" });
    expect(await runOtpd(folder, ["srve"])).toMatchObject({ code: 2, output: "" });
  });

  test.each(["12.22.12", "20.20.2", "22.17.1"])("Node %s is refused with a sentence", async (node) => {
    const { code, output, errors } = await runOnNode(node);
    expect(errors).toBe(
      `otpd needs Node 22.18 or newer; this is ${node}. On Linux, npm ci brings a newer one (with npm 10, run "npm rebuild" after it): start it as "npm start" or "npx --no-install otpd".\n`,
    );
    expect({ code, output }).toEqual({ code: 1, output: "" });
  });

  test.each(["22.18.0", "23.0.0"])("Node %s is accepted", async (node) => {
    expect(await runOnNode(node)).toMatchObject({ code: 0, errors: "" });
  });
});

/** `otpd --version`, on a Node that says it is of another version. */
async function runOnNode(version: string) {
  const pretend = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`;
  const preload = `data:text/javascript,${encodeURIComponent(pretend)}`;
  return runOtpd(folder, ["--version"], {}, ["--import", preload]);
}
