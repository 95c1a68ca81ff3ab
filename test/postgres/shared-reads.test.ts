/** Calls that ask for the same read at once share one that was sent after all of them had come. */
import { expect, test } from "vitest";
import { LookUps } from "../../src/store/postgres/look-ups.ts";

/** A database of one value, whose answers come when the test says so, with what the value was when they were asked for. */
function createDatabase() {
  const answers: (() => void)[] = [];
  const database = {
    value: "valid",
    /** How many reads were sent, and how many of them wait. */
    sent: 0,
    read: () => {
      database.sent += 1;
      const { value } = database;
      return new Promise<string>((resolve) => answers.push(() => resolve(value)));
    },
    async answer() {
      answers.shift()?.();
      await new Promise(setImmediate);
    },
  };
  return database;
}

const statement = { name: "read", text: "" };

/** What reads one thing for all who ask. */
function readsBy(read: () => Promise<string>): () => Promise<string | undefined> {
  const query = async <Row>() => [{ value: await read() }] as Row[];
  const lookUps = new LookUps<{ readonly value: string }>({ query }, statement, statement);
  return async () => (await lookUps.read("key"))[0]?.value;
}

test("those who come while a read is under way share the next, whatever that one answers", async () => {
  const database = createDatabase();
  const ask = readsBy(database.read);
  const first = ask();
  database.value = "revoked";
  const later = Array.from({ length: 50 }, ask);
  expect(database.sent).toBe(1);
  await database.answer();
  expect(await first).toBe("valid");
  expect(database.sent).toBe(2);
  // Too late for the second, which was sent before.
  database.value = "valid again";
  const last = ask();
  await database.answer();
  expect(new Set(await Promise.all(later))).toEqual(new Set(["revoked"]));
  await database.answer();
  expect(await last).toBe("valid again");
  expect(database.sent).toBe(3);
  void ask();
  expect(database.sent).toBe(4);
});

test("other things are read by themselves, and a read that fails fails only those who share it", async () => {
  const database = createDatabase();
  let isGone = true;
  const ask = readsBy(() => {
    if (!isGone) return database.read();
    isGone = false;
    return Promise.reject(new Error("gone"));
  });
  const failed = ask();
  const other = readsBy(database.read)();
  const next = ask();
  await expect(failed).rejects.toThrow("gone");
  await database.answer();
  await database.answer();
  expect([await other, await next, database.sent]).toEqual(["valid", "valid", 2]);
});
