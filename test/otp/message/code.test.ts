import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { codesMatch, deriveCode, parseCode, whyNoCode, type CodeSource } from "../../../src/otp/message/code.ts";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";
import { Secret } from "../../../src/otp/keys/secret.ts";
import { masterKeyA, masterKeyB } from "../../support/data/examples.ts";
import { createManualSystem } from "../../support/service/system.ts";

const [ringA, ringB] = [createKeyRing([masterKeyA]), createKeyRing([masterKeyB])];
const both = createKeyRing([masterKeyB, masterKeyA]);
const [kidA, kidB] = [ringA.current.kid, ringB.current.kid];
const id = "AAAAAAAAAAAAAAAAAAAAAA";
const zeroSalt = "00000000000000000000000000000000";

describe("the code is derived", () => {
  // Computed apart from this code base, with Python's hmac and hashlib. A change here breaks every code under way.
  test.each([
    [kidA, "default", id, zeroSalt, 6, "353800"],
    [kidA, "default", id, zeroSalt, 8, "30353800"],
    [kidA, "default", id, zeroSalt, 10, "4330353800"],
    [kidB, "default", id, zeroSalt, 6, "992870"],
    [kidA, "acme", id, zeroSalt, 6, "070655"],
    [kidA, "default", "AAAAAAAAAAAAAAAAAAAAAQ", zeroSalt, 6, "182974"],
    [kidA, "default", id, "000102030405060708090a0b0c0d0e0f", 6, "015046"],
    [kidB, "münchen", "q83vEjRWeJCrze8SNFZ4kA", "00112233445566778899aabbccddeeff", 7, "1928112"],
    [kidB, "münchen", "q83vEjRWeJCrze8SNFZ4kA", "00112233445566778899aabbccddeeff", 9, "021928112"],
    [kidB, "", "q83vEjRWeJCrze8SNFZ4kA", "ffffffffffffffffffffffffffffffff", 10, "6524928908"],
    [kidA, "default", id, "00000000000000000000000000000389", 6, "000713"],
    [kidA, "default", id, "00000000000000000000000000000793", 6, "000770"],
  ])("kid %i, tenant %j, id %s, salt %s, %i digits: %s", (kid, tenant, request, salt, digits, code) => {
    const source: CodeSource = { kid, tenant, id: request, salt: Buffer.from(salt, "hex"), digits };
    expect(deriveCode(both, source)?.reveal()).toBe(code);
  });

  test("fields do not run into each other: what leaves the tenant and joins the id gives another code", () => {
    const salt = Buffer.from(zeroSalt, "hex");
    const codes = ["", "a", "ab"].map((tenant) =>
      deriveCode(ringA, { kid: kidA, tenant, id: "ab".slice(tenant.length), salt, digits: 10 })?.reveal(),
    );
    expect(new Set(codes).size).toBe(3);
  });

  test("without its salt there is no code", () => {
    expect(deriveCode(ringA, { kid: kidA, tenant: "default", id, salt: null, digits: 6 })).toBeUndefined();
  });

  test("without its key there is no code", () => {
    const source = { kid: kidB, tenant: "default", id, salt: Buffer.from(zeroSalt, "hex"), digits: 6 };
    expect(deriveCode(ringA, source)).toBeUndefined();
  });
});

describe("codes are uniform", () => {
  const draws = 80_000;
  const system = createManualSystem(20_260_101);
  const salts = Array.from({ length: draws }, () => system.randomBytes(16));

  /** How far the counts of `parts` are from an even spread over `bins`. */
  function chiSquare(parts: readonly number[], bins: number): number {
    const counts = Array<number>(bins).fill(0);
    for (const part of parts) counts[part] = (counts[part] ?? 0) + 1;
    const expected = parts.length / bins;
    return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  }

  // Ten bins have 9 degrees of freedom: a fair code is above 28 once in 1,000 draws. They show a bias in broad strokes,
  // such as that of 31 bits at eight digits (2.4 %). A thousand bins (999 ± 45) show gaps. The seed fixes the draw.
  test.each([6, 8, 10])("at %i digits, in the leading and the trailing ones", (digits) => {
    const codes = salts.map(
      (salt) => deriveCode(ringA, { kid: kidA, tenant: "default", id, salt, digits })?.reveal() ?? "",
    );
    expect(codes.every((code) => code.length === digits)).toBe(true);
    for (const [from, to] of [
      [0, 1],
      [digits - 1, digits],
    ]) {
      const parts = codes.map((code) => Number(code.slice(from, to)));
      expect(chiSquare(parts, 10)).toBeLessThan(28);
    }
    for (const [from, to] of [
      [0, 3],
      [digits - 3, digits],
    ]) {
      const parts = codes.map((code) => Number(code.slice(from, to)));
      expect(chiSquare(parts, 1_000)).toBeGreaterThan(860);
      expect(chiSquare(parts, 1_000)).toBeLessThan(1_140);
    }
  });
});

describe("what a user typed", () => {
  test.each([
    ["as it is", "123456", 6],
    ["with leading zeros", "000012", 6],
    ["with a space in the middle", "123 456", 6],
    ["with a hyphen in the middle", "123-456", 6],
    ["with spaces and hyphens all over", " - 12 34-56 - ", 6],
    ["with a space after every one of ten digits", "1 2 3 4 5 6 7 8 9 0 ", 10],
    ["in 32 characters, most of them spaces", "123456".padEnd(32), 6],
  ])("is read %s", (_, typed, digits) => {
    expect(parseCode(new Secret(typed), digits)?.reveal()).toBe(typed.replaceAll(/[ -]/g, ""));
  });

  test.each([
    ["empty", "", 6],
    ["only spaces", "      ", 6],
    ["one digit short", "12345", 6],
    ["one digit long", "1234567", 6],
    ["six digits where eight are asked for", "123456", 8],
    ["longer than 32 characters", "123456".padEnd(33), 6],
    ["full-width digits", "１２３４５６", 6],
    ["Arabic-Indic digits", "١٢٣٤٥٦", 6],
    ["one full-width digit", "12345６", 6],
    ["a trailing NUL", "123456\0", 6],
    ["a NUL for a digit", "12345\0", 6],
    ["a trailing newline", "123456\n", 6],
    ["a tab inside", "123\t456", 6],
    ["a no-break space inside", "123\u00a0456", 6],
    ["a dash that is no hyphen", "123–456", 6],
    ["a zero-width space inside", "123\u200b456", 6],
    ["a letter O for a zero", "12345O", 6],
    ["a sign", "+12345", 6],
    ["a decimal point", "1234.5", 6],
    ["an exponent", "1e1234", 6],
    ["a hexadecimal number", "0x1234", 6],
    ["a second line", "123456\n123456", 6],
  ])("is refused when it is %s", (_, typed, digits) => {
    expect(parseCode(new Secret(typed), digits)).toBeUndefined();
    const why = whyNoCode(new Secret(typed), digits);
    expect(why).toMatch(
      new RegExp(`^code must have ${digits} digits, (from 0 to 9, )?but it (is|has) [a-z0-9 ]+\\. No attempt`),
    );
    expect(typed.trim() !== "" && why.includes(typed)).toBe(false);
  });
});

describe("two codes match", () => {
  test("only digit by digit", () => {
    expect(codesMatch(new Secret("000123"), new Secret("000123"))).toBe(true);
    for (const other of ["000124", "100123", "00123", "0000123", "", "123"]) {
      expect(codesMatch(new Secret("000123"), new Secret(other))).toBe(false);
    }
  });
});

describe("a secret cannot be printed", () => {
  const secret = new Secret("493817");
  /** As code would hold it that takes it for a text. */
  const mistaken = secret as unknown as string;

  test.each([
    ["by String()", String(secret)],
    ["in a template", `the code is ${mistaken}`],
    ["by concatenation", "it is " + mistaken],
    ["by JSON", JSON.stringify({ code: secret, list: [secret] })],
    ["by inspection", inspect({ deep: { code: secret } }, { depth: 9 })],
    ["by inspection with hidden parts shown", inspect(secret, { showHidden: true })],
    ["by inspection that skips custom forms", inspect(secret, { customInspect: false, showHidden: true })],
    ["as an error's message", new Error(mistaken).stack ?? ""],
    ["by its own keys and values", JSON.stringify([Object.entries(secret), Reflect.ownKeys(secret)])],
    ["spread out", JSON.stringify({ ...secret })],
  ])("%s", (_, printed) => {
    expect(printed).not.toContain("493817");
  });

  test("each of its text forms says so", () => {
    expect([String(secret), [secret].join(), JSON.stringify(secret), inspect(secret)]).toEqual([
      "[secret]",
      "[secret]",
      '"[secret]"',
      "[secret]",
    ]);
  });

  test("only reveal() opens it", () => {
    expect(secret.reveal()).toBe("493817");
  });
});
