/**
 * Whether a call's key is valid, and how many invalid ones may come from one address: for callers' keys and for
 * operators', each with limits of their own.
 */
import {
  isPublishable,
  judgeKey,
  parseKey,
  type ApiKey,
  type PresentedKey,
  type WordedKind,
} from "../../otp/keys/api-key.ts";
import type { Limit } from "../../otp/limits/rate-limit.ts";
import { ok, type Result } from "../../otp/reason.ts";
import type { Instant } from "../../system.ts";
import { createCallLimit, unlimited } from "./call-limits.ts";
import { createExpiryMap } from "./expiry-map.ts";
import { createKnownHeaders } from "./known-headers.ts";

/** The use of a key is recorded at most this often, and so is that it was tried in vain: that key costs no more. */
const lastUseEveryMs = 60_000;
/** A key that was found valid is remembered for so long. */
const seenValidMs = 300_000;
/** So many of those are remembered. */
const seenValidMax = 10_000;
/** So many keys whose note failed are remembered. */
const failedMax = 1_000;

/** A key that a header brought, and the name of its id and its digest: everybody can write a page's secret behind another id. */
interface NamedKey<Kind extends WordedKind> extends PresentedKey<Kind> {
  readonly name: string;
}

/** What is asked of a stored key, whoever's it is. */
type Judged = Pick<ApiKey, "id" | "digest" | "expireMs" | "revokeMs" | "lastUseMs" | "lastRefuseMs">;

export interface KeyCheckOptions<Kind extends WordedKind, Key extends Judged> {
  readonly now: () => Instant;
  /** The kinds of keys that count; any other is API_KEY_INVALID, before any look-up. */
  readonly kinds: readonly Kind[];
  /** Finds a key of the process itself. */
  readonly findOwn?: ((id: string) => Key | undefined) | undefined;
  readonly find: (id: string) => Promise<Key | undefined>;
  /** Notes when a key was used. */
  readonly touch: (id: string, now: Instant) => Promise<void>;
  /** Notes when a key that was revoked or has ended was tried. */
  readonly noteRefused: (id: string, now: Instant) => Promise<void>;
  /** Refused keys from one address. */
  readonly failureLimit: Limit;
  readonly isShared: (address: CallerAddress) => boolean;
  readonly onFault: (error: unknown) => void;
}

/** Where a call comes from: the name that limits know it by, and the whole address where that is known. */
export interface CallerAddress {
  readonly name: string;
  readonly text: string | undefined;
}

/**
 * Makes what authenticates a call by its `Authorization` header. A key is looked up at every call, so a revocation by
 * another process counts at once. A malformed key is refused before any look-up. The process's own keys count beside
 * those that are found.
 *
 * Every refused key counts for its address, and beyond the limit keys from there are IP_RATE_LIMITED, before any look-up.
 * Never so a key that was asked for in the last five minutes and valid when last looked up: a stranger behind the same
 * address could have a backend refused. At an address that many have, a stranger and a backend that has just started look
 * the same. So a well-formed key from there is looked up beyond the limit too, and only a wrong one is refused.
 */
export function createKeyCheck<Kind extends WordedKind, Key extends Judged>(options: KeyCheckOptions<Kind, Key>) {
  const { now: clock, kinds, failureLimit, isShared, onFault } = options;
  const failures = createCallLimit(failureLimit, "IP_RATE_LIMITED", clock);
  /** Until when a key counts as seen valid, by its name. */
  const seenValid = createExpiryMap(seenValidMax);
  const record = createRecorder(clock, onFault);
  const known = createKnownHeaders<Result<NamedKey<Kind>>>();
  /** Look-ups under way, by key. They share one permit, or the first calls of a busy backend would take them all. */
  const lookUps = new Map<string, number>();

  async function lookUp(presented: PresentedKey<Kind>, now: Instant): Promise<Result<Key>> {
    const own = options.findOwn?.(presented.id);
    if (own !== undefined) return judgeKey(presented, own, now);
    const found = await options.find(presented.id);
    const judged = judgeKey(presented, found, now);
    const isDue = (atMs: Instant | null = null) => now - (atMs ?? 0) >= lastUseEveryMs;
    // Its secret was right, so the id is no stranger's word.
    if (!judged.ok && judged.refusal.reason !== "API_KEY_INVALID") {
      if (isDue(found?.lastRefuseMs)) record(presented.id, () => options.noteRefused(presented.id, now));
      return { ok: false, refusal: { ...judged.refusal, keyId: presented.id } };
    }
    if (judged.ok && isDue(judged.value.lastUseMs)) record(presented.id, () => options.touch(presented.id, now));
    return judged;
  }

  async function authenticate(header = "", addressOf: () => CallerAddress): Promise<Result<Key>> {
    const remembered = known.get(header);
    const presented = remembered ?? readKey(header, kinds);
    if (!presented.ok) {
      const isKey = presented.refusal.reason !== "API_KEY_MISSING";
      const tooMany = isKey ? failures.take(addressOf().name).refusal : undefined;
      return tooMany === undefined ? presented : { ok: false, refusal: tooMany };
    }
    const now = clock();
    const { name } = presented.value;
    if (seenValid.get(name) > now) {
      const judged = await lookUp(presented.value, now).catch((error: unknown) => {
        // It says nothing of the key, whose calls would be strangers' in a long outage.
        seenValid.set(name, now + seenValidMs, now);
        throw error;
      });
      seenValid.set(name, judged.ok ? now + seenValidMs : 0, now);
      if (!judged.ok) failures.take(addressOf().name);
      else if (remembered === undefined) known.remember(header, presented, isReadable(presented.value.kind));
      return judged;
    }
    const others = lookUps.get(name) ?? 0;
    const permit = others === 0 ? failures.take(addressOf().name) : unlimited;
    if (permit.refusal !== undefined && !isShared(addressOf())) return { ok: false, refusal: permit.refusal };
    lookUps.set(name, others + 1);
    let isRefused = false;
    try {
      const judged = await lookUp(presented.value, now);
      isRefused = !judged.ok;
      if (judged.ok) seenValid.set(name, now + seenValidMs, now);
      else if (permit.refusal !== undefined) return { ok: false, refusal: permit.refusal };
      else if (permit === unlimited) failures.take(addressOf().name);
      return judged;
    } finally {
      // A look-up that failed says nothing of the key.
      if (!isRefused) permit.giveBack();
      const left = (lookUps.get(name) ?? 1) - 1;
      if (left === 0) lookUps.delete(name);
      else lookUps.set(name, left);
    }
  }

  return {
    authenticate,
    /** Whether this is a secret key that was asked for in the last five minutes and valid when last looked up. No look-up. */
    wasValid(header = ""): boolean {
      const presented = known.get(header) ?? readKey(header, kinds);
      return presented.ok && !isReadable(presented.value.kind) && seenValid.get(presented.value.name) > clock();
    },
  };
}

/**
 * Makes what writes a note on a key, one at a time: many calls arrive before the first is committed. One that fails is
 * not tried again before it would be due again: while the database takes no writes, each call would.
 */
function createRecorder(now: () => Instant, onFault: (error: unknown) => void) {
  const recording = new Set<string>();
  const failed = createExpiryMap(failedMax);
  return function record(id: string, note: () => Promise<void>): void {
    if (recording.has(id) || failed.get(id) > now()) return;
    recording.add(id);
    note()
      .catch((error: unknown) => {
        failed.set(id, now() + lastUseEveryMs, now());
        onFault(error);
      })
      .finally(() => recording.delete(id));
  };
}

/** True for a key that everybody can read. */
const isReadable = (kind: WordedKind) => kind !== "admin" && isPublishable(kind);

/** Reads a key out of a header, and names it. */
function readKey<Kind extends WordedKind>(header: string, kinds: readonly Kind[]): Result<NamedKey<Kind>> {
  const presented = parseKey(header, kinds);
  if (!presented.ok) return presented;
  const { id, digest } = presented.value;
  return ok({ ...presented.value, name: `${id} ${Buffer.from(digest).toString("base64")}` });
}
