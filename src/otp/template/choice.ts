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
   * subtags (`pt-BR` to `pt`). Where the operator's texts are registered, a language without one is none. Asked for what it
   * gave, it gives the same. Pure.
   */
  localeFor(requested: string, region: string): string;
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
  /** By country, the languages that have a text that is registered there. */
  const registered = new Map<string, Set<string>>();
  for (const template of [...builtInTemplates, ...own]) {
    const { country = "", purposes = new Map([["", ""]]) } = template;
    const locale = template.locale.toLowerCase();
    const texts = byLocale.get(locale) ?? new Map<string, Template>();
    byLocale.set(locale, texts);
    for (const purpose of purposes.keys()) texts.set(`${country}\n${purpose}`, template);
    if (country !== "" && template.dltTemplateId !== undefined)
      registered.set(country, (registered.get(country) ?? new Set()).add(template.locale));
  }

  /** A country's own text comes first: where texts are registered, no other would arrive. Then the purpose's own. */
  function find(locale: string, region: string, purpose: string): Template | undefined {
    const texts = byLocale.get(locale.toLowerCase());
    if (texts === undefined) return undefined;
    const ofCountry = texts.get(`${region}\n${purpose}`) ?? texts.get(`${region}\n`);
    return ofCountry ?? texts.get(`\n${purpose}`) ?? texts.get("\n");
  }

  /** The template of a language that every purpose can fall back on; where texts are registered, of one that has such a text. */
  function plain(requested: string, region: string): Template | undefined {
    for (let tag = requested; tag !== ""; tag = tag.slice(0, Math.max(0, tag.lastIndexOf("-")))) {
      const found = find(tag, region, "");
      if (found !== undefined && (registered.get(region)?.has(found.locale) ?? true)) return found;
    }
    return undefined;
  }

  function localeFor(requested: string, region: string): string {
    const ofCountry = ownCountries.get(region) ?? builtInCountries.get(region) ?? "";
    return (
      (plain(requested, region) ?? plain(ofCountry, region))?.locale ??
      registered.get(region)?.values().next().value ??
      "en"
    );
  }

  return {
    localeFor,
    templateFor({ locale, region, purpose }) {
      // Chosen again, in case the operator has taken the language out since.
      const template = find(localeFor(locale, region), region, purpose);
      if (template === undefined) throw new Error("English has a text");
      return template;
    },
  };
}
