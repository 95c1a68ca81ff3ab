/**
 * What `otpd doctor` finds, run as an operator runs it.
 */
import { expect } from "vitest";
import { runOtpd } from "./process.ts";

interface Finding {
  readonly level: "ok" | "warning" | "fault";
  readonly ok: boolean;
  readonly sentence: string;
}

/** Runs the command in a folder, and checks what holds of every run: sentences, and an exit code that says whether all is well. */
export async function findingsIn(
  folder: string,
  env: Record<string, string>,
): Promise<{ bad: string[]; good: string[] }> {
  const { code, output, errors } = await runOtpd(folder, ["doctor", "--json"], env);
  const all = JSON.parse(output) as Finding[];
  for (const { sentence } of all) expect(sentence).toMatch(/^[A-Zh][^\n]+[^.]\.$/);
  const bad = all.filter(({ ok }) => !ok);
  const faults = all.filter(({ level }) => level === "fault").length;
  expect({ code, errors }).toEqual(
    faults === 0 ? { code: 0, errors: "" } : { code: 1, errors: `${faults} of ${all.length} checks failed.\n` },
  );
  return {
    bad: bad.map(({ sentence }) => sentence),
    good: all.filter(({ ok }) => ok).map(({ sentence }) => sentence),
  };
}
