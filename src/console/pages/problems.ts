/**
 * What is wrong now, and what is used of the caps, as the overview shows them.
 */
import { Problem_Severity, type CapUse, type Problem } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { make } from "../dom.ts";
import * as format from "../format.ts";
import { badge } from "../parts.ts";
import { table } from "../table.ts";

export function problemList(problems: readonly Problem[]): HTMLElement {
  if (problems.length === 0) return make("p", { class: "empty" }, "Nothing is known to be wrong.");
  return make(
    "ul",
    { class: "problems" },
    problems.map(({ severity, sentence, link }) =>
      make(
        "li",
        {},
        severity === Problem_Severity.CRITICAL ? badge("critical", "bad") : badge("warning", "warn"),
        ` ${format.told(sentence)} `,
        make(
          "a",
          { attributes: { href: `#/${link}`, "aria-label": `${shows(link)}: ${format.told(sentence)}` } },
          shows(link),
        ),
      ),
    ),
  );
}

/** What is behind a link, by its page. */
const behind: ReadonlyMap<string, string> = new Map([
  ["overview", "Show this tenant"],
  ["fraud", "Show this prefix"],
  ["providers", "Show the providers"],
  ["tenants", "Show the keys"],
  ["webhooks", "Show the endpoints"],
]);

function shows(link: string): string {
  return behind.get(link.split("?")[0] ?? "") ?? "Show more";
}

const kinds: ReadonlyMap<string, string> = new Map([
  ["messages", "Messages"],
  ["calls", "Calls"],
  ["money", "Money"],
]);

function kindOf({ kind }: CapUse): string {
  const [, code] = /^country:(\w+)$/.exec(kind) ?? [];
  return kinds.get(kind) ?? (code === undefined ? kind : `Messages to ${format.country(code)}`);
}

export function capTable(caps: readonly CapUse[]): HTMLElement {
  const told = (value: bigint, { currency }: CapUse) =>
    currency === "" ? format.count(value) : format.amount(Number(value) / 1e6, currency);
  return table(
    "Caps of today",
    caps,
    [
      { head: "Cap on", cell: kindOf },
      { head: "Tenant", cell: ({ tenant }) => tenant },
      {
        head: "Used",
        cell: (cap) =>
          make("meter", {
            attributes: {
              min: 0,
              max: Math.max(1, Number(cap.max)),
              high: Number(cap.max) * 0.8,
              low: 0,
              optimum: 0,
              value: Number(cap.max) === 0 ? 1 : Number(cap.used),
              "aria-label": `${kindOf(cap)} of ${cap.tenant}`,
            },
          }),
      },
      { head: "Share", kind: "number", cell: ({ used, max }) => format.share(used, max) },
      { head: "Amount", kind: "number", cell: (cap) => `${told(cap.used, cap)} of ${told(cap.max, cap)}` },
    ],
    "Nothing that has a cap was sent today. Caps are set by OTP_DAILY_MESSAGE_CAP and otpd tenants set.",
  );
}
