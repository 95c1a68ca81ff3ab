/**
 * Mistakes that show only on PostgreSQL: with many instances, with a network that fails, with commits whose outcome nobody
 * knows.
 */
import type { Mutant } from "./mutants.ts";

const suite = (name: string) => [`test/postgres/${name}.test.ts`];

export const postgresMutants: readonly Mutant[] = [
  {
    name: "answer before the commit is known",
    breaks: "a guess is told right or wrong, and costs nothing if its COMMIT is lost",
    place: "src/store/postgres/connections.ts#once",
    text: `const { command } = await committed.catch((error: unknown) => {
      throw sqlStateOf(error) === undefined ? inDoubt(error) : error;
    });
    // COMMIT of a transaction that has failed is answered with ROLLBACK, and no error.
    if (command !== "COMMIT") throw new StoreUnavailable("the transaction was taken back");`,
    replacement: `void committed;`,
    suites: suite("lost-commits"),
  },
  {
    name: "commit tried again",
    breaks: "an act whose COMMIT was done unheard is done twice",
    place: "src/store/postgres/connections.ts#createConnections",
    text: `if (triesLeft === 0 || !deadlock.has(sqlStateOf(error) ?? "")) throw unavailable(error);`,
    replacement: `if (triesLeft === 0) throw unavailable(error);`,
    suites: suite("lost-commits"),
  },
  {
    name: "BEGIN not waited for",
    breaks: "where BEGIN fails each write is kept by itself, and no lock outlasts its statement",
    place: "src/store/postgres/connections.ts#once.query",
    text: `const [{ rows }] = await Promise.all([send({ ...statement, values: values as unknown[] }), begun]);`,
    replacement: `const { rows } = await send({ ...statement, values: values as unknown[] });`,
    suites: suite("connections"),
  },
  {
    name: "deadlock behind another failure",
    breaks: "the victim of a deadlock is refused instead of run again",
    place: "src/store/postgres/connections.ts#once",
    text: `const cause = sqlStateOf(error) === alreadyFailed ? firstFault : error;`,
    replacement: `const cause = error;`,
    suites: suite("connections"),
  },
  {
    name: "lost connection unheard",
    breaks: "a connection that is lost while it is used ends the process",
    place: "src/store/postgres/pool.ts##createPool",
    text: `client.on("error", () => {});`,
    replacement: ``,
    suites: suite("outages"),
  },
  {
    name: "silence not noticed",
    breaks: "a network that swallows packets keeps calls waiting for as long as each statement may take",
    place: "src/store/postgres/watch.ts##stay",
    text: `if (!isAnswered && silentTicks() >= silentTicksMax) return this.#noteSilence();`,
    replacement: ``,
    suites: suite("watch"),
  },
  {
    name: "given up for refused",
    breaks: "in a long silence calls are let through again and again, to wait for nothing",
    place: "src/store/postgres/watch.ts##connect",
    text: `if (this.#clients.includes(client)) onDone(undefined);`,
    replacement: `onDone(undefined);`,
    suites: suite("watch"),
  },
  {
    name: "transaction idle for ever",
    breaks: "an instance that vanishes keeps its locks, and a tenant's day with them",
    place: "src/store/postgres/pool.ts#settingsOf",
    text: `idle_in_transaction_session_timeout: idleTransactionTimeoutMs,`,
    replacement: ``,
    suites: suite("connections"),
  },
  {
    name: "verification not locked",
    breaks: "guesses through two instances see the same count",
    place: "src/store/postgres/statements.ts#statements",
    text: `ORDER BY id FOR UPDATE`,
    replacement: `ORDER BY id`,
    suites: suite("clocks"),
  },
  {
    name: "phone not locked",
    breaks: "each instance spends a phone's limit by itself",
    place: "src/store/postgres/load.ts#loadBelongings",
    text: `...lockKeys(indexes),`,
    replacement: ``,
    suites: suite("clocks"),
  },
  {
    name: "day not locked",
    breaks: "each instance counts the day's messages by itself, and the cap is exceeded",
    place: "src/store/postgres/load.ts#loadBelongings",
    text: `...lockKeys(capped.map((tenant) => digest("day", tenant))),`,
    replacement: ``,
    suites: suite("clocks"),
  },
  {
    name: "locks in the order of arrival",
    breaks: "two batches wait for each other",
    place: "src/store/postgres/load.ts#lockKeys",
    text: `.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))`,
    replacement: ``,
    suites: suite("lock-order"),
  },
  {
    name: "each instance's own clock",
    breaks: "limits and lifetimes depend on who is asked",
    place: "src/store/postgres/open.ts#openPostgres",
    text: `whose === "system" ? clockOf(system) : databaseClock(system);`,
    replacement: `whose === "system" ? clockOf(system) : clockOf(system);`,
    suites: suite("clocks"),
  },
  {
    name: "clock that can be set",
    breaks: "setting a machine's clock moves the limits of its instance",
    place: "src/store/postgres/open.ts#openPostgres",
    text: `: databaseClock(system);`,
    replacement: `: databaseClock({ ...system, monotonicMs: system.now });`,
    suites: suite("opening"),
  },
  {
    name: "commits that are not flushed",
    breaks: "an acknowledged send is lost with the power",
    place: "src/store/postgres/open.ts#refuseUnsafe",
    text: `if (row?.commit === "off") {`,
    replacement: `if (row?.commit === "never") {`,
    suites: suite("opening"),
  },
  {
    name: "first keys unlocked",
    breaks: "instances that start together make a key each",
    place: "src/store/acts/api-keys.ts#addFirstApiKeys",
    text: `yield* lock("api_keys");`,
    replacement: ``,
    suites: suite("first-start"),
  },
  {
    name: "migrations unlocked",
    breaks: "instances that start together run a migration twice",
    place: "src/store/postgres/migrations.ts#migratePostgres",
    text: `SELECT pg_advisory_xact_lock($1::bigint)`,
    replacement: `SELECT $1::bigint`,
    suites: suite("migrations"),
  },
  {
    name: "older version refused",
    breaks: "during an upgrade no instance of the version before can be started again",
    place: "src/store/postgres/migrations.ts#isUpToDate",
    text: `if (least > list.length) throw`,
    replacement: `if (version > list.length) throw`,
    suites: suite("migrations"),
  },
  {
    name: "older version let in",
    breaks: "a version runs without what it reads and writes",
    place: "src/store/postgres/migrations.ts#isUpToDate",
    text: `if (least > list.length) throw`,
    replacement: `if (least > 999_999) throw`,
    suites: suite("migrations"),
  },
  {
    name: "nobody nudged",
    breaks: "what one instance gives back waits for the others' next look",
    place: "src/store/acts/messages.ts#releaseMessages",
    text: `await engine.announceMessages();`,
    replacement: ``,
    suites: suite("nudges"),
  },
];
