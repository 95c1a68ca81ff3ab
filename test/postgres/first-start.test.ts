/** Many instances start at once on an empty database, in one folder: as one would, once. */
import { readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, expect, test } from "vitest";
import { secretScopes } from "../../src/otp/keys/api-key.ts";
import { issueFirstKeys } from "../../src/service/callers/api-keys.ts";
import { openOnPostgres } from "../support/databases/opening.ts";
import { select } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { startOtpd, type Otpd } from "../support/processes/process.ts";
import { callUntilReached, connectByFetch } from "../support/clients/surfaces.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { extent } from "../support/extent.ts";

const folder = temporaryFolder();
const starting: Promise<Otpd>[] = [];
// Also those that are still starting when the run is called off: in a folder that is gone they would never end.
afterAll(async () => {
  await Promise.allSettled(starting.map(async (instance) => (await instance).end()));
  rmSync(folder, { recursive: true, force: true });
});

test("two that look for keys before either has added one make one set of them", async () => {
  const url = (await newDatabase()) ?? "";
  const system = createManualSystem();
  const stores = await Promise.all([1, 2].map(() => openOnPostgres({ url, system })));
  // Whoever holds this lets others read the table, and not write it.
  const holder = new Client(url);
  await holder.connect();
  await holder.query("BEGIN; LOCK TABLE api_keys IN EXCLUSIVE MODE");
  const spec = { kind: "live", tenant: "default", name: "first", scopes: secretScopes, expireMs: null } as const;
  const issued = stores.map((store) => issueFirstKeys(store, system, [spec]));
  const waiting = "SELECT count(*)::int AS n FROM pg_locks WHERE NOT granted AND relation = 'api_keys'::regclass";
  await expect.poll(async () => (await holder.query(waiting)).rows).toEqual([{ n: 2 }]);
  await holder.query("COMMIT");
  await holder.end();
  expect((await Promise.all(issued)).filter((keys) => keys !== undefined)).toHaveLength(1);
  expect(await stores[0]?.registry.listApiKeys()).toHaveLength(1);
  for (const store of stores) await store.close();
});

const instancesStarted = extent(4, 10);

test(`${instancesStarted} that start at once on an empty database all serve, with one schema, one master key and one pair of keys`, async () => {
  const url = (await newDatabase()) ?? "";
  const env = { OTP_DATABASE_URL: url, NODE_COMPILE_CACHE: join(tmpdir(), "otpd-test-compile-cache") };
  starting.push(...Array.from({ length: instancesStarted }, () => startOtpd(folder, env)));
  const instances = await Promise.all(starting);
  const banners = instances.map(({ output }) => output());
  const shown = banners.flatMap((text) => /^ {2}(otp_live_\w+)$/m.exec(text)?.[1] ?? []);
  expect(shown).toHaveLength(1);
  expect(banners.flatMap((text) => text.match(/^ {2}otp_pub_\w+$/gm) ?? [])).toHaveLength(1);
  expect(banners.filter((text) => text.includes("Your API key was shown at the first start"))).toHaveLength(
    instancesStarted - 1,
  );

  const read = (sql: string) => select({ kind: "postgres", url }, sql);
  expect(await read("SELECT kind FROM api_keys ORDER BY kind")).toEqual([{ kind: "live" }, { kind: "pub" }]);
  expect(await read("SELECT version FROM schema_version")).toHaveLength(1);
  expect(await read("SELECT count(*)::int AS n FROM master_keys")).toEqual([{ n: 1 }]);
  expect(readdirSync(join(folder, "data"))).toEqual(["master.key"]);

  // What one has sent, any other verifies: they have the same keys.
  const [key = ""] = shown;
  for (const [i, instance] of instances.entries()) {
    const phone = `+3161300000${i}`;
    const sent = await callUntilReached(() => connectByFetch.call(instance.url, "SendOtp", { phone }, { key }));
    const [, code = ""] = await instance.waitFor(/│ (\d{6}) /);
    const other = instances[(i + 1) % instances.length]?.url ?? "";
    const request_id = String(sent.value?.["request_id"]);
    const verified = await callUntilReached(() =>
      connectByFetch.call(other, "VerifyOtp", { request_id, code }, { key }),
    );
    expect(verified.value).toMatchObject({ state: "STATE_VERIFIED", phone });
  }
});
