/**
 * `otpd tenants`, and the flags by which other commands are told a tenant.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { runHere } from "../support/service/command-line.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { keyText } from "../support/service/environment.ts";
import { makeDatabase } from "../support/databases/empty-database.ts";
import { temporaryFolder } from "../support/service/world.ts";

let folder: string;
let texts: string;
beforeAll(async () => {
  folder = temporaryFolder();
  await makeDatabase(join(folder, "otp.db"));
  texts = join(folder, "texts.json");
  writeFileSync(
    texts,
    '{"texts":[{"locale":"nl","text":"{code} voor {brand}"},{"locale":"en","text":"{code} {brand}"}]}',
  );
  vi.stubEnv("OTP_DATABASE_URL", `file:${join(folder, "otp.db")}`);
  vi.stubEnv("OTP_MASTER_KEY", keyText);
  vi.stubEnv("OTP_CODE_LENGTH", "7");
});
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});
let name: string;
let names = 0;
beforeEach(() => (name = `tenant-${names++}`));

async function succeed(...args: string[]): Promise<string> {
  const { code, output, errors } = await runHere(args);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  return output;
}

const dayMs = 86_400_000;

/** Has so much counted of the tenant's day, and of the next should midnight come. */
function countToday(counts: Readonly<Record<string, number>>): void {
  const day = Math.floor(Date.now() / dayMs);
  inDatabase(join(folder, "otp.db"), (db) => {
    const put = db.prepare("INSERT INTO counters VALUES (?, ?, ?, ?, 0, 0)");
    for (const [kind, count] of Object.entries(counts)) {
      for (const each of [day, day + 1]) put.run(name, each, kind, count);
    }
  });
}

interface Shown {
  readonly state: string;
  readonly settings: Record<string, { value: unknown; from: string }>;
  readonly faults: string[];
}
const shown = async () => JSON.parse(await succeed("tenants", "show", name, "--json")) as Shown;

describe("tenants create and show", () => {
  test("make a tenant, and tell what holds for it and where each setting is from", async () => {
    expect(
      await succeed("tenants", "create", name, "--brand", "Acme", "--texts", texts, "--origin", "https://a.example"),
    ).toBe(`Made the tenant ${name}. Make a key for it: otpd keys create --tenant ${name}\n`);
    expect(await succeed("tenants", "show", name)).toBe(`${name}, active. What is set here wins over the environment.

SETTING          VALUE                 FROM
brand            Acme                  tenant
texts            2 of its own: nl, en  tenant
countries        all                   default
phone_limits     5@10m,6@4h            default
resend_gaps      30s,60s               default
code_length      7                     OTP_CODE_LENGTH
code_length_max  8                     default
ttl_seconds      600                   default
max_attempts     5                     default
daily_cap        none                  default
country_caps     none                  default
daily_spend_cap  none                  default
limits           none                  default
fraud_guard      observe               default
audience         ${name.padEnd(20)}  default
origins          https://a.example     tenant
`);
    expect((await shown()).settings).toMatchObject({
      texts: { value: { texts: [{ locale: "nl" }, { locale: "en" }] }, from: "tenant" },
      code_length: { value: "7", from: "OTP_CODE_LENGTH" },
      origins: { value: "https://a.example", from: "tenant" },
    });
  });

  test("show default too, which says that its settings win over the environment", async () => {
    await succeed("tenants", "set", "default", "--code-length", "8");
    expect(await succeed("tenants", "show", "default")).toMatch(
      /^default, active\. What is set here wins over the environment\.\n[^]*\ncode_length +8 +tenant\n/,
    );
    await succeed("tenants", "set", "default", "--unset", "code_length");
    expect(await succeed("tenants", "show", "default")).toMatch(/\ncode_length +7 +OTP_CODE_LENGTH\n/);
  });

  test("tell what is used of each cap today", async () => {
    vi.stubEnv("OTP_VOICE_DAILY_CAP", "50");
    try {
      await succeed(
        "tenants",
        "create",
        name,
        "--daily-cap",
        "1000",
        "--country-cap",
        "NG=50",
        "--country-cap",
        "KE=0",
      );
      countToday({ messages: 12, "country:NG": 7, "country:DE": 5 });
      inDatabase(join(folder, "otp.db"), (db) => {
        const yesterday = Math.floor(Date.now() / dayMs) - 1;
        db.prepare("INSERT INTO counters VALUES (?, ?, 'messages', 999, 0, 0)").run(name, yesterday);
      });
      expect(await succeed("tenants", "show", name)).toMatch(/\nOf its caps on \d{4}-\d\d-\d\d \(UTC\) so far:\n/);
      expect(await succeed("tenants", "show", name)).toContain(`

CAP             USED  OF
messages        12    1000
calls           0     50
messages to NG  7     50
messages to KE  0     0
`);
      const json = JSON.parse(await succeed("tenants", "show", name, "--json")) as { today: unknown };
      expect(json.today).toEqual({
        day: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
        caps: [
          { cap: "messages", used: 12, max: 1_000 },
          { cap: "calls", used: 0, max: 50 },
          { cap: "country", country: "NG", used: 7, max: 50 },
          { cap: "country", country: "KE", used: 0, max: 0 },
        ],
      });
    } finally {
      vi.stubEnv("OTP_VOICE_DAILY_CAP", undefined);
    }
  });

  test("tell what its messages may have cost today, in the currency of the prices", async () => {
    const prices = join(folder, "prices.json");
    writeFileSync(prices, JSON.stringify({ currency: "EUR", prices: [{ country: "*", per_segment: "0.0730" }] }));
    vi.stubEnv("OTP_PRICES_FILE", prices);
    try {
      await succeed("tenants", "create", name, "--daily-spend-cap", "250");
      countToday({ spend: 1_234_500 });
      expect(await succeed("tenants", "show", name)).toContain("\nmoney  1.2345 EUR  250.00 EUR\n");
    } finally {
      vi.stubEnv("OTP_PRICES_FILE", undefined);
    }
  });

  test("tell of what a server would do without", async () => {
    await succeed("tenants", "create", name);
    inDatabase(join(folder, "otp.db"), (db) =>
      db.prepare("UPDATE tenants SET settings = ? WHERE id = ?").run('{"code_length":"99"}', name),
    );
    expect(await shown()).toMatchObject({
      settings: { code_length: { value: "7", from: "OTP_CODE_LENGTH" } },
      faults: ["code_length must be at most 10"],
    });
    expect(await succeed("tenants", "show", name)).toContain(
      "\nFault: code_length must be at most 10; the operator's holds.\n",
    );
    const doctor = await runHere(["doctor"]);
    expect(doctor.code).toBe(1);
    expect(doctor.output).toContain(`BAD  Tenant ${name}: code_length must be at most 10; the operator's holds.\n`);
  });
});

describe("tenants set", () => {
  test("changes what it is given, leaves the rest, and takes back what is unset", async () => {
    await succeed("tenants", "create", name, "--brand", "Acme", "--max-attempts", "3", "--countries", "NL");
    expect(await succeed("tenants", "set", name, "--brand", "Bolt", "--unset", "countries, max-attempts")).toBe(
      `Changed ${name}. It counts from the next call on.\n`,
    );
    const { settings } = await shown();
    const own = Object.entries(settings).filter(([, { from }]) => from === "tenant");
    expect(own).toEqual([["brand", { value: "Bolt", from: "tenant" }]]);
  });

  test("names a file of texts that cannot be read as one, and where it is told what it has", async () => {
    const bad = join(folder, "bad.json");
    writeFileSync(bad, '{"text":[]}');
    await succeed("tenants", "create", name);
    const { code, errors } = await runHere(["tenants", "set", name, "--texts", bad]);
    expect(code).toBe(1);
    expect(errors).toContain(`\n  - ${bad}: `);
    expect(errors).toMatch(/ What such a file has: docs\/templates\.md\.\n$/);
  });

  test("measures the texts that are there with a brand that is new", async () => {
    const long = join(folder, "long.json");
    const text = `{code} {brand}${" {brand}".repeat(11)}`;
    writeFileSync(long, JSON.stringify({ texts: [{ locale: "en", text }] }));
    await runHere(["tenants", "create", name, "--texts", long]);
    const { code, errors } = await runHere(["tenants", "set", name, "--brand", "A".repeat(40)]);
    expect(code).toBe(1);
    expect(errors).toMatch(/^The tenant's settings have faults:\n {2}- --texts texts\[0\] \(en\) takes \d segments/);
    expect((await shown()).settings["brand"]).toMatchObject({ from: "default" });
    vi.stubEnv("OTP_TEMPLATES_FILE", long);
    const other = await runHere(["tenants", "create", `${name}-b`, "--brand", "A".repeat(40)]);
    vi.stubEnv("OTP_TEMPLATES_FILE", "");
    expect(other.errors).toMatch(/- --brand is too much for the operator's texts\[0\] \(en\) takes/);
  });

  test("says what a brand or a text costs, and does it", async () => {
    await succeed("tenants", "create", name);
    const { code, output, errors } = await runHere(["tenants", "set", name, "--brand", "Snow ☃"]);
    expect({ code, output }).toEqual({ code: 0, output: `Changed ${name}. It counts from the next call on.\n` });
    expect(errors).toMatch(/^Warning: brand has characters outside GSM-7 \(☃\): every SMS .*\.\n$/);
  });
});

describe("limits of a tenant's own", () => {
  const limits = async () => (await shown()).settings["limits"]?.value;

  test("are set and taken out by their names, and the others stay", async () => {
    await succeed("tenants", "create", name, "--limit", "user=5@1h,20@24h", "--limit", "ip=30@1h");
    expect(await limits()).toBe("user=5@1h,20@24h,ip=30@1h");
    await succeed("tenants", "set", name, "--limit", "session=2@1m", "--limit", "user=6@1h");
    expect(await limits()).toBe("user=6@1h,ip=30@1h,session=2@1m");
    await succeed("tenants", "set", name, "--limit", "ip=none");
    expect(await limits()).toBe("user=6@1h,session=2@1m");
    await succeed("tenants", "set", name, "--limit", "user=none,session=none");
    expect(await limits()).toBeNull();
    await succeed("tenants", "set", name, "--limit", "user=1@1h");
    await succeed("tenants", "set", name, "--unset", "limit");
    expect(await limits()).toBeNull();
  });

  test("and caps of countries are one by their name, however it is spelt, and are given once", async () => {
    await succeed("tenants", "create", name, "--country-cap", "ng=50", "--country-cap", "KE=0");
    await succeed("tenants", "set", name, "--country-cap", "Ng=5");
    expect((await shown()).settings["country_caps"]?.value).toBe("NG=5,KE=0");
    await succeed("tenants", "set", name, "--country-cap", "ng=none");
    expect((await shown()).settings["country_caps"]?.value).toBe("KE=0");
    const twice = async (...args: string[]) => (await runHere(["tenants", "set", name, ...args])).errors;
    expect(await twice("--country-cap", "NG=5", "--country-cap", "ng=6")).toContain("--country-cap gives NG twice");
    expect(await twice("--limit", "user=5@1h", "--limit", "user=20@24h")).toContain("--limit gives user twice");
    expect((await shown()).settings["country_caps"]?.value).toBe("KE=0");
  });

  test.each(["user", "User=5@1h", "user=5", "user=", "user=1@1m,1@2m,1@3m,1@4m,1@5m", "5@1h,user=5@1h"])(
    "are refused as %j, and nothing is kept",
    async (given) => {
      const made = await runHere(["tenants", "create", name, "--limit", given]);
      expect([made.code, made.errors]).toEqual([1, expect.stringContaining("--limit must be like user=5@1h,20@24h")]);
      expect((await runHere(["tenants", "show", name])).code).toBe(1);
    },
  );

  test("are 16 at most", async () => {
    const many = (count: number) => Array.from({ length: count }, (_, i) => ["--limit", `n${i}=1@1h`]).flat();
    expect((await runHere(["tenants", "create", name, ...many(17)])).code).toBe(1);
    expect((await runHere(["tenants", "create", name, ...many(16)])).code).toBe(0);
  });
});

describe("tenants list, disable and enable", () => {
  test("tell the state of each tenant, and keep since when", async () => {
    await succeed("tenants", "create", name, "--brand", "Acme");
    expect(await succeed("tenants", "disable", name)).toBe(
      `Disabled ${name}: its keys are refused from the next call on, and nothing of it is sent.\n`,
    );
    const listed = async () => {
      const all = JSON.parse(await succeed("tenants", "list", "--json")) as { name: string }[];
      expect(all.map((tenant) => tenant.name)).toEqual(all.map((tenant) => tenant.name).toSorted());
      return all.find((tenant) => tenant.name === name);
    };
    const first = await listed();
    expect(first).toEqual({
      name,
      state: "disabled",
      create_time: expect.stringMatching(/Z$/) as string,
      disable_time: expect.stringMatching(/Z$/) as string,
      own_settings: ["brand"],
    });
    await succeed("tenants", "disable", name);
    expect(await listed()).toEqual(first);
    await succeed("tenants", "set", name, "--brand", "Bolt");
    expect(await listed()).toEqual(first);
    expect(await succeed("tenants", "enable", name)).toBe(`Enabled ${name}: its keys work from the next call on.\n`);
    expect(await listed()).toMatchObject({ state: "active", disable_time: null });
    expect(await succeed("tenants", "list")).toMatch(/^NAME +STATE +MADE +OWN SETTINGS\ndefault +active +- +-\n/);
  });
});

describe("keys and phones of a tenant", () => {
  test("keys are made for it and listed by it", async () => {
    await succeed("tenants", "create", name);
    expect(await succeed("keys", "list", "--tenant", name)).toBe(
      `There are no API keys of ${name}. Make one: otpd keys create --tenant ${name} --name me\n`,
    );
    const made = JSON.parse(await succeed("keys", "create", "--tenant", name, "--json")) as {
      id: string;
      tenant: string;
    };
    expect(made.tenant).toBe(name);
    await succeed("keys", "create");
    expect(JSON.parse(await succeed("keys", "list", "--tenant", name, "--json"))).toEqual([
      expect.objectContaining({ id: made.id, tenant: name }),
    ]);
    expect(await succeed("keys", "list", "--tenant", name)).toMatch(new RegExp(`\n${made.id} +live +${name} +- `));
    expect(await succeed("keys", "create", "--tenant", name)).toContain(`, of ${name}, may send`);
  });

  test("phones are shown and reset by its rules", async () => {
    await succeed("tenants", "create", name, "--phone-limits", "2@1m", "--countries", "BE", "--code-length", "9");
    const args = ["+31612345678", "--tenant", name];
    const report = JSON.parse(await succeed("phones", "show", ...args, "--json")) as object;
    expect(report).toMatchObject({ country_allowed: false, code_length: 9, limits: [{ burst: 2 }, { burst: 2 }] });
    expect(await succeed("phones", "reset", ...args)).toContain(`${name} knows nothing of `);
    expect(JSON.parse(await succeed("phones", "show", "+31612345678", "--tenant", "default", "--json"))).toMatchObject({
      code_length: 7,
    });
  });

  test.each([
    [["keys", "create", "--tenant", "nobody"]],
    [["keys", "list", "--tenant", "nobody"]],
    [["phones", "show", "+31612345678", "--tenant", "nobody"]],
    [["phones", "reset", "+31612345678", "--tenant", "nobody"]],
    [["tenants", "show", "nobody"]],
    [["tenants", "set", "nobody", "--brand", "x"]],
    [["tenants", "disable", "nobody"]],
    [["tenants", "enable", "nobody"]],
  ])("%j of a tenant that there is none of is one plain sentence", async (args) => {
    expect(await runHere(args)).toEqual({
      code: 1,
      output: "",
      errors: "There is no tenant nobody: otpd tenants list shows those there are.\n",
    });
  });
});

describe("a command line that cannot be followed", () => {
  const badName =
    "A tenant's name has 1 to 40 lower-case letters, digits and hyphens, and does not begin with a hyphen.";
  test.each<[string[], number, string]>([
    [["create", "Acme"], 1, badName],
    [["create", "acme+test"], 1, badName],
    [["create", "a".repeat(41)], 1, badName],
    [["show", "../x"], 1, badName],
    [["create"], 2, "Give the name of one tenant."],
    [["create", "a", "b"], 2, "Give the name of one tenant."],
    [["create", "default"], 1, "There is already a tenant default."],
    [["create", "fresh", "--colour", "red"], 2, "Unknown option '--colour'\n\nUsage: "],
    [["create", "fresh", "--texts", "/nowhere"], 1, "--texts names a file that is not there."],
    [["create", "fresh", "--code-length", "5"], 1, "  - --code-length must be at least 6."],
    [["create", "fresh", "--origin", "https://a.example/b"], 1, "  - --origin must be a list such as"],
    [["set", "default"], 2, "Give a setting, or --unset."],
    [["set", "default", "--unset", "colour"], 2, "--unset must be a list of brand,texts,"],
    [["set", "default", "--brand", "x", "--unset", "brand"], 2, "--brand is both set and unset."],
  ])("%j", async (args, code, says) => {
    const result = await runHere(["tenants", ...args]);
    expect(result.errors).toContain(says);
    expect({ code: result.code, output: result.output }).toEqual({ code, output: "" });
    expect(await succeed("tenants", "list")).not.toContain("fresh");
  });

  test("tells all that is wrong at once, and keeps nothing", async () => {
    await succeed("tenants", "create", name);
    const { code, errors } = await runHere([
      "tenants",
      "set",
      name,
      "--brand",
      "1",
      "--ttl-seconds",
      "0",
      "--max-attempts",
      "3",
      "--audience",
      "a b",
    ]);
    expect(code).toBe(1);
    expect(errors.split("\n").slice(0, 4)).toEqual([
      "The tenant's settings have faults:",
      "  - --brand must be one line of visible text that does not begin with a digit.",
      "  - --ttl-seconds must be at least 180 seconds.",
      "  - --audience must be 1 to 255 visible ASCII characters.",
    ]);
    const { settings } = await shown();
    expect(Object.values(settings).filter(({ from }) => from === "tenant")).toEqual([]);
  });
});
