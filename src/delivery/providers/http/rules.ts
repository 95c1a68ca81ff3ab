/**
 * What holds between the parts of a declaration: which placeholders there are, where they may stand, and what goes with what. It
 * looks at the file as it is, so that these faults are told beside those of its shape.
 */
import { below } from "../../../otp/json-file.ts";
import { builtInPlaceholders, isXml, partsOf, placeholdersIn } from "./placeholders.ts";

/** What is wrong at a pointer, as the rest of a sentence. */
export interface Fault {
  readonly pointer: string;
  readonly rest: string;
}

const depthMax = 8;
const textsMax = 200;
const textCharsMax = 1_000;

/** A text in the file that placeholders may stand in. */
interface Placed {
  readonly pointer: string;
  readonly text: string;
}

/** What is wrong between the parts of one entry, whose shape may be wrong too. Pure. */
export function faultsBetween(entry: unknown, pointer: string): Fault[] {
  const content = own(entry, "content");
  const body = bodyTexts(own(entry, "body"), below(pointer, "body"), content);
  const url = own(entry, "url");
  const speech = speechTexts(own(entry, "speech"), below(pointer, "speech"));
  const inRequest =
    typeof url === "string" ? [{ pointer: below(pointer, "url"), text: url }, ...body.texts] : body.texts;
  return [
    ...body.faults,
    ...speech.faults,
    ...faultsOfPlaceholders(entry, pointer, [...inRequest, ...speech.texts]),
    ...faultsOfSpeech(entry, pointer, inRequest),
    ...faultsOfMethod(entry, pointer),
    ...faultsOfHeaders(entry, pointer),
    ...faultsOfAnswer(own(entry, "accepted"), below(pointer, "accepted")),
    ...itemsOf(own(entry, "refused")).flatMap((rule, i) => {
      const at = below(below(pointer, "refused"), i);
      const isOdd = own(rule, "retry_after") !== undefined && own(rule, "cause") !== "throttled";
      const odd = { pointer: below(at, "retry_after"), rest: "goes with the cause throttled alone" };
      return [...faultsOfAnswer(rule, at), ...(isOdd ? [odd] : [])];
    }),
    ...faultsOfReports(own(entry, "reports"), below(pointer, "reports")),
  ];
}

/** What an object has of its own under a name. */
export function own(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

/** What is in a list; nothing for what is no list. */
export function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The texts of a body that placeholders may stand in, and what is wrong with its form. */
function bodyTexts(body: unknown, at: string, content: unknown): { texts: Placed[]; faults: Fault[] } {
  const isFlat = content !== "json";
  const texts: Placed[] = [];
  const faults: Fault[] = [];
  const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
  function look(value: unknown, pointer: string, depth: number): void {
    if (typeof value === "string") texts.push({ pointer, text: value });
    if (!isObject(value)) {
      if (value === null && isFlat) faults.push({ pointer, rest: "must be a text, a number, true or false" });
      return;
    }
    if (depth > 0 && isFlat) faults.push({ pointer, rest: "must be a text: only JSON has objects and lists" });
    else if (depth === depthMax) faults.push({ pointer, rest: `is more than ${depthMax} objects deep` });
    else for (const [name, inner] of Object.entries(value)) look(inner, below(pointer, name), depth + 1);
    const filled = Object.keys(value).filter((name) => placeholdersIn(name).length > 0);
    const rest = "is a name: placeholders are filled in values";
    faults.push(...filled.map((name) => ({ pointer: below(pointer, name), rest })));
  }
  if (isObject(body) && !Array.isArray(body)) look(body, at, 0);
  if (texts.length > textsMax) faults.push({ pointer: at, rest: `must have at most ${textsMax} texts` });
  for (const { pointer, text } of texts) {
    if (/\p{Cc}/u.test(text)) faults.push({ pointer, rest: "must be one line of text, without control characters" });
    if (text.length > textCharsMax) faults.push({ pointer, rest: `must have at most ${textCharsMax} characters` });
  }
  return { texts, faults };
}

function faultsOfPlaceholders(entry: unknown, pointer: string, texts: readonly Placed[]): Fault[] {
  const vars = Object.keys((own(entry, "vars") as object | undefined) ?? {});
  const faults: Fault[] = vars
    .filter((name) => builtInPlaceholders.has(name))
    .map((name) => ({
      pointer: below(below(pointer, "vars"), name),
      rest: "is a placeholder that comes with the service",
    }));
  for (const { pointer: at, text } of texts) {
    if (partsOf(text) === undefined)
      faults.push({ pointer: at, rest: "has a brace that belongs to no placeholder such as {to}" });
    const unknown = placeholdersIn(text).filter(
      (placeholder) => !builtInPlaceholders.has(placeholder) && !vars.includes(placeholder),
    );
    for (const placeholder of new Set(unknown))
      faults.push({ pointer: at, rest: `has the unknown placeholder {${placeholder}}` });
  }
  const used = new Set(texts.flatMap(({ text }) => placeholdersIn(text)));
  if (used.has("from") && own(entry, "from") === undefined) {
    faults.push({ pointer: below(pointer, "from"), rest: "is missing, and {from} stands for it" });
  }
  if (used.has("locale_name") && own(entry, "locales") === undefined) {
    faults.push({ pointer: below(pointer, "locales"), rest: "is missing, and {locale_name} stands for what it has" });
  }
  if (own(entry, "locales") !== undefined && own(own(entry, "locales"), "*") === undefined) {
    faults.push({
      pointer: below(below(pointer, "locales"), "*"),
      rest: "is missing: what is any other language called?",
    });
  }
  if (used.has("report_url") && own(entry, "reports") === undefined) {
    faults.push({
      pointer: below(pointer, "reports"),
      rest: "is missing, and {report_url} stands for where they come to",
    });
  }
  if (typeof own(entry, "url") !== "string") return faults;
  const at = below(pointer, "body");
  if (!used.has("to") && !used.has("to_digits")) {
    faults.push({ pointer: at, rest: "must hold {to} or {to_digits}, or the url must: nobody would get it" });
  }
  if (!used.has("text") && !used.has("code")) {
    faults.push({ pointer: at, rest: "must hold {text} or {code}, or the url must: nothing would be told" });
  }
  return faults;
}

/** The texts of what a call says. */
function speechTexts(speech: unknown, at: string): { texts: Placed[]; faults: Fault[] } {
  const body = own(speech, "body");
  const pointer = below(at, "body");
  if (speech === undefined) return { texts: [], faults: [] };
  if (own(speech, "type") !== "xml") return bodyTexts({ body }, at, "json");
  if (typeof body === "string" && isXml(body)) return bodyTexts({ body }, at, "json");
  return { texts: [], faults: [{ pointer, rest: "must be XML: a text that begins with a tag" }] };
}

/** A call that waits for a key asks for the code afterwards, and does not bring it along. */
function faultsOfSpeech(entry: unknown, pointer: string, inRequest: readonly Placed[]): Fault[] {
  const has = (name: string) => own(entry, name) !== undefined;
  const at = below(pointer, "speech");
  const faults: Fault[] = [];
  const namesIn = ({ text }: Placed) => new Set(placeholdersIn(text));
  if (!has("speech")) {
    for (const one of inRequest) {
      for (const name of ["prompt", "speech_url"]) {
        if (namesIn(one).has(name))
          faults.push({ pointer: one.pointer, rest: `has {${name}}, which goes with speech` });
      }
    }
    return faults;
  }
  if (own(entry, "channel") !== "voice") faults.push({ pointer: at, rest: "is for the channel voice alone" });
  const signature = own(own(entry, "reports"), "signature");
  const over = itemsOf(own(signature, "over"));
  if (!has("reports")) {
    faults.push({ pointer: below(pointer, "reports"), rest: "is missing: speech is asked for where they come to" });
  } else if (own(signature, "over") !== undefined && !over.includes("url")) {
    faults.push({
      pointer: at,
      rest: "needs reports whose signature is over the url: it says whose code is asked for",
    });
  }
  for (const one of inRequest) {
    const early = ["text", "code"].filter((name) => namesIn(one).has(name));
    for (const name of early) {
      faults.push({
        pointer: one.pointer,
        rest: `must not hold {${name}}: with speech it is said after a key was pressed`,
      });
    }
  }
  if (!inRequest.some((one) => namesIn(one).has("speech_url"))) {
    faults.push({ pointer: below(pointer, "body"), rest: "must hold {speech_url}: nobody would ask for the speech" });
  }
  return faults;
}

function faultsOfMethod(entry: unknown, pointer: string): Fault[] {
  const isBodiless = own(entry, "method") === "GET" && own(entry, "content") !== "query";
  return isBodiless ? [{ pointer: below(pointer, "method"), rest: "GET goes with the content query alone" }] : [];
}

/** One header in two spellings, or of two places: the gateway would get both, or either. */
function faultsOfHeaders(entry: unknown, pointer: string): Fault[] {
  const auth = own(entry, "auth");
  const secret = own(auth, "kind") === "header" ? String(own(auth, "name")).toLowerCase() : undefined;
  const names = Object.keys((own(entry, "headers") as object | undefined) ?? {});
  return names.flatMap((name, i) => {
    const [at, spelt] = [below(below(pointer, "headers"), name), name.toLowerCase()];
    if (spelt === secret) return [{ pointer: at, rest: "is the header that auth writes" }];
    const isTwin = names.slice(0, i).some((other) => other.toLowerCase() === spelt);
    return isTwin ? [{ pointer: at, rest: "is given twice, in other letters" }] : [];
  });
}

function faultsOfAnswer(rule: unknown, pointer: string): Fault[] {
  const has = (name: string) => own(rule, name) !== undefined;
  const faults: Fault[] = [];
  if (has("equals") && !has("pointer")) {
    faults.push({ pointer: below(pointer, "equals"), rest: "needs a pointer beside it, to what is compared" });
  }
  if (has("match") && has("pointer")) {
    faults.push({
      pointer: below(pointer, "match"),
      rest: "is for text, and pointer is for JSON: an answer is one of them",
    });
  }
  return faults;
}

/** A field of a report counts only where the signature covers it. */
function faultsOfReports(reports: unknown, pointer: string): Fault[] {
  const signature = own(reports, "signature");
  const at = below(pointer, "signature");
  const over = itemsOf(own(signature, "over"));
  const kind = own(signature, "kind");
  const timestamp = own(signature, "timestamp");
  const faults: Fault[] = [];
  if (timestamp !== undefined && !over.includes("timestamp")) {
    faults.push({ pointer: below(at, "over"), rest: "must list timestamp: what is not signed proves nothing" });
  }
  if (timestamp === undefined && over.includes("timestamp")) {
    faults.push({ pointer: below(at, "timestamp"), rest: "is missing: it names the header that over has" });
  }
  faults.push(...faultsOfWords(reports, pointer));
  for (const name of ["token", "answer"]) {
    const source = own(own(reports, "handshake"), name);
    if (typeof source === "string" && !source.startsWith("?")) {
      faults.push({ pointer: below(below(pointer, "handshake"), name), rest: "must be in the query, such as ?token" });
    }
  }
  for (const name of ["reference", "status", "exact", "id", "detail"]) {
    const source = own(reports, name);
    if (typeof source !== "string") continue;
    const isInQuery = source.startsWith("?");
    const isSigned = isInQuery ? over.includes("url") : over.includes("body") || over.includes("form");
    const isOverParts = kind === "hmac-sha1" || kind === "hmac-sha256" || kind === "ed25519";
    if (isOverParts && !isSigned) {
      const what = isInQuery ? "the query, so over must list url" : "the body, so over must list body or form";
      faults.push({ pointer: below(pointer, name), rest: `is read from ${what}` });
    }
    // A reference is 128 bits that nobody guesses: who has it has it of us or of the gateway. What is said of it is signed.
    if (kind === "jwt-hs256" && isInQuery && name !== "reference") {
      faults.push({ pointer: below(pointer, name), rest: "must be in the body: a JWT signs no more of a report" });
    }
  }
  return faults;
}

/** A word of two lists would mean two things. */
function faultsOfWords(reports: unknown, pointer: string): Fault[] {
  const seen = new Map<string, string>();
  return ["delivered", "undelivered", "accepted"].flatMap((list) =>
    itemsOf(own(reports, list)).flatMap((word, i) => {
      const other = seen.get(String(word));
      seen.set(String(word), other ?? list);
      return other === undefined || other === list
        ? []
        : [{ pointer: below(below(pointer, list), i), rest: `is one of ${other}, too` }];
    }),
  );
}
