/**
 * The caller's address: one name for all its spellings, the forwarded one only where the operator trusts the forwarder,
 * and one IPv6 network is one caller.
 */
import { describe, expect, test } from "vitest";
import { parseAddressRange } from "../../src/config/shapes.ts";
import { canonicalAddress, createClientAddress } from "../../src/server/http/client-address.ts";

const trusting = (...ranges: string[]) =>
  createClientAddress(
    ranges.map((text) => {
      const range = parseAddressRange(text);
      if (range === undefined) throw new Error(`${text} is no range`);
      return range;
    }),
  );

describe("one spelling", () => {
  test.each([
    [
      "192.0.2.7",
      ["192.0.2.7", " 192.0.2.7 ", "192.0.2.7:443", "::ffff:192.0.2.7", "::FFFF:C000:207", "[::ffff:192.0.2.7]:80"],
    ],
    [
      "2001:db8:0:1::/64",
      [
        "2001:db8:0:1::7",
        "2001:DB8:0:1:0:0:0:7",
        "2001:0db8:0000:0001:0000:0000:0000:0007",
        "[2001:db8:0:1::7]",
        "[2001:db8:0:1::7]:443",
        "2001:db8:0:1::0.0.0.7",
        "2001:db8:0:1:ffff:ffff:ffff:ffff",
      ],
    ],
    ["fe80:0:0:0::/64", ["fe80::1%eth0", "fe80::2", "[fe80::1%25eth0]:80".replace("%25", "%")]],
    ["0:0:0:0::/64", ["::1", "::", "::7:8"]],
  ])("%s", (name, spellings) => {
    for (const spelling of spellings) expect([spelling, canonicalAddress(spelling)]).toEqual([spelling, name]);
  });

  test.each([
    "",
    "unknown",
    "192.0.2",
    "192.0.2.256",
    "192.0.02.7",
    "0xc0000207",
    "3221225991",
    "[192.0.2.7]",
    "192.0.2.7%eth0",
    "192.0.2.7:",
    "192.0.2.7:port",
    "192.0.2.7/24",
    "2001:db8::1::2",
    "2001:db8:0:1:0:0:0:0:7",
    "[2001:db8::1",
    "2001:db8::g",
    "shop.example",
    `${" ".repeat(64)}192.0.2.7`,
    "192.0.2.7\u0000",
    "١٩٢.0.2.7",
  ])("%j is no address", (text) => {
    expect(canonicalAddress(text)).toBeUndefined();
  });

  test("10,000 addresses of one /64 are one caller, and the next network is another", () => {
    const names = new Set(Array.from({ length: 10_000 }, (_, i) => canonicalAddress(`2001:db8::${i.toString(16)}`)));
    expect([...names]).toEqual(["2001:db8:0:0::/64"]);
    expect(canonicalAddress("2001:db8:0:1::1")).toBe("2001:db8:0:1::/64");
  });
});

describe("the forwarded address", () => {
  test("is not believed of a peer that is not trusted, whatever it says", () => {
    for (const addressOf of [trusting(), trusting("10.0.0.0/8", "2001:db8::/32")]) {
      const names = new Set(
        Array.from({ length: 10_000 }, (_, i) => addressOf("192.0.2.7", `10.0.0.1, 198.51.${i >> 8}.${i & 255}`).name),
      );
      expect([...names]).toEqual(["192.0.2.7"]);
    }
  });

  const behind = trusting("10.0.0.0/8", "192.0.2.1", "2001:db8:ffff::/48");
  test.each<[peer: string | undefined, forwardedFor: string | undefined, name: string]>([
    ["10.1.2.3", undefined, "10.1.2.3"],
    ["10.1.2.3", "198.51.100.7", "198.51.100.7"],
    ["::ffff:10.1.2.3", "198.51.100.7", "198.51.100.7"],
    ["10.1.2.3", "203.0.113.9, 198.51.100.7", "198.51.100.7"],
    ["10.1.2.3", "203.0.113.9,198.51.100.7,10.9.9.9", "198.51.100.7"],
    ["10.1.2.3", "203.0.113.9 , 198.51.100.7 , 192.0.2.1 , 10.9.9.9", "198.51.100.7"],
    ["2001:db8:ffff::1", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"],
    ["10.1.2.3", "[2001:db8:1:2:3::4]:443, 10.9.9.9:8080", "2001:db8:1:2::/64"],
    // Trusted all the way: the farthest of them is the caller.
    ["10.1.2.3", "10.7.7.7, 10.8.8.8", "10.7.7.7"],
    // What makes no sense ends the walk at the last hop that did.
    ["10.1.2.3", "198.51.100.7, nonsense", "10.1.2.3"],
    ["10.1.2.3", "198.51.100.7, nonsense, 10.9.9.9", "10.9.9.9"],
    ["10.1.2.3", "198.51.100.7,", "10.1.2.3"],
    ["10.1.2.3", "198.51.100.7, , 10.9.9.9", "10.9.9.9"],
    ["10.1.2.3", "", "10.1.2.3"],
    ["192.0.2.2", "198.51.100.7", "192.0.2.2"],
    [undefined, "198.51.100.7", "unknown"],
  ])("of peer %s that says %j is %s", (peer, forwardedFor, name) => {
    expect(behind(peer, forwardedFor).name).toBe(name);
  });

  test("is known whole beside the name that limits know it by", () => {
    expect(behind("10.1.2.3", "[2001:db8:1:2:3::4]:443")).toMatchObject({ text: "2001:db8:1:2:3::4" });
    expect(behind(undefined, undefined).text).toBeUndefined();
  });

  test("may be trusted as IPv4 within IPv6, and a chain without end is not walked to its end", () => {
    expect(trusting("::ffff:10.0.0.0/104")("10.1.2.3", "198.51.100.7").text).toBe("198.51.100.7");
    expect(trusting("::ffff:10.0.0.0/104")("11.1.2.3", "198.51.100.7").text).toBe("11.1.2.3");
    expect(behind("10.1.2.3", `198.51.100.7${", 10.0.0.9".repeat(2_000)}`).text).toBe("10.0.0.9");
  });
});

test.each(["10.0.0.0/33", "10.0.0/8", "2001:db8::/129", "10.0.0.0/", "shop.example", "", "10.0.0.0/-1", "*"])(
  "%j is no range of proxies",
  (text) => {
    expect(parseAddressRange(text)).toBeUndefined();
  },
);
