/**
 * What a call says: the words of one of the six languages that come with the service, and the digits one by one, twice, with
 * a pause after each half. A call is never in an operator's own text: those are written for a screen.
 *
 * It first asks for a key, and says the code only after that, so that a voicemail does not keep it (delivery/).
 */
import type { Code } from "../message/code.ts";
import { builtInTemplates } from "./built-in.ts";
import { createTemplates } from "./choice.ts";

export interface Spoken {
  /** The language and the country whose voice is to speak, such as "pt-BR". */
  readonly locale: string;
  /** What is said until a key is pressed. Holds no code. */
  readonly prompt: string;
  /** The code in words, twice. */
  readonly text: string;
}

interface Words {
  /** The country whose voice speaks, and others by the phone's country. */
  readonly voice: string;
  readonly voices?: ReadonlyMap<string, string>;
  readonly prompt: string;
  readonly code: string;
  readonly again: string;
  /** From nought to nine. */
  readonly digits: string;
}

const languages: ReadonlyMap<string, Words> = new Map(
  Object.entries<Words>({
    en: {
      voice: "GB",
      voices: new Map([
        ["US", "US"],
        ["CA", "US"],
        ["PR", "US"],
      ]),
      prompt: "This is {brand}. Press any key to hear your verification code.",
      code: "Your {brand} verification code is: {digits}.",
      again: "Once more: {digits}. Never share it.",
      digits: "zero one two three four five six seven eight nine",
    },
    de: {
      voice: "DE",
      prompt: "Hier ist {brand}. Drücken Sie eine beliebige Taste, um Ihren Bestätigungscode zu hören.",
      code: "Ihr Bestätigungscode für {brand} ist: {digits}.",
      again: "Noch einmal: {digits}. Geben Sie ihn nie weiter.",
      digits: "null eins zwei drei vier fünf sechs sieben acht neun",
    },
    es: {
      voice: "MX",
      voices: new Map([
        ["ES", "ES"],
        ["AD", "ES"],
      ]),
      prompt: "Aquí {brand}. Pulse cualquier tecla para oír su código de verificación.",
      code: "Su código de verificación de {brand} es: {digits}.",
      again: "Una vez más: {digits}. No lo comparta con nadie.",
      digits: "cero uno dos tres cuatro cinco seis siete ocho nueve",
    },
    fr: {
      voice: "FR",
      prompt: "Ici {brand}. Appuyez sur une touche pour entendre votre code de vérification.",
      code: "Votre code de vérification {brand} est : {digits}.",
      again: "Encore une fois : {digits}. Ne le partagez jamais.",
      digits: "zéro un deux trois quatre cinq six sept huit neuf",
    },
    nl: {
      voice: "NL",
      prompt: "Dit is {brand}. Druk op een toets om je verificatiecode te horen.",
      code: "Je verificatiecode voor {brand} is: {digits}.",
      again: "Nog een keer: {digits}. Deel hem met niemand.",
      digits: "nul één twee drie vier vijf zes zeven acht negen",
    },
    pt: {
      voice: "PT",
      voices: new Map([["BR", "BR"]]),
      prompt: "Daqui fala {brand}. Prima qualquer tecla para ouvir o seu código de verificação.",
      code: "O seu código de verificação de {brand} é: {digits}.",
      again: "Mais uma vez: {digits}. Nunca o divulgue.",
      digits: "zero um dois três quatro cinco seis sete oito nove",
    },
  }),
);

const builtIn = createTemplates();

/** The languages that a call may be in. */
export const spokenLanguages: readonly string[] = builtInTemplates.map(({ locale }) => locale);

/**
 * What a call to a phone of this country says, in the language of the verification where that is one of the six, else in that
 * of the country, else in English. Returns the code in clear: hand it to a provider and to nothing else. Pure.
 */
export function spokenFor(
  asked: { locale: string; region: string },
  { brand, code }: { brand: string; code: Code },
): Spoken {
  const language = builtIn.localeFor(asked.locale, asked.region);
  const words = languages.get(language);
  if (words === undefined) throw new Error(`nothing is said in ${language}`);
  const digits = spelled(code.reveal(), words.digits.split(" "));
  // A brand may have braces of its own: each text is filled in one pass.
  const say = (text: string) =>
    text.replace(/\{(brand|digits)\}/g, (_, name: string) => (name === "brand" ? brand : digits));
  return {
    locale: `${language}-${words.voices?.get(asked.region) ?? words.voice}`,
    prompt: say(words.prompt),
    text: `${say(words.code)} ${say(words.again)}`,
  };
}

/** Digit by digit, with a longer pause between the halves. */
function spelled(code: string, names: readonly string[]): string {
  const half = Math.ceil(code.length / 2);
  const read = (digits: string) => Array.from(digits, (digit) => names[Number(digit)] ?? "").join(", ");
  return `${read(code.slice(0, half))}. ${read(code.slice(half))}`;
}
