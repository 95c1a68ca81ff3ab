/** The events of one tenant's busy endpoint leave connections to everybody's calls. */
import { Client } from "pg";
import { expect, test } from "vitest";
import { createEventWorker, postsPerEndpointMax } from "../../src/delivery/event-worker.ts";
import { ann, createActs, ringOf, testPolicy } from "../store/acts.ts";
import { added, endpointOf } from "../store/endpoints.ts";
import { openOnPostgres } from "../support/databases/opening.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem } from "../support/service/system.ts";

const waiting = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))";

test("calls go on while all tries of an endpoint wait for its row", async () => {
  const href = (await newDatabase()) ?? "";
  const system = createManualSystem();
  const store = await openOnPostgres({ url: href, system });
  await added(store, endpointOf("we_busy"));
  const acts = createActs(store, system, ringOf(1), testPolicy, true);
  for (let i = 0; i < postsPerEndpointMax; i += 1) await acts.send(ann);
  const owed = await store.events.countEvents(100);
  const holder = new Client(href);
  await holder.connect();
  const answers = Promise.withResolvers<{ kind: "answered"; status: number }>();
  let posts = 0;
  const worker = createEventWorker({
    store,
    system,
    keys: ringOf(1),
    post: () => {
      posts += 1;
      return answers.promise;
    },
    onDisabled: () => {},
    onTried: () => {},
    onDropped: () => {},
    onFault: () => {},
  });
  worker.start();
  await expect.poll(() => posts).toBe(postsPerEndpointMax);
  await holder.query("BEGIN");
  await holder.query("SELECT 1 FROM webhook_endpoints FOR UPDATE");
  answers.resolve({ kind: "answered", status: 204 });
  await expect.poll(async () => (await holder.query(waiting)).rows).not.toEqual([{ n: 0 }]);

  expect((await acts.send(ann)).verification.state).toBe("PENDING");
  expect(await store.events.countEvents(100)).toBeGreaterThan(owed);

  await holder.end();
  // What waited for too long on a slow machine comes again when its lease is over.
  const counted = () => {
    system.advance(1_000);
    return store.events.countEvents(100);
  };
  await expect.poll(counted).toBe(0);
  await worker.stop(1_000);
  await store.close();
});
