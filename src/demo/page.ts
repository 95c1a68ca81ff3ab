/**
 * The demo page: the form, as any web page would embed it, beside the inbox that shows what it sent. Below it stands
 * what the form has proven.
 */
import type { OtpForm } from "../elements/otp-form.ts";
import { element } from "./elements.ts";
import { showInbox } from "./inbox.ts";
import { claimsOf, masked } from "./receipt.ts";

interface Proven {
  readonly receipt: string;
  readonly requestId: string;
  readonly phone: string;
}

const form = element("form", HTMLElement) as OtpForm;

function settingOf(name: string): string {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

form.addEventListener("verified", (event) => {
  const { receipt, requestId, phone } = (event as CustomEvent<Proven>).detail;
  element("proven", HTMLElement).textContent = masked(phone);
  element("proven-id", HTMLElement).textContent = requestId;
  const claims = claimsOf(receipt);
  element("receipt", HTMLElement).hidden = claims.length === 0;
  element("claims", HTMLDListElement).replaceChildren(
    ...claims.flatMap(([name, text]) => {
      const [term, detail] = [document.createElement("dt"), document.createElement("dd")];
      [term.textContent, detail.textContent] = [name, text];
      return [term, detail];
    }),
  );
});
element("again", HTMLButtonElement).addEventListener("click", () => {
  form.reset();
  form.focus();
});

const lookAtInbox = showInbox(settingOf("otpd-inbox"), settingOf("otpd-token"), (found) => form.fill(found));
form.addEventListener("sent", lookAtInbox);
form.focus();
