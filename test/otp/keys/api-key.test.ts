import { createHash } from "node:crypto";
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import {
  apiKeyBytes,
  judgeKey,
  keyKinds,
  makeApiKey,
  parseKey,
  scopes,
  type ApiKey,
  type KeyKind,
  type PresentedKey,
} from "../../../src/otp/keys/api-key.ts";
import { createManualSystem, testEpochMs as now } from "../../support/service/system.ts";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const counting = Uint8Array.from({ length: apiKeyBytes }, (_, i) => i);
const made = makeApiKey("live", counting);
const text = made.text.reveal();

function presented(key: string): PresentedKey {
  const parsed = parseKey(`Bearer ${key}`, keyKinds);
  if (!parsed.ok) throw new Error(parsed.refusal.reason);
  return parsed.value;
}

function reasonOf(header: string | undefined): string {
  const parsed = parseKey(header, keyKinds);
  return parsed.ok ? "ok" : parsed.refusal.reason;
}

const stored: ApiKey = {
  id: made.id,
  kind: "live",
  tenant: "default",
  name: "test",
  scopes,
  origins: [],
  isApp: false,
  channels: ["sms"],
  digest: made.digest,
  createMs: now,
  expireMs: null,
  revokeMs: null,
  lastUseMs: null,
  lastRefuseMs: null,
};

/** CRC-32 as zip and gzip compute it, bit by bit, in six characters of base62. */
function checksum(stem: string): string {
  let crc = 0xffffffff;
  for (const byte of Buffer.from(stem)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  let rest = (crc ^ 0xffffffff) >>> 0;
  let letters = "";
  for (let i = 0; i < 6; i++, rest = Math.floor(rest / 62)) letters = alphabet.charAt(rest % 62) + letters;
  return letters;
}

describe("a new key", () => {
  test.each<KeyKind>(["live", "test"])("of kind %s has the format that scanners look for", (kind) => {
    const key = makeApiKey(kind, counting).text.reveal();
    expect(key).toMatch(new RegExp(`^otp_${kind}_[0-9A-Za-z]{10}_[0-9A-Za-z]{32}[0-9A-Za-z]{6}$`));
    expect(key.slice(-6)).toBe(checksum(key.slice(0, -6)));
  });

  test("takes its letters from the bytes in their order", () => {
    expect(made.id).toBe("0123456789");
    expect(text).toBe(`otp_live_0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef${text.slice(-6)}`);
  });

  test("skips bytes that would favour the first letters of the alphabet", () => {
    const high = Uint8Array.from({ length: apiKeyBytes }, (_, i) => (i % 2 === 0 ? 248 + (i % 8) : i >> 1));
    expect(makeApiKey("live", high).text.reveal()).toBe(text);
  });

  test("is not made of too little randomness", () => {
    expect(() => makeApiKey("live", new Uint8Array(apiKeyBytes).fill(255))).toThrow("randomness");
    expect(() => makeApiKey("live", new Uint8Array(41))).toThrow("randomness");
  });

  test("has letters that are spread evenly", () => {
    const system = createManualSystem(3);
    const counts = new Map([...alphabet].map((letter) => [letter, 0]));
    for (let i = 0; i < 2_000; i++) {
      const [, , id = "", rest = ""] = makeApiKey("live", system.randomBytes(apiKeyBytes)).text.reveal().split("_");
      for (const letter of id + rest.slice(0, 32)) counts.set(letter, (counts.get(letter) ?? 0) + 1);
    }
    const expected = (2_000 * 42) / 62;
    const chiSquare = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    expect(counts.size).toBe(62);
    // 61 degrees of freedom: a fair draw is above 100 once in 1,000.
    expect(chiSquare).toBeLessThan(100);
  });

  test("leaves a digest that is no part of it, and is a SHA-256 of kind and secret", () => {
    const secret = text.slice(-38, -6);
    const fields = ["otp/v1/api-key", "live", secret].flatMap((field) => [
      Buffer.from([0, 0, 0, field.length]),
      Buffer.from(field),
    ]);
    expect(Buffer.from(made.digest).toString("hex")).toBe(
      createHash("sha256").update(Buffer.concat(fields)).digest("hex"),
    );
    expect(JSON.stringify(stored)).not.toContain(secret);
  });

  test("cannot be printed", () => {
    expect(inspect(makeApiKey("live", counting), { depth: 9, showHidden: true })).not.toContain(text.slice(20, 52));
    expect(JSON.stringify(made)).not.toContain(text.slice(20, 52));
  });
});

describe("Authorization", () => {
  test.each([
    ["Bearer", `Bearer ${text}`],
    ["bearer in small letters", `bearer ${text}`],
    ["BEARER in capitals", `BEARER ${text}`],
    ["several spaces", `Bearer   ${text}`],
    ["spaces at the end", `Bearer ${text}  `],
    ["a tab", `Bearer\t${text}`],
    ["spaces and tabs on both sides", `Bearer \t ${text}\t `],
  ])("is read with %s", (_, header) => {
    expect(parseKey(header, keyKinds)).toEqual({ ok: true, value: { id: made.id, kind: "live", digest: made.digest } });
  });

  test.each([
    ["absent", undefined, "API_KEY_MISSING"],
    ["empty", "", "API_KEY_MISSING"],
    ["blank", "   ", "API_KEY_MISSING"],
    ["the word alone", "Bearer", "API_KEY_MISSING"],
    ["the word and a space", "Bearer ", "API_KEY_MISSING"],
    ["the key alone", text, "API_KEY_INVALID"],
    ["of another scheme", `Basic ${text}`, "API_KEY_INVALID"],
    ["without a space", `Bearer${text}`, "API_KEY_INVALID"],
    ["two keys", `Bearer ${text} ${text}`, "API_KEY_INVALID"],
    ["two keys with a comma", `Bearer ${text},${text}`, "API_KEY_INVALID"],
    ["a key in quotes", `Bearer "${text}"`, "API_KEY_INVALID"],
    ["of another service", "Bearer sk_live_0123456789abcdefghijklmnopqrstuv", "API_KEY_INVALID"],
    ["a key cut short", `Bearer ${text.slice(0, -1)}`, "API_KEY_INVALID"],
    ["a key with a letter more", `Bearer ${text}0`, "API_KEY_INVALID"],
    ["a live key called a test key", `Bearer ${text.replace("live", "test")}`, "API_KEY_INVALID"],
    ["a key of a kind there is not", `Bearer ${text.replace("live", "prod")}`, "API_KEY_INVALID"],
    ["in capitals", `Bearer ${text.toUpperCase()}`, "API_KEY_INVALID"],
    ["with a NUL at the end", `Bearer ${text}\0`, "API_KEY_INVALID"],
    ["with a newline at the end", `Bearer ${text}\n`, "API_KEY_INVALID"],
    ["very long", `Bearer ${"0".repeat(100_000)}`, "API_KEY_INVALID"],
  ])("that is %s is refused", (_, header, reason) => {
    expect(reasonOf(header)).toBe(reason);
  });

  test("takes no longer however much white space, of any kind, it begins with", () => {
    // Of a pattern that tried each place where it may end, 100 of them took 10 s and more.
    const spaced = `${"\u00A0".repeat(16_000)}x`;
    const { user } = process.cpuUsage();
    for (let i = 0; i < 100; i += 1) expect(reasonOf(spaced)).toBe("API_KEY_INVALID");
    expect(process.cpuUsage().user - user).toBeLessThan(2_000_000);
  });

  test("is refused with any one letter of the key changed to any other", () => {
    const accepted: string[] = [];
    for (let place = 0; place < text.length; place++) {
      for (const letter of alphabet + "_-") {
        if (letter === text[place]) continue;
        const altered = text.slice(0, place) + letter + text.slice(place + 1);
        if (reasonOf(`Bearer ${altered}`) === "ok") accepted.push(altered);
      }
    }
    expect(accepted).toEqual([]);
  });

  test("is refused with any two neighbouring letters swapped", () => {
    const swapped = Array.from(
      { length: text.length - 1 },
      (_, i) => text.slice(0, i) + text.charAt(i + 1) + text.charAt(i) + text.slice(i + 2),
    ).filter((each) => each !== text);
    expect(swapped.map((each) => reasonOf(`Bearer ${each}`))).toEqual(swapped.map(() => "API_KEY_INVALID"));
  });
});

describe("a presented key is judged, and what wins is", () => {
  const right = presented(text);
  const wrong = presented(`${text.slice(0, 21)}${"z".repeat(31)}${checksum(text.slice(0, 21) + "z".repeat(31))}`);
  const spent = { ...stored, revokeMs: now - 2, expireMs: now - 1 };

  test.each([
    ["API_KEY_INVALID: there is none with its id", right, undefined, "API_KEY_INVALID"],
    [
      "API_KEY_INVALID: its secret is wrong, and nothing is told of an end it may have come to",
      wrong,
      spent,
      "API_KEY_INVALID",
    ],
    ["API_KEY_REVOKED: it was revoked, whenever it expires", right, spent, "API_KEY_REVOKED"],
    ["API_KEY_REVOKED: at the very moment", right, { ...stored, revokeMs: now }, "API_KEY_REVOKED"],
    ["API_KEY_EXPIRED: at the very moment", right, { ...stored, expireMs: now }, "API_KEY_EXPIRED"],
    ["nothing: it expires a millisecond later", right, { ...stored, expireMs: now + 1 }, "ok"],
    ["nothing: it has no end", right, stored, "ok"],
  ])("%s", (_, key, found, expected) => {
    const judged = judgeKey(key, found, now);
    expect(judged.ok ? "ok" : judged.refusal.reason).toBe(expected);
  });

  test("a right one is the stored key, with its tenant and scopes", () => {
    expect(judgeKey(right, stored, now)).toEqual({ ok: true, value: stored });
  });

  test("scopes are these five", () => {
    expect(scopes).toEqual(["send", "verify", "resend", "read", "cancel"]);
  });
});
