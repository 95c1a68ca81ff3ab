/**
 * Databases as they are after months of service, for those who read them: verifications of three days that have ended in
 * every way, sums and refusals of many tenants, an audit, events that wait, and prefixes that the guard has decided about.
 * Rows are made by the rules and written by the store's own columns, many in a statement.
 */
import { createHash } from "node:crypto";
import { parseConfig } from "../../../src/config/config.ts";
import { adminScopes } from "../../../src/otp/keys/admin-key.ts";
import { auditActions, commandLine } from "../../../src/otp/operators/audit.ts";
import { createKeyRing, type MasterKey } from "../../../src/otp/keys/key-ring.ts";
import { phoneIndex, sealPhone, type E164 } from "../../../src/otp/phone-number.ts";
import { measures } from "../../../src/otp/operators/statistics.ts";
import { issueAdminKey } from "../../../src/service/operators/keys.ts";
import { chanceOf } from "../../../src/service/sample/chance.ts";
import { fillSample } from "../../../src/service/sample/fill.ts";
import { storyOf } from "../../../src/service/sample/story.ts";
import { openStore } from "../../../src/store/open.ts";
import { auditColumns, auditValues } from "../../../src/store/rows/audit.ts";
import { messageColumns, messageTypes, messageValues } from "../../../src/store/rows/message.ts";
import { decisionColumns, decisionTypes } from "../../../src/store/rows/prefix.ts";
import { sumKeys } from "../../../src/store/rows/sums.ts";
import { verificationColumns, verificationTypes, verificationValues } from "../../../src/store/rows/verification.ts";
import { hourMs, createSystem } from "../../../src/system.ts";
import { fillTables, type Cell, type FilledTable, type Row } from "./bulk.ts";
import { productionEnv, type Prepared } from "./prepared.ts";

/** What there is to look for. */
export interface LivedIn extends Prepared {
  /** Keys of operators who may do everything. */
  readonly adminKeys: readonly string[];
  readonly phone: string;
  /** The first characters of a verification's id. */
  readonly ref: string;
  /** A tenant of many verifications, and one of very few. */
  readonly tenant: string;
  readonly smallTenant: string;
  /** When its oldest verification and its oldest entry of the audit were made, and when it was filled. */
  readonly oldestMs: number;
  readonly oldestEntryMs: number;
  readonly filledMs: number;
  /** Rows of each table that was filled. */
  readonly rows: Readonly<Record<string, number>>;
}

const dayMs = 24 * hourMs;
/** Below the retention, so that nothing is swept while it is measured. */
const spreadMs = 70 * hourMs;
const auditDays = 390;
const smallTenants = 100;
const suspects = 2_000;
const adminKeys = 8;
const busyTenant = "demo-clinic";
/** The sample's month of sums comes again so often; a short run has less. */
const monthsOfMany = 13;
const fewRows = 10_000;

const weights: readonly (readonly [tenant: string, weight: number])[] = [
  ["default", 50],
  ["demo-shop", 27],
  ["demo-bank", 13],
  ["demo-clinic", 8],
  ["small", 2],
];
const numbers = {
  NL: "+3161",
  BE: "+3247",
  DE: "+491512",
  GB: "+447400",
} as const;
const small = (n: number) => `small-${String(n).padStart(3, "0")}`;

/** Fills a database that is ready to serve with so many verifications, and as many entries of the audit. */
export async function liveIn(prepared: Prepared, count: number): Promise<LivedIn> {
  const parsed = parseConfig(productionEnv(prepared.url), () => "");
  if (!parsed.ok) throw new Error(parsed.faults.join("\n"));
  const { database, masterKeys = [] } = parsed.value;
  const ring = createKeyRing(masterKeys);
  const system = createSystem();
  const store = await openStore({ database, system, exclusive: false });
  const keys: string[] = [];
  try {
    const came = await fillSample({ store, system, keys: ring, seed: 1, sweep: () => Promise.resolve() });
    if (came.kind !== "filled") throw new Error(`the sample was not filled: ${came.kind}`);
    for (let n = 0; n < smallTenants; n += 1) {
      const keep = { settings: JSON.stringify({ brand: `Small ${n}` }), disableMs: null };
      await store.registry.changeTenant(small(n), () => ({ keep, result: undefined }));
    }
    for (let n = 0; n < adminKeys; n += 1) {
      const spec = { tenant: null, name: `operator ${n}`, scopes: adminScopes, expireMs: null };
      keys.push((await issueAdminKey(store, system, spec, commandLine)).text.reveal());
    }
    const endpoints = await store.events.listEndpoints();
    const filledMs = store.now();
    const seen: Seen = {};
    const made = tablesOf({
      models: modelsOf(count),
      count,
      now: filledMs,
      key: ring.current,
      endpoint: endpoints[0]?.endpoint.id ?? "",
      seen,
    });
    const months = count < fewRows ? 2 : monthsOfMany;
    const rows = await fillTables(database, made, { table: "sums", text: moreSums(months) });
    const { sample } = seen;
    if (sample === undefined) throw new Error("nothing was filled");
    return {
      ...prepared,
      ...sample,
      adminKeys: keys,
      tenant: busyTenant,
      smallTenant: small(1),
      oldestMs: filledMs - spreadMs,
      oldestEntryMs: filledMs - auditDays * dayMs,
      filledMs,
      rows,
    };
  } finally {
    await store.close();
  }
}

/** One of the stories, to look for. */
interface Seen {
  sample?: { readonly phone: string; readonly ref: string };
}

interface Making {
  readonly count: number;
  readonly now: number;
  readonly key: MasterKey;
  readonly models: readonly Model[];
  readonly endpoint: string;
  readonly seen: Seen;
}

function tablesOf(making: Making): readonly FilledTable[] {
  const { count, now, endpoint } = making;
  return [
    {
      table: "verifications",
      columns: verificationColumns,
      types: verificationTypes,
      rows: verificationsOf(making),
    },
    {
      table: "messages",
      columns: messageColumns,
      types: messageTypes,
      rows: messagesOf(making),
    },
    {
      table: "audit",
      columns: auditColumns,
      types: auditColumns.map((name) => (name === "at_ms" ? "bigint" : "text")),
      rows: entriesOf(count, now),
    },
    {
      table: "prefix_decisions",
      columns: decisionColumns,
      types: decisionTypes,
      rows: decisionsOf(Math.min(suspects, count), now),
    },
    {
      table: "refusal_sums",
      columns: ["hour", "tenant", "reason", "count"],
      types: ["bigint", "text", "text", "bigint"],
      rows: refusalsOf(Math.min(30 * 24, Math.ceil(count / 10)), now),
    },
    {
      table: "events",
      columns: ["endpoint_id", "id", "tenant", "type", "create_ms", "facts", "tries", "due_ms"],
      types: ["text", "text", "text", "text", "bigint", "text", "bigint", "bigint"],
      rows: eventsOf(Math.ceil(count / 10), { now, endpoint }),
    },
  ];
}

/** A story as its rows have it, begun at the epoch. */
interface Model {
  readonly tenant: string;
  readonly country: keyof typeof numbers;
  readonly endMs: number;
  readonly verification: Row;
  readonly messages: readonly Row[];
}

/** Made by the rules, which takes longer than to tell them again of other numbers. */
function modelsOf(count: number): readonly Model[] {
  const chance = chanceOf(1, "lived-in");
  return Array.from({ length: Math.min(count, modelsMax) }, () => {
    const named = chance.one(weights);
    const tenant = named === "small" ? small(chance.below(smallTenants)) : named;
    const country = chance.one(countries);
    const asked = {
      tenant,
      country,
      channel: "sms",
      atMs: 0,
      isOutage: false,
      isPumped: false,
      tally: "none",
    } as const;
    const { verification, messages } = storyOf(asked, unsealed, chance);
    const told = { verification: verificationValues(verification), messages: messages.map(messageValues) };
    return { tenant, country, endMs: verification.endMs ?? 0, ...told };
  });
}

const modelsMax = 20_000;
const unsealed = {
  id: Buffer.alloc(16).toString("base64url"),
  keyId: "bench",
  kid: 0,
  phoneIndex: new Uint8Array(),
  phoneBox: new Uint8Array(),
};
const countries = [
  ["NL", 60],
  ["BE", 20],
  ["DE", 15],
  ["GB", 5],
] as const;

/** A model told of a number and a time. */
interface Told {
  readonly i: number;
  readonly id: Buffer;
  readonly atMs: number;
  readonly model: Model;
}

/** The same each time, in the order in which they were asked for. */
function* storiesOf({ count, now, models }: Making): Iterable<Told> {
  for (let i = 0; i < count; i += 1) {
    const model = models[i % models.length] as Model;
    const atMs = now - spreadMs + Math.floor((i / count) * spreadMs);
    // What would go on beyond now has not happened.
    if (atMs + model.endMs > now) continue;
    yield { i, id: createHash("sha256").update(`${i}`).digest().subarray(0, 16), atMs, model };
  }
}

/** Rows of verifications, each sealed as its own. */
function* verificationsOf(making: Making): Iterable<Row> {
  const { count, key, seen } = making;
  const place = (name: (typeof verificationColumns)[number]) => verificationColumns.indexOf(name);
  const times = (["create_ms", "expire_ms", "end_ms", "next_resend_ms"] as const).map(place);
  for (const { i, id, atMs, model } of storiesOf(making)) {
    const phone = `${numbers[model.country]}${String((i * 7_919) % 1e7).padStart(7, "0")}` as E164;
    const text = id.toString("base64url");
    if (i >= count / 2 && model.tenant === busyTenant) seen.sample ??= { phone, ref: text.slice(0, 12) };
    const row = [...model.verification];
    for (const time of times) if (row[time] !== null) row[time] = Number(row[time]) + atMs;
    row[place("id")] = id;
    row[place("kid")] = key.kid;
    row[place("phone_index")] = phoneIndex(key, model.tenant, phone);
    row[place("phone_box")] = sealPhone(key, text, phone);
    yield row;
  }
}

/** A message's row ends with when its verification was opened, which SQLite keeps too. */
function* messagesOf(making: Making): Iterable<Row> {
  const [owner, deadline] = [messageColumns.indexOf("verification_id"), messageColumns.indexOf("deadline_ms")];
  for (const { id, atMs, model } of storiesOf(making)) {
    for (const message of model.messages) {
      const row = [...message];
      row[owner] = id;
      row[deadline] = Number(row[deadline]) + atMs;
      yield [...row, atMs];
    }
  }
}

function* entriesOf(count: number, now: number): Iterable<Row> {
  for (let i = 0; i < count; i += 1) {
    const tenant = small(i % smallTenants);
    yield auditValues({
      atMs: now - auditDays * dayMs + Math.floor((i / count) * (auditDays - 1) * dayMs),
      actor: i % 3 === 0 ? "cli" : `user:operator-${i % 20}`,
      actorTenant: "",
      address: "192.0.2.1",
      action: auditActions[i % auditActions.length] ?? "",
      tenant,
      subject: `subject-${i % 5_000}`,
      before: `{"brand":"Before","daily_cap":"${i}"}`,
      after: `{"brand":"After","daily_cap":"${i + 1}"}`,
    });
  }
}

/** Of each prefix: that it was blocked twice, and 18 times that a block passed. In the order of `decisionColumns`. */
function* decisionsOf(prefixes: number, now: number): Iterable<Row> {
  for (let i = 0; i < prefixes * 20; i += 1) {
    const n = i % prefixes;
    const turn = Math.floor(i / prefixes);
    const kind = turn % 10 === 9 ? 1 : 0;
    const atMs = now - 29 * dayMs + Math.floor((i / (prefixes * 20)) * 29 * dayMs);
    const cells: Readonly<Record<string, Cell>> = {
      tenant: small(n % smallTenants),
      prefix: `+3161${String(n).padStart(4, "0")}`,
      kind,
      at_ms: atMs,
      matured: 50,
      verified: 1,
      refused: kind * 10,
      until_ms: kind === 0 ? null : atMs + hourMs,
      enforced: 1,
    };
    yield decisionColumns.map((column) => cells[column] ?? null);
  }
}

const reasons = ["CODE_MISMATCH", "RESEND_TOO_SOON", "PHONE_RATE_LIMITED", "PHONE_INVALID", "SPEND_LIMIT"];

function* refusalsOf(hours: number, now: number): Iterable<Row> {
  const last = Math.floor(now / hourMs);
  for (let back = 0; back < hours; back += 1) {
    for (let n = 0; n < 40; n += 1) for (const reason of reasons) yield [last - back, small(n), reason, 3];
  }
}

function* eventsOf(
  count: number,
  { now, endpoint }: { readonly now: number; readonly endpoint: string },
): Iterable<Row> {
  for (let i = 0; i < count; i += 1) {
    yield [endpoint, `evt_${i}`, "demo-shop", "verification.verified", now - i, "{}", 0, now + dayMs];
  }
}

/** The sample's sums again, a month earlier each time. The same on both databases. */
const moreSums = (months: number) => {
  const columns = [...sumKeys, ...measures];
  const of = columns.map((column) => (column === "hour" ? "hour - 744 * n.n" : column));
  const nth = Array.from({ length: months - 1 }, (_, i) => `SELECT ${i + 1} AS n`).join(" UNION ALL ");
  return `INSERT INTO sums (${columns.join(", ")}) SELECT ${of.join(", ")} FROM sums CROSS JOIN (${nth}) AS n
    WHERE hour > (SELECT max(hour) - 720 FROM sums) AND hour - 744 * n.n > (SELECT max(hour) FROM sums) - 9500`;
};
