/**
 * `otpd keys create --publishable`: which keys it makes, and which it does not.
 */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runHere } from "../support/service/command-line.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { makeDatabase } from "../support/databases/empty-database.ts";
import { temporaryFolder } from "../support/service/world.ts";

let folder: string;
let before: string;
beforeAll(async () => {
  folder = temporaryFolder();
  before = process.cwd();
  process.chdir(folder);
  await makeDatabase("data/otp.db");
});
afterAll(() => {
  process.chdir(before);
  rmSync(folder, { recursive: true });
});

test("what was stored before it was refused is printed as JSON escapes it", async () => {
  const { id } = JSON.parse((await create("--json", "--name", "shop")).output) as { id: string };
  const odd = "shop\u202E\u2066teb\u009B2J\n";
  inDatabase("data/otp.db", (db) => db.prepare("UPDATE api_keys SET name = ? WHERE id = ?").run(odd, id));
  const { output } = await runHere(["keys", "list"]);
  expect(output).toMatch(
    new RegExp(`^${id} +live +default +shop\\\\u202e\\\\u2066teb\\\\u009b2J\\\\u000a +active`, "m"),
  );
  expect((await runHere(["keys", "list", "--json"])).output).not.toMatch(/[\u202E\u2066\u009B]/);
  expect(await listKeys()).toContainEqual(expect.objectContaining({ id, name: odd }));
});

const create = (...args: string[]) => runHere(["keys", "create", ...args]);
const listKeys = async () =>
  JSON.parse((await runHere(["keys", "list", "--json"])).output) as Record<string, unknown>[];

test("create --publishable makes a key that lists its origins once, as browsers write them", async () => {
  const origins = ["HTTPS://Shop.Example:443", "https://shop.example", "http://localhost:5173"];
  const flags = ["--publishable", ...origins.flatMap((origin) => ["--origin", origin])];
  const { id, key, ...made } = JSON.parse((await create("--json", ...flags)).output) as {
    id: string;
    key: string;
  };
  expect(key).toBe(`otp_pub_${id}_${key.slice(-38)}`);
  const rights = { kind: "pub", scopes: ["verify", "resend", "read", "cancel"], app: false };
  const listed = { ...rights, origins: ["https://shop.example", "http://localhost:5173"], channels: ["sms"] };
  expect(made).toEqual({ ...listed, tenant: "default", name: "", expire_time: null });
  expect(await listKeys()).toContainEqual(expect.objectContaining({ id, ...listed }));
  const line = new RegExp(`^${id} +pub .* https://shop\\.example,http://localhost:5173$`, "m");
  expect((await runHere(["keys", "list"])).output).toMatch(line);
});

test("create --publishable --test --app --allow-send makes a key of the sandbox for apps, which may send", async () => {
  const { output } = await create("--publishable", "--test", "--app", "--allow-send");
  expect(output).toMatch(
    /^The publishable API key, shown this once:\n\n {2}otp_pubtest_(\w{10})_\w{38}\n\nid \1, may send, verify, resend, read, cancel, for apps, by sms, does not expire\n$/,
  );
  expect(await listKeys()).toContainEqual(expect.objectContaining({ kind: "pubtest", origins: [], app: true }));
});

test("create --publishable --channel names the channels of a key; a secret key has none of its own", async () => {
  const { output } = await create("--json", "--publishable", "--app", "--channel", "Voice, sms");
  const { id, channels } = JSON.parse(output) as { id: string; channels: string[] };
  expect(channels).toEqual(["sms", "voice"]);
  expect(await listKeys()).toContainEqual(expect.objectContaining({ id, channels }));
  expect(JSON.parse((await create("--json")).output)).toMatchObject({ channels: null });
  const apart = await create("--json", "--publishable", "--app", "--channel", "sms", "--channel", "WhatsApp");
  expect(JSON.parse(apart.output)).toMatchObject({ channels: ["sms", "whatsapp"] });
});

test.each<{ args: string[]; says: string }>([
  { args: ["--origin", "https://shop.example"], says: "are for keys made with --publishable" },
  { args: ["--channel", "voice"], says: "are for keys made with --publishable" },
  {
    args: ["--publishable", "--app", "--channel", "sms,pigeon"],
    says: "--channel must be a list of sms,voice,whatsapp",
  },
  { args: ["--publishable", "--app", "--channel", ""], says: "--channel must be a list of sms,voice,whatsapp" },
  { args: ["--admin", "--channel", "voice"], says: "--admin makes a key for operators" },
  { args: ["--scopes", "send", "--scopes", "verify"], says: "--scopes is given twice." },
  { args: ["--app"], says: "are for keys made with --publishable" },
  { args: ["--allow-send"], says: "are for keys made with --publishable" },
  { args: ["--publishable"], says: "--publishable needs an --origin" },
  { args: ["--publishable", "--app", "--scopes", "read"], says: "--scopes is for secret keys" },
  { args: ["--publishable", "--origin", "*"], says: "--origin must be a site such as" },
  {
    args: ["--publishable", "--app", "--origin", "null"],
    says: "--origin null: null is the origin of every page in a sandboxed frame",
  },
  {
    args: ["--publishable", ...Array.from({ length: 21 }, (_, i) => `--origin=https://s${i}.example`)],
    says: "--origin may name 20 sites at most",
  },
])("keys create $args is not understood, and makes nothing", async ({ args, says }) => {
  const made = (await listKeys()).length;
  const { code, output, errors } = await create(...args);
  expect({ code, output }).toEqual({ code: 2, output: "" });
  expect(errors).toContain(says);
  expect(errors).toContain("Usage: otpd keys create");
  expect(await listKeys()).toHaveLength(made);
});
