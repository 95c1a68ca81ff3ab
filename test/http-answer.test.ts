/**
 * Answers are read as far as they are small, and no further.
 */
import { expect, test } from "vitest";
import { readAnswer, readJson } from "../src/http-answer.ts";

/** A body that counts how many of its chunks were asked for, and knows when it was left. */
function bodyOf(...chunks: string[]) {
  const seen = { asked: 0, isLeft: false };
  async function* body() {
    try {
      for (const chunk of chunks) {
        seen.asked += 1;
        yield Buffer.from(chunk);
      }
    } finally {
      seen.isLeft = true;
    }
  }
  return { seen, body: body() };
}

test("one of just the size is read whole, one byte more is left at once", async () => {
  const whole = bodyOf("abc", "de");
  expect((await readAnswer(whole.body, 5))?.toString()).toBe("abcde");
  const large = bodyOf("abc", "def", "ghi");
  expect(await readAnswer(large.body, 5)).toBeUndefined();
  expect(large.seen).toEqual({ asked: 2, isLeft: true });
  expect(await readAnswer(null, 5)).toHaveLength(0);
});

test("JSON is what parses; what breaks off is a fault of the connection", async () => {
  expect(await readJson(bodyOf('{"id":', "1}").body, 99)).toEqual({ id: 1 });
  expect(await readJson(bodyOf('{"id":', "1}").body, 7)).toBeUndefined();
  expect(await readJson(bodyOf("<html>").body, 99)).toBeUndefined();
  expect(await readJson(null, 99)).toBeUndefined();
  async function* broken() {
    yield Buffer.from("{");
    throw new Error("reset");
  }
  await expect(readJson(broken(), 99)).rejects.toThrow("reset");
});
