/**
 * Providers by the operators' service: how each fares, and one fixed text by one of them.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Provider } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { tryText } from "../../../src/service/operators/provider-tries.ts";
import { adminClient, type AdminClient } from "../../support/clients/admin.ts";
import { connectByFetch } from "../../support/clients/surfaces.ts";
import { select } from "../../support/databases/rows.ts";
import { createManualSystem } from "../../support/service/system.ts";
import { createPhoneNetwork, startWorld, type World } from "../../support/service/world.ts";

const phone = "+31612345678";
const masked = "+31•••••••78";
/** Fails for the provider's sake, and is not tried again. */
const broke = { kind: "refused", cause: "balance", detail: "no credit" } as const;

let world: World;
let voice: ReturnType<typeof createPhoneNetwork>;
let operator: AdminClient;
beforeEach(async () => {
  voice = createPhoneNetwork("caller");
  world = await startWorld(
    { OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0", OTP_ALLOWED_COUNTRIES: "NL,BE", OTP_DAILY_MESSAGE_CAP: "100" },
    createManualSystem(),
    { voice: [voice] },
  );
  operator = adminClient(world.adminUrl, (await world.makeAdminKey()).text);
});
afterEach(() => world.stop());

const send = (to: string) => connectByFetch.call(world.url, "SendOtp", { phone: to }, { key: world.key });
const numbered = (i: number) => `+3161234${String(5_000 + i)}`;

async function providerNamed(name: string): Promise<Provider | undefined> {
  const { providers } = await operator.getProviders({});
  return providers.find((each) => each.name === name);
}

async function errorOf(call: Promise<unknown>): Promise<ConnectError> {
  return call.then(
    () => new ConnectError("was not refused", Code.Unknown),
    (failure: unknown) => ConnectError.from(failure),
  );
}

describe("GetProviders", () => {
  test("tells of each provider of each channel, in the order they are tried", async () => {
    const { providers } = await operator.getProviders({});
    expect(providers.map(({ name, channel, order }) => ({ name, channel, order }))).toEqual([
      { name: "test", channel: "sms", order: 1 },
      { name: "caller", channel: "voice", order: 1 },
    ]);
    expect(providers[0]).toMatchObject({ breakerOpen: false, calls: 0n, failures: 0n, share: 0, messages: 0n });
    expect(providers[0]?.latencyP50).toBeUndefined();
  });

  test("counts calls, failures and messages, and tells of a breaker that is open", async () => {
    for (let i = 0; i < 3; i++) expect((await send(numbered(i))).reason).toBeUndefined();
    expect(await providerNamed("test")).toMatchObject({ calls: 3n, failures: 0n, messages: 3n, share: 1 });
    for (let i = 3; i < 8; i++) {
      world.network.script.push(broke);
      await send(numbered(i));
    }
    const broken = await providerNamed("test");
    expect(broken).toMatchObject({ breakerOpen: true, failures: 5n });
    expect(broken?.latencyP99).toBeDefined();
    // It was to go by this one alone, and is called for again later.
    void send(numbered(9));
    await expect.poll(async () => (await providerNamed("test"))?.passedOver).toBe(1n);
    expect((await providerNamed("test"))?.calls).toBe(8n);
  });

  test("does not count what test keys send", async () => {
    const { text: key } = await world.makeKey({ kind: "test" });
    await connectByFetch.call(world.url, "SendOtp", { phone }, { key });
    expect(await providerNamed("test")).toMatchObject({ calls: 0n, messages: 0n });
  });
});

describe("TryProvider", () => {
  test("sends the fixed text once, and tells what became of it", async () => {
    world.network.script.push({ kind: "accepted", providerMessageId: "m-1" });
    const tried = await operator.tryProvider({ name: "test", phone });
    expect(tried).toMatchObject({ outcome: "accepted", detail: "", providerMessageId: "m-1", triesRemaining: 4 });
    expect(world.network.received.map(({ to, text, channel }) => ({ to, text, channel }))).toEqual([
      { to: phone, text: tryText, channel: "sms" },
    ]);
    const called = await operator.tryProvider({ name: "caller", phone, channel: "voice" });
    expect(called).toMatchObject({ outcome: "accepted", triesRemaining: 3 });
    expect(voice.received).toHaveLength(1);
  });

  test("tells a refusal in the log's words, and never the number", async () => {
    const detail = "no such subscriber: +31612345678, 0031 6 1234 5678, 0612345678; ticket 20261122000000";
    world.network.script.push({ kind: "refused", cause: "recipient", detail });
    const tried = await operator.tryProvider({ name: "test", phone });
    expect(tried.outcome).toBe("recipient");
    expect(tried.detail).toBe(`no such subscriber: ${masked}, ${masked}, ${masked}; ticket 20261122000000`);
    world.network.script.push(() => Promise.reject(new Error(`cannot send to ${phone}`)));
    expect(await operator.tryProvider({ name: "test", phone })).toMatchObject({ outcome: "ambiguous" });
    expect(JSON.stringify(world.observed)).not.toContain("12345678");
    expect(world.observed).toContainEqual({
      event: "lifecycle",
      with: ["provider tried", { provider: "test", outcome: "refused", phone: masked }],
    });
  });

  test("asks a provider whose breaker is open, and leaves the breaker as it is", async () => {
    for (let i = 0; i < 5; i++) {
      world.network.script.push(broke);
      await send(numbered(i));
    }
    expect(await providerNamed("test")).toMatchObject({ breakerOpen: true });
    expect(await operator.tryProvider({ name: "test", phone })).toMatchObject({ outcome: "accepted" });
    expect(await providerNamed("test")).toMatchObject({ breakerOpen: true });
  });

  test("is in the audit before it is sent, whatever comes of it, with the number by its index", async () => {
    let entries: unknown[] = [];
    world.network.script.push(async () => {
      entries = await select(world.database, "SELECT action, tenant, subject FROM audit WHERE action = 'provider.try'");
      return broke;
    });
    await operator.tryProvider({ name: "test", phone });
    expect(entries).toMatchObject([{ action: "provider.try", tenant: "default", subject: "test" }]);
    const { entries: told } = await operator.listAudit({ action: "provider.try" });
    expect(JSON.parse(told[0]?.after ?? "")).toEqual({
      channel: "sms",
      country: "NL",
      phone: expect.stringMatching(/^[\w-]{22}$/) as unknown,
    });
    expect(JSON.stringify(await select(world.database, "SELECT * FROM audit"))).not.toContain("12345678");
  });

  test("is made five times a day by one key and ten times by all, and refused before anything is sent", async () => {
    const other = adminClient(world.adminUrl, (await world.makeAdminKey()).text);
    for (const client of [operator, other]) {
      for (let left = 4; left >= 0; left--) {
        expect((await client.tryProvider({ name: "test", phone })).triesRemaining).toBe(left);
      }
      const refused = await errorOf(client.tryProvider({ name: "test", phone }));
      expect(refused.code).toBe(Code.ResourceExhausted);
      expect(Number(refused.metadata.get("retry-after"))).toBeGreaterThan(60);
    }
    const third = adminClient(world.adminUrl, (await world.makeAdminKey()).text);
    expect((await errorOf(third.tryProvider({ name: "test", phone }))).code).toBe(Code.ResourceExhausted);
    expect(world.network.received).toHaveLength(10);
    expect(await select(world.database, "SELECT id FROM audit WHERE action = 'provider.try'")).toHaveLength(10);
  });

  test.each([
    ["phone", { name: "test", phone: "0612" }, Code.InvalidArgument],
    ["phone", { name: "test", phone: "+31201234567" }, Code.InvalidArgument],
    ["phone", { name: "test", phone: "+4915123456789" }, Code.PermissionDenied],
    ["channel", { name: "test", phone, channel: "voice" }, Code.InvalidArgument],
    ["channel", { name: "test", phone, channel: "pigeon" }, Code.InvalidArgument],
    [undefined, { name: "nobody", phone }, Code.NotFound],
  ])("names the field %s of %j, and sends and counts nothing", async (field, asked, code) => {
    const response = await fetch(`${world.adminUrl}/otp.admin.v1.AdminService/TryProvider`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: `Bearer ${(await world.makeAdminKey()).text}`,
      },
      body: JSON.stringify(asked),
    });
    const text = await response.text();
    const { details } = JSON.parse(text) as { details: { debug: { field?: string; fieldViolations?: unknown } }[] };
    const fields = details.map(({ debug }) => JSON.stringify(debug));
    expect(fields.some((each) => each.includes(`"${field ?? "NOT_FOUND"}"`))).toBe(true);
    expect((await errorOf(operator.tryProvider(asked))).code).toBe(code);
    expect(text).not.toContain(asked.phone);
    expect(world.network.received).toEqual([]);
    expect(await select(world.database, "SELECT id FROM audit WHERE action = 'provider.try'")).toEqual([]);
  });
});
