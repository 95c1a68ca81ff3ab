/**
 * The text of a stored answer: short, since there is one for each send with an Idempotency-Key, and read in the form that
 * it had before, too.
 */
import { expect, test } from "vitest";
import { answerText, toRecord } from "../../src/store/rows/record.ts";

const sent = { state: "PENDING", delivery: "ACCEPTED", nextResendMs: 1_767_225_630_000, resendsRemaining: 2 } as const;
const at = 1_767_225_600_000;

/** An answer as a record holds it that was stored as this text. */
function read(answer: string) {
  const id = new Uint8Array(16);
  return toRecord({ slot: id, kid: 1, fingerprint: id, verification_id: id, answer, busy_until_ms: 0, expire_ms: 0 })
    .answer;
}

test("a send's is five numbers", () => {
  expect(answerText({ at, sent })).toBe("[1767225600000,0,2,1767225630000,2]");
  expect(read("[1767225600000,0,2,1767225630000,2]")).toEqual({ at, sent });
});

test("one that was stored with names is read as it was meant", () => {
  const before = { at, sent: { id: "AAAAAAAAAAAAAAAAAAAAAA", ...sent, digits: 6, expireMs: at + 600_000, at } };
  expect(read(JSON.stringify(before))).toMatchObject({ at, sent });
});

test("a number that stands for no state is refused", () => {
  expect(() => read("[1767225600000,9,2,null,0]")).toThrow("a newer version");
});
