/**
 * A document of the repository as tests read it: its fenced blocks, which they run as they stand, and tables.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export interface Block {
  /** Such as "sh", "js" or "json". */
  readonly language: string;
  readonly text: string;
  /** What the first line calls it, where that is a comment with a file's name and nothing else: "client.ts". */
  readonly file: string | undefined;
}

export interface Document {
  readonly text: string;
  /** Every fenced block, in order. */
  readonly blocks: readonly Block[];
  /** The one block of a language. Throws if there are none or several. */
  only(language: string): string;
  /** The one block that begins with the name of this file. Throws if there is none. */
  file(name: string): string;
  /** The rows of the table whose head begins with `head`, as cells. Throws if there is none. */
  table(head: string): string[][];
}

/** Reads a document by its path from the root of the repository. */
export function readDocument(path: string): Document {
  const text = readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), "utf8");
  const blocks = [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = "", block = ""]) => ({
    language,
    text: block,
    file: /^(?:#|\/\/) ([\w/-]+\.\w+)$/m.exec(block.slice(0, block.indexOf("\n")))?.[1],
  }));
  function one(what: string, wanted: (block: Block) => boolean): string {
    const found = blocks.filter(wanted);
    if (found.length !== 1) throw new Error(`${path} has ${found.length} blocks of ${what}, not one`);
    return found[0]?.text ?? "";
  }
  return {
    text,
    blocks,
    only: (language) => one(language, (block) => block.language === language),
    file: (name) => one(name, (block) => block.file === name),
    table(head) {
      const lines = text.split("\n");
      const from = lines.findIndex((line) => line.startsWith(`| ${head}`));
      if (from < 0) throw new Error(`${path} has no table of ${head}`);
      const cellsOf = (row: string) => row.split("|").slice(1, -1);
      return lines.slice(from + 2, lines.indexOf("", from)).map((row) => cellsOf(row).map((cell) => cell.trim()));
    },
  };
}
