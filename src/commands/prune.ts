/**
 * `otpd prune`: the sweep that a running server makes by itself, made now and to its end.
 */
import { parseRetentionMs } from "../config/config.ts";
import { sweepThrough } from "../store/upkeep.ts";
import { flag, parseArgs, say, valueOf, withStore, type Command } from "./command.ts";
import { showProgress } from "./progress.ts";
import { chargesAtHand, phonesAtHand } from "./setup.ts";

export const prune: Command = {
  summary: "delete what is past its retention",
  help: `Usage: otpd prune [--json]

Deletes now what has ended longer than OTP_RETENTION_HOURS (72) ago, and the limits and idempotency keys that no longer
matter. Codes past their life are noted as expired, and can never verify again. A running server does all this by itself,
and is not held up by it: the work is done in small batches. What goes is in the sums of otpd stats before. To keep less, set OTP_RETENTION_HOURS, to 24 or more.

  --json   print JSON: "expired" is how many verifications were noted as expired, "deleted" how many rows went`,
  run,
};

async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { json: flag } });
  const retentionMs = valueOf("otpd cannot prune", parseRetentionMs(process.env));
  const total = { expired: 0, deleted: 0 };
  const onSwept = ({ expired, deleted }: { expired: number; deleted: number }) => {
    total.expired += expired;
    total.deleted += deleted;
    showProgress(`${total.deleted} rows deleted`);
    return true;
  };
  const charges = chargesAtHand();
  await withStore(async (store, system) => {
    await charges.learn(store);
    await sweepThrough(store, system, { retentionMs, onSwept, phoneOf: phonesAtHand() }).finally(() =>
      showProgress(""),
    );
  }, charges);
  if (values.json) say(JSON.stringify(total));
  else say(`Deleted ${total.deleted} rows, and noted ${total.expired} verifications as expired.`);
}
