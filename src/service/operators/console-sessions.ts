/**
 * Sign-in to the console. An operator makes a link beside the server. A browser spends it, once, for a session. The session
 * is found by its token until it ends or is ended.
 */
import {
  endOf,
  isToken,
  linkDigest,
  linkMs,
  sessionDigest,
  tokenBytes,
  tokenOf,
  useNoteMs,
  type ConsoleSession,
  type ConsoleUser,
} from "../../otp/keys/console-session.ts";
import { linkNoted, signInNoted, type Author } from "../../otp/operators/audit.ts";
import type { Secret } from "../../otp/keys/secret.ts";
import type { Store } from "../../store/store.ts";
import type { System } from "../../system.ts";

export interface ConsoleDependencies {
  readonly store: Pick<Store, "registry" | "now">;
  readonly system: Pick<System, "randomBytes">;
}

/** A session with the token that its browser gets. */
export interface BegunSession {
  readonly session: ConsoleSession;
  readonly token: Secret;
}

/** Makes a link for a user. Its token is told once. */
export async function addConsoleLink(
  { store, system }: ConsoleDependencies,
  user: ConsoleUser,
  by: Author,
): Promise<Secret> {
  const token = tokenOf(system.randomBytes(tokenBytes));
  const link = { ...user, digest: linkDigest(token.reveal()), expireMs: store.now() + linkMs };
  await store.registry.addConsoleLink(link, linkNoted(by, link));
  return token;
}

export interface ConsoleSessions {
  /** Spends a link from an address; undefined where it is spent, too old, or none. Of several who bring it, one gets a session. */
  spend(link: string, address: string): Promise<BegunSession | undefined>;
  /** Begins a session for a user whom a reverse proxy has named, from an address. */
  begin(user: ConsoleUser, address: string): Promise<BegunSession>;
  /** Finds a session that has not ended. Its use is noted, once a minute. */
  find(token: string): Promise<ConsoleSession | undefined>;
  end(token: string): Promise<void>;
  /** Ends all sessions of a user. */
  endAll(user: string): Promise<void>;
}

export function createConsoleSessions({ store, system }: ConsoleDependencies): ConsoleSessions {
  const { registry } = store;
  const newToken = () => tokenOf(system.randomBytes(tokenBytes));
  const begun = (user: ConsoleUser, token: Secret, now: number): Omit<ConsoleSession, "isProxied"> => ({
    ...user,
    digest: sessionDigest(token.reveal()),
    createMs: now,
    lastUseMs: now,
  });
  const noted = (session: ConsoleSession, address: string) => ({ session, noted: signInNoted(address, session) });
  return {
    async spend(link, address) {
      if (!isToken(link)) return undefined;
      const token = newToken();
      const session = await registry.spendConsoleLink(linkDigest(link), (user, now) =>
        noted({ ...begun(user, token, now), isProxied: false }, address),
      );
      return session && { session, token };
    },

    async begin(user, address) {
      const token = newToken();
      const session = { ...begun(user, token, store.now()), isProxied: true };
      await registry.addConsoleSession(noted(session, address));
      return { session, token };
    },

    async find(token) {
      if (!isToken(token)) return undefined;
      const session = await registry.findConsoleSession(sessionDigest(token));
      const now = store.now();
      if (session === undefined || now >= endOf(session)) return undefined;
      if (now - session.lastUseMs < useNoteMs) return session;
      await registry.useConsoleSession(session.digest, now);
      return { ...session, lastUseMs: now };
    },

    end: (token) => registry.endConsoleSession(sessionDigest(token)),
    endAll: (user) => registry.endConsoleSessions(user),
  };
}
