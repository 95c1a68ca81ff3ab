/**
 * A report that comes while another instance sums the verification that it speaks of waits for it, and is then added.
 */
import { Client } from "pg";
import { expect, test } from "vitest";
import { decideReport, decideSettle } from "../../src/otp/decisions/settlement.ts";
import { ann, createActs, testCharge } from "../store/acts.ts";
import { openOnPostgres } from "../support/databases/opening.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem } from "../support/service/system.ts";

const waiting = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))";

test("a report that comes while its verification is being summed is not lost between the two", async () => {
  const url = (await newDatabase()) ?? "";
  const system = createManualSystem();
  const store = await openOnPostgres({ url, system, chargeOf: testCharge });
  const acts = createActs(store, system);
  const { verification, message } = await acts.send(ann);
  await store.settleMessage(message, acts.phoneOf, (view) => {
    const outcome = { kind: "accepted", providerMessageId: "m1" } as const;
    return decideSettle(view, { outcome, provider: "one", providers: 1, claimed: message }, acts.policy);
  });
  await acts.guess(verification, acts.rightCode(verification));
  system.advance(20 * 60_000);

  // An instance has read what the verification came to, and has not committed yet how far it has summed.
  const summing = new Client(url);
  await summing.connect();
  await summing.query("BEGIN");
  await summing.query("SELECT end_ms FROM summing WHERE id = 1 FOR UPDATE");
  await summing.query("UPDATE summing SET end_ms = $1 WHERE id = 1", [system.now() - 60_000]);
  const reported = store.settleMessage(message, acts.phoneOf, (view) =>
    decideReport(view, {
      provider: "one",
      providerMessageId: "m1",
      delivery: "DELIVERED",
      detail: undefined,
      providersOf: () => ["one"],
    }),
  );
  let isAnswered = false;
  void reported.then(() => (isAnswered = true));
  const isWaiting = async () => isAnswered || (await summing.query(waiting)).rows[0].n === 1;
  await expect.poll(isWaiting).toBe(true);
  await summing.query("COMMIT");
  await reported;

  expect((await summing.query("SELECT delivered::int FROM sums WHERE delivered <> 0")).rows).toEqual([
    { delivered: 1 },
  ]);
  await summing.end();
  await store.close();
});
