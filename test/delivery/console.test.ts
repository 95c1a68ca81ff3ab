/**
 * The console provider prints what a phone would show: every line of the message whole, on a line of its own.
 */
import { expect, test } from "vitest";
import { createConsoleProvider } from "../../src/delivery/providers/console.ts";
import { sms } from "../support/data/messages.ts";
import { patience } from "./http/setup.ts";

test("a message of several lines is printed line by line, each unbroken however long", async () => {
  const lines = [
    "123456 ist Ihr Bestätigungscode für Acme. Er ist 10 Minuten gültig. Geben Sie ihn nie weiter.",
    "",
    `@${"a".repeat(200)}.example #123456`,
  ];
  let printed = "";
  await createConsoleProvider((text) => (printed += text)).send({ ...sms, text: lines.join("\n") }, patience());
  const inside = printed.split("\n").flatMap((line) => /^│ (.*) │$/.exec(line)?.slice(1) ?? []);
  expect(inside.map((line) => line.trimEnd())).toEqual(lines);
});
