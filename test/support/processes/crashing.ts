/**
 * The service as the crash and disk tests run it, in a process of its own: all as shipped, but what it is handed (store,
 * provider, system) is wrapped, so that the process can be stopped, or a step made to throw, at an exact place. The
 * product knows nothing of it. Its phone network is the process that started it: an SMS counts as sent once that one
 * has it, and it alone says what became of it. Started by crashable.ts.
 */
import { readFileSync } from "node:fs";
import { ServerResponse } from "node:http";
import Database from "better-sqlite3";
import type { Provider } from "../../../src/delivery/provider.ts";
import { startService } from "../../../src/main.ts";
import type { SendOutcome } from "../../../src/otp/message/message.ts";
import type { Decided } from "../../../src/otp/decisions/writes.ts";
import { StoreUnavailable, type Store } from "../../../src/store/store.ts";
import { createSystem } from "../../../src/system.ts";
import { createTelemetry } from "../../../src/telemetry.ts";
import type { Event, Failpoint, FailureMode, Order } from "./crashable.ts";
import { openInTime } from "../databases/opening.ts";
import { configOf } from "../service/environment.ts";

let armed: { readonly at: Failpoint; readonly mode: FailureMode } | undefined;
/** Set while an act's decision is made but its transaction is not committed. */
let beforeCommit: Failpoint | undefined;
let aheadMs = Number(process.env["CRASH_AHEAD_MS"] ?? 0);
const awaited = new Map<number, (outcome: SendOutcome) => void>();
let smsCount = 0;

function tell(event: Event): void {
  process.send?.(event);
}

/** A place to stop at. */
function reach(point: Failpoint, failure: () => Error = () => new StoreUnavailable("failpoint")): void {
  if (armed?.at !== point) return;
  const { mode } = armed;
  armed = undefined;
  // SIGKILL to oneself takes effect before kill() returns: nothing below runs any more.
  if (mode === "kill") process.kill(process.pid, "SIGKILL");
  tell({ kind: "thrown", at: point });
  throw failure();
}

function obey(order: Order): void {
  if (order.kind === "arm") {
    armed = order;
    tell({ kind: "armed" });
  } else if (order.kind === "advance") {
    aheadMs += order.ms;
    tell({ kind: "armed" });
  } else {
    awaited.get(order.id)?.(order.outcome);
    awaited.delete(order.id);
  }
}

const system = createSystem(() => {}, {
  wallMs: () => Date.now() + aheadMs,
  monotonicMs: () => performance.now() + aheadMs,
});

/** Takes what is sent by a channel. */
const providerNamed = (name: string): Provider => ({
  name,
  async send(sms) {
    reach("call.before", () => new Error("failpoint"));
    const id = ++smsCount;
    const answered = new Promise<SendOutcome>((resolve) => awaited.set(id, resolve));
    tell({ kind: "sms", id, to: sms.to, text: sms.text });
    const outcome = await answered;
    reach("call.accepted", () => new Error("failpoint"));
    return outcome;
  },
});

type Act = "open" | "update" | "settle";

/** An act with a place to stop before it, around its decision, before its COMMIT and after it. */
async function stoppable<View, Result, Value>(
  act: Act,
  decide: (view: View) => Decided<Result>,
  run: (decide: (view: View) => Decided<Result>) => Promise<Value>,
): Promise<Value> {
  // A bug is there each time: group commit runs an act that has failed once more, by itself.
  let thrown: Error | undefined;
  const bug = () => (thrown = new Error("failpoint"));
  reach(`${act}.before`);
  const result = run((view) => {
    if (thrown !== undefined) throw thrown;
    reach(`${act}.decide`, bug);
    const decided = decide(view);
    reach(`${act}.decided`, bug);
    if (armed?.at === `${act}.commit`) beforeCommit = `${act}.commit`;
    return decided;
  });
  const value = await result;
  reach(`${act}.after`);
  return value;
}

function wrap(store: Store): Store {
  return {
    ...store,
    openVerification: (scope, decide) => stoppable("open", decide, (wrapped) => store.openVerification(scope, wrapped)),
    updateVerification: (scope, decide) =>
      stoppable("update", decide, (wrapped) => store.updateVerification(scope, wrapped)),
    async settleMessage(name, phoneOf, decide) {
      const settled = await stoppable("settle", decide, (wrapped) => store.settleMessage(name, phoneOf, wrapped));
      tell({ kind: "settled" });
      return settled;
    },
    async claimMessages(max, phoneOf, decideLate, billOf) {
      const jobs = await store.claimMessages(max, phoneOf, decideLate, billOf);
      if (jobs.length > 0) reach("claim.after");
      return jobs;
    },
    async claimFallbacks(max, rules) {
      const jobs = await store.claimFallbacks(max, {
        ...rules,
        decide(view) {
          reach("fallback.decide");
          const decided = rules.decide(view);
          reach("fallback.decided");
          return decided;
        },
      });
      if (jobs.length > 0) reach("fallback.after");
      return jobs;
    },
    async noteAnswer(slot, id, answer) {
      reach("note.before");
      await store.noteAnswer(slot, id, answer);
      reach("note.after");
    },
  };
}

/** Stops when all of a batch is written, and its COMMIT is not. */
const { prepare } = Database.prototype;
Database.prototype.prepare = function (this: Database.Database, source: string) {
  const statement = prepare.call(this, source) as Database.Statement;
  if (source === "COMMIT") {
    const run = statement.run.bind(statement);
    statement.run = () => {
      if (beforeCommit !== undefined) reach(beforeCommit);
      return run();
    };
  }
  return statement;
} as typeof prepare;

/** Stops in the middle of an answer: half of its bytes are out. */
const { end } = ServerResponse.prototype;
ServerResponse.prototype.end = function (this: ServerResponse, body?: unknown) {
  if (armed?.at === "answer.half" && (typeof body === "string" || body instanceof Uint8Array)) {
    const bytes = Buffer.from(body);
    this.write(bytes.subarray(0, bytes.length / 2), () => reach("answer.half"));
    return this;
  }
  return (end as (this: ServerResponse, body?: unknown) => ServerResponse).call(this, body);
} as typeof end;

const [at, mode] = (process.env["CRASH_AT"] ?? "").split(":") as [Failpoint, FailureMode];
if (mode !== undefined) armed = { at, mode };
process.on("message", obey);
process.on("disconnect", () => process.exit());

const own = Object.entries(process.env).filter(([name, value]) => name.startsWith("OTP_") && value !== undefined);
const config = configOf(Object.fromEntries(own), (path) => readFileSync(path, "utf8"));
const service = await startService(config, {
  system,
  telemetry: createTelemetry(config.logLevel, "test"),
  print: () => {},
  // Configured ones are as shipped: the test that configures them brings their far end.
  ...(process.env["OTP_PROVIDERS"] === undefined
    ? {
        providers: [providerNamed("test")],
        providersByChannel: { whatsapp: [providerNamed("chat")], voice: [providerNamed("caller")] },
      }
    : {}),
  openStore: async (options) => wrap(await openInTime(options)),
});
process.on("SIGTERM", () => void service.stop().then(() => process.exit(0)));
tell({ kind: "listening", port: service.port });
