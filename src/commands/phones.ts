/**
 * `otpd phones`: the answer to "the customer says no SMS came".
 */
import { channelsOn, type Config } from "../config/config.ts";
import { readTenant } from "../config/tenant-settings.ts";
import { commandLine, phoneSubject } from "../otp/operators/audit.ts";
import type { Destination } from "../otp/verification/destination.ts";
import { maskPhone, parsePhoneNumber, type PhoneNumber } from "../otp/phone-number.ts";
import { sentenceOf } from "../otp/reason.ts";
import { defaultTenant, type Tenant } from "../otp/operators/tenant.ts";
import { erasePhone } from "../service/operators/erasure.ts";
import { phoneRefs } from "../service/phone-refs.ts";
import { resetPhone, showPhone, type Allowance, type PhoneReport } from "../service/operators/phones.ts";
import { createTenants } from "../service/callers/tenants.ts";
import type { Store } from "../store/store.ts";
import { timeOf } from "../system.ts";
import { flag, parseArgs, say, single, table, Unusable, withStore, type Commands } from "./command.ts";
import { chargesAtHand, configuration, fittingKeys, tenantAsRead } from "./setup.ts";

export const phoneCommands: Commands = {
  "phones show": {
    summary: "tell what became of the messages to a phone",
    help: `Usage: otpd phones show PHONE [--tenant NAME] [--json]

Shows the latest requests of a phone and what became of their messages, how many it may still get, how long its next code
is and why, and whether a list of destinations blocks or allows it. PHONE is in international form, such as +31612345678.

  --tenant NAME   as this tenant knows it; unless given, as each tenant that knows it does, or default where none does
  --json          print all of it as a JSON object, in an array unless --tenant is given`,
    run: show,
  },
  "phones erase": {
    summary: "erase what is stored of a phone",
    help: `Usage: otpd phones erase PHONE [--tenant NAME] [--json]

Cancels the pending requests of a phone and erases all its requests, with their messages, the events that wait about them and
the answers under Idempotency-Keys. Its wrong codes and its limits count on under a keyed index until they age. Entries of the
lists of destinations stay, and are shown. Backups and logs are not touched: docs/operate.md speaks of them.

  --tenant NAME   with this tenant; unless given, with each tenant
  --json          print what was erased as a JSON object`,
    run: erase,
  },
  "phones reset": {
    summary: "give a phone a fresh start",
    help: `Usage: otpd phones reset PHONE [--tenant NAME]

Forgets the messages that count against the phone's limits, and its wrong codes. Live requests stay as they are. Its next
code has the usual length, unless many attempts are open on them.

  --tenant NAME   with this tenant; unless given, with each tenant that knows it`,
    run: reset,
  },
};

/** What is asked of one phone, in whatever form the answer is to be. */
function readArguments(args: string[]) {
  const { values, positionals } = parseArgs({
    args,
    options: { tenant: { type: "string" }, json: flag },
    allowPositionals: true,
  });
  return { values, phone: onePhone(positionals) };
}

async function show(args: string[]): Promise<void> {
  const { values, phone } = readArguments(args);
  const config = configuration();
  await withStore(async (store) => {
    const keys = await fittingKeys(store, config);
    if (values.tenant !== undefined) {
      const { id, policy } = await tenantAsRead(store, values.tenant, config);
      const report = await showPhone({ store, keys, policy }, id, phone, channelsOn(config));
      return say(values.json ? JSON.stringify(asJson(id, phone, report)) : describe(phone, report));
    }
    const reports: [tenant: string, report: PhoneReport][] = [];
    for (const { id, policy } of await allTenants(store, config)) {
      reports.push([id, await showPhone({ store, keys, policy }, id, phone, channelsOn(config))]);
    }
    const known = reports.filter(([, report]) => isKnown(report));
    const shown = known.length > 0 ? known : reports.filter(([tenant]) => tenant === "default");
    if (values.json) return say(JSON.stringify(shown.map(([tenant, report]) => asJson(tenant, phone, report))));
    const isDefault = shown.every(([tenant]) => tenant === "default");
    say(
      shown
        .map(([tenant, report]) => `${isDefault ? "" : `Tenant ${tenant}: `}${describe(phone, report)}`)
        .join("\n\n"),
    );
  });
}

/** Whether anything is known of a phone in a tenant. */
function isKnown({ requests, wrongCodes, entry, allowances }: PhoneReport): boolean {
  const isSpent = allowances.some(({ available, burst }) => available < burst);
  return requests.length > 0 || wrongCodes > 0 || entry !== undefined || isSpent;
}

async function reset(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args, options: { tenant: { type: "string" } }, allowPositionals: true });
  const phone = onePhone(positionals);
  const config = configuration();
  await withStore(async (store) => {
    const keys = await fittingKeys(store, config);
    const asked = values.tenant;
    const tenants = asked === undefined ? await allTenants(store, config) : [await tenantAsRead(store, asked, config)];
    const freshAt: string[] = [];
    const longer: string[] = [];
    for (const { id, policy } of tenants) {
      if (!isKnown(await showPhone({ store, keys, policy }, id, phone))) continue;
      const audited = { tenant: id, subject: phoneSubject(keys.current, id, phone.e164) };
      const noted = { note: { by: commandLine, action: "phone.reset" }, audited } as const;
      await resetPhone({ store, keys, policy }, id, phone, noted);
      freshAt.push(id);
      const { codeLength, openAttempts } = await showPhone({ store, keys, policy }, id, phone);
      if (codeLength !== policy.codeLength && openAttempts > 0) longer.push(id);
    }
    const shown = maskPhone(phone.e164);
    if (freshAt.length === 0)
      return say(
        `${asked ?? "No tenant"} ${asked === undefined ? "knows" : "knows nothing of"} ${shown}: nothing was reset.`,
      );
    const fresh = `${shown} starts afresh with ${freshAt.join(", ")}: no message counts against its limits, and its wrong codes are forgotten.`;
    const still = `Codes are still longer with ${longer.join(", ")}, until those that are out are verified, canceled or expired.`;
    say(longer.length === 0 ? fresh : `${fresh}\n${still}`);
  });
}

async function erase(args: string[]): Promise<void> {
  const { values, phone } = readArguments(args);
  const config = configuration();
  // What is erased is summed before it goes.
  const charges = chargesAtHand();
  await withStore(async (store) => {
    await charges.learn(store);
    const keys = await fittingKeys(store, config);
    const asked = values.tenant === undefined ? undefined : (await tenantAsRead(store, values.tenant, config)).id;
    const tenants = createTenants({ store, read: (record) => readTenant(record, config).tenant });
    await tenants.refresh();
    const phoneOf = phoneRefs(keys, tenants.tenantOf);
    const audited = { tenant: asked ?? "", subject: phoneSubject(keys.current, asked ?? defaultTenant, phone.e164) };
    const noted = { note: { by: commandLine, action: "phone.erase" }, audited } as const;
    const erased = await erasePhone({ store, keys, phoneOf }, { phone: phone.e164, tenant: asked }, noted);
    const entries = erased.entries.map(({ tenant, verdict, note }) => ({ tenant, verdict, note }));
    if (values.json) return say(JSON.stringify({ ...erased, entries }));
    const shown = maskPhone(phone.e164);
    const { verifications, canceled, events } = erased;
    const counts = `requests ${verifications} (pending, so canceled: ${canceled}), events ${events}`;
    const stay = entries.map(
      ({ tenant, verdict }) =>
        `The ${verdict} list of ${tenant} names this number: otpd destinations remove takes it off.`,
    );
    say([`Erased of ${shown}: ${counts}. Its wrong codes count on until they are 90 days old.`, ...stay].join("\n"));
  }, charges);
}

async function allTenants(store: Store, config: Config): Promise<Tenant[]> {
  return (await store.registry.listTenants()).map((record) => readTenant(record, config).tenant);
}

function onePhone(positionals: readonly string[]): PhoneNumber {
  const parsed = parsePhoneNumber(single(positionals, "Give one phone in international form."));
  if (!parsed.ok) throw new Unusable(sentenceOf(parsed.refusal));
  return parsed.value;
}

function describe(phone: PhoneNumber, report: PhoneReport): string {
  const { codeLength, wrongCodes, openAttempts } = report;
  const why = `${wrongCodes} wrong ${wrongCodes === 1 ? "code" : "codes"} in 90 days, ${openAttempts} ${openAttempts === 1 ? "attempt" : "attempts"} open on live requests${report.isTenantGuessedAt ? "; many phones are being guessed at" : ""}`;
  const lines = [
    `${maskPhone(phone.e164)}, ${phone.region}${report.refusal?.reason === "COUNTRY_NOT_ALLOWED" ? ": this country is not allowed, so nothing is sent" : ""}`,
    ...listLines(phone, report),
    "",
    codeLength === "refuse" ? `No code is sent: ${why}.` : `The next code has ${codeLength} digits: ${why}.`,
    ...report.allowances.map(allowanceLine),
    "",
  ];
  if (report.requests.length === 0) return [...lines, "No request is known for this phone."].join("\n");
  // What is said of a request stands beside its first message.
  const rows = report.requests.flatMap(({ verification: v, state, messages, references }) =>
    messages.map((message, i) => ({ message, reference: references[i], first: i === 0 ? { v, state } : undefined })),
  );
  const shown = table(rows, {
    REQUEST: ({ first }) => first?.v.id ?? "",
    TIME: ({ first }) => (first && timeOf(first.v.createMs)) ?? "",
    STATE: ({ first }) => first?.state ?? "",
    WRONG: ({ first }) => (first ? `${first.v.attempts - (first.state === "VERIFIED" ? 1 : 0)}` : ""),
    COPY: ({ message }) => `${message.copy + 1}`,
    CHANNEL: ({ message }) => message.channel,
    DELIVERY: ({ message }) => message.delivery,
    PROVIDER: ({ message }) => message.provider,
    MESSAGE: ({ message }) => message.providerMessageId,
    REFERENCE: ({ reference }) => reference ?? "",
    DETAIL: ({ message }) => message.detail ?? "",
  });
  return [...lines, shown].join("\n");
}

/** What the lists of destinations say, and other reasons against the number. The entry is the operator's own text. */
function listLines(phone: PhoneNumber, { entry, refusal }: PhoneReport): string[] {
  const shown = entry === undefined ? "" : shownPrefix(phone, entry);
  const why = entry?.note ? ` (${entry.note})` : "";
  if (refusal?.reason === "DESTINATION_BLOCKED") return [`Blocked by the entry ${shown}${why}: nothing is sent.`];
  if (refusal !== undefined && refusal.reason !== "COUNTRY_NOT_ALLOWED")
    return [`Nothing is sent: ${sentenceOf(refusal)}`];
  return entry?.verdict === "allow" ? [`Allowed by the entry ${shown}${why}.`] : [];
}

function allowanceLine({ knownUser, burst, intervalMs, available, retryAfterMs }: Allowance): string {
  const wait = available === 0 ? `, the next in ${Math.ceil(retryAfterMs / 1_000)} s` : "";
  const lane = knownUser ? "Sends for a known user" : "Sends";
  return `${lane}: ${available} of ${burst} left, one more every ${Math.round(intervalMs / 1_000)} s${wait}.`;
}

function listed(phone: PhoneNumber, entry: Destination) {
  return { prefix: shownPrefix(phone, entry), verdict: entry.verdict, note: entry.note };
}

/** An entry as it was written, unless that would show the phone. */
function shownPrefix({ e164 }: PhoneNumber, { prefix }: Destination): string {
  return prefix.length > e164.length - 4 ? maskPhone(prefix) : prefix;
}

function asJson(tenant: string, phone: PhoneNumber, report: PhoneReport) {
  return {
    tenant,
    phone: maskPhone(phone.e164),
    country: phone.region,
    country_allowed: report.isCountryAllowed,
    refusal: report.refusal?.reason ?? null,
    destination: report.entry === undefined ? null : listed(phone, report.entry),
    code_length: report.codeLength,
    wrong_codes: report.wrongCodes,
    open_attempts: report.openAttempts,
    tenant_guessed_at: report.isTenantGuessedAt,
    limits: report.allowances.map((allowance) => ({
      known_user: allowance.knownUser,
      burst: allowance.burst,
      interval_seconds: allowance.intervalMs / 1_000,
      available: allowance.available,
      retry_after_seconds: Math.ceil(allowance.retryAfterMs / 1_000),
    })),
    requests: report.requests.map(({ verification: v, state, messages, references }) => ({
      request_id: v.id,
      create_time: timeOf(v.createMs),
      expire_time: timeOf(v.expireMs),
      state,
      attempts: v.attempts,
      channel: v.channel,
      messages: messages.map(({ copy, channel, delivery, calls, provider, providerMessageId, detail }, i) => ({
        copy,
        channel,
        delivery,
        calls,
        provider,
        provider_message_id: providerMessageId,
        reference: references[i],
        detail,
      })),
    })),
  };
}
