/**
 * Tenants for tests of the parts below the server: each has the same rules, the brand "Acme" and the built-in texts.
 */
import type { Policy } from "../../../src/otp/verification/policy.ts";
import { createTemplates } from "../../../src/otp/template/choice.ts";
import type { TenantOf } from "../../../src/otp/operators/tenant.ts";

export function ofOneMind(policy: Policy): TenantOf {
  const templates = createTemplates();
  return (id) => ({ id, policy, templates, brand: "Acme", audience: id, origins: undefined, isDisabled: false });
}
