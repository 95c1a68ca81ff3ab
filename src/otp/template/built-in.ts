/**
 * The texts that come with the service, and which language a country is written to in when nobody says.
 *
 * They keep to GSM-7, where a message costs half: Spanish says "clave" and Portuguese "PIN", since the `ó` of "código" is
 * not in it. With a brand of 20 characters and a code of 10 digits each takes one segment and, with an Android app's hash
 * below it, fewer than 140 bytes.
 */
import type { Template } from "./template.ts";

type Language = "en" | "de" | "es" | "fr" | "nl" | "pt";

const texts: Record<Language, { one: string; other: string }> = {
  en: {
    one: "{code} is your {brand} verification code. It expires in {minutes} minute. Never share it.",
    other: "{code} is your {brand} verification code. It expires in {minutes} minutes. Never share it.",
  },
  de: {
    one: "{code} ist Ihr Bestätigungscode für {brand}. Er ist {minutes} Minute gültig. Geben Sie ihn nie weiter.",
    other: "{code} ist Ihr Bestätigungscode für {brand}. Er ist {minutes} Minuten gültig. Geben Sie ihn nie weiter.",
  },
  es: {
    one: "{code} es tu clave de un solo uso para {brand}. Caduca en {minutes} minuto. No la compartas con nadie.",
    other: "{code} es tu clave de un solo uso para {brand}. Caduca en {minutes} minutos. No la compartas con nadie.",
  },
  fr: {
    one: "{code} est votre code de vérification {brand}. Il expire dans {minutes} minute. Ne le partagez jamais.",
    other: "{code} est votre code de vérification {brand}. Il expire dans {minutes} minutes. Ne le partagez jamais.",
  },
  nl: {
    one: "{code} is je verificatiecode voor {brand}. De code verloopt over {minutes} minuut. Deel hem met niemand.",
    other: "{code} is je verificatiecode voor {brand}. De code verloopt over {minutes} minuten. Deel hem met niemand.",
  },
  pt: {
    one: "{code} é o seu PIN para {brand}. Expira em {minutes} minuto. Nunca o divulgue.",
    other: "{code} é o seu PIN para {brand}. Expira em {minutes} minutos. Nunca o divulgue.",
  },
};

export const builtInTemplates: readonly Template[] = Object.entries(texts).map(([locale, forms]) => ({
  locale,
  country: undefined,
  purposes: undefined,
  forms,
}));

/**
 * The language of a phone's country: of the six, the one that most people there read, and English for a country that is
 * not named. A country of several languages gets the largest (BE Dutch, CH German, CA English, LU and North Africa
 * French); a caller who knows its user better gives a locale, and an operator can say otherwise in the templates file.
 */
const countriesOf: Record<Exclude<Language, "en">, string> = {
  de: "DE AT CH LI",
  es: "ES AD AR BO CL CO CR CU DO EC GQ GT HN MX NI PA PE PR PY SV UY VE",
  fr: "FR BF BI BJ BL CD CF CG CI CM DJ DZ GA GF GN GP HT KM LU MA MC MF MG ML MQ MR NC NE PF PM RE SN TD TG TN WF YT",
  nl: "NL AW BE BQ CW SR",
  pt: "PT AO BR CV GW MZ ST TL",
};

/** By ISO 3166-1 alpha-2. */
export const builtInCountries: ReadonlyMap<string, string> = new Map(
  Object.entries(countriesOf).flatMap(([language, countries]) =>
    countries.split(" ").map((country): [string, string] => [country, language]),
  ),
);
