/**
 * Tenants by the operators' service: their settings with where each comes from, and every write in the audit.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { TenantView, type Tenant } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { settingNames } from "../../../src/config/tenant-settings.ts";
import { adminClient, type AdminClient } from "../../support/clients/admin.ts";
import { connectByFetch } from "../../support/clients/surfaces.ts";
import { select } from "../../support/databases/rows.ts";
import { startWorld, temporaryFolder, type World } from "../../support/service/world.ts";

const texts = (text: string) => JSON.stringify({ texts: [{ locale: "en", text }] });

let world: World;
let operator: AdminClient;
let keyId: string;
beforeAll(async () => {
  const file = join(temporaryFolder(), "texts.json");
  writeFileSync(file, texts("{code} is the code of {brand}"));
  world = await startWorld({
    OTP_ADMIN: "loopback",
    OTP_ADMIN_PORT: "0",
    OTP_CODE_LENGTH: "7",
    OTP_DAILY_MESSAGE_CAP: "500",
    OTP_TEMPLATES_FILE: file,
  });
  const key = await world.makeAdminKey();
  keyId = key.id;
  operator = adminClient(world.adminUrl, key.text);
});
afterAll(() => world.stop());

let name: string;
let names = 0;
beforeEach(() => (name = `tenant-${names++}`));

const settingOf = (tenant: Tenant | undefined, setting: string) =>
  tenant?.settings.find((each) => each.name === setting);
const auditOf = async (id: string) => (await operator.listAudit({ tenant: id })).entries;

async function refusalOf(call: Promise<unknown>): Promise<{ code: Code; message: string }> {
  const error = await call.then(
    () => undefined,
    (failure: unknown) => ConnectError.from(failure),
  );
  return { code: error?.code ?? Code.Unknown, message: error?.rawMessage ?? "was not refused" };
}

describe("a tenant", () => {
  test("is made, and each of its settings is told with where it comes from", async () => {
    const { tenant, warnings } = await operator.createTenant({
      id: name,
      settings: { brand: "Acme", limits: "user=5@1h", texts: texts("{code} {brand}") },
    });
    expect(warnings).toEqual([]);
    expect(tenant?.settings.map((each) => each.name)).toEqual(settingNames);
    expect(settingOf(tenant, "brand")).toMatchObject({ value: "Acme", source: "tenant", fault: "" });
    expect(settingOf(tenant, "texts")).toMatchObject({ value: texts("{code} {brand}"), source: "tenant" });
    expect(settingOf(tenant, "code_length")).toMatchObject({ value: "7", source: "OTP_CODE_LENGTH" });
    expect(settingOf(tenant, "daily_cap")).toMatchObject({ value: "500", source: "OTP_DAILY_MESSAGE_CAP" });
    expect(settingOf(tenant, "max_attempts")).toMatchObject({ value: "5", source: "default" });
    expect(settingOf(tenant, "country_caps")).toMatchObject({ value: "", source: "default" });
    expect(settingOf(tenant, "audience")).toMatchObject({ value: name, source: "default" });
    expect(await operator.listTenants({ tenant: name })).toMatchObject({ tenants: [tenant], nextPageToken: "" });
  });

  test("has texts of the operator's file where it has none, whose path is not told", async () => {
    const { tenant } = await operator.createTenant({ id: name });
    expect(settingOf(tenant, "texts")).toMatchObject({ value: "", source: "OTP_TEMPLATES_FILE" });
  });

  test("is made once, under a name that tenants may have", async () => {
    await operator.createTenant({ id: name });
    expect(await refusalOf(operator.createTenant({ id: name }))).toMatchObject({ code: Code.AlreadyExists });
    for (const id of ["", "Acme", "-acme", "a".repeat(41), "acme+test"]) {
      expect(await refusalOf(operator.createTenant({ id }))).toMatchObject({
        code: Code.InvalidArgument,
        message: "id must be 1 to 40 of a-z, 0-9 and -, and not begin with -.",
      });
    }
  });

  test("changes what it is given, entry by entry where it has names, and gives back what is empty", async () => {
    const settings = { brand: "Acme", max_attempts: "3", limits: "user=5@1h,page=3@1m" };
    await operator.createTenant({ id: name, settings });
    const { tenant } = await operator.updateTenant({
      id: name,
      settings: { brand: "", daily_cap: "900", limits: "user=none,device=1@1m" },
    });
    expect(settingOf(tenant, "brand")).toMatchObject({ value: "otpd", source: "default" });
    expect(settingOf(tenant, "max_attempts")).toMatchObject({ value: "3", source: "tenant" });
    expect(settingOf(tenant, "daily_cap")).toMatchObject({ value: "900", source: "tenant" });
    expect(settingOf(tenant, "limits")).toMatchObject({ value: "page=3@1m,device=1@1m", source: "tenant" });
  });

  test("has what is told of its brand's cost", async () => {
    const { warnings } = await operator.createTenant({ id: name, settings: { brand: "Snow ☃" } });
    expect(warnings.join()).toMatch(/^brand has characters outside GSM-7/);
  });

  test("tells of a stored value that does not count what is wrong with it", async () => {
    await world.beside((store) =>
      store.registry.changeTenant(name, () => ({
        keep: { settings: '{"code_length":"99","colour":"red"}', disableMs: null },
        result: undefined,
      })),
    );
    const { tenants } = await operator.listTenants({ tenant: name });
    expect(settingOf(tenants[0], "code_length")).toMatchObject({
      value: "7",
      source: "OTP_CODE_LENGTH",
      fault: "must be at most 10",
    });
    expect(settingOf(tenants[0], "colour")).toMatchObject({ value: "", fault: "is not a known setting" });
  });

  test("is disabled and enabled, from the next call on and as often as it is asked", async () => {
    await operator.createTenant({ id: name });
    const { text: key } = await world.makeKey({ tenant: name });
    const send = async () =>
      (await connectByFetch.call(world.url, "SendOtp", { phone: "+31612345678" }, { key })).reason;
    expect(await send()).toBeUndefined();
    const first = await operator.disableTenant({ id: name });
    expect(await send()).toBe("API_KEY_REVOKED");
    const second = await operator.disableTenant({ id: name });
    expect(second.tenant?.disableTime).toEqual(first.tenant?.disableTime);
    const enabled = await operator.enableTenant({ id: name });
    expect(enabled.tenant?.disableTime).toBeUndefined();
    expect(await send()).toBeUndefined();
    const actions = (await auditOf(name)).map(({ action }) => action);
    expect(actions).toEqual(["tenant.enable", "tenant.disable", "tenant.create"]);
  });
});

describe("a change that is wrong", () => {
  test.each([
    ["settings.daily_cap", { daily_cap: "many" }],
    ["settings.code_length_max", { code_length_max: "6" }],
    ["settings.countries", { countries: "NL,Utopia" }],
    ["settings.texts", { texts: "/etc/passwd" }],
    ["settings", { colour: "red" }],
    ["settings", {}],
  ])("names %s, and changes nothing", async (field, settings) => {
    await operator.createTenant({ id: name });
    const before = await select(world.database, "SELECT * FROM tenants");
    const { code, message } = await refusalOf(operator.updateTenant({ id: name, settings }));
    expect(code).toBe(Code.InvalidArgument);
    expect(message.startsWith(`${field} `)).toBe(true);
    expect(message).not.toMatch(/many|Utopia|passwd|red\b/);
    expect(await select(world.database, "SELECT * FROM tenants")).toEqual(before);
    expect(await auditOf(name)).toHaveLength(1);
  });

  test("is told with all that is wrong", async () => {
    const { message } = await refusalOf(
      operator.createTenant({ id: name, settings: { ttl_seconds: "9", max_attempts: "99" } }),
    );
    expect(message).toMatch(/^settings\.ttl_seconds must .* settings\.max_attempts must /);
  });

  test("is one of a tenant that is not there", async () => {
    const calls = [
      operator.updateTenant({ id: name, settings: { brand: "Acme" } }),
      operator.disableTenant({ id: name }),
      operator.enableTenant({ id: name }),
      operator.listTenants({ tenant: name }),
    ];
    const refusals = await Promise.all(calls.map(refusalOf));
    expect(new Set(refusals.map(({ code }) => code))).toEqual(new Set([Code.NotFound]));
  });
});

test("every write is in the audit: who, from where, what it was before and what it is after", async () => {
  await operator.createTenant({ id: name, settings: { brand: "Acme" } });
  await operator.updateTenant({ id: name, settings: { brand: "Bolt" } });
  const [update, create] = await auditOf(name);
  expect(create).toMatchObject({
    action: "tenant.create",
    actor: `key:${keyId}`,
    tenant: name,
    subject: name,
    before: "",
  });
  expect(create?.address).toMatch(/^(127\.0\.0\.1|::1)$/);
  expect(JSON.parse(create?.after ?? "")).toEqual({ settings: { brand: "Acme" }, disable_time: null });
  expect(update).toMatchObject({ action: "tenant.update", actor: `key:${keyId}` });
  expect(JSON.parse(update?.before ?? "")).toMatchObject({ settings: { brand: "Acme" } });
  expect(JSON.parse(update?.after ?? "")).toMatchObject({ settings: { brand: "Bolt" } });
});

test("tenants are listed by name, a page at a time, with their settings or without", async () => {
  for (const each of ["b", "a", "c"]) await operator.createTenant({ id: `page-${each}` });
  const all = await operator.listTenants({ view: TenantView.BASIC, pageSize: 1_000 });
  const ids = all.tenants.map(({ id }) => id);
  expect(ids).toEqual(ids.toSorted());
  expect(ids).toEqual(expect.arrayContaining(["default", "page-a", "page-b", "page-c"]));
  expect(all.tenants.flatMap(({ settings }) => settings)).toEqual([]);
  const paged: string[] = [];
  for (let pageToken = "", more = true; more; more = pageToken !== "") {
    const page = await operator.listTenants({ pageSize: 2, pageToken });
    expect(page.tenants.length).toBeLessThanOrEqual(2);
    expect(page.tenants.every(({ settings }) => settings.length >= settingNames.length)).toBe(true);
    paged.push(...page.tenants.map(({ id }) => id));
    pageToken = page.nextPageToken;
  }
  expect(paged).toEqual(ids);
  for (const pageSize of [-1, 101]) {
    expect((await refusalOf(operator.listTenants({ pageSize }))).code).toBe(Code.InvalidArgument);
  }
  expect((await refusalOf(operator.listTenants({ pageToken: "../" }))).code).toBe(Code.InvalidArgument);
});

describe("an admin of one tenant", () => {
  const boundTo = async (tenant: string) => adminClient(world.adminUrl, (await world.makeAdminKey({ tenant })).text);

  test("sees its own tenant alone", async () => {
    await operator.createTenant({ id: name });
    const { tenants, nextPageToken } = await (await boundTo(name)).listTenants({});
    expect(tenants.map(({ id }) => id)).toEqual([name]);
    expect(nextPageToken).toBe("");
  });

  test("has words of its own and makes settings stricter, and raises no cap or limit", async () => {
    await operator.createTenant({ id: name, settings: { max_attempts: "3" } });
    const client = await boundTo(name);
    const { tenant } = await client.updateTenant({ id: name, settings: { brand: "Bolt", daily_cap: "100" } });
    expect(settingOf(tenant, "daily_cap")).toMatchObject({ value: "100", source: "tenant" });
    const before = await select(world.database, "SELECT * FROM tenants");
    const raises = [{ daily_cap: "101" }, { daily_cap: "" }, { max_attempts: "" }, { audience: "bank" }];
    for (const settings of raises) {
      const refused = await refusalOf(client.updateTenant({ id: name, settings }));
      expect(refused.code).toBe(Code.PermissionDenied);
      expect(refused.message).toContain(Object.keys(settings).join());
      expect(refused.message.includes("looser")).toBe(!("audience" in settings));
    }
    expect(await select(world.database, "SELECT * FROM tenants")).toEqual(before);
    const updates = (await auditOf(name)).filter(({ action }) => action === "tenant.update");
    expect(updates.map(({ after }) => JSON.parse(after) as unknown)).toEqual([
      { settings: { brand: "Bolt", max_attempts: "3", daily_cap: "100" }, disable_time: null },
    ]);
  });
});
