/**
 * The operator's own texts: a JSON file, parsed once at start. Every fault is reported together, each as a sentence that
 * names its entry, such as `texts[2] (de, AT) must begin with {code}`. docs/templates.md tells the format.
 */
import { getCountries } from "libphonenumber-js/max";
import * as v from "valibot";
import { givenTwice, object, readJsonText } from "../json-file.ts";
import { builtInTemplates } from "./built-in.ts";
import { faultsOfText, findingsOf } from "./lint.ts";
import { createTemplates, fallbacksOf, type Templates } from "./choice.ts";
import { pluralForms, pluralFormsOf, type Template } from "./template.ts";

/** What parsing came to. Without faults the templates are good. */
export interface ParsedTemplates {
  readonly templates: Templates;
  /** Sentences without a full stop, to be put after the name of the file's variable. */
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

const fileCharsMax = 262_144;
const textsMax = 500;
const purposesMax = 50;

// ---- the shapes of values -------------------------------------------------------------------------------------------

const wording = v.pipe(
  v.string("must be a text"),
  v.rawCheck(({ dataset, addIssue }) => {
    if (dataset.typed) for (const message of faultsOfText(dataset.value)) addIssue({ message });
  }),
);

/** Language, script and region; variants and extensions make no difference to an SMS. */
const localeShape = v.pipe(
  v.string("must be a text"),
  v.regex(/^[a-z]{2,3}(-[a-z]{4})?(-([a-z]{2}|\d{3}))?$/i, "must be a BCP 47 tag such as pt or pt-BR"),
);

const locale = v.pipe(
  localeShape,
  // Without plural rules of its own a language would be given those of the machine's.
  v.check(
    (tag) => Intl.PluralRules.supportedLocalesOf(tag).length > 0,
    "is a language whose plurals are not known here",
  ),
);

const countries = new Set<string>(getCountries());
const country = v.pipe(
  v.string("must be a text"),
  v.check((text) => countries.has(text), "must be a country in ISO 3166-1 alpha-2, such as AT"),
);

const words = v.pipe(
  v.string("must be a text"),
  v.regex(/^(?! )[^\p{Cc}\p{Cf}{}]{1,40}(?<! )$/u, "must be one line of 1 to 40 visible characters"),
);

// As a number an id of 19 digits would lose its last ones.
const dltId = v.pipe(
  v.string("must be in quotes"),
  v.regex(/^[0-9A-Za-z]{1,64}$/, "must be 1 to 64 letters or digits"),
);

const forms = v.pipe(
  object(`must be a text, or a text for each plural form (${pluralForms.join(", ")})`),
  v.strictObject(
    Object.fromEntries(pluralForms.map((form) => [form, v.optional(wording)])) as Record<
      (typeof pluralForms)[number],
      v.OptionalSchema<typeof wording, undefined>
    >,
  ),
);

const purposesShape = v.pipe(
  object("must be an object of words by purpose"),
  v.record(
    v.pipe(v.string(), v.regex(/^[\x20-\x7e]{1,64}$/, "must be named in 1 to 64 visible ASCII characters")),
    words,
  ),
  v.minEntries(1, "must name at least one purpose"),
  v.maxEntries(purposesMax, `must name at most ${purposesMax} purposes`),
);

const entryShape = v.pipe(
  object("must be an object"),
  v.strictObject({
    locale,
    text: v.lazy((value) => (typeof value === "string" ? wording : forms)),
    country: v.optional(country),
    purposes: v.optional(purposesShape),
    dlt_template_id: v.optional(dltId),
    dlt_entity_id: v.optional(dltId),
  }),
);
type Entry = v.InferOutput<typeof entryShape>;

const fileShape = v.pipe(
  object('must be an object such as {"texts": []}'),
  v.strictObject({
    texts: v.optional(
      v.pipe(v.array(v.unknown(), "must be a list"), v.maxLength(textsMax, `must have at most ${textsMax} entries`)),
      [],
    ),
    countries: v.optional(
      v.pipe(object("must be an object of locales by country"), v.record(country, localeShape)),
      {},
    ),
  }),
);

// ---- parsing --------------------------------------------------------------------------------------------------------

/** Parses and lints the file. `brand` is what messages will be sent in the name of. Pure. */
export function parseTemplates(json: string, brand: string): ParsedTemplates {
  const nothing = { templates: createTemplates(), warnings: [] };
  const read = readJsonText(json, fileCharsMax);
  if (!read.ok) return { ...nothing, faults: [read.rest] };
  const file = v.safeParse(fileShape, read.value);
  const repeated = read.repeated.map((pointer) => `${pointer} ${givenTwice}`);
  if (!file.success) {
    return { ...nothing, faults: [...repeated, ...file.issues.map((issue) => sentence([], issue, ""))] };
  }

  const faults = repeated;
  const warnings: string[] = [];
  const own: Template[] = [];
  const names = new Map<Template, string>();
  for (const [index, raw] of file.output.texts.entries()) {
    const entry = v.safeParse(entryShape, raw, { abortPipeEarly: true });
    const at = `texts[${index}]`;
    const name = `${at}${labelOf(raw)}`;
    if (!entry.success) {
      faults.push(...entry.issues.map((issue) => sentence([at], issue, labelOf(raw))));
      continue;
    }
    const template = toTemplate(entry.output);
    const wrong = faultsOfEntry(entry.output);
    const twin = own.find((other) => overlaps(other, template));
    if (twin !== undefined) wrong.push(`is for the same locale, country and purpose as ${names.get(twin)}`);
    own.push(template);
    names.set(template, name);
    faults.push(...wrong.map((rest) => `${name} ${rest}`));
    // What lacks a plural form cannot be measured.
    if (wrong.length > 0) continue;
    const found = findingsOf(template, brand);
    faults.push(...found.faults.map((rest) => `${name} ${rest}`));
    warnings.push(...found.warnings.map((rest) => `${name} ${rest}`));
  }
  for (const template of own) {
    if (template.purposes !== undefined && !isWritten(own, template.locale, template.country)) {
      faults.push(
        `${names.get(template)} needs a text in the same locale without purposes beside it, for a send with another purpose or none`,
      );
    }
  }
  const languages = Object.entries(file.output.countries);
  for (const [region, tag] of languages) {
    if (!fallbacksOf(tag).some((fallback) => isWritten(own, fallback, region))) {
      faults.push(`countries.${region} names ${tag}, in which there is no text`);
    }
  }
  return { templates: createTemplates(own, new Map(languages)), faults, warnings };
}

function toTemplate(entry: Entry): Template {
  const { text, purposes, dlt_template_id: dltTemplateId, dlt_entity_id: dltEntityId } = entry;
  return {
    locale: entry.locale,
    country: entry.country,
    purposes: purposes === undefined ? undefined : new Map(Object.entries(purposes)),
    forms: typeof text === "string" ? { other: text } : withoutGaps(text),
    ...(dltTemplateId === undefined ? {} : { dltTemplateId }),
    ...(dltEntityId === undefined ? {} : { dltEntityId }),
  };
}

function withoutGaps(text: Exclude<Entry["text"], string>): Template["forms"] {
  return Object.fromEntries(Object.entries(text).filter(([, form]) => form !== undefined));
}

/** What is wrong with an entry as a whole. */
function faultsOfEntry({ locale: tag, text, purposes }: Entry): string[] {
  const faults: string[] = [];
  if (typeof text !== "string") {
    for (const form of pluralFormsOf(tag)) {
      if (text[form] === undefined)
        faults.push(`lacks the plural form ${form}, which ${tag} has within 1 to 10 minutes`);
    }
    const known = new Set<string>(new Intl.PluralRules(tag).resolvedOptions().pluralCategories);
    for (const form of Object.keys(text)) {
      if (!known.has(form)) faults.push(`has the plural form ${form}, which ${tag} does not know`);
    }
  }
  const all = typeof text === "string" ? text : Object.values(text).join();
  if (purposes === undefined && all.includes("{purpose}")) {
    faults.push("has {purpose}, so it must list its purposes and the words for each");
  }
  return faults;
}

function overlaps(a: Template, b: Template): boolean {
  if (a.locale.toLowerCase() !== b.locale.toLowerCase() || a.country !== b.country) return false;
  if (a.purposes === undefined || b.purposes === undefined) return a.purposes === b.purposes;
  return [...a.purposes.keys()].some((purpose) => b.purposes?.has(purpose));
}

/** True if there is a text in just this locale, for this country or for all, that suits every purpose. */
function isWritten(own: readonly Template[], tag: string, region: string | undefined): boolean {
  return [...builtInTemplates, ...own].some(
    (template) =>
      template.locale.toLowerCase() === tag.toLowerCase() &&
      (template.country === undefined || template.country === region) &&
      template.purposes === undefined,
  );
}

// ---- sentences ------------------------------------------------------------------------------------------------------

/** " (de, AT)": what an entry is for, as far as it says so. */
function labelOf(raw: unknown): string {
  const said = v.safeParse(v.object({ locale: v.optional(v.string()), country: v.optional(v.string()) }), raw);
  if (!said.success) return "";
  const parts = [said.output.locale, said.output.country].filter((part) => part !== undefined);
  return parts.length === 0 ? "" : ` (${parts.map((part) => part.slice(0, 35)).join(", ")})`;
}

/** An issue as a sentence: where, whose, and what is wrong. */
function sentence(at: string[], issue: v.BaseIssue<unknown>, label: string): string {
  const path = (issue.path ?? []).map(({ key }) => String(key));
  if (issue.type === "strict_object" && issue.expected === "never") {
    return said([...at, ...path.slice(0, -1)], `has the unknown entry ${JSON.stringify(path.at(-1))}`);
  }
  if (issue.received === "undefined") return said([...at, ...path.slice(0, -1)], `lacks ${path.at(-1)}`);
  return said([...at, ...path], issue.message);

  function said(place: string[], rest: string): string {
    return place.length === 0 ? rest : `${place.join(".")}${label} ${rest}`;
  }
}
