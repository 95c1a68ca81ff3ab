/**
 * What gateways answer and report with: JSON, or a form (`application/x-www-form-urlencoded`).
 */

import { parseJson } from "../../../http-answer.ts";

/** Whether a media type is that of a form. Pure. */
export function isFormType(type: string): boolean {
  return type.toLowerCase().startsWith("application/x-www-form-urlencoded");
}

/** What pointers look into: the fields of what says that it is a form, else JSON; undefined of what is neither. Pure. */
export function readFormOrJson(type: string, text: string): unknown {
  if (isFormType(type)) return formFields(text);
  try {
    // Some gateways put a byte order mark first.
    return parseJson(text.replace(/^\uFEFF/, ""));
  } catch {
    return undefined;
  }
}

/** Of several fields of one name the first counts, as it does in a query. */
function formFields(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries([...new URLSearchParams(text)].toReversed());
}
