/**
 * The audit: who wrote or looked at what, from where, and how it was before and is after. The act that an entry tells
 * of writes it, in the same transaction. An entry holds no secret, and names a phone by its index alone.
 */
import { type Instant, timeOf } from "../../system.ts";
import type { AdminKey } from "../keys/admin-key.ts";
import type { ApiKey } from "../keys/api-key.ts";
import type { ConsoleLink, ConsoleSession } from "../keys/console-session.ts";
import type { MasterKey } from "../keys/key-ring.ts";
import { phoneIndex } from "../phone-number.ts";
import type { Destination } from "../verification/destination.ts";
import type { Endpoint } from "./endpoint.ts";
import type { PrefixRecord } from "../limits/pumping-guard.ts";
import type { TenantRecord } from "./tenant.ts";

/** What can be done. A name never changes: entries are kept for more than a year. */
export const auditActions = [
  "api_key.create",
  "api_key.rotate",
  "api_key.revoke",
  "tenant.create",
  "tenant.update",
  "tenant.disable",
  "tenant.enable",
  "webhook.create",
  "webhook.test",
  "webhook.rotate",
  "webhook.expire_secrets",
  "webhook.enable",
  "webhook.disable",
  "webhook.remove",
  "destination.block",
  "destination.allow",
  "destination.remove",
  "guard.set",
  "guard.lift",
  "phone.look",
  "phone.reset",
  "phone.erase",
  "verification.cancel",
  "provider.try",
  "console.link",
  "console.sign_in",
] as const;

export type AuditAction = (typeof auditActions)[number];

/** Who acts, and from where. */
export interface Author {
  /** `key:<id>`, `user:<name>`, `cli`, or `start` for what the first start makes. */
  readonly actor: string;
  /** The tenant that the actor is bound to; empty for none. */
  readonly actorTenant: string;
  /** The address that it came from; empty for this machine's command line. */
  readonly address: string;
}

/** What an act is told so that it writes its entry. */
export interface AuditNote {
  readonly by: Author;
  readonly action: AuditAction;
}

/** The note of an act, if it has an author. Pure. */
export function noteOf(by: Author | undefined, action: AuditAction): AuditNote | undefined {
  return by && { by, action };
}

/** An entry, but for when and by whom. */
export interface Audited {
  /** The tenant it was done to; empty for none. */
  readonly tenant: string;
  /** What it was done to, such as a key's id. */
  readonly subject: string;
  /** As JSON; undefined where it was not. */
  readonly before?: Story | undefined;
  /** As JSON; undefined where it is gone. */
  readonly after?: Story | undefined;
}

/** An entry that an act writes in its own transaction. */
export interface Noted {
  readonly note: AuditNote;
  readonly audited: Audited;
}

/** What is told of a thing: no secret, no digest, no whole phone. */
export type Story = Readonly<Record<string, unknown>>;

/** An entry as it is kept. */
export interface AuditEntry extends Author {
  readonly atMs: Instant;
  /** An `AuditAction`, or one of a newer version. */
  readonly action: string;
  readonly tenant: string;
  readonly subject: string;
  /** JSON; empty where it was not. */
  readonly before: string;
  /** JSON; empty where it is gone. */
  readonly after: string;
}

/** Entries are kept for so long. */
export const auditMs = 400 * 24 * 3_600_000;

export const commandLine: Author = { actor: "cli", actorTenant: "", address: "" };
export const firstStart: Author = { actor: "start", actorTenant: "", address: "" };

/** Makes the entry of something that was done. Pure. */
export function auditEntry({ by, action }: AuditNote, audited: Audited, now: Instant): AuditEntry {
  const { tenant, subject, before, after } = audited;
  return { ...by, atMs: now, action, tenant, subject, before: textOf(before), after: textOf(after) };
}

function textOf(story: Story | undefined): string {
  return story === undefined ? "" : JSON.stringify(story);
}

/** The subject of an entry that is about a phone: its index. Pure. */
export function phoneSubject(key: MasterKey, tenant: string, e164: string): string {
  return `phone:${Buffer.from(phoneIndex(key, tenant, e164)).toString("base64url")}`;
}

/** Tells of an API key. Pure. */
export function keyStory({ kind, name, scopes, origins, isApp, channels, ...life }: ApiKey): Story {
  return { kind, name, scopes, origins, app: isApp, channels, ...lifeStory(life) };
}

/** Tells of an admin key. Pure. */
export function adminKeyStory({ name, scopes, ...life }: AdminKey): Story {
  return { kind: "admin", name, scopes, ...lifeStory(life) };
}

function lifeStory({ expireMs, revokeMs }: Pick<ApiKey, "expireMs" | "revokeMs">): Story {
  return { expire_time: timeOf(expireMs), revoke_time: timeOf(revokeMs) };
}

/** Tells of a tenant. Pure. */
export function tenantStory({ settings, disableMs }: Pick<TenantRecord, "settings" | "disableMs">): Story {
  return { settings: JSON.parse(settings) as unknown, disable_time: timeOf(disableMs) };
}

/** Tells of an endpoint: of its secrets only since when, and until when, each signs. Pure. */
export function endpointStory({ url, types, showPhones, secrets, disableMs, why }: Endpoint): Story {
  return {
    url,
    types,
    show_phones: showPhones,
    secrets: secrets.map(({ createMs, endMs }) => ({ create_time: timeOf(createMs), end_time: timeOf(endMs) })),
    disable_time: timeOf(disableMs),
    disable_reason: why,
  };
}

/** Tells of an entry of a tenant's lists, whose prefix is the entry's subject. Pure. */
export function destinationStory({ verdict, note }: Pick<Destination, "verdict" | "note">): Story {
  return { verdict, note };
}

/** The entry of a link to the console, which is of whom it signs in. Pure. */
export function linkNoted(by: Author, { user, scopes, tenant, expireMs }: Omit<ConsoleLink, "digest">): Noted {
  const after = { scopes, expire_time: timeOf(expireMs) };
  return { note: { by, action: "console.link" }, audited: { tenant: tenant ?? "", subject: user, after } };
}

/** The entry of a session that has begun. Pure. */
export function signInNoted(address: string, session: Omit<ConsoleSession, "digest">): Noted {
  const { user, scopes, tenant, isProxied } = session;
  const by = { actor: `user:${user}`, actorTenant: tenant ?? "", address };
  const after = { scopes, by: isProxied ? "proxy" : "link" };
  return { note: { by, action: "console.sign_in" }, audited: { tenant: tenant ?? "", subject: user, after } };
}

/** Tells of what the pumping guard knows of a prefix, which is the entry's subject. Pure. */
export function prefixStory({ phase, trips, untilMs, refused }: PrefixRecord): Story {
  return { phase, trips_in_a_row: trips, until_time: timeOf(untilMs === 0 ? null : untilMs), refused };
}
