/**
 * The acts on sign-ins to the console. What has ended goes whenever somebody signs in, so there are never more rows than
 * operators make.
 */
import { adminScopes } from "../../otp/keys/admin-key.ts";
import {
  idleMs,
  sessionMs,
  sessionsMax,
  type ConsoleLink,
  type ConsoleSession,
} from "../../otp/keys/console-session.ts";
import type { Engine } from "../engine.ts";
import type { Consoles, ConsoleSignIn } from "../registry.ts";
import { noteAudit } from "./audit.ts";
import { list, query, send, valuesOf, type Steps } from "../statement.ts";

interface LinkRow {
  readonly digest: Uint8Array;
  readonly user_name: string;
  readonly scopes: string;
  readonly tenant: string | null;
  readonly expire_ms: number;
}

interface SessionRow extends Omit<LinkRow, "expire_ms"> {
  readonly proxied: number;
  readonly create_ms: number;
  readonly last_use_ms: number;
}

const linkColumns = ["digest", "user_name", "scopes", "tenant", "expire_ms"] as const satisfies (keyof LinkRow)[];
const sessionColumns = [
  "digest",
  "user_name",
  "scopes",
  "tenant",
  "proxied",
  "create_ms",
  "last_use_ms",
] as const satisfies (keyof SessionRow)[];

const sql = {
  addLink: {
    name: "add-console-link",
    text: `INSERT INTO console_links (${list(linkColumns)}) VALUES (${valuesOf(linkColumns)})`,
  },
  forgetLinks: { name: "forget-console-links", text: `DELETE FROM console_links WHERE expire_ms <= $1` },
  findLink: { name: "find-console-link", text: `SELECT 1 FROM console_links WHERE digest = $1` },
  spendLink: {
    name: "spend-console-link",
    text: `DELETE FROM console_links WHERE digest = $1 AND expire_ms > $2 RETURNING ${list(linkColumns)}`,
  },
  addSession: {
    name: "add-console-session",
    text: `INSERT INTO console_sessions (${list(sessionColumns)}) VALUES (${valuesOf(sessionColumns)})`,
  },
  forgetSessions: {
    name: "forget-console-sessions",
    text: `DELETE FROM console_sessions WHERE create_ms <= $1 OR last_use_ms <= $2`,
  },
  /** All but the newest of a user. */
  trimSessions: {
    name: "trim-console-sessions",
    text: `DELETE FROM console_sessions WHERE user_name = $1 AND digest NOT IN
      (SELECT digest FROM console_sessions WHERE user_name = $1 ORDER BY create_ms DESC, digest LIMIT $2)`,
  },
  findSession: {
    name: "find-console-session",
    text: `SELECT ${list(sessionColumns)} FROM console_sessions WHERE digest = $1`,
  },
  useSession: { name: "use-console-session", text: `UPDATE console_sessions SET last_use_ms = $1 WHERE digest = $2` },
  endSession: { name: "end-console-session", text: `DELETE FROM console_sessions WHERE digest = $1` },
  endSessions: { name: "end-console-sessions", text: `DELETE FROM console_sessions WHERE user_name = $1` },
};

const toScopes = (text: string) => adminScopes.filter((scope) => text.split(" ").includes(scope));

export function consoleActs(engine: Engine): Consoles {
  return {
    async addConsoleLink(link, { note, audited }) {
      await engine.transact(function* (): Steps<void> {
        yield* send(sql.forgetLinks, [engine.now()]);
        yield* send(sql.addLink, linkValues(link));
        yield* noteAudit(engine, note, audited);
      });
    },

    async spendConsoleLink(digest, signIn) {
      // Whoever guesses costs a read, and no write.
      if ((await engine.query(sql.findLink, [digest])).length === 0) return undefined;
      return engine.transact(function* () {
        const now = engine.now();
        const [found] = yield* query<LinkRow>(sql.spendLink, [digest, now]);
        if (found === undefined) return undefined;
        const begun = signIn({ user: found.user_name, scopes: toScopes(found.scopes), tenant: found.tenant }, now);
        yield* begin(engine, begun);
        return begun.session;
      });
    },

    addConsoleSession: (signIn) => engine.transact(() => begin(engine, signIn)),

    async findConsoleSession(digest) {
      const [found] = await engine.query<SessionRow>(sql.findSession, [digest]);
      return found && toSession(found);
    },

    async useConsoleSession(digest, now) {
      await engine.write(sql.useSession, [now, digest]);
    },

    async endConsoleSession(digest) {
      await engine.write(sql.endSession, [digest]);
    },

    async endConsoleSessions(user) {
      await engine.write(sql.endSessions, [user]);
    },
  };
}

function* begin(engine: Engine, { session, noted }: ConsoleSignIn): Steps<void> {
  const { createMs, user } = session;
  yield* send(sql.forgetSessions, [createMs - sessionMs, createMs - idleMs]);
  yield* send(sql.addSession, sessionValues(session));
  yield* send(sql.trimSessions, [user, sessionsMax]);
  yield* noteAudit(engine, noted.note, noted.audited);
}

function linkValues({ digest, user, scopes, tenant, expireMs }: ConsoleLink) {
  return [digest, user, scopes.join(" "), tenant, expireMs];
}

function sessionValues({ digest, user, scopes, tenant, isProxied, createMs, lastUseMs }: ConsoleSession) {
  return [digest, user, scopes.join(" "), tenant, isProxied ? 1 : 0, createMs, lastUseMs];
}

function toSession(row: SessionRow): ConsoleSession {
  const { digest, user_name: user, tenant, create_ms: createMs, last_use_ms: lastUseMs } = row;
  return { digest, user, scopes: toScopes(row.scopes), tenant, isProxied: row.proxied === 1, createMs, lastUseMs };
}
