/** `otpd restore --expire-only` after pg_restore: what was pending in the dump never verifies. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { runHere } from "../support/service/command-line.ts";
import { rowOf, select, stateNumbers } from "../support/databases/rows.ts";
import { newPhone } from "../support/data/phones.ts";
import { callUntilReached, connectByFetch } from "../support/clients/surfaces.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
/** Serves all the while, from another schema of the same database. */
let neighbour: World;
beforeAll(async () => {
  world = await startWorld();
  neighbour = await startWorld();
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await neighbour.stop();
});

test("everything pending is ended, its messages are not due any more, and what had ended stays as it was", async () => {
  const call = (rpc: "SendOtp" | "VerifyOtp", message: Record<string, string>) =>
    callUntilReached(() => connectByFetch.call(world.url, rpc, message, { key: world.key }));
  async function send() {
    const phone = newPhone();
    const sent = await call("SendOtp", { phone });
    return { request_id: String(sent.value?.["request_id"]), code: world.network.codeFor(phone) };
  }
  const [used, pending] = [await send(), await send()];
  expect((await call("VerifyOtp", used))?.value?.["state"]).toBe("STATE_VERIFIED");

  vi.stubEnv("OTP_DATABASE_URL", world.database.kind === "postgres" ? world.database.url : "");
  // An instance shows itself a moment after its start.
  const serving = `SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted
    AND objsubid = 2 AND objid::bigint = hashtext(current_schema())::bigint & 4294967295
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  await expect.poll(() => select(world.database, serving)).toHaveLength(1);
  const refused = await runHere(["restore", "--expire-only"]);
  expect([refused.code, refused.errors.trim()]).toEqual([
    1,
    "Nothing was ended: an instance serves on this database: stop all of them first.",
  ]);
  expect((await rowOf(world.database, pending.request_id)).state).toBe(stateNumbers.PENDING);

  await world.stop();
  await expect.poll(() => select(world.database, serving)).toHaveLength(0);
  const { code, output, errors } = await runHere(["restore", "--expire-only"]);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  expect(output).toContain("Ended as expired: 1 pending requests.");
  expect(await rowOf(world.database, pending.request_id)).toMatchObject({
    state: stateNumbers.EXPIRED,
    hasSalt: false,
  });
  expect((await rowOf(world.database, used.request_id)).state).toBe(stateNumbers.VERIFIED);
  expect(await select(world.database, "SELECT 1 FROM messages WHERE due_ms IS NOT NULL")).toEqual([]);
});

test("a database that cannot be reached, or is none of ours, is told of in a sentence without the password", async () => {
  const messageFor = async (url: string) => {
    vi.stubEnv("OTP_DATABASE_URL", url);
    return (await runHere(["restore", "--expire-only"])).errors.trim();
  };
  expect(await messageFor("postgres://otpd:hidden@127.0.0.1:1/otp")).toBe(
    "Nothing was ended: the database cannot be opened: connect ECONNREFUSED 127.0.0.1:1.",
  );
  const empty = new URL(world.database.kind === "postgres" ? world.database.url : "");
  empty.search = "?options=-c%20search_path%3Dpg_temp";
  expect(await messageFor(empty.href)).toMatch(/^Nothing was ended: there is no database of otpd in postgres:\S+\.$/);
});
