/**
 * The tenants to choose from.
 */
import { TenantView } from "../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "./api.ts";
import type { PageContext } from "./page.ts";

/** As many as a list to choose from can hold; the rest are found by their names in the address. */
const choicesMax = 1_000;

/** All, and each by its name; the admin's own alone where it is bound to one. */
export async function tenantOptions(
  { client, session }: PageContext,
  signal: AbortSignal,
): Promise<readonly (readonly [value: string, text: string])[]> {
  if (session.tenant !== "") return [[session.tenant, session.tenant]];
  const { tenants } = await client.listTenants({ view: TenantView.BASIC, pageSize: choicesMax }, calling(signal));
  return [["", "All"], ...tenants.map(({ id }) => [id, id] as const)];
}
