/**
 * What the demo page shows of a receipt.
 */
import { describe, expect, test } from "vitest";
import { claimsOf } from "../../src/demo/receipt.ts";

describe("a receipt", () => {
  const receipt = (claims: unknown) => `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.sig`;

  test("is shown by its claims, with the number masked", () => {
    const claims = { iss: "otpd", phone: "+31612345678", bind: { payee: "Zoë ≥ 1" }, test: true };
    expect(claimsOf(receipt(claims))).toEqual([
      ["iss", "otpd"],
      ["phone", "+31•••••••78"],
      ["bind", '{"payee":"Zoë ≥ 1"}'],
      ["test", "true"],
    ]);
  });

  test.each(["", "a", "a.b.c", "e30.bnVsbA.x"])("that is none, such as %j, shows nothing", (text) =>
    expect(claimsOf(text)).toEqual([]),
  );
});
