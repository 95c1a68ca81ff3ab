/**
 * `otpd audit`: who changed what, and when.
 */
import { auditActions, type AuditEntry } from "../otp/operators/audit.ts";
import { changeText } from "../otp/operators/audit-words.ts";
import { readAudit } from "../service/operators/audit.ts";
import { timeOf } from "../system.ts";
import {
  flag,
  Misused,
  parseArgs,
  say,
  sayError,
  sayTable,
  withStore,
  type Command,
  type Commands,
} from "./command.ts";
import { findTenant, instantOf } from "./setup.ts";

const entriesMax = 1_000;

const audit: Command = {
  summary: "show who changed what",
  help: `Usage: otpd audit [--tenant NAME] [--actor WHO] [--action WHAT] [--of THING] [--since TIME] [--until TIME] [--max N] [--json]

Shows what operators wrote and looked at, the latest first. Entries are kept for 400 days.

  --tenant NAME   what was done to this tenant
  --actor WHO     by key:ID, user:NAME, cli, or start for what the first start makes
  --action WHAT   such as tenant.update or api_key.revoke
  --of THING      what was done to it: the id of a key or an endpoint, a tenant's name, a prefix
  --since TIME    at or after this, such as 2026-01-31 or 2026-01-31T15:00Z
  --until TIME    before this
  --max N         so many entries, up to ${entriesMax} (50)
  --json          print JSON, with how each thing was before and is after

Actions: ${auditActions.join(", ")}.`,
  run,
};

export const auditCommands: Commands = { audit };

const options = {
  tenant: { type: "string" },
  actor: { type: "string", default: "" },
  action: { type: "string", default: "" },
  of: { type: "string", default: "" },
  since: { type: "string" },
  until: { type: "string" },
  max: { type: "string", default: "50" },
  json: flag,
} as const;

async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const { actor, action, of: subject, json } = values;
  const max = Number(values.max);
  if (!/^\d+$/.test(values.max) || max < 1 || max > entriesMax) throw new Misused(`--max must be 1 to ${entriesMax}.`);
  if (action !== "" && !auditActions.some((each) => each === action)) {
    throw new Misused(`--action must be one of ${auditActions.join(", ")}.`);
  }
  const fromMs = instantOf("--since", values.since) ?? 0;
  const toMs = instantOf("--until", values.until) ?? Number.MAX_SAFE_INTEGER;
  await withStore(async (store) => {
    const tenant = values.tenant === undefined ? "" : (await findTenant(store, values.tenant)).id;
    const query = { tenant, actor, action, subject, actorTenant: "", fromMs, toMs, max };
    const { entries, next } = await readAudit(store, query);
    if (json) say(JSON.stringify(entries.map(toJson)));
    else sayTable(entries, "Nothing was done that matches.", columns());
    // Others may have been done at the same moment as the last.
    if (next !== undefined) sayError(`There are more before ${timeOf(next.atMs + 1)}: see --max and --until.`);
  });
}

function columns() {
  return {
    TIME: ({ atMs }: AuditEntry) => timeOf(atMs),
    WHO: ({ actor }: AuditEntry) => actor,
    FROM: ({ address }: AuditEntry) => address || null,
    WHAT: ({ action }: AuditEntry) => action,
    OF: ({ subject }: AuditEntry) => subject || null,
    TENANT: ({ tenant }: AuditEntry) => tenant || null,
    CHANGE: (entry: AuditEntry) => changeText(entry) || null,
  };
}

function toJson({ atMs, actor, address, action, tenant, subject, before, after }: AuditEntry) {
  const parsed = (json: string) => (json === "" ? null : (JSON.parse(json) as unknown));
  return {
    time: timeOf(atMs),
    actor,
    address: address || null,
    action,
    tenant: tenant || null,
    subject,
    before: parsed(before),
    after: parsed(after),
  };
}
