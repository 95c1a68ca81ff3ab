/**
 * The addresses that a tenant's URL may lead to. Who names a URL must not reach what only we can reach: the cloud's metadata
 * service, a database, an admin page of this machine.
 */
import { BlockList, isIP, isIPv4 } from "node:net";

export interface AddressRange {
  readonly address: string;
  /** How many of its leading bits count. */
  readonly bits: number;
}

const familyOf = (address: string) => (isIPv4(address) ? "ipv4" : "ipv6");

function listOf(networks: readonly AddressRange[]): BlockList {
  const list = new BlockList();
  for (const { address, bits } of networks) list.addSubnet(address, bits, familyOf(address));
  return list;
}

/** IPv4 that is not reachable worldwide (RFC 6890 and its successors). */
const closed = listOf([
  { address: "0.0.0.0", bits: 8 },
  { address: "10.0.0.0", bits: 8 },
  { address: "100.64.0.0", bits: 10 },
  { address: "127.0.0.0", bits: 8 },
  { address: "169.254.0.0", bits: 16 },
  { address: "172.16.0.0", bits: 12 },
  { address: "192.0.0.0", bits: 24 },
  { address: "192.0.2.0", bits: 24 },
  { address: "192.88.99.0", bits: 24 },
  { address: "192.168.0.0", bits: 16 },
  { address: "198.18.0.0", bits: 15 },
  { address: "198.51.100.0", bits: 24 },
  { address: "203.0.113.0", bits: 24 },
  { address: "224.0.0.0", bits: 3 },
]);

/** IPv6 that is given out for global use, except examples and what leads to an IPv4 address. */
const global6 = listOf([{ address: "2000::", bits: 3 }]);
const closed6 = listOf([
  { address: "2001::", bits: 23 },
  { address: "2001:db8::", bits: 32 },
  { address: "2002::", bits: 16 },
  { address: "3fff::", bits: 20 },
]);

const loopback = listOf([
  { address: "127.0.0.0", bits: 8 },
  { address: "::1", bits: 128 },
]);

/** Private networks, those between a provider's subscribers, and this machine; not the link's own, where clouds have metadata. */
const privateNetworks = listOf([
  { address: "10.0.0.0", bits: 8 },
  { address: "100.64.0.0", bits: 10 },
  { address: "127.0.0.0", bits: 8 },
  { address: "172.16.0.0", bits: 12 },
  { address: "192.168.0.0", bits: 16 },
  { address: "::1", bits: 128 },
  { address: "fc00::", bits: 7 },
]);

/** True for an address of a private network or of this machine; false for a name. Pure. */
export function isPrivate(address: string): boolean {
  return isIP(address) !== 0 && privateNetworks.check(address, familyOf(address));
}

/** True for an address of the public internet. An IPv4 address within IPv6 is not public. Pure. */
export function isPublic(address: string): boolean {
  if (isIPv4(address)) return !closed.check(address, "ipv4");
  return global6.check(address, "ipv6") && !closed6.check(address, "ipv6");
}

/** True also for this machine: for development. Pure. */
export function isPublicOrLoopback(address: string): boolean {
  return isPublic(address) || isLoopback(address);
}

/** True for an address of this machine. Pure. */
export function isLoopback(address: string): boolean {
  return loopback.check(address, familyOf(address));
}

/** Addresses that events may be posted to: public ones, and those of networks that the operator names. */
export function eventAddresses(
  isDevelopment: boolean,
  networks: readonly AddressRange[],
): (address: string) => boolean {
  const named = listOf(networks);
  const isAllowed = isDevelopment ? isPublicOrLoopback : isPublic;
  return (address) => isAllowed(address) || named.check(address, familyOf(address));
}
