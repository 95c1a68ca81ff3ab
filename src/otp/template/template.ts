/**
 * A template is one text of an SMS in one language, with placeholders for the code, the brand, the minutes and the purpose.
 * This file renders it; choice.ts chooses the one for a verification.
 */
import type { Code } from "../message/code.ts";
import { withLastLine, type LastLine } from "./last-line.ts";

/** CLDR's plural forms. */
export const pluralForms = ["zero", "one", "two", "few", "many", "other"] as const;
export type PluralForm = (typeof pluralForms)[number];

export interface Template {
  /** A BCP 47 tag such as "pt-BR". */
  readonly locale: string;
  /** The only country it is for (ISO 3166-1 alpha-2), or undefined for all. */
  readonly country: string | undefined;
  /** The only purposes it is for, each with the words that stand for it in the text; or undefined for all. */
  readonly purposes: ReadonlyMap<string, string> | undefined;
  /** The text in each plural form that its language has for 1 to 10 minutes. */
  readonly forms: Readonly<Partial<Record<PluralForm, string>>>;
  /** The ids that India's registers (DLT) know the text and its sender by. */
  readonly dltTemplateId?: string;
  readonly dltEntityId?: string;
}

/** A code lives 10 minutes at most. */
export const minutesMax = 10;

/** What a template's placeholders are filled with. */
export interface Filling extends LastLine {
  readonly code: Code;
  readonly brand: string;
  /** The purpose given to send, or "". */
  readonly purpose: string;
  /** What is left of the code's life. */
  readonly lifeLeftMs: number;
}

/**
 * The text of the SMS. Minutes are what is left when it is sent, rounded down and at least 1. Returns the code in clear:
 * hand it to a provider and to nothing else. Pure.
 */
export function renderText(template: Template, filling: Filling): string {
  // To the second first: a text sent 3 ms after the code was made says 10 minutes, not 9.
  const minutes = Math.max(1, Math.floor(Math.round(filling.lifeLeftMs / 1_000) / 60));
  const code = filling.code.reveal();
  const text = fill(formFor(template, minutes), {
    code,
    brand: filling.brand,
    minutes: String(minutes),
    purpose: template.purposes?.get(filling.purpose) ?? "",
  });
  return filling.webOrigin === undefined && filling.appHash === undefined ? text : withLastLine(text, code, filling);
}

/** What the placeholders of a text are called. */
export const placeholders = ["code", "brand", "minutes", "purpose"] as const;
export type Filled = Readonly<Record<(typeof placeholders)[number], string>>;

/** Fills every placeholder in one pass: braces in a brand are just braces. Pure. */
export function fill(text: string, filled: Filled): string {
  return text.replace(/\{(code|brand|minutes|purpose)\}/g, (_, name: keyof Filled) => filled[name]);
}

/** The text in the plural form for a number of minutes. Pure. */
export function formFor({ locale, forms }: Template, minutes: number): string {
  const text = forms[pluralFormOf(locale, minutes)] ?? forms.other;
  if (text === undefined) throw new Error(`the text in ${locale} lacks a plural form`);
  return text;
}

const rules = new Map<string, Intl.PluralRules>();

/** The plural form that a language uses for a number. Pure. */
function pluralFormOf(locale: string, count: number): PluralForm {
  let rule = rules.get(locale);
  if (rule === undefined) rules.set(locale, (rule = new Intl.PluralRules(locale)));
  return rule.select(count);
}

/** The plural forms that a language uses for 1 to 10 minutes. Pure. */
export function pluralFormsOf(locale: string): PluralForm[] {
  const used = new Set(Array.from({ length: minutesMax }, (_, i) => pluralFormOf(locale, i + 1)));
  return pluralForms.filter((form) => used.has(form));
}
