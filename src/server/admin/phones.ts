/**
 * What operators do with a phone: a fresh start, and an end to all that is stored of it.
 */
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import { parsePhoneNumber, type E164 } from "../../otp/phone-number.ts";
import { ok } from "../../otp/reason.ts";
import { defaultTenant, type TenantOf } from "../../otp/operators/tenant.ts";
import { erasePhone } from "../../service/operators/erasure.ts";
import { resetPhone } from "../../service/operators/phones.ts";
import { phoneSubject, type Audited, type AuditAction, type Noted } from "../../otp/operators/audit.ts";
import type { PhoneOf, Store } from "../../store/store.ts";
import { tenantListed, tenantMeant, type Asker } from "./asker.ts";
import { destinationShown } from "./destinations.ts";
import type { HandlersOf } from "./handlers.ts";
import { badField, notFound, type AdminResult } from "./refusal.ts";

export interface PhoneDependencies {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly phoneOf: PhoneOf;
  readonly tenantOf: TenantOf;
}

export function phoneHandlers(dependencies: PhoneDependencies): HandlersOf<"resetPhone" | "erasePhone"> {
  const { store, keys, tenantOf } = dependencies;
  const noted = ({ author: by }: Asker, action: AuditAction, audited: Audited): Noted => ({
    note: { by, action },
    audited,
  });
  const subjectOf = (tenant: string, phone: E164) => phoneSubject(keys.current, tenant, phone);

  return {
    async resetPhone(request, asker) {
      const [tenant, phone] = [tenantMeant(asker, request.tenant), phoneIn(request)];
      if (!tenant.ok) return tenant;
      if (!phone.ok) return phone;
      if ((await store.registry.findTenant(tenant.value)) === undefined) return notFound;
      const parsed = parsePhoneNumber(phone.value);
      if (!parsed.ok) return parsed;
      const { policy } = tenantOf(tenant.value);
      const audited = { tenant: tenant.value, subject: subjectOf(tenant.value, phone.value) };
      await resetPhone({ store, keys, policy }, tenant.value, parsed.value, noted(asker, "phone.reset", audited));
      return ok({});
    },

    async erasePhone(request, asker) {
      const [tenant, phone] = [tenantListed(asker, request.tenant), phoneIn(request)];
      if (!tenant.ok) return tenant;
      if (!phone.ok) return phone;
      const known = tenant.value === undefined || (await store.registry.findTenant(tenant.value)) !== undefined;
      if (!known) return notFound;
      const subject = subjectOf(tenant.value ?? defaultTenant, phone.value);
      const owed = noted(asker, "phone.erase", { tenant: tenant.value ?? "", subject });
      const sought = { phone: phone.value, tenant: tenant.value };
      const { verifications, canceled, events, entries } = await erasePhone(dependencies, sought, owed);
      return ok({
        verifications,
        canceled,
        events,
        entries: entries.map((entry) => destinationShown(entry, asker)),
      });
    },
  };
}

/** The number that a request names. */
export function phoneIn({ phone }: { readonly phone: string }): AdminResult<E164> {
  const parsed = parsePhoneNumber(phone);
  return parsed.ok ? ok(parsed.value.e164) : badField("phone", "is not a number in E.164, such as +31612345678");
}
