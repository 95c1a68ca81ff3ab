/**
 * `otpd audit`.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { inDatabase } from "../support/databases/rows.ts";
import { makeDatabase } from "../support/databases/empty-database.ts";
import { runHere } from "../support/service/command-line.ts";
import { keyText } from "../support/service/environment.ts";
import { temporaryFolder } from "../support/service/world.ts";

let folder: string;
beforeAll(async () => {
  folder = temporaryFolder();
  await makeDatabase(join(folder, "otp.db"));
  vi.stubEnv("OTP_DATABASE_URL", `file:${join(folder, "otp.db")}`);
  vi.stubEnv("OTP_MASTER_KEY", keyText);
});
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

async function succeed(...args: string[]): Promise<string> {
  const { code, output, errors } = await runHere(args);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  return output;
}

test("who changed what is shown, the latest first, by tenant, action and thing", async () => {
  await succeed("tenants", "create", "acme", "--daily-cap", "500");
  await succeed("tenants", "set", "acme", "--daily-cap", "200", "--brand", "Acme");
  const told = await succeed("audit", "--tenant", "acme", "--action", "tenant.update");
  expect(told).toMatch(
    /^TIME +WHO +FROM +WHAT +OF +TENANT +CHANGE\n\S+Z +cli +- +tenant\.update +(\S+) +\1 +settings\.daily_cap: 500 → 200; settings\.brand: – → Acme\n$/,
  );
  const entries = JSON.parse(await succeed("audit", "--of", "acme", "--json")) as object[];
  expect(entries).toMatchObject([
    { actor: "cli", action: "tenant.update", before: { settings: { daily_cap: "500" } }, address: null },
    { actor: "cli", action: "tenant.create", before: null, after: { settings: { daily_cap: "500" } } },
  ]);
  const { output, errors } = await runHere(["audit", "--tenant", "acme", "--max", "1"]);
  expect([output.trim().split("\n").length, errors]).toEqual([2, expect.stringMatching(/^There are more before /)]);
  expect(await succeed("audit", "--actor", "user:nobody")).toBe("Nothing was done that matches.\n");
  expect(await succeed("audit", "--tenant", "acme", "--until", "2020-01-01")).toBe("Nothing was done that matches.\n");
  for (const odd of [
    ["--action", "x"],
    ["--max", "0"],
    ["--max", "1001"],
    ["--since", "soon"],
  ]) {
    expect((await runHere(["audit", ...odd])).code).toBe(2);
  }
  expect((await runHere(["audit", "--tenant", "nobody"])).errors).toContain("There is no tenant nobody");
});

test("what was done at one moment is found before the time that is told, though it is more than was shown", async () => {
  inDatabase(join(folder, "otp.db"), (db) => {
    const put = db.prepare("INSERT INTO audit VALUES (NULL, ?, 'cli', '', '', 'tenant.update', '', 'same', '', ?)");
    for (const after of ["1", "2", "3"]) put.run(5_000, JSON.stringify({ after }));
  });
  const { errors } = await runHere(["audit", "--of", "same", "--max", "2"]);
  const [until = ""] = /\S+Z/.exec(errors) ?? [];
  const entries = JSON.parse(await succeed("audit", "--of", "same", "--until", until, "--json")) as object[];
  expect(entries).toContainEqual(expect.objectContaining({ after: { after: "1" } }));
});
