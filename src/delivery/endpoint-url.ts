/**
 * Whether a URL can be an endpoint's: its form, and whether the address in it may be posted to. Where a name leads is
 * checked whenever something is posted.
 */
import { isIP } from "node:net";
import { parseEndpointUrl } from "../otp/operators/endpoint.ts";

export function checkEndpointUrl(
  text: string,
  isDevelopment: boolean,
  isAllowed: (address: string) => boolean,
): URL | "malformed" | "not-public" {
  const url = parseEndpointUrl(text, isDevelopment);
  if (url === undefined) return "malformed";
  const address = literalAddress(url);
  return address === undefined || isAllowed(address) ? url : "not-public";
}

/** The address in a URL; undefined for a name that has to be looked up. */
function literalAddress({ hostname }: URL): string | undefined {
  const host = hostname.replace(/^\[|\]$/g, "");
  if (/(?:^|\.)localhost\.?$/.test(host)) return "127.0.0.1";
  return isIP(host) === 0 ? undefined : host;
}
