/**
 * What the form shows: its parts, its slots, and the words in them. It is made once, in the element's own tree.
 */
import { filled, make } from "./dom.ts";
import type { Speech } from "./speech.ts";
import { style } from "./style.ts";
import type { Words } from "./words/words.ts";

export type Step = "phone" | "code" | "done";
const steps: readonly Step[] = ["phone", "code", "done"];

export type View = ReturnType<typeof createView>;

/** Puts the form into `root`. */
export function createView(root: ShadowRoot) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  root.adoptedStyleSheets = [sheet];

  /** The texts that are the same for as long as the language is. */
  const texts = new Map<Text, keyof Words>();
  const labels = new Map<Element, keyof Words>();
  /** Words that the web page may have in its own way, by a slot. */
  function slot(name: string, word: keyof Words): HTMLSlotElement {
    const text = document.createTextNode("");
    texts.set(text, word);
    return make("slot", { name }, text);
  }
  function button(id: string, word: keyof Words, kind: "primary" | "link", isSubmit = "button"): HTMLButtonElement {
    const part = kind === "primary" ? "button" : "link";
    return make("button", { id, class: kind, type: isSubmit, part: `${part} ${id}` }, slot(id, word));
  }
  const error = (id: string) => make("p", { id, class: "error", part: "error" });

  const marks = steps.map((step) => make("li", { id: `mark-${step}`, part: "step" }));
  for (const [i, word] of (["stepPhone", "stepCode", "stepDone"] as const).entries()) {
    const text = document.createTextNode("");
    texts.set(text, word);
    marks[i]?.append(text);
  }
  const stepList = make("ol", { class: "steps", part: "steps" }, ...marks);

  const phone = phoneStep({ slot, button, error });
  const code = codeStep({ slot, button, error });
  const tick = make("span", { class: "tick", "aria-hidden": "true" });
  const doneTitle = make("h2", { id: "done-title", tabindex: "-1", part: "heading" }, tick, slot("proven", "proven"));
  const done = make(
    "section",
    { id: "step-done", part: "done", "aria-labelledby": "done-title" },
    doneTitle,
    make("slot", { name: "done" }),
  );
  const { announcer, announce, hush } = createAnnouncer();
  const sections = [phone.phoneSection, code.codeSection, done];
  for (const section of sections) section.hidden = true;
  root.append(stepList, ...sections, announcer);
  labels.set(stepList, "steps").set(phone.phoneSection, "stepPhone").set(phone.country, "country");

  return {
    ...phone,
    ...code,
    doneTitle,
    announcer,
    announce,
    hush,

    /** Says everything that stands still in a language. */
    speak({ words, language }: Speech) {
      for (const [text, word] of texts) text.data = words[word];
      for (const [labelled, word] of labels) labelled.setAttribute("aria-label", words[word]);
      code.expires.replaceChildren(...filled(words.expiresIn, new Map([["{time}", code.expiry]])));
      for (const spoken of [stepList, ...sections, announcer]) spoken.lang = language;
    },

    showStep(step: Step) {
      const at = steps.indexOf(step);
      for (const [i, section] of sections.entries()) section.hidden = i !== at;
      for (const [i, mark] of marks.entries()) {
        mark.classList.toggle("past", i < at);
        if (i === at) mark.setAttribute("aria-current", "step");
        else mark.removeAttribute("aria-current");
      }
    },
  };
}

function createAnnouncer() {
  const announcer = make("p", { id: "announcer", class: "unseen", role: "status", "aria-live": "polite" });
  let hushes = 0;
  return {
    announcer,

    /** Has a screen reader say a sentence, also if it is the same as before. */
    announce(sentence: string) {
      const hushesBefore = hushes;
      announcer.textContent = "";
      setTimeout(() => {
        if (hushes === hushesBefore) announcer.textContent = sentence;
      }, 50);
    },

    /** Has it say nothing, nor what was still to be said. */
    hush() {
      hushes += 1;
      announcer.textContent = "";
    },
  };
}

/** Says where the code went, as far as that is known. */
export function showSent(view: View, { words }: Speech, digits: number, to: string): void {
  const parts = new Map<string, Node | string>([
    ["{n}", make("span", { id: "code-count" }, `${digits}`)],
    ["{phone}", make("strong", { id: "code-phone" }, to)],
  ]);
  view.sent.replaceChildren(...filled(to === "" ? words.sentDigits : words.sentTo, parts));
  view.codeHint.textContent = words.checkedWhenFull.replace("{n}", `${digits}`);
}

interface Makers {
  slot(name: string, word: keyof Words): HTMLSlotElement;
  button(id: string, word: keyof Words, kind: "primary" | "link", type?: "submit"): HTMLButtonElement;
  error(id: string): HTMLElement;
}

function phoneStep({ slot, button, error }: Makers) {
  const country = make("select", { id: "country", part: "country", autocomplete: "country" });
  const phone = make("input", {
    id: "phone",
    part: "input phone",
    name: "phone",
    type: "tel",
    autocomplete: "tel",
    maxlength: "32",
    required: true,
    "aria-describedby": "phone-hint phone-error",
  });
  // For the eye: to a screen reader the country says it.
  const callingCode = make("span", { id: "calling-code", part: "calling-code", "aria-hidden": "true" });
  const typed = make("div", { class: "typed" }, callingCode, phone);
  const label = make("label", { for: "phone", part: "label" }, slot("phone-label", "phone"));
  const hint = make("p", { id: "phone-hint", class: "hint", part: "hint" }, slot("phone-hint", "phoneHint"));
  const asked = make("div", { id: "asked" }, label, make("div", { class: "number" }, country, typed), hint);
  const given = make("p", { id: "given", part: "hint" });
  const phoneError = error("phone-error");
  const send = button("send", "send", "primary", "submit");
  const botCheck = make("slot", { name: "bot-check" });
  const phoneForm = make("form", { id: "phone-form", novalidate: true }, asked, given, botCheck, phoneError, send);
  const section = make("section", { id: "step-phone", part: "form" }, phoneForm);
  return { phoneSection: section, country, callingCode, phone, asked, given, phoneError, send, phoneForm, botCheck };
}

function codeStep({ slot, button, error }: Makers) {
  const title = make("h2", { id: "code-title", part: "heading" }, slot("code-heading", "enterCode"));
  const sent = make("span");
  const change = button("change", "change", "link");
  const boxes = make("div", { id: "boxes", class: "boxes", part: "boxes", "aria-hidden": "true" });
  const code = make("input", {
    id: "code",
    part: "code",
    name: "code",
    type: "text",
    inputmode: "numeric",
    autocomplete: "one-time-code",
    autocapitalize: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "code-hint code-error",
  });
  const label = make("label", { for: "code", part: "label" }, slot("code-label", "code"));
  const codeHint = make("p", { id: "code-hint", class: "hint", part: "hint" });
  const codeError = error("code-error");
  const verify = button("verify", "verify", "primary", "submit");
  const fresh = button("fresh", "fresh", "primary");
  const field = make("div", { class: "code" }, boxes, code);
  const codeForm = make(
    "form",
    { id: "code-form", novalidate: true },
    label,
    field,
    codeHint,
    codeError,
    verify,
    fresh,
  );
  const resend = button("resend", "resend", "link");
  const byVoice = button("call", "call", "link");
  const byWhatsapp = button("whatsapp", "whatsapp", "link");
  for (const one of [resend, byVoice, byWhatsapp]) one.setAttribute("aria-describedby", "resend-due resends-left");
  const due = make("span", { id: "resend-due", class: "digits", part: "timer" });
  const resendsLeft = make("span", { id: "resends-left", class: "hint" });
  const ways = make("p", {}, resend, " ", byVoice, " ", byWhatsapp, " ", due, " ", resendsLeft);
  const expiry = make("span", { id: "expiry", class: "digits", role: "timer", part: "timer" });
  const expires = make("p");
  const waits = make("div", { id: "waits", class: "waits", part: "waits" }, ways, expires);
  const sentTo = make("p", { class: "hint", part: "hint" }, sent, " ", change);
  const section = make("section", { id: "step-code", part: "form" }, title, sentTo, codeForm, waits);
  section.setAttribute("aria-labelledby", "code-title");
  const parts = { codeSection: section, sent, change, boxes, code, codeHint, codeError, verify, fresh, codeForm };
  return { ...parts, resend, byVoice, byWhatsapp, due, resendsLeft, expiry, expires, waits };
}
