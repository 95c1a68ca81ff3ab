/**
 * The tenants as a server knows them: one look a call, and what another process wrote is known after it.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readTenant } from "../../../src/config/tenant-settings.ts";
import { secretScopes } from "../../../src/otp/keys/api-key.ts";
import { ok, refuse } from "../../../src/otp/reason.ts";
import { issueKey } from "../../../src/service/callers/api-keys.ts";
import { createTenants, type Tenants } from "../../../src/service/callers/tenants.ts";
import type { FoundKey, Registry } from "../../../src/store/registry.ts";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import { StoreUnavailable, type Store } from "../../../src/store/store.ts";
import { createManualSystem } from "../../support/service/system.ts";
import { configOf, temporaryFolder } from "../../support/service/world.ts";

const operator = configOf({ OTP_BRAND: "Operator" });

let folder: string;
let store: Store;
let beside: Store;
let asked: (keyof Registry)[];
let reads: string[];
let tenants: Tenants;
beforeEach(async () => {
  folder = temporaryFolder();
  const path = join(folder, "otp.db");
  const system = createManualSystem();
  store = await openSqlite({ path, system, exclusive: true });
  beside = await openSqlite({ path, system, exclusive: false });
  asked = [];
  reads = [];
  tenants = createTenants({
    store: { now: () => store.now(), registry: overheard(store.registry) } as Store,
    read: (record) => {
      reads.push(record.id);
      return readTenant(record, operator).tenant;
    },
  });
});
afterEach(async () => {
  await store.close();
  await beside.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Notes what the registry is asked. */
function overheard(registry: Registry): Registry {
  return new Proxy(registry, {
    get(target, name: keyof Registry) {
      asked.push(name);
      return target[name].bind(target);
    },
  });
}

const put = (id: string, settings: object, disableMs: number | null = null) =>
  beside.registry.changeTenant(id, () => ({
    keep: { settings: JSON.stringify(settings), disableMs },
    result: undefined,
  }));

describe("a refresh", () => {
  test("brings what another process wrote, and nothing before it does", async () => {
    await put("acme", { brand: "Acme" });
    await tenants.refresh();
    expect(tenants.tenantOf("acme").brand).toBe("Acme");
    await put("acme", { brand: "Bolt" });
    expect(tenants.tenantOf("acme").brand).toBe("Acme");
    await tenants.refresh();
    expect(tenants.tenantOf("acme").brand).toBe("Bolt");
  });

  test("is one look at the store while nothing is written, and reads no settings again", async () => {
    await put("acme", { brand: "Acme" });
    await tenants.refresh();
    const first = tenants.tenantOf("acme");
    asked.length = 0;
    for (let i = 0; i < 3; i++) await tenants.refresh();
    expect(asked).toEqual(["tenantsRevision", "tenantsRevision", "tenantsRevision"]);
    expect(tenants.tenantOf("acme")).toBe(first);
    await put("other", {});
    await tenants.refresh();
    expect(tenants.tenantOf("acme")).toBe(first);
    expect(reads).toEqual(["acme"]);
  });

  test("leaves what was known when the store cannot be asked", async () => {
    await put("acme", { brand: "Acme" });
    await tenants.refresh();
    await store.close();
    await expect(tenants.refresh()).rejects.toBeInstanceOf(StoreUnavailable);
    expect(tenants.tenantOf("acme").brand).toBe("Acme");
  });

  test("that runs beside others never takes a step back", async () => {
    const brands = Array.from({ length: 20 }, (_, i) => `Brand ${"x".repeat(i)}`);
    const refreshes: Promise<void>[] = [];
    for (const brand of brands) {
      refreshes.push(tenants.refresh());
      await put("acme", { brand });
      refreshes.push(tenants.refresh());
    }
    await Promise.all(refreshes);
    expect(tenants.tenantOf("acme").brand).toBe(brands.at(-1));
  });
});

describe("a sandbox", () => {
  test("has its tenant's rules, brand and audience, under an id of its own, and changes with it", async () => {
    await put("acme", { brand: "Acme", code_length: "8", audience: "aud" });
    await tenants.refresh();
    const real = tenants.tenantOf("acme");
    expect(tenants.tenantOf("acme+test")).toEqual({ ...real, id: "acme+test" });
    expect(real).toMatchObject({ brand: "Acme", audience: "aud", policy: { codeLength: 8 } });
    await put("acme", {}, 1);
    await tenants.refresh();
    expect(tenants.tenantOf("acme+test")).toMatchObject({ brand: "Operator", audience: "acme", isDisabled: true });
  });
});

describe("a tenant that nobody has told of yet", () => {
  test.each(["acme", "acme+test"])("has the operator's settings until it is known (%s)", async (id) => {
    await tenants.refresh();
    expect(tenants.tenantOf(id)).toMatchObject({ id, brand: "Operator", audience: "acme", isDisabled: false });
    await put("acme", { brand: "Acme" });
    await tenants.refresh();
    expect(tenants.tenantOf(id)).toMatchObject({ id, brand: "Acme" });
  });
});

describe("a key", () => {
  const key = { tenant: "acme", id: "key", origins: ["https://a.example", "https://b.example"] };

  test("is admitted while its tenant is not disabled, as of this call", async () => {
    await put("acme", {});
    expect(await tenants.admit(ok(key))).toEqual(ok(key));
    await put("acme", {}, 1);
    expect(await tenants.admit(ok(key))).toEqual(refuse("API_KEY_REVOKED"));
    await put("acme", {});
    expect(await tenants.admit(ok(key))).toEqual(ok(key));
  });

  test("keeps those of its origins that are its tenant's, once that has any", async () => {
    await put("acme", { origins: "https://b.example,https://c.example" });
    expect(await tenants.admit(ok(key))).toEqual(ok({ ...key, origins: ["https://b.example"] }));
    await put("acme", { origins: "https://c.example" });
    expect(await tenants.admit(ok(key))).toEqual(ok({ ...key, origins: [] }));
  });

  test("costs no look of its own where it was found with the tenants' revision", async () => {
    await put("acme", {});
    const spec = { kind: "live", tenant: "acme", name: "", scopes: secretScopes, expireMs: null } as const;
    const { key: issued } = await issueKey(beside, createManualSystem(), spec);
    const admitted = async () => tenants.admit(ok((await store.registry.findApiKey(issued.id)) as FoundKey));
    expect(await admitted()).toMatchObject({ ok: true });
    asked.length = 0;
    expect(await admitted()).toMatchObject({ ok: true });
    expect(asked).toEqual([]);
    await put("acme", {}, 1);
    expect(await admitted()).toEqual(refuse("API_KEY_REVOKED"));
  });

  test("that was refused is told nothing of its tenant, and costs no look", async () => {
    expect(await tenants.admit(refuse("API_KEY_EXPIRED"))).toEqual(refuse("API_KEY_EXPIRED"));
    expect(asked).toEqual([]);
  });
});
