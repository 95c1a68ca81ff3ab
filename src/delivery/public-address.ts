/**
 * Which addresses a tenant's URL may lead to. Whoever may name a URL must not reach through us what only we can reach: the
 * cloud's metadata service, a database, an admin page of the same machine.
 */
import { BlockList, isIPv4 } from "node:net";

/** A network: an address and how many of its leading bits count. */
export interface Network {
  readonly address: string;
  readonly bits: number;
}

/** IPv4 that is of no use or of no business outside its own network (RFC 6890 and its successors). */
const closed = new BlockList();
for (const [network, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
] as const) {
  closed.addSubnet(network, bits, "ipv4");
}

/** Of IPv6 only what is given out for global use, without what is for examples, or leads on to an IPv4 address. */
const global6 = new BlockList();
global6.addSubnet("2000::", 3, "ipv6");
const closed6 = new BlockList();
for (const [network, bits] of [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const) {
  closed6.addSubnet(network, bits, "ipv6");
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** True for an address of the public internet. An IPv4 address in IPv6's clothes is none. Pure. */
export function isPublic(address: string): boolean {
  if (isIPv4(address)) return !closed.check(address, "ipv4");
  return global6.check(address, "ipv6") && !closed6.check(address, "ipv6");
}

/** The same, and this machine: for development. Pure. */
export function isPublicOrLoopback(address: string): boolean {
  return isPublic(address) || isLoopback(address);
}

/** True for an address of this machine. Pure. */
export function isLoopback(address: string): boolean {
  return loopback.check(address, isIPv4(address) ? "ipv4" : "ipv6");
}

/** Where events may be posted: as above, and to networks that the operator has named. */
export function eventAddresses(isDevelopment: boolean, networks: readonly Network[]): (address: string) => boolean {
  const named = new BlockList();
  for (const { address, bits } of networks) named.addSubnet(address, bits, isIPv4(address) ? "ipv4" : "ipv6");
  const isAllowed = isDevelopment ? isPublicOrLoopback : isPublic;
  return (address) => isAllowed(address) || named.check(address, isIPv4(address) ? "ipv4" : "ipv6");
}
