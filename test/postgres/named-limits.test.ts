/**
 * A named limit over four instances on one database: what it has goes out once, through all of them together.
 */
import { rmSync } from "node:fs";
import { afterEach, expect, inject, test, vi } from "vitest";
import { tally } from "../support/clients/volley.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { runHere } from "../support/service/command-line.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { startCluster } from "./cluster.ts";

let phones = 0;
/** Of a hundred prefixes: the lock of one that they share would have the instances wait for each other. */
const nextPhone = () => `+31612${String(((phones += 1) * 7_919) % 1_000_000).padStart(6, "0")}`;

afterEach(() => vi.unstubAllEnvs());

test("of 400 sends at once for one user the limit's 5 go out through four processes, and of each of two others too", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  const folder = temporaryFolder();
  const cluster = await startCluster(folder, url);
  vi.stubEnv("OTP_DATABASE_URL", url);
  const { code, errors } = await runHere(["tenants", "set", "default", "--limit", "user=5@1h", "--limit", "net=12@1h"]);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  const sendFor = (limit_keys: Record<string, string>) => ({
    rpc: "SendOtp" as const,
    message: { phone: nextPhone(), limit_keys },
  });
  // Given in either order: whoever locks them has one order.
  const shots = Array.from({ length: 400 }, (_, i) =>
    sendFor(i % 2 === 0 ? { user: `${i % 4}`, net: "one" } : { net: "one", user: `${i % 4}` }),
  );
  const hits = await cluster.fire(shots);
  expect(tally(hits)).toEqual({ OK: 12, LIMIT_REACHED: 388 });
  const ofUser = [0, 1, 2, 3].map((user) => hits.filter((hit, i) => i % 4 === user && hit.outcome === "OK").length);
  expect(Math.max(...ofUser)).toBeLessThanOrEqual(5);
  const alone = await cluster.fire(Array.from({ length: 400 }, () => sendFor({ user: "alone" })));
  expect(tally(alone)).toEqual({ OK: 5, LIMIT_REACHED: 395 });
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
});
