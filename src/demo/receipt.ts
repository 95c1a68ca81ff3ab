/**
 * A receipt's claims, for show. They are decoded and not checked: the page hands the receipt to its backend, which checks the
 * signature.
 */

/** The claims of a JWT as name and text; none when it cannot be read. The number is masked. */
export function claimsOf(receipt: string): [name: string, text: string][] {
  try {
    const [, part = ""] = receipt.split(".");
    const bytes = Uint8Array.from(atob(part.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
    return Object.entries(claims).map(([name, value]) => [name, masked(textOf(name, value))]);
  } catch {
    return [];
  }
}

function textOf(name: string, value: unknown): string {
  const isTime = typeof value === "number" && (name === "iat" || name === "exp" || name === "nbf");
  if (isTime) return new Date(value * 1_000).toLocaleTimeString();
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A number in E.164 as the server masks it for publishable keys; any other text as it is. */
export function masked(text: string): string {
  return /^\+\d{7,15}$/.test(text) ? text.slice(0, 3) + "•".repeat(text.length - 5) + text.slice(-2) : text;
}
