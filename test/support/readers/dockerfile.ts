/**
 * The steps of docs/operate/Dockerfile, or of one that was made of it, read as far as that file uses the language: one instruction a line, stages by
 * name, JSON where a command is a list. Anything else is refused, so that no step is passed over.
 */
import { readFileSync } from "node:fs";

export interface Step {
  /** The stage it belongs to: its name, or its number. */
  readonly stage: string;
  readonly instruction: string;
  readonly text: string;
}

const known = new Set("FROM WORKDIR COPY RUN USER ENV VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD".split(" "));

const ours = new URL("../../../docs/operate/Dockerfile", import.meta.url);

export function readDockerfile(file: string | URL = ours): Step[] {
  const text = readFileSync(file, "utf8");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  let stage = "";
  let stages = 0;
  return lines.map((line) => {
    const [, instruction = "", rest = ""] = /^([A-Z]+) (.+)$/.exec(line) ?? [];
    if (!known.has(instruction) || rest.endsWith("\\")) throw new Error(`not understood: ${line}`);
    if (instruction === "FROM") {
      stage = / AS (\w+)$/.exec(rest)?.[1] ?? `${stages}`;
      stages += 1;
    }
    return { stage, instruction, text: rest };
  });
}

/** The last stage's words for an instruction, such as ["serve"] for CMD. */
export function commandOf(steps: readonly Step[], instruction: "ENTRYPOINT" | "CMD" | "HEALTHCHECK"): string[] {
  const step = steps.findLast((candidate) => candidate.instruction === instruction);
  return JSON.parse(step?.text.slice(step.text.indexOf("[")) ?? "[]") as string[];
}

/** The environment that the image sets. */
export function environmentOf(steps: readonly Step[]): Record<string, string> {
  const pairs = steps.filter(({ instruction }) => instruction === "ENV").flatMap(({ text }) => text.split(" "));
  return Object.fromEntries(pairs.map((pair) => pair.split("=", 2) as [string, string]));
}
