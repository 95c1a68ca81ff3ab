/**
 * A SQLite installation in which every table has rows, made by the service itself and by its commands, as a server leaves
 * it behind when it stops.
 */
import type { ConsoleUser } from "../../../src/otp/keys/console-session.ts";
import { commandLine } from "../../../src/otp/operators/audit.ts";
import {
  addConsoleLink,
  createConsoleSessions,
  type ConsoleDependencies,
} from "../../../src/service/operators/console-sessions.ts";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { measures } from "../../../src/otp/operators/statistics.ts";
import { runHere } from "../service/command-line.ts";
import { inDatabase } from "./rows.ts";
import { newPhone, wrongCode } from "../data/phones.ts";
import { surfaces, type Outcome, type Rpc } from "../clients/surfaces.ts";
import { createManualSystem, type ManualSystem } from "../service/system.ts";
import { startWorld, temporaryFolder } from "../service/world.ts";

/** A request and the code that was texted. */
export interface Sent {
  readonly phone: string;
  readonly request_id: string;
  readonly code: string;
}

export interface Installation {
  /** The file, which nobody has open. */
  readonly path: string;
  readonly folder: string;
  /** The clock of its service, which stands still. */
  readonly system: ManualSystem;
  /** What the service was configured with, besides its database. */
  readonly env: Record<string, string>;
  readonly key: string;
  readonly pending: Sent;
  readonly verified: Sent;
  /** Three of five wrong codes were typed. */
  readonly guessed: Sent;
  /** A phone that had one of the three SMS of its limit, and one that had all. */
  readonly halfUsed: string;
  readonly exhausted: string;
  /** A send that was made with the Idempotency-Key `once`, and its answer. */
  readonly repeated: { readonly message: JsonObject; readonly answer: JsonObject };
  /** A number that an entry of the operator's lists blocks. */
  readonly blocked: string;
  /** A request of the tenant `acme`, and its key; the tenant `gone` is disabled. */
  readonly ofAcme: Sent;
  readonly acmeKey: string;
  readonly goneKey: string;
  /** The origin that a publishable key lists. */
  readonly origin: string;
}

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

/** Calls a service by REST. */
export function ask(url: string, key: string, rpc: Rpc, message: JsonObject, headers = {}): Promise<Outcome> {
  return rest.call(url, rpc, message, { key, headers });
}

export async function makeInstallation(): Promise<Installation> {
  const folder = temporaryFolder();
  const path = join(folder, "otp.db");
  const system = createManualSystem(1, Date.now());
  const env = { OTP_PHONE_LIMITS: "3@10m", OTP_DAILY_MESSAGE_CAP: "1000" };
  process.env["OTP_DATABASE_URL"] = `file:${path}`;
  const world = await startWorld({ ...env, OTP_DATABASE_URL: `file:${path}` }, system);
  const { url, key } = world;
  try {
    const send = async (phone = newPhone(), withKey = key): Promise<Sent> => {
      const { value } = await ask(url, withKey, "SendOtp", { phone });
      return { phone, request_id: String(value?.["request_id"]), code: world.network.codeFor(phone) };
    };
    const pending = await send();
    const verified = await send();
    await ask(url, key, "VerifyOtp", { request_id: verified.request_id, code: verified.code });
    const guessed = await send();
    for (const step of [1, 2, 3]) {
      await ask(url, key, "VerifyOtp", { request_id: guessed.request_id, code: wrongCode(guessed.code, step) });
    }
    const [{ phone: halfUsed }, exhausted] = [await send(), newPhone()];
    for (let sends = 0; sends < 3; sends += 1) await send(exhausted);
    const message = { phone: newPhone() };
    const { value: answer = {} } = await ask(url, key, "SendOtp", message, { "idempotency-key": "once" });
    const blocked = "+31655000001";
    await runHere(["destinations", "block", "+3165500", "--note", "pumped once"]);
    for (const tenant of ["acme", "gone"]) await runHere(["tenants", "create", tenant, "--brand", tenant]);
    const { text: acmeKey } = await world.makeKey({ tenant: "acme" });
    const { text: goneKey } = await world.makeKey({ tenant: "gone" });
    await runHere(["tenants", "disable", "gone"]);
    const origin = "https://shop.example";
    await world.makeKey({ kind: "pub", origins: [origin] });
    await world.makeAdminKey({ tenant: "acme" });
    await world.beside((store) => signIn({ store, system }));
    const ofAcme = await send(newPhone(), acmeKey);
    const made = { system, env, key, pending, verified, guessed, halfUsed, exhausted, blocked, acmeKey, goneKey };
    return { ...made, path, folder, repeated: { message, answer }, ofAcme, origin };
  } finally {
    await world.stop();
    delete process.env["OTP_DATABASE_URL"];
    // A decision about a prefix takes dozens of sends that nobody verifies; an endpoint, a system that does not answer.
    inDatabase(path, (db) =>
      db.exec(
        `INSERT INTO prefix_decisions (id, tenant, prefix, kind, at_ms, matured, verified, refused, until_ms, enforced)
         VALUES (41, 'default', '+3161200', 1, 1000, 30, 2, 0, 2000, 0);
         INSERT INTO webhook_endpoints VALUES ('we_1', 'acme', 'https://shop.example/', 'fraud.tripped', 1,
           (SELECT max(kid) FROM master_keys), '[["AAEC",1,null]]', 1, 2, 'operator', 1);
         INSERT INTO events VALUES ('we_1', 'evt_1', 'acme', 'fraud.tripped', 1, '{}',
           (SELECT max(kid) FROM master_keys), x'00ff', 3, 1767268800000);
         INSERT INTO sums VALUES (490000, 'default', 'NL', 'bird', 0, 'EUR', ${measures.map((_, i) => i).join(", ")});
         UPDATE summing SET end_ms = 1000;
         INSERT OR REPLACE INTO refusal_sums VALUES (490000, 'default', 'SPEND_LIMIT', 3);`,
      ),
    );
  }
}

/** Somebody who is signed in to the console, and somebody whose link waits. */
async function signIn(dependencies: ConsoleDependencies): Promise<void> {
  const ann: ConsoleUser = { user: "ann", scopes: ["admin.read"], tenant: "acme" };
  const link = await addConsoleLink(dependencies, ann, commandLine);
  await createConsoleSessions(dependencies).spend(link.reveal(), "192.0.2.1");
  await addConsoleLink(dependencies, ann, commandLine);
}
