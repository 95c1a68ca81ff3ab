/**
 * A service to be killed: starts crashing.ts in a process of its own and is its phone network. What it was handed and
 * what it answered is kept here, in the process that survives: that is the truth which the database is held against.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { SendOutcome } from "../../../src/otp/message/message.ts";
import { scopes } from "../../../src/otp/keys/api-key.ts";
import { issueKey } from "../../../src/service/callers/api-keys.ts";
import type { Database } from "../../../src/store/open.ts";
import { createSystem } from "../../../src/system.ts";
import { makeDatabase } from "../databases/empty-database.ts";
import { openInTime } from "../databases/opening.ts";
import { programAt } from "./programs.ts";
import { cleanEnv } from "./process.ts";

/** Where a process can be stopped, in the order in which a call comes by. */
export type Failpoint =
  | `${"open" | "update" | "settle"}.${"before" | "decide" | "decided" | "commit" | "after"}`
  | "call.before"
  | "call.accepted"
  | "claim.after"
  | `fallback.${"decide" | "decided" | "after"}`
  | "note.before"
  | "note.after"
  | "answer.half";

export type FailureMode = "kill" | "throw";

/** What the process tells. */
export type Event =
  | { readonly kind: "listening"; readonly port: number }
  | { readonly kind: "armed" }
  | { readonly kind: "thrown"; readonly at: Failpoint }
  | { readonly kind: "sms"; readonly id: number; readonly to: string; readonly text: string }
  | { readonly kind: "settled" };

/** What the process is told. */
export type Order =
  | { readonly kind: "arm"; readonly at: Failpoint; readonly mode: FailureMode }
  | { readonly kind: "advance"; readonly ms: number }
  | { readonly kind: "outcome"; readonly id: number; readonly outcome: SendOutcome };

/** What one HTTP call came to. */
export interface Answered {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly replayed: boolean;
  readonly headers: Headers;
}

export interface Crashable {
  readonly process: ChildProcess;
  readonly url: string;
  /** Whether the process is gone. */
  readonly gone: () => boolean;
  /** Has the process stop, or throw, when it next comes by. Resolves once it knows. */
  arm(at: Failpoint, mode: FailureMode): Promise<void>;
  /** Moves its clock on. */
  advance(ms: number): Promise<void>;
  /** Resolves once `holds`, which is asked at each of its events; rejects if the process ends first. */
  until(holds: () => boolean): Promise<void>;
  /** Calls a REST path. Undefined when no whole answer came. */
  call(path: string, body?: Record<string, unknown>, idempotencyKey?: string): Promise<Answered | undefined>;
  /** Kills it with SIGKILL, or waits for it to have killed itself. */
  killed(): Promise<void>;
  died(): Promise<void>;
}

/** The files and the phones that outlive every process. */
export interface Deployment {
  /** The SQLite file. */
  readonly databasePath: string;
  readonly databaseUrl: string;
  readonly key: string;
  /** Messages by number, by SMS and by WhatsApp, oldest first. */
  readonly inbox: Map<string, string[]>;
  /** Tells what a provider call comes to, at once or later. */
  respond: (to: string) => SendOutcome | Promise<SendOutcome>;
  /** Told of each SMS and each settled message. */
  onEvent: () => void;
  /** How far ahead of the machine the clock of the next process is. */
  aheadMs: number;
}

const masterKey = Buffer.alloc(32, 7).toString("base64url");

/** Makes one API key of all scopes in a database: one in a folder, or the PostgreSQL database that is given. */
export async function createDeployment(folder: string, url?: string): Promise<Deployment> {
  const databasePath = join(folder, "otp.db");
  const database: Database = url === undefined ? { kind: "sqlite", path: databasePath } : { kind: "postgres", url };
  if (url === undefined) await makeDatabase(databasePath);
  const system = createSystem();
  const store = await openInTime({ database, system, exclusive: false });
  const { text } = await issueKey(store, system, {
    kind: "live",
    tenant: "default",
    name: "test",
    scopes,
    expireMs: null,
  });
  await store.close();
  return {
    databasePath,
    databaseUrl: url ?? `file:${databasePath}`,
    key: text.reveal(),
    inbox: new Map(),
    respond: () => ({ kind: "accepted" }),
    onEvent: () => {},
    aheadMs: 0,
  };
}

/** Starts a process of the deployment, and resolves once it listens. */
export async function startCrashable(
  deployment: Deployment,
  env: Record<string, string> = {},
  at?: `${Failpoint}:${FailureMode}`,
): Promise<Crashable> {
  const child = fork(programAt("src/crashing"), [], {
    execArgv: [],
    env: cleanEnv({
      OTP_PORT: "0",
      OTP_DATABASE_URL: deployment.databaseUrl,
      OTP_MASTER_KEY: masterKey,
      OTP_LOG_LEVEL: "fatal",
      // Called as fast as it answers.
      OTP_KEY_LIMIT: "none",
      // An answer tells what came of the message, however slow the machine is.
      OTP_SEND_WAIT_MS: "10000",
      CRASH_AHEAD_MS: `${deployment.aheadMs}`,
      CRASH_AT: at ?? "",
      ...env,
    }),
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let errors = "";
  child.stderr?.on("data", (chunk: Buffer) => (errors += chunk.toString("utf8")));
  let url = "";
  let gone = false;
  let acknowledged = 0;
  const waiting = new Set<() => void>();
  const check = () => {
    for (const look of waiting) look();
  };
  // "close" and not "exit": what the process said last is still read by then.
  const ended = once(child, "close").then(() => {
    gone = true;
    check();
  });

  child.on("message", (event: Event) => {
    if (event.kind === "listening") url = `http://127.0.0.1:${event.port}`;
    if (event.kind === "armed") acknowledged += 1;
    if (event.kind === "sms") {
      deployment.inbox.set(event.to, [...(deployment.inbox.get(event.to) ?? []), event.text]);
      void Promise.resolve(deployment.respond(event.to)).then((outcome) => {
        order({ kind: "outcome", id: event.id, outcome });
      });
    }
    if (event.kind === "sms" || event.kind === "settled") deployment.onEvent();
    check();
  });

  /** The process may be gone by now; then nobody is left to obey. */
  function order(message: Order): void {
    if (child.connected) child.send(message, () => {});
  }

  function until(holds: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (!holds() && !gone) return;
        waiting.delete(look);
        clearInterval(heartbeat);
        if (holds()) resolve();
        else reject(new Error(`the service is gone:\n${errors}`));
      };
      // The database changes without an event, too, when it does so of its own accord.
      const heartbeat = setInterval(look, 250);
      waiting.add(look);
      look();
    });
  }

  async function obeyed(message: Order): Promise<void> {
    const before = acknowledged;
    order(message);
    await until(() => acknowledged > before);
  }

  await until(() => url !== "" || (at !== undefined && gone));
  return {
    process: child,
    url,
    gone: () => gone,
    arm: (point, mode) => obeyed({ kind: "arm", at: point, mode }),
    advance: (ms) => obeyed({ kind: "advance", ms }),
    until,
    async call(path, body, idempotencyKey) {
      try {
        const response = await fetch(url + path, {
          method: body === undefined ? "GET" : "POST",
          headers: {
            authorization: `Bearer ${deployment.key}`,
            ...(body === undefined ? {} : { "content-type": "application/json" }),
            ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        return {
          status: response.status,
          body: (await response.json()) as Record<string, unknown>,
          replayed: response.headers.get("idempotency-replayed") === "true",
          headers: response.headers,
        };
      } catch (error) {
        // What fetch throws when a connection breaks, before the answer or in the middle of it.
        if (error instanceof TypeError) return undefined;
        throw error;
      }
    },
    async killed() {
      child.kill("SIGKILL");
      await ended;
    },
    died: () => ended,
  };
}

/** The code in an SMS. */
export function codeIn(text: string): string {
  const code = /^(\d{6,10}) /.exec(text)?.[1];
  if (code === undefined) throw new Error("an SMS begins with its code");
  return code;
}
