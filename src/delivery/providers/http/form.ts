/**
 * Forms (`application/x-www-form-urlencoded`) that gateways answer and report with.
 */

/** Whether a media type is that of a form. Pure. */
export function isFormType(type: string): boolean {
  return type.toLowerCase().startsWith("application/x-www-form-urlencoded");
}

/** The fields of a form. Of several of one name the first counts, as it does in a query. Pure. */
export function formFields(body: string): Readonly<Record<string, string>> {
  return Object.fromEntries([...new URLSearchParams(body)].toReversed());
}
