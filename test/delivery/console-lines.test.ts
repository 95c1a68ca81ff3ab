/**
 * The console provider prints what a phone would show: every line of the message whole, on a line of its own.
 */
import { expect, test } from "vitest";
import { createConsoleProvider } from "../../src/delivery/providers/console.ts";
import type { OutgoingMessage } from "../../src/delivery/provider.ts";
import type { E164 } from "../../src/otp/phone-number.ts";

test("a message of several lines is printed line by line, each unbroken however long", async () => {
  const lines = [
    "123456 ist Ihr Bestätigungscode für Acme. Er ist 10 Minuten gültig. Geben Sie ihn nie weiter.",
    "",
    `@${"a".repeat(200)}.example #123456`,
  ];
  let printed = "";
  const sms: OutgoingMessage = {
    channel: "sms",
    to: "+31612345678" as E164,
    region: "NL",
    text: lines.join("\n"),
    code: "123456",
    locale: "en",
    validitySeconds: 600,
    reference: "test",
  };
  await createConsoleProvider((text) => (printed += text)).send(sms, AbortSignal.timeout(1_000));
  const inside = printed.split("\n").flatMap((line) => /^│ (.*) │$/.exec(line)?.slice(1) ?? []);
  expect(inside.map((line) => line.trimEnd())).toEqual(lines);
});
