/**
 * better-auth with its phone-number plugin on SQLite, with users whose numbers are known.
 *
 *   better-auth-server.ts '{"entry":"…/entry.mjs","database":"…/auth.db","codes":"/tmp/codes.sock","users":20000}'
 */
import type { Database } from "better-sqlite3";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { pathToFileURL } from "node:url";
import { openCodePipe } from "./code-pipe.ts";
import { userPhone } from "../drive/phones.ts";

export interface BetterAuthOptions {
  readonly entry: string;
  readonly database: string;
  readonly codes: string;
  readonly users: number;
  /** What SQLite is told at the start, such as `journal_mode = WAL`. */
  readonly pragmas: readonly string[];
}

/** As much of its modules as is used here. */
interface Modules {
  betterAuth(options: object): { readonly options: object };
  phoneNumber(options: object): object;
  toNodeHandler(auth: object): RequestListener;
  getMigrations(options: object): Promise<{ runMigrations(): Promise<void> }>;
  readonly Sqlite: new (path: string) => Database;
}

const options = JSON.parse(process.argv[2] ?? "{}") as BetterAuthOptions;
const modules = (await import(pathToFileURL(options.entry).href)) as Modules;
const db = new modules.Sqlite(options.database);
for (const pragma of options.pragmas) db.pragma(pragma);
const passOn = openCodePipe(options.codes);

const auth = modules.betterAuth({
  database: db,
  baseURL: "http://127.0.0.1",
  secret: "a secret of the benchmark's own, 32 characters and more",
  logger: { disabled: true },
  telemetry: { enabled: false },
  rateLimit: { enabled: false },
  plugins: [
    modules.phoneNumber({
      sendOTP: ({ phoneNumber, code }: { phoneNumber: string; code: string }) => passOn(phoneNumber, code),
    }),
  ],
});
await (await modules.getMigrations(auth.options)).runMigrations();
const insert = db.prepare(
  `INSERT INTO user (id, name, email, emailVerified, createdAt, updatedAt, phoneNumber, phoneNumberVerified)
   VALUES (?, ?, ?, 1, ?, ?, ?, 1)`,
);
const today = new Date().toISOString();
db.transaction(() => {
  for (let i = 0; i < options.users; i += 1) {
    insert.run(`user${i}`, `User ${i}`, `user${i}@example.com`, today, today, userPhone(i));
  }
})();

const server = createServer(modules.toNodeHandler(auth));
// Its lanes idle while others have their turn.
server.keepAliveTimeout = 0;
server.listen(0, "127.0.0.1", () => process.stdout.write(`port ${(server.address() as AddressInfo).port}\n`));
process.on("SIGTERM", () => process.exit(0));
