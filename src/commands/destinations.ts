/**
 * `otpd destinations`: the operator's lists of numbers: those that never get a message, and those that always may.
 */
import { commandLine } from "../otp/operators/audit.ts";
import type { Destination, Verdict } from "../otp/verification/destination.ts";
import { noteCharsMax, putDestination, readPrefix, removeDestination } from "../service/operators/destinations.ts";
import { timeOf } from "../system.ts";
import {
  flag,
  Misused,
  parseArgs,
  refuseHidden,
  say,
  sayList,
  single,
  tenantOption,
  Unusable,
  withStore,
  type Commands,
} from "./command.ts";
import { findTenant, keysIfAny, noTenant, tenantName } from "./setup.ts";

const tenantHelp = `  --tenant NAME   whose list it is; default unless given`;

export const destinationCommands: Commands = {
  "destinations block": {
    summary: "send nothing to a prefix or a number",
    help: `Usage: otpd destinations block PREFIX [--note TEXT] [--tenant NAME]

From the next call on, sends and resends to numbers that begin with PREFIX are refused as DESTINATION_BLOCKED, unless a
longer entry allows them. Codes that are out already still verify. PREFIX is a + and 1 to 15 digits, calling code first,
without a trunk zero. An entry with the same PREFIX is replaced.

  --note TEXT     why, at most ${noteCharsMax} characters; shown in the list
${tenantHelp}`,
    run: (args) => put("block", args),
  },
  "destinations allow": {
    summary: "send to a prefix or a number, whatever else is said of it",
    help: `Usage: otpd destinations allow PREFIX [--note TEXT] [--tenant NAME]

From the next call on, numbers that begin with PREFIX are taken, unless a longer entry blocks them: also those that the
number plans call invalid or not mobile, which they do of ranges that are new, and those of countries that are not in
OTP_ALLOWED_COUNTRIES. Nobody checks such a number, so make PREFIX as long as it can be. PREFIX is a + and 1 to 15 digits,
calling code first, without a trunk zero. An entry with the same PREFIX is replaced.

  --note TEXT     why, at most ${noteCharsMax} characters; shown in the list
${tenantHelp}`,
    run: (args) => put("allow", args),
  },
  "destinations remove": {
    summary: "take a prefix or a number from the lists",
    help: `Usage: otpd destinations remove PREFIX [--tenant NAME]

Removes the entry with exactly this PREFIX; longer and shorter ones stay.

${tenantHelp}`,
    run: remove,
  },
  "destinations list": {
    summary: "list the prefixes and numbers that are blocked or allowed",
    help: `Usage: otpd destinations list [--json] [--tenant NAME]

Lists the entries. The longest one that a number begins with counts for it.

  --json          print an array of {"prefix","verdict","note","create_time"}
${tenantHelp}`,
    run: list,
  },
};

/** How entries are printed. */
export const entryColumns = {
  PREFIX: ({ prefix }: Entry) => prefix,
  VERDICT: ({ verdict }: Entry) => verdict,
  NOTE: ({ note }: Entry) => note || null,
  SINCE: ({ create_time }: Entry) => create_time,
};

/** An entry of the lists as it is shown. */
export interface Entry extends Pick<Destination, "prefix" | "verdict" | "note"> {
  readonly create_time: string | null;
}

export function shownEntry({ prefix, verdict, note, createMs }: Destination): Entry {
  return { prefix, verdict, note, create_time: timeOf(createMs) };
}

async function put(verdict: Verdict, args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    options: { note: { type: "string", default: "" }, tenant: tenantOption },
    allowPositionals: true,
  });
  const prefix = onePrefix(positionals);
  const { note } = values;
  if (note.length > noteCharsMax) throw new Misused(`--note must be one line of at most ${noteCharsMax} characters.`);
  refuseHidden("--note", note);
  await withStore(async (store) => {
    const entry = { tenant: tenantName(values.tenant), prefix, verdict, note, createMs: store.now() };
    if (!(await putDestination(store, entry, { by: commandLine, keys: await keysIfAny(store) })))
      throw noTenant(values.tenant);
    say(`${verdict === "block" ? "Blocked" : "Allowed"} ${prefix}.`);
  });
}

async function remove(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args, options: { tenant: tenantOption }, allowPositionals: true });
  const prefix = onePrefix(positionals);
  await withStore(async (store) => {
    const { id: tenant } = await findTenant(store, values.tenant);
    const author = { by: commandLine, keys: await keysIfAny(store) };
    if (!(await removeDestination(store, { tenant, prefix }, author)))
      throw new Unusable(`There is no entry ${prefix}.`);
    say(`Removed ${prefix}.`);
  });
}

async function list(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { json: flag, tenant: tenantOption } });
  await withStore(async (store) => {
    const { id: tenant } = await findTenant(store, values.tenant);
    const entries = (await store.registry.listDestinations(tenant)).map(shownEntry);
    sayList(entries, values.json, "No destination is blocked or allowed.", entryColumns);
  });
}

function onePrefix(positionals: readonly string[]): string {
  const prefix = single(positionals, "Give one prefix or number, such as +31612.");
  const read = readPrefix(prefix);
  if (read.kind === "malformed") {
    throw new Misused("A prefix is a + and 1 to 15 digits, calling code first and nothing between, such as +31612.");
  }
  if (read.kind === "misspelt") {
    throw new Misused(`This number is written ${read.written}; an entry in another spelling would never count.`);
  }
  return prefix;
}
