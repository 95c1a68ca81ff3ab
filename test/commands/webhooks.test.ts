/**
 * `otpd webhooks`, as an operator runs it beside the service, and what the tenant's own system then gets.
 */
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { runHere } from "../support/service/command-line.ts";
import { keyText, production } from "../support/service/environment.ts";
import { parseEvent } from "../support/readers/events.ts";
import { startFarEnd, type Asked, type FarEnd } from "../support/fakes/far-end.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces } from "../support/clients/surfaces.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
let farEnd: FarEnd;
/** What came, and who waits for more. */
let waiting: (() => void)[] = [];
beforeAll(async () => {
  // The command has the machine's clock, so the service has it too: by the second it stands still.
  world = await startWorld({ OTP_MASTER_KEY: keyText }, createManualSystem(1, Date.now()));
  vi.stubEnv("OTP_MASTER_KEY", keyText);
  vi.stubEnv("OTP_DATABASE_URL", `file:${world.databasePath}`);
  farEnd = await startFarEnd((response) => {
    response.writeHead(204).end();
    for (const hear of waiting.splice(0)) hear();
  });
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await farEnd.stop();
  await world.stop();
});

const otpd = (...args: string[]) => runHere(["webhooks", ...args]);
async function done(...args: string[]): Promise<string> {
  const { code, output, errors } = await otpd(...args);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  return output;
}

/** The next `count` POSTs. */
async function came(count: number): Promise<Asked[]> {
  while (farEnd.asked.length < count) await new Promise<void>((hear) => waiting.push(hear));
  return farEnd.asked.splice(0);
}

async function verifyAPhone(): Promise<string> {
  const phone = newPhone();
  const sent = await rest.call(world.url, "SendOtp", { phone }, { key: world.key });
  const request_id = String(sent.value?.["request_id"]);
  const code = world.network.codeFor(phone);
  await rest.call(world.url, "VerifyOtp", { request_id, code }, { key: world.key });
  return request_id;
}

const typeOf = ({ body }: Asked) => parseEvent(body).type;

test("an endpoint is added, tried, told of what happens, rotated, turned off and on, and removed", async () => {
  const url = `${farEnd.url}/otp`;
  const made = await done("add", url, "--events", "verification.verified,verification.created");
  const [, secret = "", id = ""] =
    /^The secret, shown this once:\n\n {2}(whsec_\S{44})\n\nid (we_[\w-]{16}), of default, verification.created, verification.verified\n$/.exec(
      made,
    ) ?? [];
  expect(secret).not.toBe("");

  expect(await done("test", id)).toBe(`${url} took the test event: HTTP 204.\n`);
  const [tried] = await came(1);
  if (tried === undefined) throw new Error("nothing came");
  expect(new Webhook(secret).verify(tried.body, tried.headers as Record<string, string>)).toMatchObject({
    type: "webhook.test",
    data: { tenant: "default" },
  });

  const requestId = await verifyAPhone();
  const posted = await came(2);
  expect(posted.map(typeOf).toSorted()).toEqual(["verification.created", "verification.verified"]);
  for (const one of posted) {
    expect(new Webhook(secret).verify(one.body, one.headers as Record<string, string>)).toMatchObject({
      data: { request_id: requestId },
    });
  }

  const rotated = await done("rotate-secret", id, "--keep", "1h", "--json");
  const { secret: fresh } = JSON.parse(rotated) as { secret: string };
  const listed = JSON.parse(await done("list", "--json")) as object[];
  const entry = { id, tenant: "default", url, events: ["verification.created", "verification.verified"] };
  expect(listed).toMatchObject([{ ...entry, show_phones: false, state: "enabled", secrets: 2 }]);
  expect(await done("expire-secret", id)).toBe(`${id} signs with its newest secret alone.\n`);
  await verifyAPhone();
  const [after] = await came(2);
  if (after === undefined) throw new Error("nothing came");
  expect(() => new Webhook(secret).verify(after.body, after.headers as Record<string, string>)).toThrow(
    "No matching signature",
  );
  expect(new Webhook(fresh).verify(after.body, after.headers as Record<string, string>)).toBeTruthy();

  expect(await done("disable", id)).toBe(`${id} is disabled.\n`);
  await verifyAPhone();
  expect(await done("enable", id)).toBe(`${id} is enabled.\n`);
  const last = await verifyAPhone();
  const heard = (await came(2)).map(({ body }) => parseEvent(body).data["request_id"]);
  expect(new Set(heard)).toEqual(new Set([last]));
  expect(await done("remove", id)).toBe(`${id} is removed.\n`);
  expect(await done("list")).toBe("There are no endpoints. Make one: otpd webhooks add https://shop.example/otp\n");
});

test.each([
  [["add", "http://shop.example/"], 1, "URL must begin with https:// and have no user in it"],
  [["add", "https://shop.example/", "--tenant", "nobody"], 1, "There is no tenant nobody"],
  [["add", "https://shop.example/", "--events", "verification.sent"], 2, "--events must be a list of verification."],
  [["add"], 2, "Give one URL."],
  [["rotate-secret", "we_1", "--keep", "31d"], 2, "--keep must be a time such as 24h, 0s to 30d."],
  [["rotate-secret", "we_1"], 1, "There is no endpoint with the id we_1."],
  [["disable", "we_1"], 1, "There is no endpoint with the id we_1."],
  [["test", "we_1"], 1, "There is no endpoint with the id we_1."],
  [["remove"], 2, "Give the id of one endpoint"],
] as const)("otpd webhooks %j is refused", async (args, code, says) => {
  const run = await otpd(...args);
  expect({ code: run.code, output: run.output }).toEqual({ code, output: "" });
  expect(run.errors).toContain(says);
});

const notPublic = /^\S+ would take no event: its address is not public\. OTP_EVENT_NETWORKS /;
test.each([
  ["https://127.0.0.1:9000/", 1, notPublic],
  ["https://localhost/", 1, notPublic],
  ["https://events.localhost./", 1, notPublic],
  ["https://[::1]/", 1, notPublic],
  ["https://169.254.169.254/", 1, notPublic],
  ["https://10.8.0.7/", 0, /^$/],
  ["https://192.0.78.24/", 0, /^$/],
])("in production otpd webhooks add %s ends with %i", async (url, expected, says) => {
  for (const [name, value] of Object.entries(production)) vi.stubEnv(name, value);
  vi.stubEnv("OTP_MASTER_KEY", keyText);
  vi.stubEnv("OTP_DATABASE_URL", `file:${world.databasePath}`);
  vi.stubEnv("OTP_EVENT_NETWORKS", "10.8.0.0/16");
  const { code, output, errors } = await otpd("add", url, "--json");
  const made = code === 0 ? (JSON.parse(output) as { id: string }) : undefined;
  if (made !== undefined) await done("remove", made.id);
  for (const setting of [...Object.keys(production), "OTP_EVENT_NETWORKS"]) vi.stubEnv(setting, undefined);
  vi.stubEnv("OTP_MASTER_KEY", keyText);
  vi.stubEnv("OTP_DATABASE_URL", `file:${world.databasePath}`);
  expect(code).toBe(expected);
  expect(errors).toMatch(says);
});

test("a test event that is not taken is told of, and in production nothing private is connected to", async () => {
  const { id } = JSON.parse(await done("add", `${farEnd.url}/`, "--json")) as { id: string };
  const refusedFor = async (why: string) => {
    const { code, output, errors } = await otpd("test", id);
    const expected = `${farEnd.url}/ did not take the test event: ${why}.\n`;
    expect({ code, output, errors }).toEqual({ code: 1, output: "", errors: expected });
  };
  farEnd.reply = { status: 503 };
  await refusedFor("HTTP 503");
  farEnd.asked.splice(0);
  for (const [name, value] of Object.entries(production)) vi.stubEnv(name, value);
  vi.stubEnv("OTP_MASTER_KEY", keyText);
  await refusedFor("its address is not public");
  expect(farEnd.asked).toEqual([]);
});
