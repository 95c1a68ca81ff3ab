/**
 * The acts of operators who look for verifications: searches a page at a time, and one verification's story. No act here
 * holds a call up: rows are read beside the calls, and many of them are decrypted with the event loop free in between.
 */
import { diagnose } from "../../otp/verification/diagnosis.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import type { Message } from "../../otp/message/message.ts";
import { openPage, pageNonceBytes, sealPage } from "../../otp/keys/page-token.ts";
import { phoneIndex, readPhone, type E164 } from "../../otp/phone-number.ts";
import { referenceFor } from "../../otp/message/provider-text.ts";
import { ok, refuse, type Result } from "../../otp/reason.ts";
import { sandboxOf } from "../../otp/message/sandbox.ts";
import type { State } from "../../otp/state.ts";
import { stateAt, type Verification } from "../../otp/verification/verification.ts";
import type { RowKey, Sought } from "../../store/finding.ts";
import type { Store } from "../../store/store.ts";
import { dayMs, type Instant, type System } from "../../system.ts";

/** What is looked for: by at most one of phone, ref and prefix. */
export interface Search {
  readonly phone?: E164 | undefined;
  /** A request_id, or its first 12 characters. */
  readonly ref?: string | undefined;
  /** `+` and at least three digits. Needs a tenant, and takes at most 24 hours. */
  readonly prefix?: string | undefined;
  /** One tenant with its sandbox; undefined for all. */
  readonly tenant?: string | undefined;
  readonly state?: State | undefined;
  readonly fromMs?: Instant | undefined;
  readonly toMs?: Instant | undefined;
  /** Rows of a page, 1 to 100. */
  readonly max: number;
  /** That of the page before; "" for the first. */
  readonly token: string;
}

/** A verification as it stands. */
export interface Seen {
  readonly verification: Verification;
  readonly state: State;
  /** Undefined where its master key is not configured any more, or its row is damaged. */
  readonly phone: E164 | undefined;
}

export interface SeenPage {
  readonly found: readonly Seen[];
  /** "" when there is nothing more. */
  readonly nextToken: string;
}

/** One verification, with its messages and what it comes to. */
export interface Story extends Seen {
  readonly messages: readonly { readonly message: Message; readonly reference: string }[];
  readonly diagnosis: string;
}

export interface FindingOptions {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly system: Pick<System, "randomBytes">;
}

/** Rows that are read at once, and that a page looks at in all. */
const rowsAtOnce = 5_000;
const rowsOfPage = 10_000;
/** The same where each row is handed over, and each phone decrypted. */
const phonesAtOnce = 300;
const phonesOfPage = 5_000;
/** Phones that are decrypted in one turn of the event loop, some 20 µs each. */
const phonesInTurn = 100;
/** Indexes of a phone that are made at once, some 5 µs each. */
const indexesAtOnce = 200;

/** Finds verifications. Refuses with INVALID_REQUEST what cannot be looked for, and a token that is of another search. */
export async function findVerifications(options: FindingOptions, search: Search): Promise<Result<SeenPage>> {
  const { store, keys, system } = options;
  const { phone, ref, prefix, tenant, state, fromMs, toMs, max, token } = search;
  if ([phone, ref, prefix].filter((each) => each !== undefined).length > 1) {
    return refuse("INVALID_REQUEST", { message: "At most one of phone, request_ref and prefix is given." });
  }
  const spelt = JSON.stringify([phone, ref, prefix, tenant, state, fromMs, toMs].map((each) => each ?? null));
  const after = token === "" ? undefined : openPage(keys, spelt, token);
  if (token !== "" && after === undefined) {
    return refuse("INVALID_REQUEST", { field: "page_token", message: "page_token is of another search." });
  }
  const now = store.now();
  const sought: Sought = {
    tenants: tenant === undefined ? undefined : [tenant, sandboxOf(tenant)],
    state,
    fromMs: fromMs ?? 0,
    toMs: toMs ?? now + dayMs,
    after,
  };
  const page = await pageOf(options, search, sought, now);
  if (!page.ok) return page;
  const { found, next } = page.value;
  const nonce = () => system.randomBytes(pageNonceBytes);
  return ok({
    found: found.slice(0, max).map((verification) => seen(keys, verification, now)),
    nextToken: next === undefined ? "" : sealPage(keys.current, spelt, next, nonce()),
  });
}

interface Page {
  readonly found: readonly Verification[];
  readonly next: RowKey | undefined;
}

async function pageOf(
  options: FindingOptions,
  { phone, ref, prefix, tenant, max, fromMs, toMs }: Search,
  sought: Sought,
  now: Instant,
): Promise<Result<Page>> {
  const { store } = options;
  if (ref !== undefined) {
    const found = (await findByRef(store, ref, tenant)).filter((each) => isMeant(each, sought, now));
    return ok({ found, next: undefined });
  }
  if (phone !== undefined) {
    const indexes = await indexesOf(options, phone, tenant);
    const { verifications, next } = await store.finding.findByPhone(indexes, sought, max);
    return ok({ found: verifications, next });
  }
  if (prefix === undefined) {
    return ok(
      await pageThrough(store, sought, { max, rowsMax: rowsOfPage, atOnce: rowsAtOnce, perRead: max }, () => true),
    );
  }
  const end = toMs ?? now + 1;
  const begin = fromMs ?? end - dayMs;
  if (tenant === undefined) return refuse("INVALID_REQUEST", { field: "tenant", message: "prefix needs a tenant." });
  if (!/^\+\d{3,15}$/.test(prefix)) {
    return refuse("INVALID_REQUEST", { field: "prefix", message: "prefix is + and 3 to 15 digits." });
  }
  if (end - begin > dayMs) {
    return refuse("INVALID_REQUEST", { field: "from", message: "prefix is looked for in 24 hours at most." });
  }
  const bounds = { max, rowsMax: phonesOfPage, atOnce: phonesAtOnce, perRead: phonesAtOnce };
  const within = { ...sought, fromMs: begin, toMs: end };
  return ok(
    await pageThrough(store, within, bounds, (found) => phoneOf(options.keys, found)?.startsWith(prefix) === true),
  );
}

/** Goes through rows by time until a page is full, or as many rows as a page may look at are through. */
async function pageThrough(
  store: Store,
  sought: Sought,
  { max, rowsMax, atOnce, perRead }: Record<"max" | "rowsMax" | "atOnce" | "perRead", number>,
  isFound: (verification: Verification) => boolean,
): Promise<Page> {
  const found: Verification[] = [];
  let { after } = sought;
  for (let looked = 0; looked < rowsMax; looked += atOnce) {
    const page = await store.finding.findByTime(
      { ...sought, after },
      { max: Math.min(atOnce, perRead), rowsMax: atOnce },
    );
    for (const [i, verification] of page.verifications.entries()) {
      if (i % phonesInTurn === phonesInTurn - 1) await breath();
      if (!isFound(verification)) continue;
      found.push(verification);
      if (found.length === max) return { found, next: { createMs: verification.createMs, id: verification.id } };
    }
    after = page.next;
    if (after === undefined) return { found, next: undefined };
    await breath();
  }
  return { found, next: after };
}

/** Lets what waits for the event loop go first. */
function breath(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The indexes of a phone under each master key: at one tenant and its sandbox, or at all. */
async function indexesOf({ store, keys }: FindingOptions, phone: E164, tenant?: string): Promise<Uint8Array[]> {
  const real = tenant === undefined ? (await store.registry.listTenants()).map(({ id }) => id) : [tenant];
  const indexes: Uint8Array[] = [];
  for (const id of real) {
    for (const each of [id, sandboxOf(id)]) indexes.push(...keys.all.map((key) => phoneIndex(key, each, phone)));
    if (indexes.length % indexesAtOnce < 2 * keys.all.length) await breath();
  }
  return indexes;
}

/** Verifications that a request_id, or its first 12 characters, names. At one tenant and its sandbox, or at all. */
export async function findByRef(store: Store, ref: string, tenant?: string): Promise<Verification[]> {
  if (!/^[A-Za-z0-9_-]{12}([A-Za-z0-9_-]{10})?$/.test(ref)) return [];
  const found = await store.finding.findById(ref);
  const isWhole = (id: string) => ref.length === 12 || id === ref;
  const isOf = (of: string) => tenant === undefined || of === tenant || of === sandboxOf(tenant);
  return found.filter((each) => isWhole(each.id) && isOf(each.tenant));
}

function isMeant(verification: Verification, { state, fromMs, toMs }: Sought, now: Instant): boolean {
  const { createMs } = verification;
  return (state === undefined || stateAt(verification, now) === state) && createMs >= fromMs && createMs < toMs;
}

/** Tells one verification's story; undefined where there is none, or more than one begins so. */
export async function tellStory(
  { store, keys }: Pick<FindingOptions, "store" | "keys">,
  ref: string,
  tenant?: string,
): Promise<Story | undefined> {
  const [verification, other] = await findByRef(store, ref, tenant);
  if (verification === undefined || other !== undefined) return undefined;
  const now = store.now();
  const messages = await store.readMessages(verification.id);
  return {
    ...seen(keys, verification, now),
    messages: messages.map((message) => ({ message, reference: referenceFor(keys, verification, message.copy) })),
    diagnosis: diagnose(verification, messages, now),
  };
}

function seen(keys: KeyRing, verification: Verification, now: Instant): Seen {
  return { verification, state: stateAt(verification, now), phone: phoneOf(keys, verification) };
}

function phoneOf(keys: KeyRing, { kid, id, phoneBox }: Verification): E164 | undefined {
  return keys.find(kid) === undefined ? undefined : readPhone(keys, kid, id, phoneBox);
}
