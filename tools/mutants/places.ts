/**
 * Finds the place of a mutant: a function by its name, and a text within it. So the rest of a file may change and move
 * without the list, and a text has to be unique in its function alone.
 *
 * It reads lines and their indentation, as the formatter leaves them: what is declared on a line goes on for as long as
 * lines stand further in than that one, and ends with the bracket that stands below its beginning.
 */

/** A mistake and where it is made. */
export interface Change {
  /** A file and the function in it: `src/otp/code.ts#deriveCode`, or `….ts#Store.open` where two are called `open`. */
  readonly place: string;
  /** Occurs exactly once in the function. */
  readonly text: string;
  readonly replacement: string;
}

export interface Declared {
  /** With those around it, outermost first: `createWorker.carry`. */
  readonly name: string;
  readonly startLine: number;
  /** The first line that is no longer part of it. */
  readonly endLine: number;
}

const id = String.raw`(?<name>#?[\w$]+)`;
const topLevel = new RegExp(String.raw`^(?:export )?(?:const|let) ${id}\b`);
const kinds: readonly RegExp[] = [
  new RegExp(String.raw`^(?:export )?(?:async )?function\*? ${id}\b`),
  new RegExp(String.raw`^(?:export )?(?:abstract )?class ${id}\b`),
  // A function that is kept under a name: `const name = (…) =>`, `name: async (…) =>`, `#name = (…) =>`.
  new RegExp(String.raw`^(?:export )?(?:const |readonly )?${id}(?:: .+)? = (?:async )?(?:\(|<|\w+ =>|function\b)`),
  new RegExp(String.raw`^${id}: (?:async )?(?:\((?!.*;$)|<|\w+ =>|function\b)`),
];
/** A method, or a call. */
const method = new RegExp(String.raw`^(?:static |async |override |get |set |\*)*${id}(?:<.+>)?\(`);
const notMethods = new Set(["if", "for", "while", "switch", "catch", "function", "return", "await"]);

/** Everything with a name that a mistake can be made in: functions, methods, classes, and constants of the file. */
export function declaredIn(source: string): Declared[] {
  const lines = source.split("\n");
  const found: Declared[] = [];
  const open: Declared[] = [];
  for (const [i, line] of lines.entries()) {
    while ((open.at(-1)?.endLine ?? Infinity) <= i) open.pop();
    const name = nameOn(lines, i, line);
    if (name === undefined) continue;
    const around = open.at(-1);
    const declared = {
      name: around === undefined ? name : `${around.name}.${name}`,
      startLine: i,
      endLine: endOf(lines, i),
    };
    found.push(declared);
    open.push(declared);
  }
  return found;
}

/**
 * The source with the mistake in it.
 *
 * @throws Error, when the place is not there, or more than once
 */
export function withMistake(source: string, { place, text, replacement }: Change): string {
  const name = place.slice(place.indexOf("#") + 1);
  const called = declaredIn(source).filter((declared) => `.${declared.name}`.endsWith(`.${name}`));
  const [only] = called;
  if (only === undefined) throw new Error(`${place} is not there`);
  if (called.length > 1) throw new Error(`${place} is one of ${called.map((one) => one.name).join(", ")}`);
  const lines = source.split("\n");
  const before = lines.slice(0, only.startLine).map((line) => `${line}\n`);
  const body = lines.slice(only.startLine, only.endLine).join("\n");
  const times = body.split(text).length - 1;
  if (times !== 1) throw new Error(`${place} has the text ${times} times: ${text}`);
  return before.join("") + body.replace(text, () => replacement) + source.slice(before.join("").length + body.length);
}

/** The file of a place. */
export function fileOf({ place }: Change): string {
  return place.slice(0, place.indexOf("#"));
}

function nameOn(lines: readonly string[], i: number, line: string): string | undefined {
  const code = line.trimStart();
  const indent = line.length - code.length;
  if (code === "") return undefined;
  for (const kind of indent === 0 ? [...kinds, topLevel] : kinds) {
    const found = kind.exec(code)?.groups?.["name"];
    if (found !== undefined) return found;
  }
  const name = method.exec(code)?.groups?.["name"];
  if (indent === 0 || name === undefined || notMethods.has(name)) return undefined;
  // A method's bracket opens right behind its parameters and what it returns; a call's, within its own parameters.
  const behind = code.endsWith("(")
    ? lines
        .slice(i + 1)
        .find((next) => indentOf(next) <= indent)
        ?.trimStart()
        .slice(1)
    : behindParameters(code);
  return behind !== undefined && /^(?:: .+)? \{$/.test(behind) ? name : undefined;
}

/** What stands behind the bracket that closes the first one; undefined where none does. */
function behindParameters(code: string): string | undefined {
  let depth = 0;
  for (let i = code.indexOf("("); i < code.length; i += 1) {
    if (code[i] === "(") depth += 1;
    else if (code[i] === ")" && --depth === 0) return code.slice(i + 1);
  }
  return undefined;
}

function endOf(lines: readonly string[], start: number): number {
  const indent = indentOf(lines[start] ?? "");
  let end = start + 1;
  for (let i = end; i < lines.length; i += 1) {
    const line = lines[i] ?? "";
    if (line.trim() === "") continue;
    if (indentOf(line) < indent || (indentOf(line) === indent && !/^[)\]}]/.test(line.trimStart()))) break;
    end = i + 1;
  }
  return end;
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}
