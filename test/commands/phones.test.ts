/**
 * `otpd phones`, as support runs it beside the service: what became of the messages to a phone, and a fresh start for it.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { keyText, olderKeyText } from "../support/service/environment.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { surfaces, type Message, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";
import { runIn } from "../support/service/command-line.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
let env: Record<string, string>;
beforeAll(async () => {
  const settings = { OTP_MASTER_KEY: keyText, OTP_PHONE_LIMITS: "5@10m,6@4h" };
  // The command has the machine's clock, so the service has it too: by the second it stands still.
  world = await startWorld(settings, createManualSystem(1, Date.now()));
  env = { ...settings, OTP_DATABASE_URL: `file:${world.databasePath}` };
});
afterAll(() => world.stop());

let phone: string;
beforeEach(() => (phone = newPhone()));

const call = (rpc: Rpc, message: Message): Promise<Outcome> => rest.call(world.url, rpc, message, { key: world.key });

async function send(more: Message = {}): Promise<{ request_id: string; code: string }> {
  const { value } = await call("SendOtp", { phone, ...more });
  return { request_id: String(value?.["request_id"]), code: world.network.codeFor(phone) };
}

async function failAll(request_id: string, code: string, times = 5): Promise<void> {
  for (let i = 1; i <= times; i++) await call("VerifyOtp", { request_id, code: wrongCode(code, i) });
}

interface Shown {
  readonly code_length: number;
  readonly wrong_codes: number;
  readonly open_attempts: number;
  readonly limits: { known_user: boolean; burst: number; available: number; retry_after_seconds: number }[];
  readonly requests: { request_id: string; state: string; messages: object[] }[];
}

async function shown(): Promise<Shown> {
  const { code, output, errors } = await runIn(
    world.folder,
    ["phones", "show", phone, "--tenant", "default", "--json"],
    env,
  );
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  expect(output.split("\n")).toHaveLength(2);
  expect(output).not.toContain(phone);
  expect(output).not.toContain(phone.slice(3));
  return JSON.parse(output) as Shown;
}

const masked = () => `+31••••••••${phone.slice(-2)}`.replace(/•+/, "•".repeat(phone.length - 5));

describe("phones show", () => {
  test("tells of a phone that nothing is known of", async () => {
    expect(await runIn(world.folder, ["phones", "show", phone], env)).toEqual({
      code: 0,
      output: `${masked()}, NL

The next code has 6 digits: 0 wrong codes in 90 days, 0 attempts open on live requests.
Sends: 5 of 5 left, one more every 600 s.
Sends: 6 of 6 left, one more every 14400 s.
Sends for a known user: 5 of 5 left, one more every 600 s.
Sends for a known user: 6 of 6 left, one more every 14400 s.

No request is known for this phone.
`,
      errors: "",
    });
  });

  test("tells, in text and in JSON, what became of each message, the latest request first, and never a code", async () => {
    world.network.script.push({ kind: "accepted", providerMessageId: "id-1", delivery: "DELIVERED" });
    const first = await send();
    await call("VerifyOtp", { request_id: first.request_id, code: wrongCode(first.code) });
    await call("VerifyOtp", { request_id: first.request_id, code: first.code });
    world.network.script.push({ kind: "refused", cause: "recipient", detail: "no such number" });
    world.system.advance(1);
    const refused = await call("SendOtp", { phone });
    expect(refused.reason).toBe("PHONE_UNREACHABLE");
    // A millisecond apart, so that "latest" means something.
    world.system.advance(1);
    const second = await send();

    const { output } = await runIn(world.folder, ["phones", "show", phone], env);
    expect(output).not.toContain(phone);
    expect(output).not.toContain(phone.slice(3));
    expect(output).not.toMatch(new RegExp(`\\b(${first.code}|${second.code})\\b`));
    const rows = output.slice(output.indexOf("REQUEST")).trimEnd().split("\n");
    expect(rows).toEqual([
      expect.stringMatching(
        /^REQUEST +TIME +STATE +WRONG +COPY +CHANNEL +DELIVERY +PROVIDER +MESSAGE +REFERENCE +DETAIL$/,
      ),
      expect.stringMatching(
        new RegExp(`^${second.request_id} +\\S+Z +PENDING +0 +1 +sms +ACCEPTED +test +\\S+ +[\\w-]{22}\\.0$`),
      ),
      expect.stringMatching(/^\S{22} +\S+Z +FAILED +0 +1 +sms +REJECTED +test +- +[\w-]{22}\.0 +no such number$/),
      expect.stringMatching(
        new RegExp(`^${first.request_id} +\\S+Z +VERIFIED +1 +1 +sms +DELIVERED +test +id-1 +[\\w-]{22}\\.0$`),
      ),
    ]);

    const json = await shown();
    expect(json.requests.map(({ request_id, state, messages }) => ({ request_id, state, messages }))).toEqual([
      { request_id: second.request_id, state: "PENDING", messages: [delivery("ACCEPTED")] },
      {
        request_id: expect.any(String),
        state: "FAILED",
        messages: [{ ...delivery("REJECTED"), provider_message_id: null, detail: "no such number" }],
      },
      {
        request_id: first.request_id,
        state: "VERIFIED",
        messages: [{ ...delivery("DELIVERED"), provider_message_id: "id-1" }],
      },
    ]);
    expect(json).toMatchObject({ phone: masked(), country: "NL", country_allowed: true, code_length: 6 });
  });

  test("without a tenant tells what each tenant knows, and with one what that one does", async () => {
    const elsewhere = newPhone();
    await runIn(world.folder, ["tenants", "create", "acme"], env);
    const { text: acmeKey } = await world.makeKey({ tenant: "acme" });
    const { value } = await rest.call(world.url, "SendOtp", { phone: elsewhere }, { key: acmeKey });
    const show = (...args: string[]) => runIn(world.folder, ["phones", "show", elsewhere, ...args], env);
    const { code, output } = await show();
    expect({ code, head: output.slice(0, 16) }).toEqual({ code: 0, head: "Tenant acme: +31" });
    expect(output).toContain(String(value?.["request_id"]));
    expect(output.match(/^The next code/gm)).toHaveLength(1);
    expect(JSON.parse((await show("--json")).output)).toMatchObject([
      { tenant: "acme", requests: [{ state: "PENDING" }] },
    ]);
    expect(JSON.parse((await show("--json", "--tenant", "default")).output)).toMatchObject({ requests: [] });
    await call("SendOtp", { phone: elsewhere });
    const both = JSON.parse((await show("--json")).output) as { tenant: string }[];
    expect(both.map(({ tenant }) => tenant).toSorted()).toEqual(["acme", "default"]);
  });

  test("tells of every copy of a resent message", async () => {
    const { request_id } = await send();
    world.system.advance(30_000);
    await call("ResendOtp", { request_id });
    const [request] = (await shown()).requests;
    expect(request?.messages).toEqual([delivery("ACCEPTED"), { ...delivery("ACCEPTED"), copy: 1 }]);
  });

  test("takes the number as people write it, and says when its country is not allowed", async () => {
    const written = `${phone.slice(0, 3)} ${phone.slice(3, 5)}-${phone.slice(5)}`;
    const narrow = { ...env, OTP_ALLOWED_COUNTRIES: "BE" };
    const { code, output } = await runIn(world.folder, ["phones", "show", written], narrow);
    expect(code).toBe(0);
    expect(output).toMatch(/^\+31•+\d\d, NL: this country is not allowed, so nothing is sent\n/);
  });

  function delivery(state: string) {
    const reference = expect.stringMatching(/^[\w-]{22}\.\d$/) as unknown;
    const none = { provider_message_id: null, detail: null };
    return { copy: 0, channel: "sms", delivery: state, calls: 1, provider: "test", reference, ...none };
  }
});

describe("phones reset", () => {
  test("fills the limits and forgets the wrong codes, which had lengthened the next; live requests stay", async () => {
    for (let i = 0; i < 4; i++) {
      const { request_id, code } = await send();
      await failAll(request_id, code);
    }
    const live = await send();
    expect(live.code).toHaveLength(8);
    const limited = await call("SendOtp", { phone });
    expect(limited.reason).toBe("PHONE_RATE_LIMITED");
    const before = await shown();
    expect(before).toMatchObject({ code_length: 8, wrong_codes: 20, open_attempts: 5 });
    expect(before.limits.map(({ available }) => available)).toEqual([0, 1, 5, 6]);
    expect(before.limits[0]?.retry_after_seconds).toBeGreaterThan(0);

    expect(await runIn(world.folder, ["phones", "reset", phone], env)).toEqual({
      code: 0,
      output: `${masked()} starts afresh with default: no message counts against its limits, and its wrong codes are forgotten.\n`,
      errors: "",
    });
    const after = await shown();
    expect(after).toMatchObject({ code_length: 6, wrong_codes: 0, open_attempts: 5 });
    expect(after.limits.map(({ available }) => available)).toEqual([5, 6, 5, 6]);
    expect(after.requests).toEqual(before.requests);

    // And the service that runs beside the command knows at once.
    const { value } = await call("SendOtp", { phone });
    expect(value).toMatchObject({ state: "STATE_PENDING", code_length: 6 });
    expect((await call("VerifyOtp", live)).value).toMatchObject({ state: "STATE_VERIFIED" });
  });

  test("tells that codes stay longer while attempts of many live requests are open", async () => {
    for (let i = 0; i < 5; i++) await send();
    const { output } = await runIn(world.folder, ["phones", "reset", phone], env);
    expect(output).toContain(
      "\nCodes are still longer with default, until those that are out are verified, canceled or expired.\n",
    );
    expect((await call("SendOtp", { phone })).value).toMatchObject({ code_length: 8 });
  });

  test("fills the limits of known users too, and no other phone's", async () => {
    const other = phone;
    for (let i = 0; i < 5; i++) await send();
    phone = newPhone();
    for (let i = 0; i < 5; i++) await send({ known_user: true });
    const { output } = await runIn(world.folder, ["phones", "reset", phone], env);
    expect(output).toMatch(/ starts afresh with default: /);
    expect((await shown()).limits.map(({ available }) => available)).toEqual([5, 6, 5, 6]);
    phone = other;
    expect((await shown()).limits.map(({ available }) => available)).toEqual([0, 1, 5, 6]);
  });
});

describe("phones reset without a tenant", () => {
  test("resets the phone in every tenant that knows it, and names them", async () => {
    const acts = (...args: string[]) => runIn(world.folder, args, env);
    await acts("tenants", "create", "acme");
    await acts("tenants", "create", "idle");
    const made = await acts("keys", "create", "--tenant", "acme");
    const key = /otp_live_\w+/.exec(made.output)?.[0] ?? "";
    expect((await rest.call(world.url, "SendOtp", { phone }, { key })).reason).toBeUndefined();
    await send();
    expect((await acts("phones", "reset", phone, "--tenant", "idle")).output).toBe(
      `idle knows nothing of ${masked()}: nothing was reset.\n`,
    );
    expect((await acts("phones", "reset", phone)).output).toMatch(/ starts afresh with default, acme: /);
    const { output } = await acts("phones", "show", phone, "--tenant", "acme", "--json");
    expect((JSON.parse(output) as Shown).limits.map(({ available }) => available)).toEqual([5, 6, 5, 6]);
  });

  test("says of a phone that it never saw that nothing was reset", async () => {
    const { output } = await runIn(world.folder, ["phones", "reset", phone], env);
    expect(output).toBe(`No tenant knows ${masked()}: nothing was reset.\n`);
  });
});

describe("a command line that cannot be followed", () => {
  test.each<[string, string[], number, RegExp]>([
    ["two phones", ["+31612345678", "+31612345679"], 2, /^Give one phone in international form\./],
    ["a number without its country", ["0612345678"], 1, /^phone is not a valid .*\n$/],
  ])("%s", async (_, args, code, says) => {
    const result = await runIn(world.folder, ["phones", "show", ...args], env);
    expect(result).toEqual({ code, output: "", errors: expect.stringMatching(says) as string });
  });
});

describe("with a master key that is not the database's", () => {
  const strange = { OTP_MASTER_KEY: olderKeyText };
  const refusal = "OTP_MASTER_KEY: this database was written with another master key. Nothing was done.\n";

  test.each(["show", "reset", "erase"])("phones %s tells that, and not that nothing is known", async (act) => {
    await send();
    const result = await runIn(world.folder, ["phones", act, phone], { ...env, ...strange });
    expect(result).toEqual({ code: 1, output: "", errors: refusal });
    expect((await shown()).requests).toHaveLength(1);
  });

  test.each([
    ["an endpoint is made", ["webhooks", "add", "http://127.0.0.1:9/otp"]],
    ["a provider is tried", ["providers", "try", "console", "+31612345678"]],
  ])("no secret is kept and nothing sent: %s", async (_, argv) => {
    expect(await runIn(world.folder, argv, { ...env, ...strange })).toEqual({ code: 1, output: "", errors: refusal });
  });

  test("an entry of the lists is written without the number's name of another database", async () => {
    const argv = ["destinations", "block", phone];
    expect((await runIn(world.folder, argv, { ...env, ...strange })).code).toBe(0);
    const { output } = await runIn(world.folder, ["audit", "--action", "destination.block", "--json"], env);
    const [{ subject } = { subject: "" }] = JSON.parse(output) as { subject: string }[];
    expect(subject).toBe(masked());
    await runIn(world.folder, ["destinations", "remove", phone], env);
  });
});

describe("phones erase", () => {
  test("takes the requests of a phone away beside the server, and says what stays, without the number", async () => {
    const { request_id } = await send();
    await runIn(world.folder, ["destinations", "allow", phone], env);
    const { code, output } = await runIn(world.folder, ["phones", "erase", phone], env);
    expect({ code, output }).toEqual({
      code: 0,
      output: `Erased of ${masked()}: requests 1 (pending, so canceled: 1), events 0. Its wrong codes count on until they are 90 days old.
The allow list of default names this number: otpd destinations remove takes it off.
`,
    });
    expect((await call("GetOtp", { request_id })).reason).toBe("REQUEST_NOT_FOUND");
    expect((await call("VerifyOtp", { request_id, code: "123456" })).reason).toBe("REQUEST_NOT_FOUND");
    expect((await shown()).requests).toEqual([]);
    await runIn(world.folder, ["destinations", "remove", phone], env);
    const again = await runIn(world.folder, ["phones", "erase", phone, "--json", "--tenant", "default"], env);
    expect(JSON.parse(again.output)).toEqual({ verifications: 0, canceled: 0, events: 0, entries: [] });
  });

  test("leaves the sums what its messages took", async () => {
    const segments = async () => {
      const { output } = await runIn(world.folder, ["stats", "--by", "all", "--json"], env);
      const [all] = JSON.parse(output) as { messages: number; segments: number }[];
      return { messages: all?.messages, segments: all?.segments };
    };
    const none = await segments();
    await send();
    const before = await segments();
    expect(before).not.toEqual(none);
    expect((await runIn(world.folder, ["phones", "erase", phone], env)).code).toBe(0);
    expect(await segments()).toEqual(before);
  });
});
