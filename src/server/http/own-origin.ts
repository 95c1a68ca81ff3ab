/**
 * Whether a browser's request comes from a page of the very host that it asks. Browsers name the page's origin with every
 * POST, and no page can change it.
 */
import { originCharsMax } from "../../otp/keys/origin.ts";
import { hostOf, type HostHeaders } from "./own-names.ts";

/**
 * True where `origin` is that of the host that the headers name, whatever its port is spelt like. One that is longer than any host's
 * is not looked at: anybody can send it, and to read 12 kB of Chinese takes 3 ms.
 */
export function isOwnOrigin(origin: string, headers: HostHeaders): boolean {
  const host = String(hostOf(headers));
  if (Math.max(origin.length, host.length) > originCharsMax) return false;
  const page = URL.parse(origin);
  const server = page === null ? null : URL.parse(`${page.protocol}//${host}`);
  return page !== null && server !== null && page.host !== "" && page.host === server.host;
}
