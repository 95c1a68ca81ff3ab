/**
 * The field that chooses a tenant.
 */
import { TenantView } from "../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "./api.ts";
import type { PageContext } from "./page.ts";
import type { Field } from "./parts.ts";

/** As many as a list to choose from can hold; the rest are found by their names in the address. */
const choicesMax = 1_000;

/** A field with all and each tenant by its name, as one of a form's; none for an admin who is bound to one. */
export async function tenantField(
  { client, session }: PageContext,
  chosen: string | null | undefined,
  signal: AbortSignal,
): Promise<readonly Field[]> {
  if (session.tenant !== "") return [];
  const { tenants } = await client.listTenants({ view: TenantView.BASIC, pageSize: choicesMax }, calling(signal));
  const value = chosen ?? "";
  const ids = tenants.map(({ id }) => id);
  // One that the address names and the list lacks must not look like all.
  const named = value === "" || ids.includes(value) ? ids : [...ids, value];
  const options = [["", "All"], ...named.map((id) => [id, id] as const)] as const;
  return [{ name: "tenant", label: "Tenant", options, value }];
}
