/**
 * A function is found by its name, whatever stands around it, and a mistake is made within it alone.
 */
import { describe, expect, test } from "vitest";
import { declaredIn } from "../declared.ts";
import { fileOf, withMistake } from "./places.ts";

const source = `/** A file. */
import { call } from "./call.ts";

const limit = 5;
const texts: readonly string[] = ["a(b) {", "c"];

export interface Counted {
  add: (by: number) => void;
  readonly sum: number;
}

export const double = (n: number): number => 2 * n;

export async function outer(
  n: number,
): Promise<number> {
  const inner = async () => {
    await call(() => {
      return n + 1;
    });
  };
  if (n > limit) {
    return n + 1;
  }

  function nested(): { n: number } {
    return { n: n + 2 };
  }
  return nested().n;
}

export class Counter {
  #sum = 0;
  readonly next = () => this.#sum + 1;

  constructor(start: number) {
    this.#sum = start;
  }

  get sum(): number {
    return this.#sum;
  }

  #each(of: readonly number[]): (() => void)[] {
    return of.map((n) => () => this.add(n));
  }

  async add(by: number): Promise<void> {
    this.#sum += by;
  }
}

export function makeCounter(sum = 0): Counted {
  return {
    sum,
    add: (by) => {
      sum += by;
    },
    async reset<T>(
      to: T,
    ) {
      sum = Number(to);
    },
  };
}
`;

/** The lines of what is called so, the first and the last. */
function linesOf(name: string): (string | undefined)[] {
  const lines = source.split("\n");
  return declaredIn(source)
    .filter((declared) => declared.name === name)
    .flatMap(({ startLine, endLine }) => [lines[startLine], lines[endLine - 1]]);
}

test("functions, methods, classes and constants of the file are found, and nothing that looks like one", () => {
  expect(declaredIn(source).map(({ name }) => name)).toEqual([
    "limit",
    "texts",
    "double",
    "outer",
    "outer.inner",
    "outer.nested",
    "Counter",
    "Counter.next",
    "Counter.constructor",
    "Counter.sum",
    "Counter.#each",
    "Counter.add",
    "makeCounter",
    "makeCounter.add",
    "makeCounter.reset",
  ]);
});

test("each goes on to its own end", () => {
  expect(linesOf("double")).toEqual(Array(2).fill("export const double = (n: number): number => 2 * n;"));
  expect(linesOf("outer")).toEqual(["export async function outer(", "}"]);
  expect(linesOf("outer.inner")).toEqual(["  const inner = async () => {", "  };"]);
  expect(linesOf("Counter.sum")).toEqual(["  get sum(): number {", "  }"]);
  expect(linesOf("makeCounter.reset")).toEqual(["    async reset<T>(", "    },"]);
});

describe("a mistake", () => {
  const change = (name: string, text: string, replacement = "") =>
    withMistake(source, { place: `src/counter.ts#${name}`, text, replacement });

  test("is made in its function alone, though the text stands elsewhere too", () => {
    expect(change("inner", "n + 1", "n - 1")).toBe(source.replace("n + 1", "n - 1"));
    expect(change("Counter.add", "+= by", "-= by")).toBe(source.replace("#sum += by", "#sum -= by"));
    expect(change("makeCounter.add", "+= by", "-= by")).toBe(source.replace(" sum += by", " sum -= by"));
    expect(change("#each", "this.add(n)", "$& {}")).toBe(source.replace("this.add(n)", () => "$& {}"));
  });

  test("may take in lines, up to the end of its function", () => {
    const text = "return nested().n;\n}";
    expect(change("outer", text, "return 0;\n}")).toBe(source.replace(text, "return 0;\n}"));
  });

  test.each([
    ["gone", "n + 1", "src/counter.ts#gone is not there"],
    ["add", "+= by", "src/counter.ts#add is one of Counter.add, makeCounter.add"],
    ["nested", "n + 1", "src/counter.ts#nested has the text 0 times: n + 1"],
    ["outer", "n + 1", "src/counter.ts#outer has the text 2 times: n + 1"],
  ])("is refused in %s at %s", (name, text, sentence) => {
    expect(() => change(name, text)).toThrow(sentence);
  });

  test("names its file", () =>
    expect(fileOf({ place: "src/counter.ts##each", text: "", replacement: "" })).toBe("src/counter.ts"));
});
