/** How many statements a batch takes, and how many times it waits for an answer. */
import { inject, expect, test } from "vitest";
import { decideSettle } from "../../src/otp/decisions/settlement.ts";
import type { Connections } from "../../src/store/postgres/connections.ts";
import { createActs, ringOf, testPolicy } from "../store/acts.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { connectTo, storeOver } from "../support/databases/opening.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { createManualSystem } from "../support/service/system.ts";

/** What a transaction asked the database, by the answers that it waited for: statements that went out together are a list. */
type Asked = string[][];

/** Connections that note the statements of each transaction, its beginning and its end among them. */
function noting(connections: Connections): { connections: Connections; transactions: Asked[] } {
  const transactions: Asked[] = [];
  return {
    transactions,
    connections: {
      ...connections,
      transact: (run, begin) =>
        connections.transact((transaction) => {
          const asked: Asked = [["begin"]];
          transactions.push(asked);
          let isAnswered = false;
          const note = (name: string) => {
            if (isAnswered) asked.push([]);
            isAnswered = false;
            asked.at(-1)?.push(name);
          };
          const done = run({
            async query(statement, values) {
              note(statement.name);
              const rows = await transaction.query(statement, values);
              isAnswered = true;
              return rows as never;
            },
            send(statement, values) {
              note(statement.name);
              transaction.send(statement, values);
            },
          });
          return done.finally(() => note("commit"));
        }, begin),
    },
  };
}

test("a batch takes as few statements as its acts depend on each other, however many acts it has", async () => {
  const url = await newDatabase();
  if (url === undefined) throw new Error(`no PostgreSQL: ${inject("postgres")}`);
  const system = createManualSystem();
  const { connections, transactions } = noting(await connectTo(url));
  const store = storeOver(connections, { url, system });
  const acts = createActs(store, system, ringOf(1), { ...testPolicy, dailyMessagesMax: 1_000_000 });
  const accepted = { outcome: { kind: "accepted" }, provider: "one", providers: 1 } as const;
  const asked = async <T>(run: () => Promise<T>): Promise<[T, Asked[]]> => {
    transactions.length = 0;
    return [await run(), [...transactions]];
  };

  // Of eight prefixes, none of which uses up what it takes before codes are typed: that is decided, and written once.
  const phones = Array.from({ length: 32 }, (_, i) => `+31${610 + (i % 8)}${100_000 + i}` as E164);
  const [jobs, sending] = await asked(() => Promise.all(phones.map((phone) => acts.send(phone))));
  expect(sending).toEqual([
    [
      ["begin", "lock", "belongings"],
      ["writes", "commit"],
    ],
  ]);
  const [, settling] = await asked(() =>
    Promise.all(
      jobs.map(({ message }) =>
        store.settleMessage(message, acts.phoneOf, (view) =>
          decideSettle(view, { ...accepted, claimed: message }, acts.policy),
        ),
      ),
    ),
  );
  expect(settling).toEqual([
    [
      ["begin", "lock-verifications", "messages"],
      ["lock", "belongings"],
      ["update-verifications", "put-messages", "commit"],
    ],
  ]);
  const [, guessing] = await asked(() =>
    Promise.all(jobs.map(({ verification }) => acts.guess(verification, acts.rightCode(verification)))),
  );
  expect(guessing).toEqual([
    [
      ["begin", "lock-verifications"],
      ["lock", "belongings"],
      ["writes", "commit"],
    ],
  ]);
  await store.close();
});
