/**
 * `npm run measure`: the house in figures, as a table. What one warm call passes through is what V8 saw of a real server
 * on SQLite: the functions that every one of five calls ran until its line was in the log. What comes between the answer and
 * that line is in it, since the caller may have the answer before it or behind it.
 *
 *   npm run measure -- /path/to/another/tree     measures that one instead, which may be of an earlier commit
 *   npm run measure -- --list src/server         lists what the calls pass there too, by file
 */
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { OtpService } from "../gen/otp/v1/otp_service_pb.ts";
import { newPhone } from "../test/support/data/phones.ts";
import { firstKey, startOtpd, type Otpd } from "../test/support/processes/process.ts";
import { optionsOf } from "./command-line.ts";
import { declaredIn } from "./declared.ts";
import { functionLinesMax } from "./rules/rules.ts";

const { values: given, positionals } = optionsOf(import.meta.filename, {
  options: { list: { type: "string" } },
  allowPositionals: true,
});
const root = resolve(positionals[0] ?? join(import.meta.dirname, ".."));
const warmCalls = 50;
const measuredCalls = 5;

/** Functions by their file and where in it they begin. */
type Functions = ReadonlySet<string>;

// ---- what a call passes through -------------------------------------------------------------------------------------

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
    }[];
  }[];
}

/** The profiler of a process that listens for its inspector. */
async function openProfiler(url: string) {
  const socket = new WebSocket(url);
  const waiting = new Map<number, (result: unknown) => void>();
  socket.addEventListener("message", ({ data }) => {
    const { id, result } = JSON.parse(String(data)) as { id?: number; result?: unknown };
    if (id !== undefined) waiting.get(id)?.(result);
  });
  await new Promise((opened, failed) => {
    socket.addEventListener("open", opened);
    socket.addEventListener("error", failed);
  });
  let asked = 0;
  return {
    ask<T>(method: string, params: object = {}): Promise<T> {
      asked += 1;
      socket.send(JSON.stringify({ id: asked, method, params }));
      return new Promise((answered) => waiting.set(asked, answered as (result: unknown) => void));
    },
    close: () => socket.close(),
  };
}

async function callsOf(otpd: Otpd) {
  const key = await firstKey(otpd);
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const client = createClient(OtpService, createGrpcTransport({ baseUrl: otpd.url }));
  let sent = 0;
  /** Resolves once the log has the line of an answered call. */
  const isLogged = (answer: Headers) =>
    otpd.waitFor(new RegExp(`"call_id":"${answer.get("x-call-id")}".*"msg":"call"`), "errors");
  return {
    async send(): Promise<string> {
      const body = JSON.stringify({ phone: newPhone() });
      const answer = await fetch(`${otpd.url}/v1/otp/send`, { method: "POST", headers, body });
      if (answer.status !== 200) throw new Error(`a send was answered ${answer.status}: ${await answer.text()}`);
      sent += 1;
      await isLogged(answer.headers);
      return ((await answer.json()) as { request_id: string }).request_id;
    },
    /** The code of the newest send. */
    async code(): Promise<string> {
      await otpd.waitFor(new RegExp(`(?:│ \\d{6} [^]*?){${sent}}`));
      return [...otpd.output().matchAll(/│ (\d{6}) /g)].at(-1)?.[1] ?? "";
    },
    async verify(requestId: string, code: string): Promise<void> {
      let answered = new Headers();
      const onHeader = (header: Headers) => void (answered = header);
      await client.verifyOtp({ requestId, code }, { headers: { authorization: `Bearer ${key}` }, onHeader });
      await isLogged(answered);
    },
  };
}

/** What a REST send and a gRPC verify pass, warm, each over a connection that stands. */
async function passed(): Promise<{ send: Functions; verify: Functions }> {
  const folder = mkdtempSync(join(tmpdir(), "otpd-measure-"));
  // The sources, whatever was built of them.
  const file = join(folder, "from-source.mjs");
  const cli = JSON.stringify(pathToFileURL(join(root, "src/cli.ts")));
  writeFileSync(file, `import { run } from ${cli};\nprocess.exitCode = await run(process.argv.slice(2));\n`);
  const otpd = await startOtpd(folder, { NODE_OPTIONS: "--inspect=127.0.0.1:0" }, ["serve"], { file });
  try {
    const [inspector] = await otpd.waitFor(/ws:\/\/\S+/, "errors");
    const profiler = await openProfiler(inspector);
    const calls = await callsOf(otpd);
    const cycle = async () => calls.verify(await calls.send(), await calls.code());
    for (let i = 0; i < warmCalls; i += 1) await cycle();
    await profiler.ask("Profiler.enable");
    await profiler.ask("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    for (let i = 0; i < measuredCalls; i += 1) await cycle();

    const seen = { send: [] as Functions[], verify: [] as Functions[] };
    // Taking what was counted also sets it back to nothing.
    const ran = async () => functionsOf(await profiler.ask<Coverage>("Profiler.takePreciseCoverage"));
    for (let i = 0; i < measuredCalls; i += 1) {
      await ran();
      const id = await calls.send();
      seen.send.push(await ran());
      const code = await calls.code();
      await ran();
      await calls.verify(id, code);
      seen.verify.push(await ran());
    }
    profiler.close();
    return { send: inEvery(seen.send), verify: inEvery(seen.verify) };
  } finally {
    await otpd.end();
    rmSync(folder, { recursive: true });
  }
}

function functionsOf({ result }: Coverage): Functions {
  const ours = pathToFileURL(join(root, "src/")).href;
  return new Set(
    result
      .filter(({ url }) => url.startsWith(ours))
      .flatMap(({ url, functions }) =>
        functions
          .filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0)
          .map(({ functionName, ranges }) => `${url.slice(ours.length)}#${functionName}@${ranges[0]?.startOffset}`),
      ),
  );
}

/** Leaves out what a timer ran meanwhile. */
function inEvery([first = new Set(), ...others]: readonly Functions[]): Functions {
  return new Set([...first].filter((name) => others.every((run) => run.has(name))));
}

const filesOf = (functions: Functions) => new Set([...functions].map((name) => name.split("#")[0])).size;

/** A row for each file below a folder: how many of its functions are passed, and which. */
function passedBelow(folder: string, functions: Functions): string[] {
  const below = [...functions]
    .map((name) => name.split(/[#@]/))
    .map(([path = "", name = ""]) => ({ path: `src/${path}`, name: name === "" ? "(no name)" : name }))
    .filter(({ path }) => path.startsWith(folder));
  return [...Map.groupBy(below, ({ path }) => path)]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([path, inside]) => `| ${path} | ${inside.length} | ${inside.map(({ name }) => name).join(", ")} |`);
}

// ---- what the files hold --------------------------------------------------------------------------------------------

interface SourceFile {
  readonly path: string;
  readonly text: string;
  readonly lines: number;
}

/** The program text below a folder; none where there is no such folder. */
function filesBelow(folder: string): SourceFile[] {
  try {
    return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.(ts|js|py|go|html|css)$/.test(entry.name))
      .map((entry) => {
        const path = join(entry.parentPath, entry.name);
        const text = readFileSync(path, "utf8");
        return { path: relative(root, path), text, lines: text.split("\n").length - 1 };
      });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

const linesOf = (files: readonly SourceFile[]) => files.reduce((sum, { lines }) => sum + lines, 0);

function rooms(files: readonly SourceFile[]): string[] {
  const byRoom = Map.groupBy(files, ({ path }) => dirname(path));
  return [...byRoom]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([room, inside]) => {
      const longest = inside.reduce((long, file) => (file.lines > long.lines ? file : long));
      return `| ${room} | ${inside.length} | ${linesOf(inside)} | ${relative(room, longest.path)}, ${longest.lines} |`;
    });
}

function longFunctions(files: readonly SourceFile[]): string[] {
  return files
    .filter(({ path }) => /\.[jt]s$/.test(path))
    .flatMap(({ path, text }) =>
      declaredIn(text)
        .filter(({ isFunction }) => isFunction)
        .map(({ name, startLine, endLine }) => ({ name: `${path}#${name}`, lines: endLine - startLine })),
    )
    .filter(({ lines }) => lines > functionLinesMax)
    .toSorted((a, b) => b.lines - a.lines)
    .map(({ name, lines }) => `| ${name} | ${lines} |`);
}

// ---- the table ------------------------------------------------------------------------------------------------------

const src = filesBelow("src");
const long = longFunctions(src);
const { send, verify } = await passed();
const rows: [what: string, figure: number][] = [
  ["files of src that a warm REST send passes", filesOf(send)],
  ["functions that it passes", send.size],
  ["files of src that a warm gRPC verify passes", filesOf(verify)],
  ["functions that it passes", verify.size],
  ["files of src", src.length],
  ["lines of src", linesOf(src)],
  ["lines of test", linesOf(filesBelow("test"))],
  ["lines of tools", linesOf(filesBelow("tools"))],
  [`functions of src with more than ${functionLinesMax} lines`, long.length],
];
console.log(
  ["| what | figure |", "| --- | --- |", ...rows.map(([what, figure]) => `| ${what} | ${figure} |`)].join("\n"),
);
console.log(["", "| function | lines |", "| --- | --- |", ...long].join("\n"));
console.log(
  ["", "| room | files | lines | longest file, lines |", "| --- | --- | --- | --- |", ...rooms(src)].join("\n"),
);
const { list } = given;
if (list !== undefined) {
  for (const [what, functions] of Object.entries({ send, verify })) {
    const head = ["", `| a ${what} passes | functions | their names |`, "| --- | --- | --- |"];
    console.log([...head, ...passedBelow(list, functions)].join("\n"));
  }
}
