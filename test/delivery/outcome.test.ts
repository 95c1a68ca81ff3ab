/**
 * One ladder from the status of an answer to what became of the message, for every provider that speaks HTTP.
 */
import { describe, expect, test } from "vitest";
import {
  mayBeConnected,
  outcomeOfAnswer,
  outcomeWithoutAnswer,
  waitAskedMs,
} from "../../src/delivery/providers/outcome.ts";

describe("an answer that does not take the message", () => {
  test.each([
    [429, "throttled", undefined],
    [500, "ambiguous", undefined],
    [503, "ambiguous", undefined],
    [301, "unavailable", undefined],
    [404, "unavailable", undefined],
    [405, "unavailable", undefined],
    [401, "refused", "credentials"],
    [403, "refused", "credentials"],
    [402, "refused", "balance"],
    [400, "refused", "content"],
    [422, "refused", "content"],
    [200, "refused", "content"],
  ])("with %i is %s (%s)", (status, kind, cause) => {
    expect(outcomeOfAnswer({ status, detail: "d" })).toEqual({ kind, detail: "d", ...(cause && { cause }) });
  });

  test.each(["recipient", "credentials", "balance", "content"] as const)("is refused for %s by its words", (cause) => {
    expect(outcomeOfAnswer({ status: 422, detail: "d", cause })).toEqual({ kind: "refused", cause, detail: "d" });
    // A fault of theirs, or a wait, says nothing of the message, whatever stands in it.
    expect(outcomeOfAnswer({ status: 502, detail: "d", cause }).kind).toBe("ambiguous");
    expect(outcomeOfAnswer({ status: 429, detail: "d", cause, retryAfterMs: 7 })).toMatchObject({ retryAfterMs: 7 });
  });

  test("of a far end that names its judgements is of a wrong URL with any other status", () => {
    const judged = (status: number) => outcomeOfAnswer({ status, detail: "d", judgements: [400, 422] });
    expect([400, 422].map((status) => judged(status).kind)).toEqual(["refused", "refused"]);
    expect([100, 406, 410, 418].map((status) => judged(status).kind)).toEqual(Array(4).fill("unavailable"));
    expect([401, 402].map((status) => judged(status))).toMatchObject([{ cause: "credentials" }, { cause: "balance" }]);
  });
});

test("only a call that cannot have been read is proven unsent", () => {
  const failed = (code: string) => new Error("fetch failed", { cause: Object.assign(new Error("why"), { code }) });
  for (const code of ["ECONNREFUSED", "ENOTFOUND", "CERT_HAS_EXPIRED"])
    expect(mayBeConnected(failed(code))).toBe(false);
  for (const code of ["ECONNRESET", "UND_ERR_SOCKET"]) expect(mayBeConnected(failed(code))).toBe(true);
  expect(outcomeWithoutAnswer(true).kind).toBe("ambiguous");
  expect(outcomeWithoutAnswer(false).kind).toBe("unavailable");
});

test.each([
  ["0", 0],
  ["30", 30_000],
  ["999999", 999_999_000],
  ["1000000", undefined],
  ["-1", undefined],
  ["Wed, 21 Oct 2026 07:28:00 GMT", undefined],
  ["", undefined],
  [null, undefined],
  [undefined, undefined],
])("Retry-After: %s", (header, ms) => expect(waitAskedMs(header)).toBe(ms));
