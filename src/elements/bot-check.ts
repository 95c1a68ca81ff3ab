/**
 * The web page's bot check, in its slot: any widget that gives its token to the form as a field.
 */

/** By which names Turnstile, hCaptcha and reCAPTCHA do so, and a check of the web page's own may. */
const fieldNames = ["cf-turnstile-response", "h-captcha-response", "g-recaptcha-response", "challenge_token"];
const selector = fieldNames.map((name) => `[name="${name}"]`).join();

/** What the bot check has given; "" for nothing yet, undefined where there is none. */
export function tokenIn(slot: HTMLSlotElement): string | undefined {
  const slotted = slot.assignedElements();
  if (slotted.length === 0) return undefined;
  const [field] = slotted.flatMap((one) => (one.matches(selector) ? one : (one.querySelector(selector) ?? [])));
  const { value } = (field ?? {}) as { value?: unknown };
  return typeof value === "string" ? value : "";
}
