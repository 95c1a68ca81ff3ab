/**
 * The part of the store port that operators write: by the CLI beside a running server, by the operators' service, or at
 * a start. What one process writes, another sees at its next call. The promises of store.ts hold here too. An act that
 * is given a note writes its entry of the audit in the same transaction, if it changes anything.
 */
import type { AdminKey } from "../otp/keys/admin-key.ts";
import type { ApiKey } from "../otp/keys/api-key.ts";
import type { Audited, AuditEntry, AuditNote, Noted } from "../otp/operators/audit.ts";
import type { ConsoleLink, ConsoleSession, ConsoleUser } from "../otp/keys/console-session.ts";
import type { Destination, Verdict } from "../otp/verification/destination.ts";
import type { TenantRecord } from "../otp/operators/tenant.ts";
import type { Instant } from "../system.ts";

/** The configured master keys are not those the database was written with. */
export class MasterKeyMismatch extends Error {
  override readonly name = "MasterKeyMismatch";
}

/** What a decision about a tenant sees. */
export interface TenantView {
  readonly now: Instant;
  /** Undefined when there is none of this name. */
  readonly tenant: TenantRecord | undefined;
  /** How many tenants there are. */
  readonly count: number;
}

/** A decision about a tenant: what is kept of it from now on, if that changes, and what to tell. */
export interface TenantDecided<R> {
  readonly keep?: Pick<TenantRecord, "settings" | "disableMs">;
  readonly result: R;
}

/** An API key as it was found. */
export interface FoundKey extends ApiKey {
  /** As `tenantsRevision` told at the same moment. */
  readonly tenantsRevision: number;
}

export interface ApiKeys {
  /** Finds an API key by its id. Sees at once what another process wrote. */
  findApiKey(id: string): Promise<FoundKey | undefined>;
  addApiKey(key: ApiKey, note?: AuditNote): Promise<void>;
  /** Adds keys where there are none yet, revoked ones included; false where there are. Of servers that start together one does. */
  addFirstApiKeys(keys: readonly ApiKey[], note?: AuditNote): Promise<boolean>;
  /** All keys of all tenants, oldest first. */
  listApiKeys(): Promise<ApiKey[]>;
  /** Revokes a key; false if there is none with this id. Revoking twice keeps the first time. */
  revokeApiKey(id: string, now: Instant, note?: AuditNote): Promise<boolean>;
  /** Adds a key in another's place, which ends later; false if that has ended already, or is not there. */
  replaceApiKey(id: string, replacement: Replacement<ApiKey>, note?: AuditNote): Promise<boolean>;
  /**
   * Tells whether any key that is neither revoked nor expired lists this origin. Sees at once what another process wrote,
   * and takes the same time however many keys there are.
   */
  listsOrigin(origin: string, now: Instant): Promise<boolean>;
  /** Notes when a key was last used. */
  touchApiKey(id: string, now: Instant): Promise<void>;
  /** Notes when a key was last tried in vain. */
  refuseApiKey(id: string, now: Instant): Promise<void>;
}

/** A key for another's place. */
export interface Replacement<Key> {
  readonly next: Key;
  /** When the replaced one ends, unless it does before. */
  readonly endMs: Instant;
  readonly now: Instant;
}

/** The same for keys of operators, which no look-up of callers' keys finds. */
export interface AdminKeys {
  findAdminKey(id: string): Promise<AdminKey | undefined>;
  addAdminKey(key: AdminKey, note?: AuditNote): Promise<void>;
  /** All of them, oldest first. */
  listAdminKeys(): Promise<AdminKey[]>;
  revokeAdminKey(id: string, now: Instant, note?: AuditNote): Promise<boolean>;
  replaceAdminKey(id: string, replacement: Replacement<AdminKey>, note?: AuditNote): Promise<boolean>;
  touchAdminKey(id: string, now: Instant): Promise<void>;
  refuseAdminKey(id: string, now: Instant): Promise<void>;
}

/** What entries are asked for; an empty text asks for any. */
export interface AuditQuery {
  readonly tenant: string;
  readonly actor: string;
  readonly action: string;
  /** What it was done to. */
  readonly subject: string;
  /** Whose actors. */
  readonly actorTenant: string;
  /** The first moment. */
  readonly fromMs: Instant;
  /** The first moment after it. */
  readonly toMs: Instant;
  /** After this entry, as the page before ended. */
  readonly after?: AuditKey | undefined;
  readonly max: number;
}

/** An entry's place: by its time, and of one time by its id. */
export interface AuditKey {
  readonly atMs: Instant;
  readonly id: number;
}

export interface AuditStore {
  /** Writes an entry of something that changes nothing, such as a look at a number. */
  addAudit(note: AuditNote, audited: Audited): Promise<void>;
  /** Finds entries, the latest first. Reads beside the calls. */
  findAudit(query: AuditQuery): Promise<{ readonly id: number; readonly entry: AuditEntry }[]>;
}

export interface Tenants {
  findTenant(id: string): Promise<TenantRecord | undefined>;
  /** The tenants in the order they were written last: all, or those written after a revision. */
  listTenants(afterRevision?: number): Promise<TenantRecord[]>;
  /**
   * The latest revision of any tenant. Sees at once what another process wrote: once this tells a revision, listTenants
   * gives every write up to it. Cheap enough for every call.
   */
  tenantsRevision(): Promise<number>;
  /**
   * Decides about one tenant, with it and the number of all locked. What is kept makes it, if it is new, and gives it the
   * next revision. `decide` is pure and may be run again.
   */
  changeTenant<R>(id: string, decide: (view: TenantView) => TenantDecided<R>, note?: AuditNote): Promise<R>;
}

/** A note on an entry of the lists, with the name that the audit has for its prefix: a whole number is told by its index. */
export interface DestinationNote extends AuditNote {
  readonly subject: string;
}

export interface Destinations {
  /** Adds an entry to a tenant's lists of destinations, or replaces the one with its prefix; false if there is no such tenant. */
  putDestination(entry: Destination, note?: DestinationNote): Promise<boolean>;
  /** Removes an entry; false if there is none, or it is of another verdict than `only`. */
  removeDestination(tenant: string, prefix: string, note?: DestinationNote, only?: Verdict): Promise<boolean>;
  /** A tenant's entries, in the order of their prefixes. */
  listDestinations(tenant: string): Promise<Destination[]>;
  /** Finds the longest entry that a number begins with. `e164` is canonical. */
  findDestination(tenant: string, e164: string): Promise<Destination | undefined>;
}

export interface MasterKeyCheck {
  readonly kid: number;
  /** What tells it from every other key. */
  readonly check: Uint8Array;
}

export interface MasterKeys {
  /**
   * Compares the configured master keys, the current one first, with those the database was written with. Rejects with
   * MasterKeyMismatch when none of them is known, when a key that rows still need is missing, or when two keys share an
   * id; else notes the current one. A row needs the key it was written with until it is swept: a verification, also a
   * phone's wrong codes, which are found under that key alone; and a bucket until it is full.
   */
  admitMasterKeys(keys: readonly MasterKeyCheck[]): Promise<void>;
  /** Whether the database was written with a master key. */
  hasMasterKey(): Promise<boolean>;
  /** The same as `admitMasterKeys` without noting anything: for whoever is not the service, and may have a list that is not its. */
  judgeMasterKeys(keys: readonly MasterKeyCheck[]): Promise<void>;
}

/** A session that begins, with its entry of the audit. */
export interface ConsoleSignIn {
  readonly session: ConsoleSession;
  readonly noted: Noted;
}

/** Sign-ins to the console (otp/keys/console-session.ts). */
export interface Consoles {
  addConsoleLink(link: ConsoleLink, noted: Noted): Promise<void>;
  /**
   * Spends a link and begins the session that `signIn` makes of it; undefined where there is none, or it is too old. Of
   * several who bring it at once one gets a session. `signIn` is pure and may be run again.
   */
  spendConsoleLink(
    digest: Uint8Array,
    signIn: (user: ConsoleUser, now: Instant) => ConsoleSignIn,
  ): Promise<ConsoleSession | undefined>;
  addConsoleSession(signIn: ConsoleSignIn): Promise<void>;
  /** Finds a session, ended ones included. Sees at once what another process wrote. */
  findConsoleSession(digest: Uint8Array): Promise<ConsoleSession | undefined>;
  /** Notes when a session was last used. */
  useConsoleSession(digest: Uint8Array, now: Instant): Promise<void>;
  endConsoleSession(digest: Uint8Array): Promise<void>;
  /** Ends all sessions of a user. */
  endConsoleSessions(user: string): Promise<void>;
}

export interface Registry extends ApiKeys, AdminKeys, Consoles, Tenants, Destinations, MasterKeys, AuditStore {}
