/** Opening a PostgreSQL database: what is refused, in which words, and whose clock counts from then on. */
import { expect, inject, test, vi } from "vitest";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { createSystem } from "../../src/system.ts";
import { runHere } from "../support/service/command-line.ts";
import { waitFactor } from "../support/databases/opening.ts";
import { select } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { startTcpProxy, through } from "../support/network/tcp-proxy.ts";

/** A database's URL with a setting for everybody who opens it. */
async function databaseWith(setting: string): Promise<string> {
  const url = new URL((await newDatabase()) ?? "");
  url.searchParams.set("options", `${url.searchParams.get("options")} -c ${setting}`);
  return url.href.replaceAll("+", "%20");
}

const open = (url: string) => openPostgres({ url, system: createSystem(), waitFactor });

test("a database with synchronous_commit=off is refused, and nothing is made in it", async () => {
  const url = await databaseWith("synchronous_commit=off");
  await expect(open(url)).rejects.toThrow("the database cannot be opened: synchronous_commit is off");
  const tables = "SELECT count(*)::int AS n FROM pg_tables WHERE schemaname = current_schema()";
  expect(await select({ kind: "postgres", url }, tables)).toEqual([{ n: 0 }]);
});

test("a database that cannot keep every character is refused, and nothing is made in it", async () => {
  const url = new URL(inject("postgres") ?? "");
  await select(
    { kind: "postgres", url: url.href },
    "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
  );
  url.pathname = "/latin";
  await expect(open(url.href)).rejects.toThrow("the database cannot be opened: its encoding is LATIN1, and otpd needs");
  const tables = "SELECT count(*)::int AS n FROM pg_tables WHERE schemaname = current_schema()";
  expect(await select({ kind: "postgres", url: url.href }, tables)).toEqual([{ n: 0 }]);
});

test("a database that is not there is told of without its password", async () => {
  const proxy = await startTcpProxy(1);
  const url = new URL(through(proxy, inject("postgres") ?? ""));
  url.password = "hunter2";
  await proxy.stop();
  const refused: unknown = await open(url.href).catch((error: unknown) => error);
  expect(refused).toMatchObject({ message: expect.stringMatching(/^the database cannot be opened: .*ECONNREFUSED/) });
  expect(JSON.stringify(refused, Object.getOwnPropertyNames(refused))).not.toContain("hunter2");
});

test("a command makes no tables in a database that has none, and says which one it is", async () => {
  const url = (await newDatabase()) ?? "";
  vi.stubEnv("OTP_DATABASE_URL", url);
  const { code, output, errors } = await runHere(["keys", "list"]);
  vi.unstubAllEnvs();
  expect({ code, output }).toEqual({ code: 1, output: "" });
  expect(errors).toMatch(
    /^There is no database of otpd in postgres:\S+\. OTP_DATABASE_URL names it\. Nothing was made: /,
  );
  const tables = "SELECT count(*)::int AS n FROM pg_tables WHERE schemaname = current_schema()";
  expect(await select({ kind: "postgres", url }, tables)).toEqual([{ n: 0 }]);
});

test("time is the database's, however the machine's clock is off or set while the instance runs", async () => {
  let aheadMs = 3_600_000;
  const system = createSystem(() => {}, { wallMs: () => Date.now() + aheadMs, monotonicMs: () => performance.now() });
  const store = await openPostgres({ url: (await newDatabase()) ?? "", system, waitFactor });
  // The database's clock is this machine's; what it is off by here is hours, and what a slow answer adds is not.
  const isItsTime = () => expect(Math.abs(store.now() - Date.now())).toBeLessThan(600_000);
  isItsTime();
  for (const nextMs of [0, 7_200_000, -7_200_000]) {
    aheadMs = nextMs;
    system.now();
    isItsTime();
    await store.ping();
    isItsTime();
  }
  await store.close();
});
