/**
 * The form's languages: which one a tag asks for, and how counts and durations are put into its sentences.
 */
import { de } from "./words/de.ts";
import { en } from "./words/en.ts";
import { es } from "./words/es.ts";
import { fr } from "./words/fr.ts";
import { nl } from "./words/nl.ts";
import { pt } from "./words/pt.ts";
import type { Words } from "./words/words.ts";

export interface Speech {
  /** What is said in it is marked as it: one of the six. */
  readonly language: string;
  readonly words: Words;
  /** A sentence with `{n}` filled in, in the form for that count. */
  counted(sentence: string, count: number): string;
  /** Such as "28 seconds", "about 9 minutes" or "about 2 hours"; rounded up. */
  inWords(seconds: number): string;
}

const languages = new Map(Object.entries({ en, de, es, fr, nl, pt }));

/** The first tag of which there is a language; English where there is none. A tag is anybody's text. */
export function speechFor(tags: readonly string[]): Speech {
  const known = tags.map((tag) => tag.split(/[-_]/, 1)[0]?.toLowerCase() ?? "").find((tag) => languages.has(tag));
  const language = known ?? "en";
  const words = languages.get(language) ?? en;

  function unit(count: number, name: "second" | "minute" | "hour"): string {
    return new Intl.NumberFormat(language, { style: "unit", unit: name, unitDisplay: "long" }).format(count);
  }
  const about = (text: string) => words.about.replace("{time}", text);

  return {
    language,
    words,
    counted(sentence, count) {
      const [one = "", other = one] = sentence.split("|");
      return (count === 1 ? one : other).replace("{n}", `${count}`);
    },
    inWords(seconds) {
      if (seconds <= 90) return unit(Math.max(1, Math.ceil(seconds)), "second");
      if (seconds <= 90 * 60) return about(unit(Math.ceil(seconds / 60), "minute"));
      return about(unit(Math.ceil(seconds / 3_600), "hour"));
    },
  };
}
