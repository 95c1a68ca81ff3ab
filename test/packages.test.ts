/**
 * The packages that are packed here serve and call from where they are installed: the server from its tarball, with
 * nothing of the repository beside it, and the client by the program of docs/integrate.md.
 */
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { promisify } from "node:util";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readDocument } from "./support/readers/document.ts";
import { bytesBelow, npm, packClient, packServer, type Packed } from "./support/processes/packages.ts";
import { cleanEnv, firstKey, startOtpd, type Otpd } from "./support/processes/process.ts";

const root = join(import.meta.dirname, "..");
const manifest = readFileSync(join(root, "package.json"), "utf8");
const { version, dependencies } = JSON.parse(manifest) as { version: string; dependencies: Record<string, string> };
const run = promisify(execFile);
const mb = 1_000_000;

const scratch = mkdtempSync(join(tmpdir(), "otpd-packages-"));
const command = join(scratch, "bin/otpd");
let server: Packed;
let otpd: Otpd;
let key: string;
beforeAll(async () => {
  server = await packServer(scratch);
  await npm(scratch, ["install", "--global", "--prefix", scratch, server.path]);
  otpd = await startOtpd(scratch, {}, ["serve"], { file: command });
  key = await firstKey(otpd);
});
afterAll(async () => {
  await otpd.end();
  rmSync(scratch, { recursive: true });
});

async function ask(path: string, message: object): Promise<Record<string, unknown>> {
  const answer = await fetch(otpd.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(message),
  });
  return (await answer.json()) as Record<string, unknown>;
}

describe("the server's package", () => {
  test("holds what runs, and no more", () => {
    expect(server.bytes).toBeLessThanOrEqual(3 * mb);
    const runs =
      /^(LICENSE|README\.md|(dist\/)?package\.json|src\/otpd\.js|dist\/third-party\.txt|(docs|proto)\/.+|dist\/(src|gen)\/.+\.(js|js\.map|json|html|css|svg))$/;
    expect(server.files.filter((path) => !runs.test(path) || path.includes(".test."))).toEqual([]);
    expect(server.files).toContain("dist/src/cli.js");
  });

  test.each(["README.md", "docs/operate.md", "docs/providers.md", "docs/security.md", "docs/integrate.md"])(
    "has all that its %s links to",
    (path) => {
      const linked = [...readDocument(path).text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, target = ""]) =>
        normalize(join(dirname(path), target)),
      );
      expect(linked.length).toBeGreaterThan(0);
      expect(linked.filter((target) => !server.files.some((file) => file.startsWith(target)))).toEqual([]);
    },
  );

  test("says on an older Node what helps who has installed it", async () => {
    const pretend = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } })`;
    const env = cleanEnv({ NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(pretend)}` });
    const { errors } = await run(command, ["--version"], { cwd: scratch, env }).then(
      () => ({ errors: "" }),
      (error: { stderr: string }) => ({ errors: error.stderr }),
    );
    expect(errors).toMatch(/^otpd needs Node 22\.18 or newer; this is 20\.20\.2\. Install a newer one, /);
    expect(errors).not.toContain("npm ci");
  });

  test("brings neither TypeScript nor a Node, and at most 80 MB", () => {
    const packages = join(scratch, "lib/node_modules/@otpd/server/node_modules");
    const names = readdirSync(packages);
    expect(names.filter((name) => /^@?typescript$|^node-(linux|bin)/.test(name))).toEqual([]);
    expect(names).toContain("better-sqlite3");
    expect(bytesBelow(packages)).toBeLessThanOrEqual(80 * mb);
  });

  test("serves a send and its verify", async () => {
    const { request_id } = await ask("/v1/otp/send", { phone: "+14155552671" });
    const [, code] = await otpd.waitFor(/│ (\d{6}) /);
    expect(await ask("/v1/otp/verify", { request_id, code })).toMatchObject({ state: "STATE_VERIFIED" });
  });

  test("serves its documents and the demo page with all that the page loads", async () => {
    const [page = ""] = await otpd.waitFor(/http:\S+\/demo\?token=\S+/);
    const html = await (await fetch(page)).text();
    const loaded = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, path = ""]) => path);
    expect(loaded.length).toBeGreaterThan(3);
    for (const path of ["/openapi.json", ...loaded]) {
      expect([path, (await fetch(new URL(path, page))).status]).toEqual([path, 200]);
    }
  });

  test("has the commands beside the server", async () => {
    const options = { cwd: scratch, env: cleanEnv() };
    expect((await run(command, ["--version"], options)).stdout).toContain(version);
    const { stdout } = await run(command, ["keys", "list", "--json"], options);
    expect(JSON.parse(stdout)).toContainEqual(expect.objectContaining({ state: "active" }));
  });
});

describe("the client's package", () => {
  const folder = mkdtempSync(join(tmpdir(), "otpd-client-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  let client: Packed;
  beforeAll(async () => {
    client = await packClient(folder);
    writeFileSync(join(folder, "package.json"), `{"private":true,"type":"module"}`);
    // Of the versions that are known to fit, and in npm's cache.
    const ours = ["@connectrpc/connect", "@connectrpc/connect-node"].map((name) => `${name}@${dependencies[name]}`);
    await npm(folder, ["install", client.path, ...ours]);
  });

  test("is JavaScript with its declarations, and the contract", () => {
    expect(client.files.toSorted()).toEqual([
      "LICENSE",
      "README.md",
      "index.d.ts",
      "index.js",
      "otp-form.d.ts",
      "otp-form.js",
      "otp/v1/otp_service_pb.d.ts",
      "otp/v1/otp_service_pb.js",
      "package.json",
      "proto/otp/v1/otp_service.proto",
      "react.d.ts",
    ]);
  });

  test("has the form that the server serves, with its types, and imports it where there are no elements", async () => {
    const served = await (await fetch(`${otpd.url}/elements/otp-form.js`)).text();
    expect(readFileSync(join(folder, "node_modules/@otpd/client/otp-form.js"), "utf8")).toBe(served);
    const program = `import { OtpForm } from "@otpd/client/otp-form";
const form: OtpForm = document.createElement("otp-form");
form.addEventListener("verified", ({ detail }) => console.log(detail.receipt.length, OtpForm.name));
form.reset();
`;
    writeFileSync(join(folder, "form.ts"), program);
    const strict = ["--noEmit", "--strict", "--target", "es2024", "--lib", "es2024,dom", "--module", "nodenext"];
    await run(join(root, "node_modules/.bin/tsc"), [...strict, "--ignoreConfig", "form.ts"], { cwd: folder });
    const { blocks } = readDocument("docs/browsers.md");
    const component = blocks.find(({ text: said }) => said.startsWith("// proof.tsx"))?.text ?? "";
    writeFileSync(join(folder, "proof.tsx"), component);
    writeFileSync(join(folder, "wrong.tsx"), component.replace('purpose="login"', "purpose={1}"));
    mkdirSync(join(folder, "node_modules/@types"), { recursive: true });
    for (const name of ["@types/react", "csstype"]) {
      symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
    }
    const jsx = [...strict, "--jsx", "react-jsx", "--ignoreConfig"];
    await run(join(root, "node_modules/.bin/tsc"), [...jsx, "proof.tsx"], { cwd: folder });
    const refused = run(join(root, "node_modules/.bin/tsc"), [...jsx, "wrong.tsx"], { cwd: folder });
    await expect(refused).rejects.toMatchObject({ stdout: expect.stringContaining("wrong.tsx") as string });
    const imported = `import("@otpd/client/otp-form").then(({ OtpForm }) => console.log(typeof OtpForm))`;
    const { stdout } = await run(process.execPath, ["--eval", imported], { cwd: folder, env: cleanEnv() });
    expect(stdout).toBe("function\n");
  });

  test("goes with each Connect of its major release: npm takes an older one where Node is older", () => {
    const path = join(folder, "node_modules/@otpd/client/package.json");
    expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({
      peerDependencies: { "@connectrpc/connect": "^2.0.0" },
    });
  });

  test("proves a number by the program of the documents, whose types are right", async () => {
    const { blocks } = readDocument("docs/integrate.md");
    const [install] = blocks.flatMap(({ text: said }) => /^npm install .*otpd-client.*$/m.exec(said) ?? []);
    expect(install).toBe(`npm install ./otpd-client-${version}.tgz @connectrpc/connect @connectrpc/connect-node`);
    const program = blocks.find(({ text: said }) => said.startsWith("// first.ts"))?.text ?? "";
    writeFileSync(join(folder, "first.ts"), program.replace("http://127.0.0.1:8080", otpd.url));
    const types = ["--types", "node", "--typeRoots", join(root, "node_modules/@types")];
    const strict = ["--noEmit", "--strict", "--target", "es2024", "--module", "nodenext", ...types];
    await run(join(root, "node_modules/.bin/tsc"), [...strict, "--ignoreConfig", "first.ts"], { cwd: folder });

    const boxes = () => [...otpd.output().matchAll(/│ (\d{6}) /g)].length;
    const before = boxes();
    const child = spawn(process.execPath, ["first.ts"], { cwd: folder, env: cleanEnv({ API_KEY: key }) });
    const said = text(child.stdout);
    const [, code = ""] = await otpd.waitFor(new RegExp(`(?:[^]*?│ (\\d{6}) ){${before + 1}}`));
    child.stdin.end(`${code}\n`);
    expect(await said).toContain("proven: +14155552671");
  });
});
