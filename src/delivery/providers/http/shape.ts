/**
 * The shape of OTP_HTTP_PROVIDERS_FILE, each part with the sentence for a wrong one. No sentence repeats a value. What holds
 * between parts is in rules.ts; docs/http-providers.schema.json says the same to editors, and a test holds the two together.
 */
import * as v from "valibot";
import { channels, defaultChannel } from "../../../otp/channel.ts";
import { object } from "../../../otp/json-file.ts";
import { parseOriginator } from "../shapes.ts";
import { hasPrivateHost } from "./address.ts";
import { placeholderName } from "./placeholders.ts";
import { pointerForm } from "./pointer.ts";

const providersMax = 50;
const listMax = 50;

/** An object of just these entries. Unlike valibot's strict one it tells of every entry that is not known. */
function known<const Entries extends v.ObjectEntries>(
  entries: Entries,
): v.GenericSchema<unknown, v.InferOutput<v.ObjectSchema<Entries, undefined>>> {
  return v.pipe(
    object("must be an object"),
    v.looseObject(entries),
    v.rawCheck(({ dataset, addIssue }) => {
      const input = dataset.value as Record<string, unknown>;
      for (const key of Object.keys(input)) {
        if (Object.hasOwn(entries, key)) continue;
        addIssue({
          message: "is not known here",
          path: [{ type: "object", origin: "key", input, key, value: input[key] }],
        });
      }
    }),
  );
}

/** One of several objects, told apart by their `kind`. */
function byKind<const Options extends Readonly<Record<string, v.GenericSchema>>>(
  options: Options,
): v.GenericSchema<unknown, v.InferOutput<Options[keyof Options]>> {
  const kinds = Object.keys(options);
  const none = v.pipe(object("must be an object"), v.looseObject({ kind: oneOf(kinds) }));
  return v.lazy((value) => {
    const { kind } = (value ?? {}) as { kind?: unknown };
    return (typeof kind === "string" && Object.hasOwn(options, kind) ? options[kind] : none) as v.GenericSchema;
  });
}

const oneOf = <const T extends readonly string[]>(names: T) =>
  v.picklist(names, `must be ${names.length === 1 ? "" : "one of "}${names.join(", ")}`);

const list = <const Item extends v.GenericSchema>(item: Item) =>
  v.pipe(
    v.array(item, "must be a list"),
    v.minLength(1, "must have an entry"),
    v.maxLength(listMax, `must have at most ${listMax} entries`),
  );

/** One line of text. */
const line = (charsMax: number) =>
  v.pipe(
    v.string("must be a text"),
    v.regex(/^\P{Cc}+$/u, "must be one line of text, without control characters"),
    v.maxLength(charsMax, `must have at most ${charsMax} characters`),
  );

/** RFC 7617: the first colon of `user:password` ends the user. */
const user = v.pipe(line(200), v.regex(/^[^:]*$/, "must have no colon: the first one ends it"));

/** A value that an answer or a report may have. Compared as text: 0 and "0" are the same. */
const comparable = v.custom<string | number | boolean>(
  (value) =>
    (typeof value === "number" && Math.abs(value) <= Number.MAX_SAFE_INTEGER) ||
    typeof value === "boolean" ||
    (typeof value === "string" && /^\P{Cc}{1,200}$/u.test(value)),
  "must be a text of one line, a number up to 2^53, true or false",
);
const comparables = list(comparable);

const pointer = v.pipe(
  v.string("must be a text"),
  v.regex(pointerForm, "must be a JSON pointer such as /message/id"),
  v.maxLength(200, "must have at most 200 characters"),
);

/** Where a report has something: in its body, or in the query of its URL. */
const source = v.pipe(
  v.string("must be a text"),
  v.regex(
    /^(?:(?:\/(?:[^~/]|~[01])*)+|\?[^\p{Cc}&=#]{1,100})$/u,
    "must be a JSON pointer such as /ref, or ?ref for a name in the URL's query",
  ),
  v.maxLength(200, "must have at most 200 characters"),
);

/** `ACME_KEY` is the variable OTP_HTTP_ACME_KEY, or OTP_HTTP_ACME_KEY_FILE. */
const secret = v.pipe(
  v.string("must be a text"),
  v.regex(
    /^(?!PROVIDERS$)(?!.*_FILE$)[A-Z][A-Z0-9_]{0,63}$/,
    "must be a name such as ACME_KEY, for the variable OTP_HTTP_ACME_KEY, and neither PROVIDERS nor one that ends in _FILE",
  ),
);

const headerName = v.pipe(
  v.string("must be a text"),
  v.regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/, "must be the name of a header"),
  v.regex(
    /^(?!(?:host|content-length|content-type|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|cookie|proxy-.*)$)/i,
    "is a header that the service writes itself",
  ),
);

const headerText = v.pipe(
  v.string("must be a text"),
  v.regex(/^[\x20-\x7e]{0,512}$/, "must be at most 512 visible ASCII characters"),
  v.regex(/^[^{}]*$/, "must hold no placeholders: a header never does"),
);

const url = v.pipe(
  v.string("must be a text"),
  v.maxLength(2_000, "must have at most 2000 characters"),
  v.regex(/^https?:\/\//, "must be an https URL"),
  v.regex(/^https?:\/\/[^\s/?#\\@{}]+(?:[/?]|$)/, "must have a host without placeholders or a user in it"),
  v.regex(
    /^https?:\/\/[^/?]+(?:\/[^\s?#\\]*)?(?:\?[^\s#\\]*)?$/,
    "must have a path and a query at most, without white space, backslashes or #",
  ),
  v.regex(/^(?![^?]*\/(?:\.|%2e){1,2}(?:[/?]|$))/i, "must have no step such as .. in its path"),
  v.check((text) => URL.canParse(text.replaceAll(/\{\w*\}/g, "x")), "must be a URL"),
  v.check(
    (text) => !text.startsWith("http:") || hasPrivateHost(text),
    "must be https: http is for this machine and private networks, such as http://10.0.0.5 or http://kannel, alone",
  ),
);

/** What a token says of us, beside its own time and id. */
const claims = v.pipe(
  object("must be an object of texts"),
  v.record(
    v.pipe(
      v.string(),
      v.regex(
        /^(?!(?:iat|exp|nbf|jti)$)[A-Za-z][A-Za-z0-9_]{0,63}$/,
        "must be a name, and none that the service writes itself",
      ),
    ),
    line(200),
  ),
  v.maxEntries(20, "must have at most 20 entries"),
);

const auth = byKind({
  /** Without `user` the secret is the whole `user:password`. */
  basic: known({ kind: v.literal("basic"), user: v.optional(user), secret }),
  bearer: known({ kind: v.literal("bearer"), secret }),
  header: known({ kind: v.literal("header"), name: headerName, prefix: v.optional(headerText), secret }),
  query: known({ kind: v.literal("query"), name: line(100), secret }),
  /** The secret is a private key. */
  "jwt-rs256": known({ kind: v.literal("jwt-rs256"), claims: v.optional(claims, {}), secret }),
});

const answer = {
  status: list(
    v.pipe(
      v.number("must be a number"),
      v.integer("must be a whole number"),
      v.minValue(200, "must be at least 200"),
      v.maxValue(599, "must be at most 599"),
    ),
  ),
  pointer: v.optional(pointer),
  equals: v.optional(comparables),
  match: v.optional(list(line(200))),
};

const retryAfter = v.custom<number | string>(
  (value) =>
    typeof value === "number"
      ? Number.isInteger(value) && value >= 1 && value <= 3_600
      : pointerForm.test(String(value)),
  "must be 1 to 3600 seconds, or a JSON pointer to where the answer has them",
);

export const causes = ["recipient", "credentials", "balance", "content", "throttled"] as const;

const overParts: ReadonlySet<unknown> = new Set(["body", "url", "form", "timestamp"]);
const over = list(
  v.custom<string>(
    (value) => overParts.has(value) || (typeof value === "string" && /^[^\p{L}\p{N}\p{Cc}]{1,8}$/u.test(value)),
    'must be body, url, form, timestamp, or marks such as "." that stand between two of them',
  ),
);

const signed = { header: headerName, over, timestamp: v.optional(headerName), prefix: v.optional(headerText), secret };

const signature = byKind({
  "hmac-sha1": known({ kind: v.literal("hmac-sha1"), ...signed }),
  "hmac-sha256": known({ kind: v.literal("hmac-sha256"), ...signed }),
  ed25519: known({ kind: v.literal("ed25519"), ...signed }),
  "jwt-hs256": known({ kind: v.literal("jwt-hs256"), header: v.optional(headerName), secret }),
  basic: known({ kind: v.literal("basic"), user: v.optional(user), secret }),
  path: known({ kind: v.literal("path"), secret }),
});

/** A request by which a gateway finds out whether reports have come to the right place: it brings a secret. */
const handshake = known({ token: source, answer: source, secret });

const reports = known({
  signature,
  handshake: v.optional(handshake),
  each: v.optional(pointer),
  reference: source,
  status: source,
  exact: v.optional(source),
  id: v.optional(source),
  detail: v.optional(source),
  accepted: v.optional(comparables),
  delivered: comparables,
  undelivered: comparables,
});

export const nameForm = /^[a-z][a-z0-9-]{0,31}$/;

export const entryShape = known({
  name: v.pipe(
    v.string("must be a text"),
    v.regex(nameForm, "must be 1 to 32 small letters, digits and hyphens, a letter first"),
  ),
  channel: v.optional(oneOf(channels), defaultChannel),
  url,
  method: v.optional(oneOf(["POST", "PUT", "GET"]), "POST"),
  auth: v.optional(auth),
  headers: v.optional(
    v.pipe(
      object("must be an object of texts"),
      v.record(
        v.pipe(headerName, v.regex(/^(?!authorization$)/i, "belongs into auth: no secret stands in the file")),
        headerText,
      ),
      v.maxEntries(20, "must have at most 20 entries"),
    ),
    {},
  ),
  content: oneOf(["json", "form", "query"]),
  // What is in it depends on `content`: rules.ts.
  body: v.optional(object("must be an object"), {}),
  from: v.optional(
    v.pipe(
      v.string("must be a text"),
      v.check(
        (text) => parseOriginator(text) !== undefined,
        "must be a number such as +31612345678, or up to 11 letters and digits with a letter among them",
      ),
    ),
  ),
  vars: v.optional(
    v.pipe(
      object("must be an object of texts"),
      v.record(
        v.pipe(v.string(), v.regex(placeholderName, "must be named in 1 to 32 small letters, digits and underscores")),
        line(500),
      ),
      v.maxEntries(50, "must have at most 50 entries"),
    ),
    {},
  ),
  /** What the gateway calls the languages of texts; `*` is every other. */
  locales: v.optional(
    v.pipe(
      object("must be an object of texts"),
      v.record(
        v.pipe(
          v.string(),
          v.regex(/^(?:\*|[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*)$/, "must be a language such as pt-BR, or *"),
        ),
        line(100),
      ),
      v.maxEntries(100, "must have at most 100 entries"),
    ),
  ),
  accepted: known(answer),
  id: v.optional(pointer),
  refused: v.optional(
    v.pipe(
      v.array(
        known({
          ...answer,
          cause: oneOf(causes),
          retry_after: v.optional(retryAfter),
        }),
        "must be a list",
      ),
      v.maxLength(listMax, `must have at most ${listMax} entries`),
    ),
    [],
  ),
  reports: v.optional(reports),
  // What is in a body of JSON, and that one of XML is a text: rules.ts.
  speech: v.optional(known({ type: oneOf(["xml", "json"]), key: v.optional(pointer), body: v.unknown() })),
});

export const fileShape = known({
  // Editors complete a file by it.
  $schema: v.optional(line(200)),
  providers: v.pipe(
    v.array(v.unknown(), "must be a list"),
    v.minLength(1, "must have an entry"),
    v.maxLength(providersMax, `must have at most ${providersMax} entries`),
  ),
});

/** A provider as the file declares it. */
export type Declaration = v.InferOutput<typeof entryShape>;
export type AnswerRule = Declaration["accepted"];
export type DeclaredRefusal = Declaration["refused"][number];
export type Reports = v.InferOutput<typeof reports>;
export type Signature = v.InferOutput<typeof signature>;
