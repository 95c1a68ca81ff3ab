/**
 * The way from a thing to what was done to it.
 */
import { make } from "../dom.ts";

/** The id of a thing, as a link to its lines of the audit. */
export function auditLink(id: string): HTMLElement {
  return make(
    "a",
    { attributes: { href: auditOf(id), title: "What was done to it" } },
    make("code", { class: "below" }, id),
  );
}

export function auditOf(subject: string): string {
  return `#/audit?${new URLSearchParams({ subject }).toString()}`;
}
