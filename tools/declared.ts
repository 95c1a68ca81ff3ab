/**
 * What a source file declares, by name, and where it begins and ends. TypeScript's own parser is no library since it is a
 * program, so this reads lines and their indentation, as the formatter leaves them: what is declared on a line goes on
 * for as long as lines stand further in than that one, and ends with the bracket that stands below its beginning.
 */

export interface Declared {
  /** With those around it, outermost first: `createWorker.carry`. */
  readonly name: string;
  readonly startLine: number;
  /** The first line that is no longer part of it. */
  readonly endLine: number;
  /** False for a class, and for a constant that holds no function. */
  readonly isFunction: boolean;
}

const id = String.raw`(?<name>#?[\w$]+)`;
const constant = new RegExp(String.raw`^(?:export )?(?:const|let) ${id}\b`);
const classes = new RegExp(String.raw`^(?:export )?(?:abstract )?class ${id}\b`);
const functions: readonly RegExp[] = [
  new RegExp(String.raw`^(?:export )?(?:async )?function\*? ${id}\b`),
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
    const { name, isFunction } = nameOn(lines, i, line) ?? {};
    if (name === undefined || isFunction === undefined) continue;
    const around = open.at(-1);
    const declared = {
      isFunction,
      name: around === undefined ? name : `${around.name}.${name}`,
      startLine: i,
      endLine: endOf(lines, i),
    };
    found.push(declared);
    open.push(declared);
  }
  return found;
}

interface Named {
  readonly name: string;
  readonly isFunction: boolean;
}

function nameOn(lines: readonly string[], i: number, line: string): Named | undefined {
  const code = line.trimStart();
  const indent = line.length - code.length;
  if (code === "") return undefined;
  for (const known of functions) {
    const found = known.exec(code)?.groups?.["name"];
    if (found !== undefined) return { name: found, isFunction: true };
  }
  for (const known of indent === 0 ? [classes, constant] : [classes]) {
    const found = known.exec(code)?.groups?.["name"];
    if (found !== undefined) return { name: found, isFunction: false };
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
  return behind !== undefined && /^(?:: .+)? \{$/.test(behind) ? { name, isFunction: true } : undefined;
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
