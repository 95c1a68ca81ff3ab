/**
 * The bytes of a log: small, read back as they were written, and refused where a newer version wrote them.
 */
import { expect, test } from "vitest";
import { emptyLog, entriesMax, type LogEntry } from "../../src/otp/verification/verification.ts";
import { logBytes, toLog } from "../../src/store/rows/verification.ts";
import { logOf, type LogText } from "../support/data/examples.ts";

const usual: LogText[] = [
  [0, "send", "sms"],
  [310, "call", "accepted", "messagebird"],
  [4_000, "report", "DELIVERED", "messagebird"],
];

test("the layout is what rows in the field have", () => {
  const name = Buffer.from("messagebird").toString("hex");
  expect(logBytes(logOf(...usual)).toString("hex")).toBe(
    ["010001", `0b${name}`, "000000", "02b6020001", "03a01f0101"].join(""),
  );
});

test("offsets, copies, names and everything that may happen come back as they were", () => {
  const log = logOf(
    ...usual,
    [127, "call", "ambiguous", "två", 15],
    [128, "call", "given-up", null, 1],
    [16_384, "resend", "voice", null, 15],
    [7 * 24 * 3_600_000, "posted", "verification.delivered"],
    [2 ** 40, "dropped", "verification.expired"],
    [2 ** 40, "guess", "right"],
    [2 ** 40, "end", "LOCKED"],
  );
  expect(toLog(logBytes({ ...log, omitted: 255 }))).toEqual({ ...log, omitted: 255 });
  expect(toLog(logBytes(emptyLog))).toEqual(emptyLog);
  expect(toLog(null)).toEqual(emptyLog);
});

test("a full log of four long names is small", () => {
  const names = ["a", "b", "c", "d"].map((letter) => letter.repeat(32));
  const entries = Array.from({ length: entriesMax }, (_, i): LogText => [
    600_000,
    "call",
    "accepted",
    names[i % 4] ?? null,
    2,
  ]);
  expect(logBytes(logOf(...entries)).length).toBe(3 + 4 * 33 + entriesMax * 6);
});

test("a name without end is cut, and what follows it is read", () => {
  const log = logOf([1, "call", "accepted", "x".repeat(1_000)], [2, "guess", "right"]);
  const { entries } = toLog(logBytes(log));
  expect(entries[0]?.provider).toBe("x".repeat(255));
  expect(entries[1]).toEqual(log.entries[1] satisfies LogEntry | undefined);
});

test("what a newer version wrote is not misread", () => {
  expect(() => toLog(Buffer.from([2, 0, 0]))).toThrow("newer version");
  expect(() => toLog(Buffer.from([1, 0, 0, 9, 0, 0]))).toThrow("newer version");
});
