/**
 * What each RPC asks of a key, as a table: scopes, and what an admin of one tenant may and sees. An RPC without a row does not
 * compile.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AdminService } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { adminScopes, type AdminScope } from "../../../src/otp/keys/admin-key.ts";
import type { AdminRpc } from "../../../src/server/admin/rpcs.ts";
import { adminClient, askAdmin, type AdminClient } from "../../support/clients/admin.ts";
import { select } from "../../support/databases/rows.ts";
import { startWorld, type World } from "../../support/service/world.ts";

/** What an RPC asks for; `of` is how it names a thing of a tenant, which is another's or nowhere. */
interface Row {
  readonly scope: "none" | "admin.read" | "admin.write";
  /** What it asks for is in activity.test.ts. */
  readonly isStream?: true;
  /** Where it is not for an admin of one tenant: how it names one. */
  readonly forOperators?: (thing: Thing) => Record<string, unknown>;
  readonly of?: (thing: Thing) => Record<string, unknown>;
}

interface Thing {
  readonly tenant: string;
  readonly keyId: string;
  readonly webhookId: string;
}

const named = ({ tenant }: Thing) => ({ tenant });

const rows: Readonly<Record<AdminRpc, Row>> = {
  getSession: { scope: "none" },
  getOverview: { scope: "admin.read", of: named },
  getStats: { scope: "admin.read", of: named },
  watchActivity: { scope: "admin.read", isStream: true },
  findVerifications: { scope: "admin.read", of: named },
  getVerification: { scope: "admin.read" },
  cancelVerification: { scope: "admin.write" },
  resetPhone: { scope: "admin.write", of: ({ tenant }) => ({ tenant, phone: "+31612345678" }) },
  erasePhone: { scope: "admin.write", of: ({ tenant }) => ({ tenant, phone: "+31612345678" }) },
  listSuspects: { scope: "admin.read", of: named },
  explainDestination: { scope: "admin.read", of: ({ tenant }) => ({ tenant, destination: "+3197" }) },
  listDestinations: { scope: "admin.read", of: named },
  block: { scope: "admin.write", of: ({ tenant }) => ({ tenant, prefix: "+3197" }) },
  allow: { scope: "admin.write", of: ({ tenant }) => ({ tenant, prefix: "+3197" }) },
  unblock: { scope: "admin.write", of: ({ tenant }) => ({ tenant, prefix: "+3197" }) },
  removeDestination: { scope: "admin.write", of: ({ tenant }) => ({ tenant, prefix: "+3197" }) },
  setGuard: { scope: "admin.write", of: ({ tenant }) => ({ tenant, mode: "GUARD_MODE_ENFORCE" }) },
  listTenants: { scope: "admin.read", of: named },
  createTenant: { scope: "admin.write", forOperators: ({ tenant }) => ({ id: tenant }) },
  updateTenant: { scope: "admin.write", of: ({ tenant }) => ({ id: tenant, settings: { brand: "Shop" } }) },
  disableTenant: { scope: "admin.write", forOperators: ({ tenant }) => ({ id: tenant }) },
  enableTenant: { scope: "admin.write", forOperators: ({ tenant }) => ({ id: tenant }) },
  listApiKeys: { scope: "admin.read", of: named },
  createApiKey: { scope: "admin.write", of: ({ tenant }) => ({ tenant, kind: "live" }) },
  rotateApiKey: { scope: "admin.write", of: ({ keyId }) => ({ id: keyId }) },
  revokeApiKey: { scope: "admin.write", of: ({ keyId }) => ({ id: keyId }) },
  listWebhooks: { scope: "admin.read", of: named },
  createWebhook: { scope: "admin.write", of: ({ tenant }) => ({ tenant, url: "https://hooks.example/otp" }) },
  testWebhook: { scope: "admin.write", of: ({ webhookId }) => ({ id: webhookId }) },
  rotateWebhook: { scope: "admin.write", of: ({ webhookId }) => ({ id: webhookId }) },
  enableWebhook: { scope: "admin.write", of: ({ webhookId }) => ({ id: webhookId }) },
  disableWebhook: { scope: "admin.write", of: ({ webhookId }) => ({ id: webhookId }) },
  removeWebhook: { scope: "admin.write", of: ({ webhookId }) => ({ id: webhookId }) },
  getProviders: { scope: "admin.read", forOperators: () => ({}) },
  tryProvider: { scope: "admin.write", forOperators: () => ({ name: "test", phone: "+31612345678" }) },
  listAudit: { scope: "admin.read", of: named },
};

const methods = AdminService.methods.map(({ name, localName }) => ({ name, row: rows[localName as AdminRpc] }));
const served = methods.filter(({ row }) => row.isStream !== true);
const onOperators = served.flatMap(({ name, row: { forOperators: of } }) => (of === undefined ? [] : [{ name, of }]));
const onThings = served.flatMap(({ name, row: { of } }) => (of === undefined ? [] : [{ name, of }]));

let world: World;
let others: Thing;
const nowhere: Thing = { tenant: "nobody", keyId: "0000000000", webhookId: "we_AAAAAAAAAAAAAAAA" };
let operator: AdminClient;
/** A key of acme's admin, with every scope. */
let bound: string;
beforeAll(async () => {
  world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0" });
  await makeTenant(world, "acme");
  await makeTenant(world, "other");
  operator = adminClient(world.adminUrl, (await world.makeAdminKey()).text);
  bound = (await world.makeAdminKey({ tenant: "acme", name: "acme's" })).text;
  const { id: keyId } = await world.makeKey({ tenant: "other" });
  const { webhook } = await operator.createWebhook({ tenant: "other", url: "https://hooks.example/otp" });
  others = { tenant: "other", keyId, webhookId: webhook?.id ?? "" };
});
afterAll(() => world.stop());

function makeTenant(of: World, id: string): Promise<void> {
  return of.beside((store) =>
    store.registry.changeTenant(id, () => ({ keep: { settings: "{}", disableMs: null }, result: undefined })),
  );
}

const bearing = (text: string) => ({ authorization: `Bearer ${text}` });

test.each(served)("$name asks for its scope, and for no other", async ({ name, row }) => {
  const lacks: readonly AdminScope[] = adminScopes.filter((scope) => scope !== row.scope);
  const has: readonly AdminScope[] = adminScopes.filter((scope) => scope === row.scope);
  const without = await world.makeAdminKey({ scopes: lacks });
  const withIt = await world.makeAdminKey({ scopes: has });
  const body = row.of?.(nowhere) ?? {};
  const refused = await askAdmin(world.adminUrl, name, body, bearing(without.text));
  const taken = await askAdmin(world.adminUrl, name, body, bearing(withIt.text));
  expect(refused.text.includes("SCOPE_MISSING")).toBe(row.scope !== "none");
  expect(taken.text).not.toContain("SCOPE_MISSING");
});

describe("an admin of one tenant", () => {
  test.each(onThings)("$name does not find another's, byte for byte as what is nowhere", async ({ name, of }) => {
    const before = await everything();
    const [another, none] = [
      await askAdmin(world.adminUrl, name, of(others), bearing(bound)),
      await askAdmin(world.adminUrl, name, of(nowhere), bearing(bound)),
    ];
    expect(another.status).toBe(404);
    expect(another.text).toBe(none.text);
    const names = (headers: Headers) => [...headers].filter(([header]) => !/^(date|x-call-id)$/.test(header));
    expect(names(another.headers)).toEqual(names(none.headers));
    expect(await everything()).toEqual(before);
  });

  test.each(onOperators)("$name is not for it, and tells nothing of what there is", async ({ name, of }) => {
    const before = await everything();
    const own: Thing = { ...nowhere, tenant: "acme" };
    const answers = await Promise.all(
      [own, others, nowhere].map((thing) => askAdmin(world.adminUrl, name, of(thing), bearing(bound))),
    );
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403]);
    expect(answers[0]?.text).toContain("SCOPE_MISSING");
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(await everything()).toEqual(before);
  });

  test("reads and writes what is its own where it names none", async () => {
    const client = adminClient(world.adminUrl, bound);
    const { apiKey, text } = await client.createApiKey({ kind: "live", name: "shop" });
    expect(apiKey).toMatchObject({ tenant: "acme", kind: "live", name: "shop" });
    expect(text).toMatch(/^otp_live_/);
    const { destination } = await client.block({ prefix: "+3197", note: "pumping" });
    expect(destination).toMatchObject({ tenant: "acme", prefix: "+3197", blocked: true });
    const { apiKeys } = await client.listApiKeys({});
    expect(new Set(apiKeys.map(({ tenant }) => tenant))).toEqual(new Set(["acme"]));
  });

  test("makes no admin key, and rotates none", async () => {
    const client = adminClient(world.adminUrl, bound);
    const own = await world.makeAdminKey({ tenant: "acme" });
    const tries = [client.createApiKey({ kind: "admin" }), client.rotateApiKey({ id: own.id })];
    for (const tried of tries) expect(await codeOf(tried)).toBe(Code.PermissionDenied);
  });

  test("allows no destination, past the country list and the guard that hold for it", async () => {
    const client = adminClient(world.adminUrl, bound);
    await client.block({ prefix: "+31971" });
    for (const prefix of ["+49", "+31971", "+31612345678"]) {
      expect(await codeOf(client.allow({ prefix })), prefix).toBe(Code.PermissionDenied);
    }
    const { destinations } = await client.listDestinations({});
    expect(destinations.filter(({ blocked }) => !blocked)).toEqual([]);
    expect(destinations.map(({ prefix }) => prefix)).toContain("+31971");
  });

  test("learns of operators in the audit only that they acted", async () => {
    await operator.block({ tenant: "acme", prefix: "+3198" });
    const { entries } = await adminClient(world.adminUrl, bound).listAudit({ action: "destination.block" });
    const by = entries.map(({ actor, address, subject }) => ({ actor, address, subject }));
    expect(by).toContainEqual({ actor: "operator", address: "", subject: "+3198" });
    expect(new Set(entries.map(({ tenant }) => tenant))).toEqual(new Set(["acme"]));
  });

  test("is refused while its tenant is disabled", async () => {
    await makeTenant(world, "gone");
    const { text } = await world.makeAdminKey({ tenant: "gone" });
    await world.beside((store) =>
      store.registry.changeTenant("gone", ({ now, tenant }) => ({
        keep: { settings: tenant?.settings ?? "{}", disableMs: now },
        result: undefined,
      })),
    );
    expect(await codeOf(adminClient(world.adminUrl, text).getSession({}))).toBe(Code.Unauthenticated);
  });
});

test("nobody gives a scope that he lacks, by a new key or by another's", async () => {
  const writer = await world.makeAdminKey({ scopes: ["admin.read", "admin.write"] });
  const seer = await world.makeAdminKey({ scopes: ["admin.read", "admin.phones"] });
  const client = adminClient(world.adminUrl, writer.text);
  expect(await codeOf(client.createApiKey({ kind: "admin", scopes: ["admin.phones"] }))).toBe(Code.PermissionDenied);
  expect(await codeOf(client.rotateApiKey({ id: seer.id }))).toBe(Code.PermissionDenied);
  const shown = { url: "https://hooks.example/otp", showPhones: true };
  expect(await codeOf(client.createWebhook(shown))).toBe(Code.PermissionDenied);
});

test("a key's name is as long as the command takes it, and no longer", async () => {
  const name = "n".repeat(64);
  expect((await operator.createApiKey({ kind: "live", name })).apiKey?.name).toBe(name);
  expect(await codeOf(operator.createApiKey({ kind: "live", name: `${name}n` }))).toBe(Code.InvalidArgument);
});

test.each([0x0a, 0x1b, 0x85, 0x202e, 0x2066])("no key's name has the hidden character %i", async (point) => {
  const name = `shop${String.fromCodePoint(point)}teb`;
  const before = await everything();
  for (const kind of ["live", "pub", "admin"]) {
    const refused = await operator.createApiKey({ kind, name }).then(() => "taken", ConnectError.from);
    expect(refused, kind).toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: "name must be one line of at most 64 visible characters.",
    });
  }
  expect(await everything()).toEqual(before);
});

test("who lists the origin null for a key is told why not, in whole sentences", async () => {
  const refused = await operator.createApiKey({ kind: "pub", origins: ["null"] }).catch(ConnectError.from);
  expect(refused).toMatchObject({
    code: Code.InvalidArgument,
    rawMessage: expect.stringMatching(/^origins must not name null: [^]*[^.]\.$/) as string,
  });
});

test("a whole number of the lists is told to whom numbers may be told, which the audit tells without it", async () => {
  await operator.block({ tenant: "acme", prefix: "+31612345678" });
  const blind = await world.makeAdminKey({ tenant: "acme", scopes: ["admin.read"] });
  const masked = await adminClient(world.adminUrl, blind.text).listDestinations({});
  expect(JSON.stringify(masked.destinations.map(({ prefix }) => prefix))).not.toContain("31612345678");
  const whole = await adminClient(world.adminUrl, bound).listDestinations({});
  expect(whole.destinations.map(({ prefix }) => prefix)).toContain("+31612345678");
  const audit = await select(world.database, "SELECT * FROM audit");
  expect(JSON.stringify(audit)).not.toContain("31612345678");
  expect(audit).toContainEqual(expect.objectContaining({ action: "phone.look", tenant: "acme" }));
});

describe("a key", () => {
  test("is rotated: both work, the old one until its time, and the audit tells of both", async () => {
    const made = await operator.createApiKey({ kind: "live", tenant: "other" });
    const id = made.apiKey?.id ?? "";
    const rotated = await operator.rotateApiKey({ id, keep: { seconds: 60n, nanos: 0 } });
    expect(rotated.apiKey).toMatchObject({ kind: "live", tenant: "other", scopes: made.apiKey?.scopes });
    expect(rotated.apiKey?.id).not.toBe(id);
    const { apiKeys } = await operator.listApiKeys({ tenant: "other" });
    expect(apiKeys.find((key) => key.id === id)?.expireTime).toBeDefined();
    const { entries } = await operator.listAudit({ action: "api_key.rotate" });
    expect(entries[0]).toMatchObject({ subject: id, tenant: "other" });
    expect(await codeOf(operator.rotateApiKey({ id, keep: { seconds: -1n, nanos: 0 } }))).toBe(Code.InvalidArgument);
  });

  test("that ended is not rotated, and revoking twice is revoking once", async () => {
    const { apiKey } = await operator.createApiKey({ kind: "test" });
    const id = apiKey?.id ?? "";
    const first = await operator.revokeApiKey({ id });
    const second = await operator.revokeApiKey({ id });
    expect(second.apiKey?.revokeTime).toEqual(first.apiKey?.revokeTime);
    expect(await codeOf(operator.rotateApiKey({ id }))).toBe(Code.FailedPrecondition);
  });
});

test("an audit is read a page at a time, the newest first", async () => {
  const first = await operator.listAudit({ pageSize: 2 });
  const second = await operator.listAudit({ pageSize: 2, pageToken: first.nextPageToken });
  const all = await operator.listAudit({ pageSize: 4 });
  expect([...first.entries, ...second.entries]).toEqual(all.entries);
  expect(await codeOf(operator.listAudit({ pageSize: 101 }))).toBe(Code.InvalidArgument);
  expect(await codeOf(operator.listAudit({ pageToken: "12" }))).toBe(Code.InvalidArgument);
});

test("no text with U+0000 and no time beyond the year 9999 reaches a database, which would fail at it", async () => {
  const [odd, late] = ["a\0b", { seconds: 1n << 62n, nanos: 0 }];
  for (const [field, call] of [
    ["subject", () => operator.listAudit({ subject: odd })],
    ["tenant", () => operator.getStats({ tenant: odd })],
    ["to", () => operator.getOverview({ to: late })],
    ["from", () => operator.listAudit({ from: { seconds: 0n, nanos: -1 } })],
    ["id", () => operator.revokeApiKey({ id: odd })],
    ["scopes", () => operator.createApiKey({ kind: "live", scopes: ["send", odd] })],
    ["settings", () => operator.updateTenant({ id: "acme", settings: { [odd]: "x" } })],
  ] as const) {
    const { code, rawMessage } = await call().then(() => new ConnectError("taken"), ConnectError.from);
    expect({ code, field: rawMessage.split(" ")[0] }).toEqual({ code: Code.InvalidArgument, field });
  }
  expect(await operator.listAudit({ to: { seconds: 253_402_300_799n, nanos: 999_999_999 } })).toBeDefined();
});

async function codeOf(call: Promise<unknown>): Promise<Code | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );
}

/** What an RPC could have changed, whoever asked. */
async function everything(): Promise<unknown> {
  const tables = [
    "api_keys",
    "admin_keys",
    "webhook_endpoints",
    "destinations",
    "tenants",
    "prefix_decisions",
    "audit",
  ];
  const at = { admin_keys: "id, revoke_ms, expire_ms", audit: "*" } as Record<string, string>;
  return Promise.all(tables.map((table) => select(world.database, `SELECT ${at[table] ?? "*"} FROM ${table}`)));
}
