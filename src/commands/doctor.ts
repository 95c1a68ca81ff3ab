/**
 * `otpd doctor`: checks the configuration, and says in plain sentences what it found. The exit code is 0 if all is well.
 */
import { describedAs, makeProvider } from "../delivery/providers/list.ts";
import { unreached } from "../delivery/unreached.ts";
import { reportPath, type Finding } from "../delivery/provider.ts";
import { Secret } from "../otp/keys/secret.ts";
import { examineBotCheck } from "../service/callers/bot-check.ts";
import { MasterKeyMismatch } from "../store/registry.ts";
import type { Store } from "../store/store.ts";
import { timeOf, createSystem } from "../system.ts";
import { lacksVoiceCap, providersNamed, withoutVoiceCap, type Config } from "../config/config.ts";
import { readTenant } from "../config/tenant-settings.ts";
import { flag, messageOf, openExisting, parseArgs, say, Unusable, type Command } from "./command.ts";
import { fileFindings } from "./doctor-files.ts";
import { configuration, keyRingOf } from "./setup.ts";

export const doctor: Command = {
  summary: "check the configuration against the world",
  help: `Usage: otpd doctor [--json]

Checks the configuration, the database, the master key, and every configured provider: credentials, balance, sender,
clock, whether delivery reports can reach us, the bot check, and which tenants' endpoints take no events. Sends nothing.
It also looks at the TLS certificate, at files of authorities, and at who can read secrets. A fault (BAD) keeps something
from working, and makes the exit code 1; a warning (warn) does not.

  --json   print an array of {"level","ok","sentence"}; level is ok, warning or fault`,
  run: examine,
};

const reachTimeoutMs = 5_000;

async function examine(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { json: flag } });
  const config = configuration();
  const findings = [
    {
      ok: true,
      sentence: "The configuration in the environment of this shell, which need not be the service's, has no faults.",
    },
    ...fileFindings(config, createSystem().now()),
    ...(await databaseFindings(config)),
    ...(await providerFindings(config)),
    ...senderFindings(config),
    ...(lacksVoiceCap(config) ? [{ ok: false, isWarning: true, sentence: withoutVoiceCap }] : []),
    ...(await reportFindings(config)),
    ...(await botCheckFindings(config)),
  ];
  const leveled = findings.map((finding) => ({ level: levelOf(finding), ok: finding.ok, sentence: finding.sentence }));
  const marks = { ok: "ok  ", warning: "warn", fault: "BAD " };
  if (values.json) say(JSON.stringify(leveled));
  else for (const { level, sentence } of leveled) say(`${marks[level]} ${sentence}`);
  const bad = leveled.filter(({ level }) => level === "fault").length;
  if (bad > 0) throw new Unusable(`${bad} of ${findings.length} checks failed.`);
}

function levelOf({ ok, isWarning = false }: Finding): "ok" | "warning" | "fault" {
  if (ok) return "ok";
  return isWarning ? "warning" : "fault";
}

async function databaseFindings(config: Config): Promise<Finding[]> {
  let store: Store;
  try {
    store = await openExisting(config.database, createSystem());
  } catch (error) {
    if (error instanceof Unusable) return [{ ok: false, sentence: error.message }];
    const why = messageOf(error);
    const isWhole = /^the database (?:.+ )?cannot be opened: /.test(why);
    return [{ ok: false, sentence: isWhole ? `T${why.slice(1)}.` : `The database cannot be opened: ${why}.` }];
  }
  try {
    return [
      await writeFinding(store),
      await masterKeyFinding(store, config),
      ...(await tenantFindings(store, config)),
      ...(await endpointFindings(store)),
    ];
  } finally {
    await store.close();
  }
}

async function writeFinding(store: Store): Promise<Finding> {
  try {
    await store.ping();
    return { ok: true, sentence: "The database can be written." };
  } catch (error) {
    return { ok: false, sentence: `The database cannot be written: ${messageOf(error)}.` };
  }
}

async function masterKeyFinding(store: Store, config: Config): Promise<Finding> {
  try {
    await store.registry.judgeMasterKeys(keyRingOf(config).all);
    return { ok: true, sentence: "The master key is the one the database was written with." };
  } catch (error) {
    if (error instanceof Unusable) return { ok: false, sentence: error.message };
    const verdict = error instanceof MasterKeyMismatch ? "does not fit" : "could not be looked at";
    return { ok: false, sentence: `The master key ${verdict}: ${messageOf(error)}.` };
  }
}

/** Settings of tenants that a server would not use. */
async function tenantFindings(store: Store, config: Config): Promise<Finding[]> {
  const records = await store.registry.listTenants();
  return records.flatMap((record) =>
    readTenant(record, config).faults.map(({ setting, rest }) => ({
      ok: false,
      sentence: `Tenant ${record.id}: ${setting} ${rest}; the operator's holds.`,
    })),
  );
}

/** Webhook endpoints that do not take their events. One that an operator has disabled is no fault. */
async function endpointFindings(store: Store): Promise<Finding[]> {
  const found = await store.events.listEndpoints();
  return found.flatMap(({ endpoint: { id, tenant, why, disableMs, failingSinceMs }, waiting }) => {
    if (failingSinceMs === null || why === "operator") return [];
    const since = `since ${timeOf(failingSinceMs)}`;
    const state = disableMs === null ? `takes nothing ${since}, and ${waiting} events wait` : `is disabled (${why})`;
    return [{ ok: false, isWarning: true, sentence: `Webhook endpoint ${id} of tenant ${tenant} ${state}.` }];
  });
}

async function providerFindings(config: Config): Promise<Finding[]> {
  const system = createSystem();
  const around = { now: () => system.now(), print: () => {} };
  const findings = providersNamed(config).map(async (name) => {
    const provider = await makeProvider(name, config.providerSettings, around);
    return (await provider.examine?.()) ?? [];
  });
  return (await Promise.all(findings)).flat();
}

/** Countries whose networks deliver no text from a sender of letters. */
const numbersOnly = new Set(["US", "CA", "PR", "CN", "BR", "MX", "CO", "AR", "CL", "PE", "EC", "KR", "NZ", "ZA"]);

function senderFindings({ providers, providerSettings: settings, policy }: Config): Finding[] {
  const senders = providers.sms.map((name) => {
    const { sender, senderText = "" } = describedAs(name, settings.declared);
    return sender === undefined ? senderText : String(settings.values[sender]);
  });
  if (!senders.some((sender) => /[A-Za-z]/.test(sender))) return [];
  const uncovered = [...numbersOnly].filter(
    (country) =>
      (policy.allowedCountries?.has(country) ?? true) && !/^\+?\d+$/.test(settings.originators.get(country) ?? ""),
  );
  if (uncovered.length === 0) return [{ ok: true, sentence: "The sender suits the countries that are allowed." }];
  return [
    {
      ok: false,
      isWarning: true,
      sentence: `A sender of letters is not delivered in ${uncovered.join(", ")}: give those countries a number in OTP_ORIGINATORS.`,
    },
  ];
}

async function reportFindings({ providerSettings: settings, providers }: Config): Promise<Finding[]> {
  const reporting = providersNamed({ providers }).flatMap((name) => {
    const { reportSecret } = describedAs(name, settings.declared);
    return reportSecret === undefined ? [] : [{ name, reportSecret }];
  });
  if (reporting.length === 0) return [];
  if (settings.publicUrl === undefined) {
    return [
      {
        ok: false,
        isWarning: true,
        sentence:
          "OTP_PUBLIC_URL is not set, so providers are not told where to report; without reports a lost message is not sent again.",
      },
    ];
  }
  return Promise.all(
    reporting.map(async ({ name, reportSecret }) => {
      if (settings.values[reportSecret] === undefined) {
        return {
          ok: false,
          isWarning: true,
          sentence: `${reportSecret} is not set, so no delivery report is believed, and a lost message is not sent again.`,
        };
      }
      const url = settings.publicUrl + reportPath(name);
      try {
        // Unsigned, so the service that is reached answers 401.
        const { status } = await fetch(url, { signal: AbortSignal.timeout(reachTimeoutMs), redirect: "manual" });
        return {
          ok: status === 401,
          sentence: `${url} ${status === 401 ? "reaches this service" : `answers HTTP ${status} instead of this service`}.`,
        };
      } catch (error) {
        return { ok: false, sentence: unreached(url, error) };
      }
    }),
  );
}

/** Checks a token that no browser was given. */
async function botCheckFindings({ botCheck }: Config): Promise<Finding[]> {
  return botCheck === undefined ? [] : [await examineBotCheck(botCheck, new Secret("made-up"))];
}
