/**
 * `otpd demo-data`: a sample month in a development database, for whoever wants to see the console at work before
 * anything has happened.
 */
import { providersNamed, type Config } from "../config/config.ts";
import { fillSample, type Filled } from "../service/sample/fill.ts";
import { sweepThrough } from "../store/upkeep.ts";
import { Misused, parseArgs, say, Unusable, withStore, type Commands } from "./command.ts";
import { configuration, fittingKeys, phonesAtHand } from "./setup.ts";

export const demoDataCommands: Commands = {
  "demo-data": {
    summary: "fill a development database with a sample month",
    help: `Usage: otpd demo-data [--seed NUMBER]

Fills the database with a month of three tenants whose names begin with demo-: requests in five countries, an attack, a provider's
outage, a day near the cap, and an audit. The server may run beside it; otpd console prints a link to look at it. Nothing is
sent, and nobody has the secrets of its keys. It is refused outside development, with a provider that really sends, where such a
one has sent before, and a second time.

  --seed NUMBER  another month for each; 1 unless given`,
    run: fill,
  },
};

async function fill(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { seed: { type: "string", default: "1" } } });
  if (!/^\d{1,9}$/.test(values.seed)) throw new Misused("--seed must be a whole number of up to nine digits.");
  const seed = Number(values.seed);
  if (process.env["OTP_ENV"] === "production") {
    throw new Unusable("Sample data is for development alone, and OTP_ENV is production. Nothing was written.");
  }
  const config = configuration();
  refuseSending(config);
  await withStore(async (store, system) => {
    const keys = await fittingKeys(store, config);
    const { retentionMs } = config.policy;
    const phoneOf = phonesAtHand();
    const sweep = () =>
      sweepThrough(store, system, { retentionMs, phoneOf, what: "found by time", onSwept: () => true });
    const filled = await fillSample({ store, system, keys, seed, sweep });
    if (filled.kind !== "filled") throw new Unusable(sentences[filled.kind]);
    const { requests, stories } = filled;
    say(
      `A sample month is in the database: ${requests} requests of demo-shop, demo-bank and demo-clinic, ${stories} of them with their stories.\n\notpd console prints a link to look at it.`,
    );
  });
}

/** Ends the command where a message could really be sent. */
function refuseSending(config: Config): void {
  const sending = providersNamed(config).filter((name) => name !== "console");
  if (sending.length > 0) {
    throw new Unusable(
      `Sample data is not for a setup that really sends: ${sending.join(", ")} would be used. Nothing was written.`,
    );
  }
}

const elsewhere = "Nothing was written. Another one is begun by OTP_DATABASE_URL=file:./data/demo.db npm start.";
const sentences: Readonly<Record<Exclude<Filled["kind"], "filled">, string>> = {
  there: "The sample month is in this database already: its tenants begin with demo-. Nothing was written.",
  occupied: `A provider has really sent messages of this database, so it is no place for sample data. ${elsewhere}`,
  busy: "The database was busy with requests that have just ended. Nothing was written: try again.",
};
