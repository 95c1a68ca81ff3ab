/**
 * The RPCs on a tenant's lists of destinations.
 */
import type { Destination, Verdict } from "../../otp/verification/destination.ts";
import { hiddenCharacter } from "../../otp/hidden-characters.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import { maskPhone } from "../../otp/phone-number.ts";
import { ok } from "../../otp/reason.ts";
import {
  isWholeNumber,
  noteCharsMax,
  putDestination,
  readPrefix,
  removeDestination,
} from "../../service/operators/destinations.ts";
import type { Store } from "../../store/store.ts";
import { tenantMeant, type Asker } from "./asker.ts";
import { timeField, type HandlersOf } from "./handlers.ts";
import { badField, notFound, refuseAdmin } from "./refusal.ts";

export interface DestinationDependencies {
  readonly store: Store;
  readonly keys: KeyRing;
}

interface EntryRequest {
  readonly prefix: string;
  readonly tenant: string;
  readonly note: string;
}

export function destinationHandlers({
  store,
  keys,
}: DestinationDependencies): HandlersOf<"listDestinations" | "block" | "allow" | "removeDestination"> {
  async function put(verdict: Verdict, asked: EntryRequest, asker: Asker) {
    const tenant = tenantMeant(asker, asked.tenant);
    if (!tenant.ok) return tenant;
    if (verdict === "allow" && asker.tenant !== undefined) return loosening;
    const read = readPrefix(asked.prefix);
    if (read.kind !== "prefix") return badPrefix;
    const isFit = asked.note.length <= noteCharsMax && hiddenCharacter(asked.note) === undefined;
    if (!isFit) return badField("note", `must be one line of at most ${noteCharsMax} visible characters`);
    const { prefix } = read;
    const entry = { tenant: tenant.value, prefix, verdict, note: asked.note, createMs: store.now() };
    const isPut = await putDestination(store, entry, { by: asker.author, keys });
    return isPut ? ok({ destination: destinationShown(entry, asker) }) : notFound;
  }

  return {
    async listDestinations({ tenant: asked }, asker) {
      const tenant = tenantMeant(asker, asked);
      if (!tenant.ok) return tenant;
      if ((await store.registry.findTenant(tenant.value)) === undefined) return notFound;
      const entries = await store.registry.listDestinations(tenant.value);
      const numbers = entries.filter(({ prefix }) => isWholeNumber(prefix)).length;
      if (numbers > 0 && asker.scopes.includes("admin.phones")) {
        const subject = `destinations: ${numbers} whole ${numbers === 1 ? "number" : "numbers"}`;
        await store.registry.addAudit({ by: asker.author, action: "phone.look" }, { tenant: tenant.value, subject });
      }
      return ok({ destinations: entries.map((entry) => destinationShown(entry, asker)) });
    },
    block: (asked, asker) => put("block", asked, asker),
    allow: (asked, asker) => put("allow", asked, asker),
    async removeDestination({ prefix, tenant: asked }, asker) {
      const tenant = tenantMeant(asker, asked);
      if (!tenant.ok) return tenant;
      if (readPrefix(prefix).kind !== "prefix") return badPrefix;
      if ((await store.registry.findTenant(tenant.value)) === undefined) return notFound;
      const author = { by: asker.author, keys };
      return ok({ removed: await removeDestination(store, { tenant: tenant.value, prefix }, author) });
    },
  };
}

const loosening = refuseAdmin("SCOPE_MISSING", {
  message: "What no country list and no guard is asked for is for admins that are bound to no tenant.",
});

const badPrefix = badField("prefix", "must be a + and 1 to 15 digits, in the number's canonical form");

/** An entry as it is told: a whole number only to whom numbers may be told. */
export function destinationShown(entry: Destination, asker: Asker) {
  const { tenant, prefix, verdict, note, createMs } = maskedFor(asker, entry);
  return { tenant, prefix, blocked: verdict === "block", note, ...timeField("createTime", createMs) };
}

/** An entry with its prefix as it may be told. */
export function maskedFor(asker: Asker, entry: Destination): Destination {
  const isMasked = isWholeNumber(entry.prefix) && !asker.scopes.includes("admin.phones");
  return isMasked ? { ...entry, prefix: maskPhone(entry.prefix) } : entry;
}
