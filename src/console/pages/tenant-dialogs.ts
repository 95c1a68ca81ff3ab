/**
 * What is asked before a tenant is made, changed or disabled.
 */
import type { Setting } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { ask, show } from "../dialog.ts";
import { make } from "../dom.ts";
import type { PageContext } from "../page.ts";
import type { Field } from "../parts.ts";

type SettingWords = Omit<Field, "name">;

const words: ReadonlyMap<string, SettingWords> = new Map<string, SettingWords>([
  ["brand", { label: "Brand", hint: "The name in its messages." }],
  ["texts", { label: "Texts", hint: "The whole of a file of texts, as docs/templates.md has it.", type: "lines" }],
  ["countries", { label: "Countries", hint: "Such as NL,BE, or * for all." }],
  ["phone_limits", { label: "Limits of a number", hint: "Such as 5@10m,6@4h: at once, and one more every so long." }],
  ["resend_gaps", { label: "Waits before resends", hint: "Such as 30s,60s." }],
  ["code_length", { label: "Digits of a code", hint: "6 to 10." }],
  ["code_length_max", { label: "Digits after wrong codes", hint: "6 to 10, and not below the digits of a code." }],
  ["ttl_seconds", { label: "Lifetime of a code, in seconds", hint: "180 to 600." }],
  ["max_attempts", { label: "Wrong codes until the lock", hint: "1 to 10." }],
  ["daily_cap", { label: "Messages in a UTC day", hint: "Such as 500." }],
  ["country_caps", { label: "Messages in a UTC day, by country", hint: "Such as NG=50,KE=0." }],
  ["daily_spend_cap", { label: "Money in a UTC day", hint: "Such as 250.00, in the currency of the prices." }],
  ["limits", { label: "Limits that sends may name", hint: "Such as user=5@1h,20@24h,session=3@10m." }],
  [
    "fraud_guard",
    {
      label: "Pumping guard",
      hint: "Whether it refuses what it finds, or only notes it.",
      options: [
        ["", "as the operator has it"],
        ["observe", "observe"],
        ["enforce", "enforce"],
      ],
    },
  ],
  ["audience", { label: "Audience", hint: "Whom its receipts are for; its name unless given." }],
  ["origins", { label: "Origins", hint: "Of its web pages, such as https://shop.example,https://m.shop.example." }],
]);

/** Settings of which a change leaves the names that it does not give. */
const named: ReadonlySet<string> = new Set(["limits", "country_caps"]);

export function createTenant(context: PageContext, then: (id: string) => void): void {
  const some = ["brand", "countries", "daily_cap"];
  ask(context, {
    title: "New tenant",
    text: "Its keys see nothing of what others do. What is left empty here is the operator's, and can be changed later.",
    doIt: "Make it",
    fields: [
      { name: "id", label: "Name", isRequired: true, hint: "1 to 40 of a-z, 0-9 and -." },
      ...some.map((name) => fieldOf(name)),
    ],
    act: async ({ id = "", ...given }) => {
      const settings = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ""));
      const { warnings } = await context.client.createTenant({ id, settings }, calling(context.left));
      then(id);
      warn(`${id} is made`, warnings, context);
    },
  });
}

export function changeSetting(context: PageContext, id: string, setting: Setting, again: () => void): void {
  const { name, source } = setting;
  const own = source === "tenant" ? setting.value : "";
  const isBound = context.session.tenant !== "";
  ask(context, {
    title: `Change ${name} of ${id}`,
    text: `It counts from the next call on. Left empty, what the operator has set holds again.${
      isBound ? " You can choose the tenant's words and make the rest stricter: what would loosen it is refused." : ""
    }`,
    doIt: "Change it",
    fields: [{ ...fieldOf(name), name: "value", value: own }],
    act: async ({ value = "" }) => {
      const settings = { [name]: named.has(name) && value !== "" ? withTakenOut(own, value) : value };
      const { warnings } = await context.client.updateTenant({ id, settings }, calling(context.left));
      again();
      warn(`${name} of ${id} is changed`, warnings, context);
    },
  });
}

export function disableTenant(context: PageContext, id: string, again: () => void): void {
  ask(context, {
    title: `Disable ${id}?`,
    text: "Its keys are refused from the next call on, and nothing of it is sent any more. Nothing is deleted.",
    doIt: "Disable it",
    isDanger: true,
    act: async () => {
      await context.client.disableTenant({ id }, calling(context.left));
      context.say(`${id} is disabled.`);
      again();
    },
  });
}

function fieldOf(name: string): Field {
  const { label, ...more } = words.get(name) ?? { label: name };
  return { name, label, ...more };
}

/** A list of names as it is wanted: those that were there and are not any more are taken out by their name. */
function withTakenOut(before: string, wanted: string): string {
  const namesIn = (text: string) => Array.from(text.matchAll(/([\w-]+)\s*=/g), ([, name = ""]) => name);
  const gone = namesIn(before).filter((name) => !namesIn(wanted).includes(name));
  return [wanted, ...gone.map((name) => `${name}=none`)].join(",");
}

/** Says that something is done, and what is to be known of it. */
function warn(done: string, warnings: readonly string[], { say }: PageContext): void {
  if (warnings.length === 0) return say(`${done}.`);
  show(
    `${done}, and this is to be known`,
    make(
      "ul",
      {},
      warnings.map((each) => make("li", {}, `${each}.`)),
    ),
  );
}
