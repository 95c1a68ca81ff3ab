/**
 * `otpd destinations`, as an operator runs it beside the service: what is blocked or allowed counts at the next call.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { keyText } from "../support/service/environment.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces } from "../support/clients/surfaces.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";
import { runIn } from "../support/service/command-line.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
let env: Record<string, string>;
beforeAll(async () => {
  const settings = { OTP_MASTER_KEY: keyText, OTP_ALLOWED_COUNTRIES: "NL" };
  world = await startWorld(settings, createManualSystem(1, Date.now()));
  env = { ...settings, OTP_DATABASE_URL: `file:${world.databasePath}` };
});
afterAll(() => world.stop());

const run = (...args: string[]) => runIn(world.folder, args, env);
const destinations = (...args: string[]) => run("destinations", ...args);
const done = (output: string) => ({ code: 0, output, errors: "" });

async function send(phone: string): Promise<string> {
  const { value, reason } = await rest.call(world.url, "SendOtp", { phone }, { key: world.key });
  return value === undefined ? String(reason) : "sent";
}

afterEach(async () => {
  const store = await openSqlite({ path: world.databasePath, system: world.system, exclusive: false });
  for (const { prefix } of await store.registry.listDestinations("default"))
    await store.registry.removeDestination("default", prefix);
  await store.close();
});

describe("an entry", () => {
  test("counts at once in the service that runs beside the command, until it is removed", async () => {
    const phone = newPhone();
    expect(await send(phone)).toBe("sent");
    expect(await destinations("block", "+3161", "--note", "a range that pumps")).toEqual(done("Blocked +3161.\n"));
    expect(await send(phone)).toBe("DESTINATION_BLOCKED");
    expect(await destinations("allow", phone)).toEqual(done(`Allowed ${phone}.\n`));
    expect([await send(phone), await send(newPhone())]).toEqual(["sent", "DESTINATION_BLOCKED"]);
    expect(await destinations("remove", "+3161")).toEqual(done("Removed +3161.\n"));
    expect(await send(newPhone())).toBe("sent");
  });

  test("that allows overrides the country list and what the number plans say", async () => {
    expect([await send("+32470123456"), await send("+3161234567")]).toEqual(["COUNTRY_NOT_ALLOWED", "PHONE_INVALID"]);
    for (const prefix of ["+3247", "+3161234567"]) await destinations("allow", prefix);
    expect([await send("+32470123456"), await send("+31 6 1234 567")]).toEqual(["sent", "sent"]);
  });
});

describe("the list", () => {
  test("is a table of the entries as they were written, and says when there are none", async () => {
    expect(await destinations("list")).toEqual(done("No destination is blocked or allowed.\n"));
    await destinations("block", "+88", "--note", "satellites");
    await destinations("allow", "+31612345678");
    const { output } = await destinations("list");
    expect(output.trimEnd().split("\n")).toEqual([
      expect.stringMatching(/^PREFIX +VERDICT +NOTE +SINCE$/),
      expect.stringMatching(/^\+31612345678 +allow +- +\d{4}-\d\d-\d\dT\S+Z$/),
      expect.stringMatching(/^\+88 +block +satellites +\d{4}-\d\d-\d\dT\S+Z$/),
    ]);
    expect(JSON.parse((await destinations("list", "--json")).output)).toEqual([
      { prefix: "+31612345678", verdict: "allow", note: "", create_time: expect.any(String) as string },
      { prefix: "+88", verdict: "block", note: "satellites", create_time: expect.any(String) as string },
    ]);
  });
});

describe("phones show tells of the entry that speaks for a phone", () => {
  const shown = async (phone: string) => (await run("phones", "show", phone)).output.split("\n").slice(0, 2);

  test("blocked, allowed, and what speaks against a number that is neither", async () => {
    const phone = newPhone();
    await destinations("block", "+3161", "--note", "a range that pumps");
    expect(await shown(phone)).toContain("Blocked by the entry +3161 (a range that pumps): nothing is sent.");
    await destinations("allow", phone);
    const [, line = ""] = await shown(phone);
    expect(line).toMatch(/^Allowed by the entry \+31•+\d\d\.$/);
    const { output } = await run("phones", "show", phone, "--json");
    expect(JSON.parse(output)).toMatchObject([{ refusal: null, destination: { verdict: "allow", note: "" } }]);
    expect(output).not.toContain(phone);
    expect(await shown("+31201234567")).toContain("Nothing is sent: phone is not a mobile number, so it gets no SMS.");
  });
});

describe("a command line that cannot be followed", () => {
  test.each<[string, string[], number, RegExp]>([
    ["two prefixes", ["allow", "+31", "+32"], 2, /^Give one prefix or number/],
    ["spaces", ["block", "+31 612"], 2, /^A prefix is a \+ and 1 to 15 digits/],
    ["a trunk zero", ["block", "+310612345678"], 2, /^This number is written \+31612345678;/],
    ["a note of two lines", ["allow", "+31", "--note", "a\nb"], 2, /^--note must be one line/],
    [
      "a tenant that there is not",
      ["block", "+31", "--tenant", "nobody"],
      1,
      /^There is no tenant nobody: otpd tenants list shows those there are\.\n$/,
    ],
    ["the list of a tenant that there is not", ["list", "--tenant", "nobody"], 1, /^There is no tenant nobody: /],
    ["an entry that there is not", ["remove", "+999"], 1, /^There is no entry \+999\.\n$/],
  ])("%s", async (_, args, code, says) => {
    expect(await destinations(...args)).toEqual({ code, output: "", errors: expect.stringMatching(says) as string });
  });
});
