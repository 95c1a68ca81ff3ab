/**
 * The variables that are lists of networks.
 */
import { describe, expect, test } from "vitest";
import { parseConfig, type Config } from "../../src/config/config.ts";
import type { AddressRange } from "../../src/delivery/public-address.ts";

const shape = "must be a list such as 10.0.0.0/8,2001:db8::7 (addresses and ranges)";

describe.each<[string, (config: Config) => readonly AddressRange[]]>([
  ["OTP_TRUSTED_PROXIES", ({ trustedProxies }) => trustedProxies],
  ["OTP_SHARED_NETWORKS", ({ sharedNetworks }) => sharedNetworks],
])("%s", (name, read) => {
  test.each<[string | undefined, AddressRange[]]>([
    [undefined, []],
    ["192.0.2.7", [{ address: "192.0.2.7", bits: 32 }]],
    [
      "10.0.0.0/8, 192.0.2.7,2001:DB8::/32,::1",
      [
        { address: "10.0.0.0", bits: 8 },
        { address: "192.0.2.7", bits: 32 },
        { address: "2001:DB8::", bits: 32 },
        { address: "::1", bits: 128 },
      ],
    ],
  ])("%j is read", (text, ranges) => {
    const parsed = parseConfig({ [name]: text }, () => "");
    expect(parsed.ok && read(parsed.value)).toEqual(ranges);
  });

  test.each(["10.0.0.0/33", "10.0.0", "10.0.0.0/8;192.0.2.7", "proxy.internal", "*", "10.0.0.0/8,"])(
    "%j is refused",
    (text) => {
      expect(parseConfig({ [name]: text }, () => "")).toMatchObject({ ok: false, faults: [`${name} ${shape}.`] });
    },
  );
});
