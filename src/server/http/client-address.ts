/**
 * The address a call comes from, in one spelling: the name that limits know a caller by.
 *
 * It is the peer's, unless the peer is a proxy that the operator trusts; then it is what that proxy says in
 * X-Forwarded-For. The list is walked from its end, since each proxy adds to the end and anybody may have written what
 * stands before.
 *
 * An IPv6 caller is known to limits by the first 64 bits: whoever has one address of such a network has 2⁶⁴ of them.
 */
import { BlockList, isIP } from "node:net";
import type { AddressRange } from "../../delivery/public-address.ts";

/** Where a call comes from. */
export interface ClientAddress {
  /** What limits know the caller by. */
  readonly name: string;
  /** The whole address, without port, brackets and zone; undefined where it is not known. */
  readonly text: string | undefined;
}

interface Address extends ClientAddress {
  readonly family: "ipv4" | "ipv6";
  readonly text: string;
}

/** Proxies that are walked over; nobody has as many in a row. */
const hopsMax = 32;
const charsMax = 64;

/** All callers whose connection has gone before it was asked for its peer. */
const unknown: ClientAddress = { name: "unknown", text: undefined };

/**
 * Brings an address to the name that limits know it by: `192.0.2.7`, or `2001:db8:0:1::/64`. Reads IPv4, IPv6 and IPv4
 * within IPv6, also with a port, brackets or a zone; undefined for anything else. Pure.
 */
export function canonicalAddress(text: string): string | undefined {
  return parseAddress(text)?.name;
}

/** Makes the function that finds where a call comes from, by the connection's peer and the header X-Forwarded-For. */
export function createClientAddress(
  trusted: readonly AddressRange[],
): (peer: string | undefined, forwardedFor: string | undefined) => ClientAddress {
  const isTrusted = createRanges(trusted);

  return (peer, forwardedFor) => {
    let hop = peer === undefined ? undefined : parseAddress(peer);
    let rest = forwardedFor;
    for (let hops = 0; hops < hopsMax && hop !== undefined && rest !== undefined; hops++) {
      if (!isTrusted(hop)) break;
      const comma = rest.lastIndexOf(",");
      const before = parseAddress(rest.slice(comma + 1));
      // Whoever wrote nonsense, the last hop that made sense is the one that is known.
      if (before === undefined) break;
      hop = before;
      rest = comma < 0 ? undefined : rest.slice(0, comma);
    }
    return hop ?? unknown;
  };
}

/**
 * Makes the function that finds the address that a connection counts for, as limits know it; undefined within the networks
 * in which many callers have one. It goes by the connection's peer alone, since anybody can write a header.
 */
export function createOwnAddressOf(shared: readonly AddressRange[]): (peer: string | undefined) => string | undefined {
  const isShared = createRanges(shared);
  return (peer) => {
    const address = peer === undefined ? undefined : parseAddress(peer);
    if (address === undefined) return unknown.name;
    return isShared(address) ? undefined : address.name;
  };
}

/** Makes the function that tells whether a peer is in one of these networks; false where the peer is not known. */
export function createIsWithin(ranges: readonly AddressRange[]): (peer: string | undefined) => boolean {
  const isWithin = createRanges(ranges);
  return (peer) => {
    const address = peer === undefined ? undefined : parseAddress(peer);
    return address !== undefined && isWithin(address);
  };
}

/** Makes the function that tells whether an address is in one of these ranges. */
function createRanges(ranges: readonly AddressRange[]): (address: Address) => boolean {
  const list = new BlockList();
  for (const { address, bits } of ranges) {
    const range = parseAddress(address);
    if (range === undefined) throw new Error("a range has an address");
    // A range of IPv4 within IPv6 is one of IPv4, as its addresses are.
    const isWithin = range.family === "ipv4" && isIP(address) === 6;
    if (isWithin && bits < 96) list.addSubnet(address, bits, "ipv6");
    else list.addSubnet(range.text, isWithin ? bits - 96 : bits, range.family);
  }
  return ({ text, family }) => list.check(text, family);
}

function parseAddress(text: string): Address | undefined {
  if (text.length > charsMax) return undefined;
  const trimmed = text.trim();
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(trimmed)?.[1];
  const bare = bracketed ?? trimmed.replace(/^([\d.]+):\d{1,5}$/, "$1");
  const [, address = "", zone = ""] = /^([0-9a-f:.]+)(%[\w.~-]+)?$/i.exec(bare) ?? [];
  const family = isIP(address);
  if (family === 6) return ofIpv6(address);
  return family === 4 && zone === "" && bracketed === undefined
    ? { family: "ipv4", text: address, name: address }
    : undefined;
}

function ofIpv6(text: string): Address {
  const groups = groupsOf(text);
  const [high = 0, low = 0] = groups.slice(6);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    const within = [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".");
    return { family: "ipv4", text: within, name: within };
  }
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  return { family: "ipv6", text, name: `${network.join(":")}::/64` };
}

/** The eight groups of an address that is known to be IPv6. */
function groupsOf(text: string): number[] {
  // A URL writes its host in one way: lower case, without IPv4's dots.
  const { hostname } = new URL(`http://[${text}]`);
  const [before = "", after] = hostname.slice(1, -1).split("::");
  const [head, tail] = [before, after ?? ""].map((part) => (part === "" ? [] : part.split(":")));
  const written = [...(head ?? []), ...(tail ?? [])].length;
  const middle = after === undefined ? [] : Array<string>(8 - written).fill("0");
  return [...(head ?? []), ...middle, ...(tail ?? [])].map((group) => Number.parseInt(group, 16));
}
