/**
 * An operator at the console: opens one page after another, each by the calls that the page makes, at once, and notes how long
 * it was until the last was answered.
 *
 *   operator.ts '{"port":8081,"adminKeys":["otp_admin_…"], …}'
 *
 * Told "begin" over IPC it goes round, and opens a page at the soonest so long after the one before as a person in a hurry
 * does. "end" answers with what each page took since, once every page was opened at least once.
 */
import { fromJson, toBinary, type JsonValue } from "@bufbuild/protobuf";
import { AdminService, Dimension, Interval, TenantView } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { State } from "../../../gen/otp/v1/otp_service_pb.ts";
import type { LivedIn } from "../drive/lived-in.ts";

export type OperatorOptions = Omit<LivedIn, "url" | "key" | "rows"> & {
  readonly port: number;
  /** From the opening of a page to that of the next, at the least. */
  readonly paceMs: number;
};

/** What each page took in milliseconds, where it was answered, and how often it was not. */
export type Took = Readonly<Record<string, { readonly ms: readonly number[]; readonly failed: number }>>;

type Fields = Readonly<Record<string, JsonValue>>;
type Call = readonly [rpc: string, message: Fields];

const options = JSON.parse(process.argv[2] ?? "{}") as OperatorOptions;
const { port, adminKeys, phone, ref, tenant, smallTenant, oldestMs, oldestEntryMs, filledMs, paceMs } = options;
const base = `http://127.0.0.1:${port}`;
const hourMs = 3_600_000;
const iso = (ms: number) => new Date(ms).toISOString();
const middle = (from: number) => Math.floor((from + filledMs) / 2);

/** The tenants to choose from, which most pages ask for. */
const tenants: Call = ["ListTenants", { view: TenantView.BASIC, pageSize: 1_000 }];

/** Sums are kept for 400 days: of a period that begins so far back there is none before. */
const keptDays = 400;
const overview = (days: number, interval: Interval, groupBy: Dimension, more: Fields = {}): Call[] => {
  const now = Date.now();
  const fromMs = now - days * 24 * hourMs + hourMs;
  const asked: Call = ["GetOverview", { from: iso(fromMs), to: iso(now), ...more, interval, groupBy }];
  if (2 * days > keptDays) return [tenants, asked];
  const before = { from: iso(fromMs - (now - fromMs)), to: iso(fromMs), ...more, groupBy: [groupBy] };
  return [tenants, asked, ["GetStats", before]];
};
const find = (asked: Fields = {}): Call[] => [tenants, ["FindVerifications", asked]];
const audit = (asked: Fields = {}): Call[] => [tenants, ["ListAudit", asked]];

const { HOUR, DAY } = Interval;
const { COUNTRY, PROVIDER, TENANT } = Dimension;
const pages: Readonly<Record<string, () => readonly Call[]>> = {
  "overview, 24 hours": () => overview(1, HOUR, COUNTRY),
  "overview, 7 days": () => overview(7, HOUR, PROVIDER),
  "overview, 30 days by tenant": () => overview(30, DAY, TENANT),
  "overview, 400 days": () => overview(400, DAY, COUNTRY),
  "overview, 30 days of one tenant": () => overview(30, DAY, COUNTRY, { tenant }),
  "verifications, the latest": () => find(),
  "verifications by number": () => find({ phone }),
  "verifications by id": () => find({ requestRef: ref }),
  "verifications of a tenant": () => find({ tenant }),
  "verifications of a small tenant": () => find({ tenant: smallTenant }),
  "verifications that were locked": () => find({ state: State.LOCKED }),
  "verifications of a small tenant that were locked": () => find({ tenant: smallTenant, state: State.LOCKED }),
  "verifications of a time": () => find({ from: iso(oldestMs), to: iso(middle(oldestMs)) }),
  "verifications by first digits": () =>
    find({ prefix: phone.slice(0, 7), tenant, from: iso(filledMs - 23 * hourMs), to: iso(filledMs) }),
  "a verification": () => [["GetVerification", { requestRef: ref }]],
  fraud: () => [
    tenants,
    ["ListSuspects", {}],
    ["ListDestinations", {}],
    ["ListTenants", { tenant: "default" }],
    ["ExplainDestination", { destination: phone, tenant }],
  ],
  providers: () => [["GetProviders", {}]],
  "tenants and keys": () => [
    ["ListTenants", {}],
    ["ListApiKeys", {}],
  ],
  webhooks: () => [["ListWebhooks", {}]],
  "audit, the latest": () => audit(),
  "audit, its middle": () => audit({ pageToken: `${middle(oldestEntryMs)}.0` }),
  "audit by tenant": () => audit({ tenant: smallTenant }),
  "audit by who did it": () => audit({ actor: "user:operator-3" }),
  "audit by what was done": () => audit({ action: "tenant.update" }),
  "audit by what it was done to": () => audit({ subject: "subject-77" }),
  "audit by nobody's name": () => audit({ actor: "user:nobody" }),
};
/** What a browser asks for first. */
const files = ["/console", "/console/console.js", "/console/console.css"];

let turn = 0;

async function call([rpc, message]: Call): Promise<void> {
  turn += 1;
  const method = AdminService.methods.find(({ name }) => name === rpc);
  if (method === undefined) throw new Error(`no RPC is named ${rpc}`);
  const response = await fetch(`${base}/otp.admin.v1.AdminService/${rpc}`, {
    method: "POST",
    // Several operators: one may not ask as often.
    // As the console asks.
    headers: { "content-type": "application/proto", authorization: `Bearer ${adminKeys[turn % adminKeys.length]}` },
    body: toBinary(method.input, fromJson(method.input, message)),
  });
  const answer = Buffer.from(await response.arrayBuffer());
  if (!response.ok) throw new Error(`${rpc} answered ${response.status} ${answer.toString()}`);
}

async function getFile(path: string): Promise<void> {
  const response = await fetch(base + path);
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`${path} answered ${response.status}`);
}

const opened: readonly (readonly [name: string, open: () => Promise<unknown>])[] = [
  ["page, script and style", () => Promise.all(files.map(getFile))],
  ...Object.entries(pages).map(([name, calls]) => [name, () => Promise.all(calls().map(call))] as const),
];

let took: Record<string, { ms: number[]; failed: number }> = {};
let isOver = false;

async function goRound(): Promise<Took> {
  took = {};
  isOver = false;
  for (let n = 0; n < opened.length || !isOver; n += 1) {
    const [name, open] = opened[n % opened.length] as (typeof opened)[number];
    const startMs = performance.now();
    const of = (took[name] ??= { ms: [], failed: 0 });
    const isAnswered = await open().then(
      () => true,
      (error: unknown) => (console.error(name, error), false),
    );
    const ms = performance.now() - startMs;
    if (isAnswered) of.ms.push(ms);
    else of.failed += 1;
    if (!isOver && ms < paceMs) await new Promise((resolve) => setTimeout(resolve, paceMs - ms));
  }
  return took;
}

let going: Promise<Took> | undefined;
process.on("message", (said) => {
  if (said === "begin") going = goRound();
  if (said !== "end") return;
  isOver = true;
  void going?.then((all) => process.send?.(all));
});
process.on("SIGTERM", () => process.exit(0));
process.stdout.write(`port ${port}\n`);
