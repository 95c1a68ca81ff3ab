/**
 * The tenants to choose from: those that have a key, which are those that anything is asked for.
 */
import { calling } from "./api.ts";
import type { PageContext } from "./page.ts";

/** All, and each by its name; the admin's own alone where it is bound to one. */
export async function tenantOptions(
  { client, session }: PageContext,
  signal: AbortSignal,
): Promise<readonly (readonly [value: string, text: string])[]> {
  if (session.tenant !== "") return [[session.tenant, session.tenant]];
  const { apiKeys } = await client.listApiKeys({}, calling(signal));
  const names = [...new Set(apiKeys.map(({ tenant }) => tenant))].filter((name) => name !== "");
  return [["", "All"], ...names.toSorted().map((name) => [name, name] as const)];
}
