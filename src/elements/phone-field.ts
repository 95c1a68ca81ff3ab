/**
 * The field for the number, with the country that a number without `+` belongs to. A number with `+` shows its country.
 */
import { callingCodeOf, countries, countriesOf, countryOfLocale } from "./countries.ts";
import type { View } from "./view.ts";

export interface PhoneField {
  /** Names the countries in a language. */
  speak(language: string): void;
  /** Chooses the first of these languages' countries, unless the person has chosen one. */
  suggest(locales: readonly string[]): void;
  /** What was typed as a number with `+`; "" for nothing. */
  readonly value: string;
}

/** Makes the field of the form's parts; `onChange` is called when another number may be meant. */
export function createPhoneField(
  { phone: input, country: select, callingCode }: Pick<View, "phone" | "country" | "callingCode">,
  onChange: () => void,
): PhoneField {
  let isChosen = false;

  const typed = () => input.value.trim();
  const isInternational = () => /^[\s(]*\+/.test(typed());

  /** The calling code stands before a number that has none. */
  function draw(): void {
    callingCode.textContent = `+${callingCodeOf(select.value)}`;
    callingCode.hidden = isInternational();
  }

  input.addEventListener("input", () => {
    if (isInternational()) {
      const [main] = countriesOf(typed());
      if (main !== undefined && !countriesOf(typed()).includes(select.value)) select.value = main;
    }
    draw();
    onChange();
  });
  select.addEventListener("change", () => {
    isChosen = true;
    draw();
    onChange();
  });

  return {
    speak(language) {
      const names = new Intl.DisplayNames([language], { type: "region" });
      const { compare } = new Intl.Collator(language);
      const chosen = select.value;
      const named = countries.map((country): [string, string] => [country, names.of(country) ?? country]);
      const options = named
        .toSorted(([, one], [, other]) => compare(one, other))
        .map(([country, name]) => {
          const option = document.createElement("option");
          option.value = country;
          option.textContent = `${name} +${callingCodeOf(country)}`;
          return option;
        });
      select.replaceChildren(...options);
      if (chosen !== "") select.value = chosen;
    },
    suggest(locales) {
      const [country] = locales.flatMap((locale) => countryOfLocale(locale) ?? []);
      if (!isChosen && !isInternational()) select.value = country ?? "US";
      draw();
    },
    get value() {
      if (typed() === "" || isInternational()) return typed();
      return `+${callingCodeOf(select.value)} ${typed()}`;
    },
  };
}
