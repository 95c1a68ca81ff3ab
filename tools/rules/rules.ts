/**
 * The house rules that a machine can hold, as pure functions from a file to the sentences that say what is wrong with it.
 * `check.ts` runs them over the repository; `rules.test.ts` shows each one what it is there to find.
 */

import { declaredIn } from "../declared.ts";

/** A file of the repository. */
export interface SourceFile {
  /** Relative to the root, with forward slashes, such as `src/otp/message/code.ts`. */
  readonly path: string;
  readonly text: string;
}

/** What is wrong with a file, one sentence each, beginning with the file's path. */
export type Rule = (file: SourceFile) => string[];

// ---- import arrows --------------------------------------------------------------------------------------------------

const rooms = ["system", "otp", "store", "delivery", "service"];

/**
 * Which rooms each room may import from, besides itself: otp ← store ← delivery, service ← server ← main, cli. Time and
 * chance travel as arguments, so everyone may name their type; configuration is handed down by the composition root.
 */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  system: [],
  otp: ["system"],
  "log-lines": [],
  telemetry: ["otp", "log-lines"],
  config: ["otp", "store", "delivery", "telemetry"],
  "master-key": ["otp"],
  "own-files": [],
  built: [],
  // Whatever calls far ends reads their answers.
  "http-answer": [],
  // It is handed down as functions: whoever is observed does not know it.
  observe: ["system", "otp", "store", "delivery"],
  store: ["system", "otp", "own-files"],
  delivery: ["system", "otp", "store", "http-answer", "own-files"],
  service: ["system", "otp", "store", "http-answer"],
  // The form to embed runs in a browser: of the contract it knows names, and of the server nothing.
  elements: ["gen"],
  // So does the demo page's own script.
  demo: ["gen", "elements"],
  // So does the console's.
  console: ["gen", "demo", "elements"],
  server: ["system", "otp", "store", "delivery", "service", "observe", "own-files", "gen"],
  main: [...rooms, "observe", "telemetry", "config", "master-key", "server", "gen"],
  commands: [...rooms, "telemetry", "config", "master-key", "own-files", "main"],
  cli: [...rooms, "commands"],
  otpd: ["cli", "built"],
};

/** Within a room a folder imports from those before it alone. Files right in the room stand where "" does, or anywhere. */
const innerRooms: Readonly<Record<string, readonly string[]>> = {
  otp: ["keys", "limits", "message", "template", "verification", "operators", "decisions"],
  service: ["callers", "", "operators"],
  server: ["listener", "http", "rpc", "pages", "admin"],
};

/** Within the server, `gen/` is visible here alone. */
const knowGen: ReadonlySet<string> = new Set(["rpc", "admin"]);

/** The rules do no I/O: a test of one needs neither files nor sockets. */
const outsideWorld = /^(node:(child_process|cluster|dgram|dns|fs|http2?|https|net|timers|tls|worker_threads)(\/.*)?)$/;

/** What pages may be bundled with. */
const forBrowsers = /^(@connectrpc\/connect(-web)?|@bufbuild\/protobuf|uplot)(\/|$)/;
const isForBrowsers = (room: string) => room === "demo" || room === "console" || room === "elements";

/** Imports follow the arrows, `gen/` stays in `src/server` and the demo page, and the rules stay pure. */
export const importArrows: Rule = ({ path, text }) => {
  const room = roomOf(path);
  if (room === undefined) return [];
  const allowed = mayImport[room];
  if (allowed === undefined) return [`${path} is in no room that the import arrows know: see tools/rules/rules.ts`];
  return importsOf(text).flatMap(({ names, from }) => {
    if (room === "otp" && outsideWorld.test(from)) return [`${path} imports ${from}: the rules do no I/O`];
    if (room === "elements" && !from.startsWith(".")) return [`${path} imports ${from}: the form has no dependencies`];
    if (!from.startsWith(".")) {
      return isForBrowsers(room) && !forBrowsers.test(from) ? [`${path} imports ${from}: it runs in a browser`] : [];
    }
    const target = roomOf(resolve(path, from));
    if (target === undefined) return [`${path} imports ${from}, which is outside src/ and gen/`];
    const [own, other] = [innerRoomOf(path), innerRoomOf(resolve(path, from))];
    if (room === "server" && target === "gen" && !knowGen.has(own)) {
      return [`${path} imports ${from}: only rpc and admin know gen`];
    }
    if (target === room) {
      const order = innerRooms[room] ?? [];
      const isAhead = order.includes(own) && order.indexOf(own) < order.indexOf(other);
      return isAhead ? [`${path} imports ${from}: ${own || room} must not know ${other}`] : [];
    }
    if (!allowed.includes(target)) return [`${path} imports ${from}: ${room} must not know ${target}`];
    const onlyService = /^\{\s*\w+Service\s*\}$/.test(names);
    return room === "main" && target === "gen" && !onlyService
      ? [`${path} imports ${names} from ${from}: main may name the services it registers and nothing else of gen/`]
      : [];
  });
};

/** The room of a path: its folder below `src/`, the name of a file right in `src/`, or gen. Undefined outside both. */
function roomOf(path: string): string | undefined {
  if (path.startsWith("gen/")) return "gen";
  return /^src\/(\w[\w-]*)(?:\/.+)?(?:\.\w+)?$/.exec(path)?.[1];
}

/** The folder of a path within its room; empty for a file right in it. */
function innerRoomOf(path: string): string {
  const [, , inner = "", ...below] = path.split("/");
  return below.length > 0 ? inner : "";
}

export interface Import {
  /** What stands between `import` and `from`; empty for an import for its effect, or by a call. */
  readonly names: string;
  readonly from: string;
}

export function importsOf(text: string): Import[] {
  const statements = text.matchAll(/^(?:import|export)\s+(?:type\s+)?([^;"'()=]*?)\s*\bfrom\s*["']([^"']+)["']/gm);
  const effects = text.matchAll(/^import\s*["']([^"']+)["']/gm);
  const calls = text.matchAll(/\bimport\s*\(\s*["'`]([^"'`]+)["'`]/g);
  return [
    ...[...statements].map(([, names = "", from = ""]) => ({ names, from })),
    ...[...effects, ...calls].map(([, from = ""]) => ({ names: "", from })),
  ];
}

/** The path that a file means by `from`. */
export function resolve(path: string, from: string): string {
  return new URL(from, `file:///${path}`).pathname.slice(1);
}

// ---- clock and chance -----------------------------------------------------------------------------------------------

const senses: readonly { readonly found: RegExp; readonly what: string }[] = [
  // Date.parse, Date.UTC and a Date of a given instant ask nobody the time; every other use of Date may.
  { found: /(?<!new )\bDate\b(?!\.(parse|UTC)\()|\bnew Date\b(?!\([^)\s])/, what: "the clock" },
  {
    found: /\bTemporal\b|\bperformance\s*[.?[;,]|\bprocess\s*\.\s*(hrtime|uptime)\b|node:perf_hooks/,
    what: "the clock",
  },
  { found: /\b(CURRENT_(DATE|TIME|TIMESTAMP)|(unixepoch|julianday|strftime)\s*\()/i, what: "the clock" },
  { found: /\}\s*=\s*(performance|process)\b/, what: "the clock" },
  { found: /\bMath\s*(\.\s*random|\?|\[)|\}\s*=\s*Math\b|\brandomblob\b/, what: "chance" },
  { found: /(?<!node:)\bcrypto\s*[.?[]|\bgetRandomValues\b|\bwebcrypto\b/, what: "chance" },
  // The pool of system.ts is called randomBytes too, so the library's is known by its import.
  { found: /import\s[^;]*\b(random[A-Z]\w*|generate(Key|Prime)\w*)\b[^;]*from "(node:)?crypto"/, what: "chance" },
  { found: /import\s+(\*|\w)[^;{]*from "(node:)?crypto"|import\("(node:)?crypto"\)/, what: "chance" },
];

/** The server's, and those of what runs in browsers. */
const systems = new Set(["src/system.ts", "src/elements/system.ts"]);

/** Nothing but `src/system.ts`, and its like in the browser, asks the time or draws a random number. */
export const clockAndChance: Rule = ({ path, text }) => {
  if (!path.startsWith("src/") || systems.has(path) || !/\.[jt]s$/.test(path)) return [];
  // Lines are joined again, since an import may take several; comments may name what code may not.
  const code = text.replace(/^\s*(\/\/|\/\*|\*( |\/|$)).*$/gm, "");
  return senses.flatMap(({ found, what }) => {
    const [match] = found.exec(code) ?? [];
    return match === undefined
      ? []
      : [`${path} uses ${match.replace(/\s+/g, " ").slice(0, 60)}: only src/system.ts asks for ${what}`];
  });
};

// ---- files ----------------------------------------------------------------------------------------------------------

const linesMax = 400;

/** A file is one idea: at most 400 lines. */
export const fileLength: Rule = ({ path, text }) => {
  const lines = text.split("\n").length - 1;
  return /^(src|test|tools)\//.test(path) && lines > linesMax
    ? [`${path} has ${lines} lines: a file is one idea and has at most ${linesMax}`]
    : [];
};

/** The most lines of a function without a reason beside it. */
export const functionLinesMax = 80;

/** The form of a reason, in the comment directly above a function. */
const reasonForLength = /^ *(?:\/\/|\/?\*+) .*\bLonger than 80 lines: \S/;
const comment = /^ *(?:\/\/|\/?\*)/;

/** A function of `src/` does one thing: at most 80 lines, or the comment above it says why it has more. */
export const functionLength: Rule = ({ path, text }) => {
  if (!/^src\/.*\.[jt]s$/.test(path)) return [];
  const lines = text.split("\n");
  const hasReason = (startLine: number): boolean => {
    for (let i = startLine - 1; comment.test(lines[i] ?? ""); i -= 1) {
      if (reasonForLength.test(lines[i] ?? "")) return true;
    }
    return false;
  };
  return declaredIn(text)
    .filter(({ isFunction, startLine, endLine }) => isFunction && endLine - startLine > functionLinesMax)
    .filter(({ startLine }) => !hasReason(startLine))
    .map(
      ({ name, startLine, endLine }) =>
        `${path}: ${name} has ${endLine - startLine} lines: split it, or write "// Longer than 80 lines: why" above it`,
    );
};

/** A file's name says what is in it. */
export const fileName: Rule = ({ path }) => {
  const [word] = /(?<![a-z])(utils?|helpers?|managers?|common|misc)(?![a-z])/i.exec(path) ?? [];
  return word === undefined ? [] : [`${path}: "${word}" says nothing about what is in the file`];
};

/** Every file of `src/` opens with a paragraph that says which idea it is. */
export const openingParagraph: Rule = ({ path, text }) => {
  if (!/^src\/.*\.[jt]s$/.test(path)) return [];
  const opens = path.endsWith(".ts") ? /^\/\*\*\n \* \S/ : /^(#!.*\n)?\/\/ \S/;
  return opens.test(text) ? [] : [`${path} does not open with a comment that says what it is`];
};

/** What lies beside the code is asked for by its path from the root: the build puts the code of many files into one. */
export const ownPlace: Rule = ({ path, text }) =>
  /^src\/.*\.ts$/.test(path) && path !== "src/own-files.ts" && /\bimport\.meta\b/.test(text)
    ? [`${path} asks where it lies: only src/own-files.ts does`]
    : [];

/** Exports have names, so that a thing is called the same everywhere. A tool's configuration is what the tool wants. */
export const namedExports: Rule = ({ path, text }) =>
  /\.[jt]s$/.test(path) && !path.endsWith(".config.ts") && /^export\s*(default\b|\{[^}]*\bas default\b)/m.test(text)
    ? [`${path} has a default export`]
    : [];

/** Nothing is left for later in a comment. */
export const nothingLeftOpen: Rule = ({ path, text }) => {
  const [word] = /\b(TO(?:DO)|FIX(?:ME)|X(?:XX))\b/.exec(text) ?? [];
  return word === undefined ? [] : [`${path} has a ${word}: do it, or leave it out`];
};

// ---- look-ups -------------------------------------------------------------------------------------------------------

const stringTable = /^(?:export )?const (\w+): (?:Readonly<)?Record<string,/gm;
/** A name before `in`, and what it is looked up in behind it; a text before it asks for what is known by name. */
const membership = /(?:[=(!&|?:,[]|=>|\breturn)\s*([\w$.[\]]+ in [\w$.]+)\s*(?=[)&|?;,\]]|$)/gm;

/** Words from outside find what is ours and nothing else: a plain object also has `constructor` and `toString`. */
export const ownWords: Rule = ({ path, text }) => {
  if (!/^src\/.*\.[jt]s$/.test(path)) return [];
  const code = text.replace(/^\s*(\/\/|\/\*|\*( |\/|$)).*$/gm, "");
  const tables = [...code.matchAll(stringTable)].map(([, name]) => `${path}: the table ${name} must be a Map`);
  const askings = [...code.matchAll(membership)].map(([, asked]) => `${path}: "${asked}" must be Object.hasOwn`);
  return [...tables, ...askings].map((breach) => `${breach}, for words from outside`);
};

// ---- commands -------------------------------------------------------------------------------------------------------

const readByPeople = /^(README\.md|(src|docs|\.github)\/.*)$/;

/** What people are told to type fetches no package by a name that a stranger may own: `otpd`'s own are tarballs. */
export const nobodysPackage: Rule = ({ path, text }) => {
  if (!readByPeople.test(path)) return [];
  const run = text.match(/\bnpx +(?!--no-install )[^\s`"',;.)]+/g) ?? [];
  const installed =
    text.match(/\bnpm (?:i|install|add|exec) [^\n`]*?(?<=\s)(?:@otpd\/[\w-]+|otpd)(?=[\s`"',;)@]|$)/gm) ?? [];
  return [
    ...run
      .filter((command) => command !== "npx find")
      .map((command) => `${path} says "${command}": npx fetches a package of that name; write npx --no-install`),
    ...installed.map((command) => `${path} says "${command}": that name is nobody's; install the tarball`),
  ];
};

export const rules: readonly Rule[] = [
  importArrows,
  clockAndChance,
  fileLength,
  functionLength,
  fileName,
  openingParagraph,
  ownPlace,
  namedExports,
  nothingLeftOpen,
  ownWords,
  nobodysPackage,
];

const topLevel = new Set(
  (
    ".ci .github .gitignore .oxfmtrc.json .oxlintrc.json LICENSE README.md buf.gen.yaml buf.yaml docs gen package-lock.json " +
    "package.json proto src test tools tsconfig.build.json tsconfig.json"
  ).split(" "),
);

/** Nothing is added beside the folders and files that a newcomer sees first: what comes by a slip is found. */
export function strangersAtTop(committed: readonly string[]): string[] {
  const found = new Set(committed.map((path) => path.split("/", 1)[0] ?? "").filter((name) => !topLevel.has(name)));
  return [...found].map((name) => `${name}: the top level has no place for it`);
}
