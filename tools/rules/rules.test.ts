/**
 * Each house rule finds what it is there to find, and lets pass what looks like it.
 */
import { describe, expect, test } from "vitest";
import { circlesOf } from "./circles.ts";
import {
  clockAndChance,
  fileLength,
  fileName,
  functionLength,
  importArrows,
  namedExports,
  strangersAtTop,
  nobodysPackage,
  nothingLeftOpen,
  openingParagraph,
  ownPlace,
  ownWords,
  type Rule,
} from "./rules.ts";

function found(rule: Rule, path: string, text: string): number {
  return rule({ path, text }).length;
}

describe("imports follow the arrows", () => {
  const wrong: [path: string, text: string][] = [
    ["src/otp/channel.ts", 'import { migrations } from "../store/migrations.ts";'],
    ["src/otp/channel.ts", 'import type { Config } from "../config/config.ts";'],
    ["src/otp/channel.ts", 'import { readFileSync } from "node:fs";'],
    ["src/otp/channel.ts", 'import { setTimeout } from "node:timers/promises";'],
    ["src/store/rows/rows.ts", 'import { createWorker } from "../../delivery/worker.ts";'],
    ["src/delivery/worker.ts", 'import type { Verifications } from "../service/verifications.ts";'],
    ["src/service/verifications.ts", 'import type { Provider } from "../delivery/provider.ts";'],
    ["src/service/verifications.ts", 'import {\n  callKey,\n  type Call,\n} from "../server/call.ts";'],
    ["src/service/verifications.ts", 'export * from "../server/call.ts";'],
    ["src/service/verifications.ts", 'import "../server/call.ts";'],
    ["src/service/verifications.ts", 'const call = await import("../server/call.ts");'],
    ["src/otp/keys/secret.ts", 'import { pastOf } from "../verification/policy.ts";'],
    ["src/otp/verification/policy.ts", 'import type { Writes } from "../decisions/writes.ts";'],
    ["src/service/send.ts", 'import { readOverview } from "./operators/overview.ts";'],
    ["src/service/callers/bot-gate.ts", 'import type { Sent } from "../send.ts";'],
    ["src/server/server.ts", 'import { startService } from "../main.ts";'],
    ["src/server/server.ts", 'import type { Config } from "../config/config.ts";'],
    ["src/system.ts", 'import { refuse } from "./otp/reason.ts";'],
    ["src/telemetry.ts", 'import type { Call } from "./server/call.ts";'],
    ["src/main.ts", 'import { run } from "./cli.ts";'],
    ["src/main.ts", 'import { keysCommand } from "./commands/keys.ts";'],
    ["src/delivery/worker.ts", 'import type { Config } from "../config/config.ts";'],
    ["src/main.ts", 'import { State } from "../gen/otp/v1/otp_service_pb.ts";'],
    ["src/main.ts", 'import { OtpService, State } from "../gen/otp/v1/otp_service_pb.ts";'],
    ["src/cli.ts", 'import { OtpService } from "../gen/otp/v1/otp_service_pb.ts";'],
    ["src/commands/keys.ts", 'import { OtpService } from "../../gen/otp/v1/otp_service_pb.ts";'],
    ["src/otp/reason.ts", 'import { Reason } from "../../gen/otp/v1/otp_service_pb.ts";'],
    ["src/main.ts", 'import { startWorld } from "../test/support/world.ts";'],
    ["src/server/demo.ts", 'import { explain } from "../demo/sentences.ts";'],
    ["src/main.ts", 'import { explain } from "./demo/sentences.ts";'],
    ["src/demo/page.ts", 'import { reasons } from "../otp/reason.ts";'],
    ["src/demo/page.ts", 'import { createSystem } from "../system.ts";'],
    ["src/demo/page.ts", 'import { readFileSync } from "node:fs";'],
    ["src/demo/page.ts", 'import { createConnectTransport } from "@connectrpc/connect-node";'],
    ["src/demo/page.ts", 'import * as v from "valibot";'],
    ["src/elements/client.ts", 'import { createClient } from "@connectrpc/connect";'],
    ["src/elements/flow.ts", 'import { reasons } from "../otp/reason.ts";'],
    ["src/elements/flow.ts", 'import { showInbox } from "../demo/inbox.ts";'],
    ["src/newcomer.ts", ""],
  ];
  test.each(wrong)("%s may not: %s", (path, text) => expect(found(importArrows, path, text)).toBe(1));

  const right: [path: string, text: string][] = [
    [
      "src/otp/channel.ts",
      'import { timingSafeEqual } from "node:crypto";\nimport type { Instant } from "../system.ts";',
    ],
    ["src/server/rpc/errors.ts", 'import { OtpErrorSchema } from "../../../gen/otp/v1/otp_service_pb.ts";'],
    ["src/server/rpc/gateway.ts", 'import { discard } from "../http/body.ts";'],
    ["src/server/guard.ts", 'import { StoreUnavailable } from "../store/store.ts";'],
    ["src/main.ts", 'import { OtpService } from "../gen/otp/v1/otp_service_pb.ts";'],
    ["src/otpd.js", 'const { run } = await import("./cli.ts");'],
    ["src/commands/serve.ts", 'const { startService } = await import("../main.ts");'],
    ["src/commands/command.ts", 'export function version() {\n  return read(new URL("../../package.json"));\n}'],
    ["src/otp/decisions/sending.ts", 'import { parsePolicy } from "../verification/policy.ts";'],
    ["src/otp/channel.ts", 'import type { KeyRing } from "./keys/key-ring.ts";'],
    ["src/service/operators/overview.ts", 'import type { Caller } from "../calls.ts";'],
    ["src/demo/page.ts", 'import { State } from "../../gen/otp/v1/otp_service_pb.ts";'],
    ["src/elements/refusals.ts", 'import type { Reason } from "../../gen/otp/v1/otp_service_pb.ts";'],
    ["src/demo/page.ts", 'import type { OtpForm } from "../elements/otp-form.ts";'],
    ["src/console/api.ts", 'import { createConnectTransport } from "@connectrpc/connect-web";'],
    ["test/anything.test.ts", 'import { run } from "../src/cli.ts";'],
  ];
  test.each(right)("%s may: %s", (path, text) => expect(found(importArrows, path, text)).toBe(0));
});

describe("only src/system.ts asks for time or chance", () => {
  test.each([
    "const now = Date.now();",
    "const now = new Date();",
    "const now = new Date( );",
    "const now = new Date;",
    "const now = Date();",
    "const { now } = Date;",
    'const now = Date["now"]();',
    "const now = Number(new Date(Date.now()));",
    "const now = performance.now();",
    "const { now } = performance;",
    'import { performance } from "node:perf_hooks";',
    "const now = Temporal.Now.instant();",
    "const now = process.hrtime.bigint();",
    "const { hrtime } = process;",
    "const age = process.uptime();",
    "db.prepare(`SELECT unixepoch()`);",
    "db.prepare(`INSERT INTO notes VALUES (CURRENT_TIMESTAMP)`);",
    "const chance = Math.random();",
    "const { random } = Math;",
    "const id = crypto.randomUUID();",
    "const id = globalThis.crypto.randomUUID();",
    'import { randomBytes } from "node:crypto";',
    'import {\n  createHmac,\n  randomInt,\n} from "node:crypto";',
    'import { generateKeyPairSync } from "crypto";',
    'import * as all from "node:crypto";',
    'import all from "node:crypto";',
    'const all = await import("node:crypto");',
    "db.prepare(`SELECT randomblob(16)`);",
  ])("not so: %s", (text) => expect(found(clockAndChance, "src/otp/channel.ts", text)).toBeGreaterThan(0));

  test.each([
    "const at = Date.parse(text);",
    "const at = Date.UTC(2026, 0, 1);",
    "const text = new Date(instant).toISOString();",
    "const most = Math.max(1, 2);",
    'import { createHmac, timingSafeEqual } from "node:crypto";',
    "const salt = system.randomBytes(16);",
    "// Date.now() is what system.ts calls",
    "/**\n * Never Math.random().\n */",
  ])("fine: %s", (text) => expect(found(clockAndChance, "src/otp/channel.ts", text)).toBe(0));

  test("system.ts itself, and tests, may", () => {
    expect(found(clockAndChance, "src/system.ts", "Date.now();")).toBe(0);
    expect(found(clockAndChance, "test/otp/code.test.ts", "Date.now();")).toBe(0);
  });
});

describe("files", () => {
  test("have at most 400 lines", () => {
    expect(found(fileLength, "src/otp/channel.ts", "\n".repeat(400))).toBe(0);
    expect(found(fileLength, "src/otp/channel.ts", "\n".repeat(401))).toBe(1);
    expect(found(fileLength, "test/otp/code.test.ts", "\n".repeat(401))).toBe(1);
  });

  test.each([
    "src/otp/util.ts",
    "src/utils/code.ts",
    "test/helpers.ts",
    "src/key-manager.ts",
    "src/common.ts",
    "test/misc/a.ts",
  ])("are not called %s", (path) => expect(found(fileName, path, "")).toBe(1));
  describe("functions of src", () => {
    const long = (above: string, lines: number) =>
      `${above}export function long(): void {\n${"  act();\n".repeat(lines - 2)}}\n`;
    const lengths = (text: string) => found(functionLength, "src/otp/channel.ts", text);

    test("have at most 80 lines", () => {
      expect(lengths(long("", 80))).toBe(0);
      expect(lengths(long("", 81))).toBe(1);
      expect(lengths(`export class Code {\n${long("", 81).replace(/^(?=.)/gm, "  ")}}\n`)).toBe(1);
      expect(found(functionLength, "test/otp/code.test.ts", long("", 81))).toBe(0);
    });

    test.each([
      "// Longer than 80 lines: it is a table.\n",
      "/** Reads a code. Longer than 80 lines: it is a table. */\n",
      "/**\n * Reads a code.\n *\n * Longer than 80 lines: it is a table.\n */\n",
    ])("may have more with a reason above: %j", (above) => expect(lengths(long(above, 81))).toBe(0));

    test.each([
      "// Longer than 80 lines:\n",
      "// Longer than 80 lines: it is a table.\n\n",
      'const why = "Longer than 80 lines: it is a table.";\n',
      "/** It is a table. */\n",
    ])("need the reason, in that form and directly above: %j", (above) => expect(lengths(long(above, 81))).toBe(1));
  });

  test("may have such letters within a word", () => expect(found(fileName, "src/otp/commonwealth.ts", "")).toBe(0));

  test("of src open with what they are", () => {
    expect(found(openingParagraph, "src/otp/channel.ts", "/**\n * The code.\n */\nexport {};\n")).toBe(0);
    expect(found(openingParagraph, "src/otpd.js", "#!/usr/bin/env node\n// The launcher.\n")).toBe(0);
    expect(found(openingParagraph, "src/otp/channel.ts", 'import "x";\n/**\n * The code.\n */\n')).toBe(1);
    expect(found(openingParagraph, "src/otp/channel.ts", "/**\n *\n */\n")).toBe(1);
    expect(found(openingParagraph, "src/otpd.js", "#!/usr/bin/env node\nrun();\n")).toBe(1);
  });

  test("have no default export", () => {
    expect(found(namedExports, "src/otp/channel.ts", "export default function code() {}\n")).toBe(1);
    expect(found(namedExports, "src/otp/channel.ts", "const code = 1;\nexport { code as default };\n")).toBe(1);
    expect(found(namedExports, "test/vitest.config.ts", "export default {};\n")).toBe(0);
  });

  test.each(["DO", "ME"])("leave nothing to do and nothing to fix: %s", (end) => {
    const word = `${end === "DO" ? "TO" : "FIX"}${end}`;
    expect(found(nothingLeftOpen, "src/otp/channel.ts", `// ${word}: later\n`)).toBe(1);
  });
});

describe("nobody is told to run a package that a stranger may own", () => {
  test.each([
    ["README.md", "npx otpd keys list"],
    ["docs/operate.md", "$ npx  otpd doctor"],
    ["docs/operate/prometheus-rules.yml", "description: npx otpd webhooks list shows which"],
    ["docs/integrate.md", "npx buf generate proto"],
    ["src/commands/keys.ts", "say(`Make one: npx otpd keys create`);"],
    [".github/CONTRIBUTING.md", "`npx --yes buf build`"],
    ["README.md", "npm install --global @otpd/server"],
    ["docs/integrate.md", "npm i @connectrpc/connect @otpd/client@0.1.0"],
    ["docs/operate.md", "`npm install -g otpd`"],
  ])("%s may not say: %s", (path, text) => expect(found(nobodysPackage, path, text)).toBe(1));

  test.each([
    ["README.md", "npx --no-install otpd keys list"],
    ["README.md", "npm install --global ./otpd-server-0.1.0.tgz"],
    ["docs/operate.md", "npm install --global --prefix /opt/otpd ./otpd-server-0.1.0.tgz\nsudo otpd"],
    ["docs/operate.md", "npm pack && otpd doctor"],
    ["docs/operate.md", "`npx` serves the owner of the files alone"],
    ["docs/decisions.md", "which npm scripts and npx find first."],
    ["test/fuzz/fire.ts", "npx vitest run"],
  ])("%s may say: %s", (path, text) => expect(found(nobodysPackage, path, text)).toBe(0));
});

test("only src/own-files.ts asks where it lies", () => {
  const text = 'const page = readFileSync(new URL("page.html", import.meta.url));';
  expect(found(ownPlace, "src/server/pages/demo.ts", text)).toBe(1);
  expect(found(ownPlace, "src/own-files.ts", text)).toBe(0);
  expect(found(ownPlace, "src/otpd.js", text)).toBe(0);
  expect(found(ownPlace, "tools/build.ts", text)).toBe(0);
});

describe("words from outside find what is ours alone", () => {
  test.each([
    "const table: Record<string, number> = { a: 1 };",
    "export const table: Readonly<Record<string, Scope>> = {",
    "if (name in variables.entries) return;",
    "const known = words.find((word) => word in commands);",
    "return word in commands;",
    "const is = a && argv[0] in commands\n",
  ])("not so: %s", (text) => expect(found(ownWords, "src/cli.ts", text)).toBe(1));

  test.each([
    'const table = new Map([["a", 1]]);',
    "const headers: Record<string, string> = {};".replace(/^/, "  "),
    'if (!("stream" in request)) return;',
    "for (const key in entries) count(key);",
    "// a name in a list, or (a name in it)",
    "const table: Readonly<Record<Reason, number>> = {};",
    "const help = `Copies everything in it, as docs/operate.md tells`;",
  ])("fine: %s", (text) => expect(found(ownWords, "src/cli.ts", text)).toBe(0));
});

describe("imports lead in no circle", () => {
  const files = (imports: Readonly<Record<string, string>>) =>
    Object.entries(imports).map(([path, from]) => ({ path, text: from && `import type { X } from "${from}";` }));

  test("of two, of three behind another, of itself", () => {
    expect(circlesOf(files({ "src/a.ts": "./b.ts", "src/b.ts": "./a.ts" }))).toEqual([
      "src/a.ts imports src/b.ts imports src/a.ts: imports must not lead in a circle",
    ]);
    const behind = files({
      "src/a.ts": "./b.ts",
      "src/b.ts": "./r/c.ts",
      "src/r/c.ts": "../d.ts",
      "src/d.ts": "./b.ts",
    });
    expect(circlesOf(behind)).toEqual([
      "src/b.ts imports src/r/c.ts imports src/d.ts imports src/b.ts: imports must not lead in a circle",
    ]);
    expect(circlesOf(files({ "src/a.ts": "./a.ts" }))).toHaveLength(1);
  });

  test("two ways to one file are none", () => {
    const paths = files({ "src/a.ts": "./c.ts", "src/b.ts": "./c.ts", "src/c.ts": "node:fs", "src/d.ts": "./a.ts" });
    expect(circlesOf(paths)).toEqual([]);
  });
});

test("a file at the top that nobody put there is found", () => {
  expect(strangersAtTop(["README.md", "src/main.ts", 'all min", q(w, 0)', "data/otp.db", "data/master.key"])).toEqual([
    'all min", q(w, 0): the top level has no place for it',
    "data: the top level has no place for it",
  ]);
});
