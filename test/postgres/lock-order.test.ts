/** Every batch takes its locks in one order. A deadlock would not be broken here: whoever is in one runs into a limit. */
import { expect, test } from "vitest";
import { openPostgres } from "../../src/store/postgres.ts";
import { ann, ben, createActs } from "../store/acts.ts";
import { newDatabase } from "../support/databases.ts";
import { createManualSystem } from "../support/system.ts";

const rounds = 15;
const verificationsEach = 8;

test("batches of two instances that lock the same things in opposite orders never wait for each other in a ring", async () => {
  const url = new URL((await newDatabase()) ?? "");
  url.searchParams.set("options", `${url.searchParams.get("options")} -c deadlock_timeout=60s`);
  const system = createManualSystem();
  const open = () => openPostgres({ url: url.href.replaceAll("+", "%20"), system, clock: "system" });
  const stores = await Promise.all([open(), open()]);
  const [one, two] = stores.map((store) => createActs(store, system));
  if (one === undefined || two === undefined) throw new Error("there are two");
  const phones = [ann, ben, ...["+31612345679", "+31612345680", "+31612345681"].map((phone) => phone as typeof ann)];
  for (let round = 0; round < rounds; round += 1) {
    const sent = await Promise.all(
      Array.from({ length: verificationsEach }, (_, i) => one.send(phones[i % phones.length] ?? ann)),
    );
    const there = sent.map(
      ({ verification }) =>
        () =>
          one.guess(verification, one.wrongCode(verification)),
    );
    const back = sent
      .map(
        ({ verification }) =>
          () =>
            two.guess(verification, two.wrongCode(verification)),
      )
      .toReversed();
    const sends = phones.map((phone) => () => one.send(phone));
    const sendsBack = phones.map((phone) => () => two.send(phone)).toReversed();
    const guesses = Promise.all([...there, ...back].map((guess) => guess()));
    await Promise.all([...sends, ...sendsBack].map((send) => send()));
    expect(await guesses).toEqual(Array.from({ length: 2 * verificationsEach }, () => "CODE_MISMATCH"));
  }
  for (const store of stores) await store.close();
});
