/**
 * OTP_HTTP_PROVIDERS_FILE: providers that an operator declares, parsed once at start. Every fault of the file is told at once,
 * each as a JSON pointer and a sentence. docs/providers.md tells the format.
 */
import * as v from "valibot";
import { below, givenTwice, readJsonText } from "../../../otp/json-file.ts";
import { faultsBetween, itemsOf, own, type Fault } from "./rules.ts";
import { expand, presetNames } from "./preset.ts";
import { entryShape, fileShape, nameForm, type Declaration } from "./shape.ts";

/** What reading came to. Without faults the declarations are good. */
export interface ReadProviders {
  readonly declarations: readonly Declaration[];
  /** The names that the file gives, also where something else of it is wrong. */
  readonly names: readonly string[];
  /** A pointer and a sentence without a full stop each, to be put after the name of the file's variable. */
  readonly faults: readonly string[];
}

const fileCharsMax = 262_144;

/** Names that mean something else: in logs, in metrics and to JavaScript. */
const meant: ReadonlySet<string> = new Set(["none", "sandbox", "unknown", "constructor"]);

/** Reads the file. `builtIn` are the names of the providers that come with the service. Pure. */
export function readHttpProviders(json: string, builtIn: readonly string[]): ReadProviders {
  const read = readJsonText(json, fileCharsMax);
  if (!read.ok) return { declarations: [], names: [], faults: [read.rest] };
  const file = v.safeParse(fileShape, read.value);
  const entries = itemsOf(own(read.value, "providers")).map((entry, i) => readEntry(entry, below("/providers", i)));
  const names = entries.map(({ name }) => name);
  const faults = [
    ...read.repeated.map((pointer) => ({ pointer, rest: givenTwice })),
    ...(file.issues ?? []).map((issue) => faultOf(issue, "")),
    ...entries.flatMap((entry) => entry.faults),
    ...faultsOfNames(names, builtIn),
  ];
  // The first is the nearest: a URL that is no text has no host either.
  const told = new Map<string, Fault>();
  for (const fault of faults) if (!told.has(fault.pointer)) told.set(fault.pointer, fault);
  return {
    declarations: entries.flatMap(({ declaration = [] }) => declaration),
    names: names.filter((name): name is string => typeof name === "string" && nameForm.test(name)),
    faults: [...told.values()].map(({ pointer, rest }) => `${pointer} ${rest}`.trimStart()),
  };
}

interface ReadEntry {
  readonly declaration?: Declaration;
  readonly name: unknown;
  readonly faults: readonly Fault[];
}

function readEntry(given: unknown, pointer: string): ReadEntry {
  const expanded = expand(given, pointer);
  if (expanded === undefined) {
    const rest = `must be one of ${presetNames.join(", ")}`;
    return { name: own(given, "name"), faults: [{ pointer: below(pointer, "preset"), rest }] };
  }
  const { entry } = expanded;
  const parsed = v.safeParse(entryShape, entry);
  const wrong = (parsed.issues ?? []).map((issue) => faultOf(issue, pointer));
  const faults = [...expanded.faults, ...wrong, ...faultsBetween(entry, pointer)];
  return { name: own(entry, "name"), faults, ...(parsed.success ? { declaration: parsed.output } : {}) };
}

function faultsOfNames(names: readonly unknown[], builtIn: readonly string[]): Fault[] {
  const seen = new Set<unknown>();
  return names.flatMap((name, i) => {
    const isTwin = seen.has(name);
    seen.add(name);
    if (typeof name !== "string") return [];
    const isTaken = builtIn.includes(name) || meant.has(name);
    const rest = isTaken ? "is taken: the service has something of this name" : "is another provider's too";
    return isTaken || isTwin ? [{ pointer: below(below("/providers", i), "name"), rest }] : [];
  });
}

/** An issue of the shape as a pointer and a sentence. */
function faultOf(issue: v.BaseIssue<unknown>, at: string): Fault {
  const path = (issue.path ?? []).map(({ key }) => String(key));
  const pointer = path.reduce(below, at);
  const isMissing = issue.received === "undefined" && issue.path?.at(-1)?.value === undefined;
  return { pointer, rest: isMissing ? "is missing" : issue.message };
}
