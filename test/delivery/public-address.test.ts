/**
 * Which addresses are of the public internet, and which are not, whatever they are written as.
 */
import { expect, test } from "vitest";
import { eventAddresses, isPublic, isPublicOrLoopback } from "../../src/delivery/public-address.ts";

test.each([
  ["8.8.8.8", true, true],
  ["172.15.0.1", true, true],
  ["172.32.0.1", true, true],
  ["2606:4700:4700::1111", true, true],
  ["127.0.0.1", false, true],
  ["127.8.9.1", false, true],
  ["::1", false, true],
  ["0.0.0.0", false, false],
  ["10.1.2.3", false, false],
  ["100.64.0.1", false, false],
  ["169.254.169.254", false, false],
  ["172.16.0.1", false, false],
  ["172.31.255.255", false, false],
  ["192.168.1.1", false, false],
  ["198.18.0.1", false, false],
  ["224.0.0.1", false, false],
  ["255.255.255.255", false, false],
  ["::", false, false],
  ["::ffff:8.8.8.8", false, false],
  ["::ffff:10.0.0.1", false, false],
  ["::ffff:a9fe:a9fe", false, false],
  ["64:ff9b::a00:1", false, false],
  ["2002:a00:1::", false, false],
  ["2001:0:1::", false, false],
  ["2001:db8::1", false, false],
  ["fc00::1", false, false],
  ["fd12:3456::1", false, false],
  ["fe80::1", false, false],
  ["ff02::1", false, false],
])("%s is public: %s; or of this machine: %s", (address, isOpen, isOpenInDevelopment) => {
  expect([isPublic(address), isPublicOrLoopback(address)]).toEqual([isOpen, isOpenInDevelopment]);
});

test("networks that the operator names are open, and none beside them", () => {
  const isAllowed = eventAddresses(false, [
    { address: "10.8.0.0", bits: 16 },
    { address: "fd12:3456::", bits: 32 },
    { address: "192.168.7.7", bits: 32 },
  ]);
  const open = ["10.8.0.1", "10.8.255.255", "fd12:3456:1::1", "192.168.7.7", "8.8.8.8"];
  const shut = ["10.9.0.1", "10.7.255.255", "fd12:3457::1", "192.168.7.8", "127.0.0.1", "169.254.169.254", "::1"];
  expect([...open, ...shut].filter(isAllowed)).toEqual(open);
  expect(["127.0.0.1", "10.8.0.1"].filter(eventAddresses(true, []))).toEqual(["127.0.0.1"]);
});
