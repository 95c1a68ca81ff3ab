/**
 * Which template a verification gets, of the operator's and of those that come with the service.
 *
 * The language is chosen once, when a verification opens, and kept with it, so that a resend says the same: by the
 * caller's locale, else by the phone's country, else English. The template follows from language, country and purpose,
 * all of which a verification keeps.
 */
import { builtInCountries, builtInTemplates } from "./built-in.ts";
import type { Template } from "./template.ts";

/** What a template is chosen by. */
export interface Addressee {
  readonly locale: string;
  /** The phone's country. */
  readonly region: string;
  /** The purpose given to send, or "". */
  readonly purpose: string;
}

export interface Templates {
  /**
   * The language for a phone's country and a requested BCP 47 tag, or "" for none requested. A tag falls back by whole
   * subtags (`pt-BR` to `pt`). Asked for what it gave, it gives the same. Pure.
   */
  localeFor(requested: string, region: string): string;
  /** The text of an SMS. Where the operator has registered ones, it is in a language that has one. Pure. */
  templateFor(addressee: Addressee): Template;
}

/** A tag and what it falls back to: "zh-Hant-TW", "zh-Hant", "zh". None for "". Pure. */
export function fallbacksOf(tag: string): string[] {
  const subtags = tag === "" ? [] : tag.split("-");
  return subtags.map((_, i) => subtags.slice(0, subtags.length - i).join("-"));
}

/** Joins an operator's templates, and languages by country, with those that come with the service; theirs win. */
export function createTemplates(
  own: readonly Template[] = [],
  ownCountries: ReadonlyMap<string, string> = new Map(),
): Templates {
  /** By lower-case locale, then by country or "" and purpose or "". */
  const byLocale = new Map<string, Map<string, Template>>();
  /** By country, the lower-case locales that have a text that is registered there: no other would arrive. */
  const registered = new Map<string, Set<string>>();
  for (const template of [...builtInTemplates, ...own]) {
    const { country = "", purposes = new Map([["", ""]]) } = template;
    const locale = template.locale.toLowerCase();
    const texts = byLocale.get(locale) ?? new Map<string, Template>();
    byLocale.set(locale, texts);
    for (const purpose of purposes.keys()) texts.set(`${country}\n${purpose}`, template);
    if (country !== "" && template.dltTemplateId !== undefined)
      registered.set(country, (registered.get(country) ?? new Set()).add(locale));
  }

  /** A country's own text comes first: where texts are registered, no other would arrive. Then the purpose's own. */
  function find(locale: string, region: string, purpose: string): Template | undefined {
    const texts = byLocale.get(locale.toLowerCase());
    if (texts === undefined) return undefined;
    const ofCountry = texts.get(`${region}\n${purpose}`) ?? texts.get(`${region}\n`);
    return ofCountry ?? texts.get(`\n${purpose}`) ?? texts.get("\n");
  }

  /** The template of a language that every purpose can fall back on, where its language is among these. */
  function plain(requested: string, region: string, among?: ReadonlySet<string>): Template | undefined {
    for (let tag = requested; tag !== ""; tag = tag.slice(0, Math.max(0, tag.lastIndexOf("-")))) {
      const found = find(tag, region, "");
      if (found !== undefined && among?.has(found.locale.toLowerCase()) !== false) return found;
    }
    return undefined;
  }

  function languageOf(requested: string, region: string, among?: ReadonlySet<string>): string | undefined {
    const ofCountry = ownCountries.get(region) ?? builtInCountries.get(region) ?? "";
    return (plain(requested, region, among) ?? plain(ofCountry, region, among))?.locale;
  }

  const localeFor = (requested: string, region: string) => languageOf(requested, region) ?? "en";

  return {
    localeFor,
    templateFor({ locale, region, purpose }) {
      const arriving = registered.get(region);
      const [first] = arriving ?? [];
      const language = arriving && (languageOf(locale, region, arriving) ?? first);
      // Chosen again, in case the operator has taken the language out since.
      const template = find(language ?? localeFor(locale, region), region, purpose);
      if (template === undefined) throw new Error("English has a text");
      return template;
    },
  };
}
