/**
 * How tools are asked: by options. For `--help`, and where they were not understood, the comment at the tool's head is shown,
 * which says how it is called.
 */
import { readFileSync } from "node:fs";
import { parseArgs, type ParseArgsConfig } from "node:util";

/** The options that the tool of this file was given. Ends the process for --help, and for what it does not know. */
export function optionsOf<T extends ParseArgsConfig>(file: string, config: T): ReturnType<typeof parseArgs<T>> {
  if (process.argv.slice(2).includes("--help")) {
    console.log(headOf(file));
    process.exit(0);
  }
  try {
    return parseArgs<T>(config);
  } catch (error) {
    return misused(file, error instanceof Error ? error.message : String(error));
  }
}

/** Ends the process, and says what was wrong with its options. */
export function misused(file: string, trouble: string): never {
  console.error(`${trouble}\n\n${headOf(file)}`);
  process.exit(2);
}

function headOf(file: string): string {
  const [, comment = ""] = /^\/\*\*\n(.*?)\n \*\/$/ms.exec(readFileSync(file, "utf8")) ?? [];
  return comment.replaceAll(/^ \* ?/gm, "");
}
