/**
 * Where cleartext may go: this machine and private networks. A name is judged twice: by its form when the file is read, and by
 * the addresses that it has when it is connected to.
 */
import { lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import { isPrivate } from "../../public-address.ts";

/** Names that only a private network has: those without a dot, and those below a domain for it. */
const privateNames = /^(?:[a-z](?:[a-z0-9-]*[a-z0-9])?|(?:[a-z0-9-]+\.)+(?:local|internal|lan|localhost|home\.arpa))$/;

/** Whether a URL's host may be one of a private network. The text begins with a scheme and a host without placeholders. Pure. */
export function hasPrivateHost(url: string): boolean {
  const origin = /^https?:\/\/[^/?#]+/.exec(url)?.[0] ?? "";
  if (!URL.canParse(origin)) return false;
  const host = new URL(origin).hostname.replace(/^\[|\]$/g, "");
  return isPrivate(host) || privateNames.test(host);
}

/** Looks a name up, and fails unless each of its addresses is private: connected to is what was checked. */
export const lookUpPrivate: LookupFunction = (host, options, done) => {
  lookup(host, { ...options, all: true }, (error, addresses) => {
    const [first] = addresses ?? [];
    if (error !== null || first === undefined) return done(error ?? new Error("no address"), "", 0);
    if (!addresses.every(({ address }) => isPrivate(address))) {
      return done(new Error("an address is public, and the URL is not https"), "", 0);
    }
    if (options.all === true) return done(null, addresses);
    return done(null, first.address, first.family);
  });
};
