/**
 * The act that erases a phone: its pending verifications are canceled, and all its verifications go, with what hangs on them.
 * Counts of wrong codes and of messages stay under keyed indexes until they age, or guessing would begin anew. Sums stay,
 * which name no phone, and so do entries of the lists, which are the operator's own.
 */
import type { Audited, Noted } from "../../otp/operators/audit.ts";
import type { Destination } from "../../otp/verification/destination.ts";
import { decideErase } from "../../otp/decisions/erasing.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import { phoneIndex, type E164 } from "../../otp/phone-number.ts";
import { sandboxOf } from "../../otp/message/sandbox.ts";
import { stateAt, type Verification } from "../../otp/verification/verification.ts";
import { audited } from "../../otp/decisions/writes.ts";
import type { RowKey } from "../../store/finding.ts";
import type { PhoneOf, Store } from "../../store/store.ts";

export interface ErasureOptions {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly phoneOf: PhoneOf;
}

export interface ErasedPhone {
  /** Verifications that are gone. */
  readonly verifications: number;
  /** How many of them were pending. */
  readonly canceled: number;
  /** Events that waited for an endpoint. */
  readonly events: number;
  /** Entries of the lists that are the whole number. They stay. */
  readonly entries: readonly Destination[];
}

const atOnce = 100;
const always = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };

/**
 * Erases what is stored of a phone, with one tenant or with all, their sandboxes included. Its entry of the audit is
 * committed with the first change, or by itself if there was nothing to change. Safe to repeat.
 */
export async function erasePhone(
  { store, keys, phoneOf }: ErasureOptions,
  { phone, tenant }: { readonly phone: E164; readonly tenant?: string | undefined },
  noted: Noted,
): Promise<ErasedPhone> {
  const tenants = tenant === undefined ? (await store.registry.listTenants()).map(({ id }) => id) : [tenant];
  const entries: Destination[] = [];
  const indexes: Uint8Array[] = [];
  for (const id of tenants) {
    const entry = await store.registry.findDestination(id, phone);
    if (entry?.prefix === phone) entries.push(entry);
    for (const each of [id, sandboxOf(id)]) indexes.push(...keys.all.map((key) => phoneIndex(key, each, phone)));
  }
  let [verifications, canceled, events] = [0, 0, 0];
  let owed: Noted | undefined = { ...noted, audited: { ...noted.audited, ...(await countsOf(store, indexes)) } };
  const endOne = ({ tenant: of, id }: Pick<Verification, "tenant" | "id">) => {
    const due = owed;
    owed = undefined;
    const scope = { tenant: of, id, slot: undefined, phoneOf };
    return store.updateVerification(scope, (view) => audited(decideErase(view), due, view.now));
  };
  for (;;) {
    const { verifications: found } = await store.finding.findByPhone(indexes, always, atOnce);
    const [first, ...rest] = found;
    if (first === undefined) break;
    // By itself, so that nothing is done before the entry is there.
    const ended = [await endOne(first), ...(await Promise.all(rest.map(endOne)))];
    canceled += ended.filter(({ wasPending }) => wasPending).length;
    const erased = await store.erasure.erase(found);
    verifications += erased.verifications;
    events += erased.events;
  }
  if (owed !== undefined) await store.registry.addAudit(owed.note, owed.audited);
  return { verifications, canceled, events, entries };
}

/**
 * What the audit tells: the entry is committed with the first change, so its counts are of what was there when the act began.
 * An act that is cut short is repeated, with an entry of its own.
 */
async function countsOf(
  { finding, now }: Store,
  indexes: readonly Uint8Array[],
): Promise<Pick<Audited, "before" | "after">> {
  let [verifications, pending] = [0, 0];
  let after: RowKey | undefined;
  do {
    const page = await finding.findByPhone(indexes, { ...always, after }, atOnce);
    verifications += page.verifications.length;
    pending += page.verifications.filter((each) => stateAt(each, now()) === "PENDING").length;
    after = page.next;
  } while (after !== undefined);
  return { before: { verifications, pending }, after: { verifications: 0, pending: 0 } };
}
