/**
 * The service as the benchmark drives it: configured for production and all as shipped, but for a provider that accepts at
 * once and passes the codes to the load generator.
 *
 *   service.ts '{"codes":"/tmp/codes.sock"}'
 *
 * The configuration is in the environment. Told "hold" over IPC the provider answers nobody until "release"; "settle" has
 * the garbage collected (under --expose-gc), and answers with what is left on the heap; "count" counts statements from then
 * on, and "counted" answers with them; "admin" answers with the operators' port.
 */
import { parseConfig } from "../../../src/config/config.ts";
import type { Provider } from "../../../src/delivery/provider.ts";
import { startService } from "../../../src/main.ts";
import type { SendOutcome } from "../../../src/otp/message/message.ts";
import { openStore } from "../../../src/store/open.ts";
import { openPostgres } from "../../../src/store/postgres/open.ts";
import type { Store } from "../../../src/store/store.ts";
import { createSystem } from "../../../src/system.ts";
import { createTelemetry } from "../../../src/telemetry.ts";
import { openCodePipe } from "./code-pipe.ts";
import { beginCounting, counted } from "./counting.ts";

export interface ServiceOptions {
  /** The load generator's socket. */
  readonly codes: string;
  /** True for a transaction of its own for every act, as without group commit. */
  readonly isOneAtATime?: boolean;
  /** Batches under way at once on PostgreSQL; as many as the store chooses unless given. */
  readonly batches?: number;
  /** How long the provider takes to accept; no time unless given. */
  readonly providerMs?: number;
}

const options = JSON.parse(process.argv[2] ?? "{}") as ServiceOptions;
const passOn = openCodePipe(options.codes);
let held: ((outcome: SendOutcome) => void)[] | undefined;

const provider: Provider = {
  name: "bench",
  send({ to, text }) {
    passOn(to, text.slice(0, text.indexOf(" ")));
    const accepted: SendOutcome = { kind: "accepted" };
    return new Promise((resolve) => {
      if (held !== undefined) held.push(resolve);
      else if (options.providerMs === undefined) resolve(accepted);
      else setTimeout(() => resolve(accepted), options.providerMs);
    });
  },
};

process.on("message", (said) => {
  if (said === "hold") held = [];
  if (said === "release") {
    for (const resolve of held ?? []) resolve({ kind: "accepted" });
    held = undefined;
  }
  if (said === "admin") process.send?.(service.admin?.port);
  if (said === "count") beginCounting();
  if (said === "counted") process.send?.(counted());
  if (said === "settle") {
    if (globalThis.gc === undefined) throw new Error("the garbage is only collected under --expose-gc");
    // What the first leaves to be finalized the second takes; and both give back what pages they can.
    for (let i = 0; i < 2; i += 1) globalThis.gc({ execution: "sync", flavor: "last-resort", type: "major" });
    const { heapUsed, external } = process.memoryUsage();
    process.send?.({ liveBytes: heapUsed + external });
  }
});

/** The acts of the port that write, and so share a transaction where group commit lets them. */
const acts: ReadonlySet<string | symbol> = new Set<keyof Store>([
  "openVerification",
  "updateVerification",
  "noteAnswer",
  "claimMessages",
  "releaseMessages",
  "settleMessage",
]);

/** A store that begins an act only once the one before it is durable, so that none shares a transaction. */
function oneAtATime(store: Store): Store {
  let last: Promise<unknown> = Promise.resolve();
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      const run = member.bind(target) as (...args: unknown[]) => unknown;
      if (!acts.has(name)) return run;
      return (...args: unknown[]) => {
        const act = last.then(() => run(...args));
        last = act.catch(() => {});
        return act;
      };
    },
  });
}

/** Opens PostgreSQL with so many batches under way at once. */
function withBatches(batches: number): typeof openStore {
  return ({ database, ...given }) => {
    if (database.kind !== "postgres") throw new Error("there are no batches on SQLite");
    return openPostgres({ url: database.url, ...given, batches });
  };
}

const parsed = parseConfig(process.env, () => "");
if (!parsed.ok) throw new Error(parsed.faults.join("\n"));
const service = await startService(parsed.value, {
  system: createSystem(),
  telemetry: createTelemetry(parsed.value.logLevel, "bench"),
  print: () => {},
  providers: [provider],
  ...(options.isOneAtATime === true ? { openStore: async (given) => oneAtATime(await openStore(given)) } : {}),
  ...(options.batches === undefined ? {} : { openStore: withBatches(options.batches) }),
});
service.boundHeap();
process.stdout.write(`port ${service.port}\n`);
process.on("SIGTERM", () => void service.stop().then(() => process.exit(0)));
