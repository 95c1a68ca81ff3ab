/**
 * `otpd destinations explain` and `unblock`: why the pumping guard or the lists block a prefix, or would, and how to lift
 * that. Of a number, only its prefix is printed.
 */
import { commandLine } from "../otp/operators/audit.ts";
import type { Destination } from "../otp/verification/destination.ts";
import { channels } from "../otp/channel.ts";
import { maskPhone, objectionTo, parsePhoneNumber } from "../otp/phone-number.ts";
import {
  allowance,
  blockSends,
  probesMax,
  provenVerifiedMin,
  tripVerifiedMax,
  unprovenLimit,
  unverifiedSendsMax,
  type DecisionKind,
  type GuardMode,
} from "../otp/limits/pumping-guard.ts";
import { sentenceOf } from "../otp/reason.ts";
import { isWholeNumber } from "../service/operators/destinations.ts";
import { prefixName } from "../service/phone-refs.ts";
import { entrySentence, guardSentence } from "../service/operators/prefix-words.ts";
import {
  entriesFor,
  explainPrefix,
  findNamed,
  liftBlock,
  withoutPunctuation,
  type PrefixReport,
} from "../service/operators/prefixes.ts";
import type { PrefixName, Store } from "../store/store.ts";
import { timeOf } from "../system.ts";
import { flag, parseArgs, say, single, table, tenantOption, Unusable, withStore, type Commands } from "./command.ts";
import { entryColumns, shownEntry } from "./destinations.ts";
import { configuration, keysIfAny, tenantAsRead } from "./setup.ts";

export const prefixCommands: Commands = {
  "destinations explain": {
    summary: "tell why a prefix is blocked, or would be",
    help: `Usage: otpd destinations explain PHONE [--tenant NAME] [--json]

Tells which entry of the tenant's lists blocks or allows it, and for a prefix which longer entries speak for some of its
numbers; then what the pumping guard knows of its prefix, that is, of the numbers that differ in their last four digits,
and every decision it kept, with the numbers that decided. PHONE is a number such as +31612345678, or the prefix itself.

  --tenant  whose prefix; default unless given
  --json    print all of it as one JSON object`,
    run: explain,
  },
  "destinations unblock": {
    summary: "lift a block of the lists, or of the pumping guard",
    help: `Usage: otpd destinations unblock PHONE [--tenant NAME]

Takes PHONE's own entry off the block list, and lifts the guard's block of its prefix. Both count at once; the latter is
kept as a decision. Shorter entries stay, and are told. The guard goes on judging: sends that nobody verifies will block
the prefix again. PHONE is a number such as +31612345678, or the prefix itself.

  --tenant  whose prefix; default unless given`,
    run: unblock,
  },
};

async function explain(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    options: { tenant: tenantOption, json: flag },
    allowPositionals: true,
  });
  const text = onePhone(positionals);
  const config = configuration();
  await withStore(async (store) => {
    const { id, policy } = await tenantAsRead(store, values.tenant, config);
    const { entry, longer } = await entriesOf(store, id, text);
    const name = await findPrefix(store, id, text, entry !== undefined || longer.length > 0);
    const report = await explainPrefix(store, name);
    const guard = report === undefined ? { known: false } : asJson(report, policy.fraudGuard);
    if (values.json) return say(JSON.stringify({ ...guard, destination: entry ? shownEntry(entry) : null, longer }));
    const known = report === undefined ? nothingKnown : describe(report, policy.fraudGuard);
    const listed = [
      entry && entrySentence(entry),
      longer.length === 0 ? undefined : `Longer entries speak for some of its numbers:\n${table(longer, entryColumns)}`,
    ];
    say([...listed.filter((part) => part !== undefined), known].join("\n\n"));
  });
}

async function entriesOf(store: Store, tenant: string, text: string) {
  const named = await findNamed(store, tenant, text);
  if (named === undefined) return { entry: undefined, longer: [] };
  const { entry, longer } = await entriesFor(store, named);
  const isWhole = (prefix: string) => named.isNumber && prefix.length > named.text.length - 4;
  return {
    entry: entry && masked(entry, isWhole(entry.prefix)),
    longer: longer.map((below) => shownEntry(masked(below, isWholeNumber(below.prefix)))),
  };
}

/** Of a number, only its prefix is shown. */
function masked(entry: Destination, isNumber: boolean): Destination {
  return isNumber ? { ...entry, prefix: maskPhone(entry.prefix) } : entry;
}

async function unblock(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args, options: { tenant: tenantOption }, allowPositionals: true });
  const text = onePhone(positionals);
  const config = configuration();
  await withStore(async (store) => {
    const { id, policy } = await tenantAsRead(store, values.tenant, config);
    const named = await findNamed(store, id, text);
    const author = { by: commandLine, keys: await keysIfAny(store) };
    const lifted = named && (await liftBlock(store, named, policy.fraudGuard, author));
    const { entry } = await entriesOf(store, id, text);
    const name = await findPrefix(store, id, text, lifted?.entryRemoved === true || entry !== undefined);
    const told = [
      lifted?.entryRemoved && "Its entry is off the block list.",
      lifted?.guardLifted && `${name.prefix}•••• is not blocked any more.`,
    ].filter((sentence) => typeof sentence === "string");
    const still = entry?.verdict === "block" ? [entrySentence(entry)] : [];
    if (told.length === 0) throw new Unusable(["The guard does not block this prefix.", ...still].join("\n"));
    say([...told, ...still].join("\n"));
  });
}

function onePhone(positionals: readonly string[]): string {
  return single(positionals, "Give one phone in international form, or a prefix.");
}

const nothingKnown = "Nothing is known of this prefix: no send to it was judged in the last 30 days.";

/** A number's prefix, or the text itself if it is a known prefix. */
async function findPrefix(store: Store, tenant: string, text: string, isListed = false): Promise<PrefixName> {
  const parsed = parsePhoneNumber(text);
  const objections = parsed.ok ? channels.map((channel) => objectionTo(parsed.value, channel)) : [parsed.refusal];
  const refusal = objections.includes(undefined) ? undefined : objections[0];
  if (parsed.ok && refusal === undefined) return prefixName(tenant, parsed.value.e164);
  const name = { tenant, prefix: withoutPunctuation(text) };
  if (isListed || (await store.readPrefix(name)) !== undefined) return name;
  // It may be an unknown prefix or no number at all.
  throw new Unusable(
    `${nothingKnown} If it is meant to be a number: ${refusal === undefined ? "" : sentenceOf(refusal)}`,
  );
}

const words: Record<DecisionKind, string> = {
  passed: "the block passed",
  tripped: "blocked",
  "half-opened": `block over, ${probesMax} probes let through`,
  "tripped-again": "no probe was verified, blocked again",
  closed: "a probe was verified, open again",
  unblocked: "unblocked by an operator",
  limited: "too many sends before codes were typed",
};

function describe(report: PrefixReport, mode: GuardMode): string {
  const { record, decisions } = report;
  const { burst, intervalMs } = unprovenLimit;
  const lines = [
    `${report.prefix}••••, tenant ${report.tenant}: ${guardSentence(report, mode)}`,
    "",
    ...numbers(report),
    ...(record.refused === 0
      ? []
      : [
          `${mode === "enforce" ? "Refused" : "It would have refused"} ${record.refused === 1 ? "1 message" : `${record.refused} messages`}, from ${timeOf(record.refusedFirstMs)} to ${timeOf(record.refusedLastMs)}, by the minute.`,
        ]),
    "",
    `The rule: of every ${blockSends} sends, ${tripVerifiedMax} verified or fewer block the prefix, for an hour at first and doubling to a day. Then ${probesMax}`,
    `probes decide. Until ${provenVerifiedMin} of ${blockSends} were verified it takes ${burst} sends and one more every ${intervalMs / 1_000} s; and at most ${unverifiedSendsMax} as long as`,
    `${tripVerifiedMax} or fewer are verified. Resends come on top.`,
    "",
  ];
  if (decisions.length === 0) return [...lines, "No decision was made yet."].join("\n");
  const shown = table(decisions, {
    TIME: (d) => timeOf(d.atMs),
    DECISION: (d) => words[d.kind],
    VERIFIED: (d) => `${d.verified}`,
    OF: (d) => `${d.ended}`,
    REFUSED: (d) => `${d.refused}`,
    UNTIL: (d) => timeOf(d.untilMs),
    ENFORCED: (d) => (d.enforced ? "yes" : "no"),
  });
  return [...lines, shown].join("\n");
}

function numbers({ record }: PrefixReport): string[] {
  const { phase, sent, ended, verified, beyondSent, beyondVerified, proven } = record;
  if (phase === "tripped") return [];
  if (phase === "half-open")
    return [`Of ${probesMax} probes ${sent} are sent; ${ended} of them have ended, ${verified} verified.`];
  const room = allowance(verified + beyondVerified) - sent - beyondSent;
  return [
    `The block under way: ${sent} of ${blockSends} sends; ${ended} of them have ended, ${verified} verified. Beyond it: ${beyondSent} sends, ${beyondVerified} verified.`,
    `It has ${proven ? "" : "not "}proven itself, and would take ${Math.max(0, room)} more sends before the next is verified.`,
  ];
}

/** `matured` is the name that `ended` had before 0.1.0; it goes with the release after that. */
function asJson({ tenant, prefix, record, decisions, isDue }: PrefixReport, mode: GuardMode) {
  return {
    known: true,
    tenant,
    prefix,
    mode,
    state: record.phase,
    block_over: isDue,
    until_time: timeOf(record.untilMs || null),
    trips_in_a_row: record.trips,
    proven: record.proven,
    sent: record.sent,
    ended: record.ended,
    matured: record.ended,
    verified: record.verified,
    beyond_sent: record.beyondSent,
    beyond_verified: record.beyondVerified,
    refused: record.refused,
    refused_first_time: timeOf(record.refusedFirstMs || null),
    refused_last_time: timeOf(record.refusedLastMs || null),
    decisions: decisions.map((d) => ({
      time: timeOf(d.atMs),
      decision: d.kind,
      ended: d.ended,
      matured: d.ended,
      verified: d.verified,
      refused: d.refused,
      until_time: timeOf(d.untilMs),
      enforced: d.enforced,
    })),
  };
}
