/**
 * OTP_HTTP_PROVIDERS_FILE as it is read: good files, and every fault of a bad one by its JSON pointer. The schema in docs/ takes
 * and refuses what the reader does.
 */
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { readHttpProviders } from "../../../src/delivery/providers/http/file.ts";
import { lookUp } from "../../../src/delivery/providers/http/pointer.ts";
import { providerNames } from "../../../src/delivery/providers/list.ts";
import { acme, everything, type Loose } from "../../support/data/http-providers.ts";

const schema = JSON.parse(
  readFileSync(new URL("../../../docs/http-providers.schema.json", import.meta.url), "utf8"),
) as object;
const suits = new Ajv2020({ allowUnionTypes: true, strict: false }).compile(schema);

const faultsOf = (file: unknown) => readHttpProviders(JSON.stringify(file), providerNames).faults;

/** Pointers of what a fault was found at. */
const pointers = (faults: readonly string[]) =>
  faults.map((fault) => (fault.startsWith("/") ? (fault.split(" ")[0] ?? "") : ""));
const inOrder = (faults: readonly string[]) => pointers(faults).toSorted((a, b) => (a < b ? -1 : 1));

function changed(change: (file: Loose) => void, file: object = everything): Loose {
  const copy = structuredClone(file) as Loose;
  change(copy);
  return copy;
}

test.each([
  ["the documentation's", acme],
  ["one with everything", everything],
])("a good file is read, and suits the schema: %s", (_, file) => {
  const read = readHttpProviders(JSON.stringify(file), providerNames);
  expect(read.faults).toEqual([]);
  expect(read.declarations.map(({ name }) => name)).toEqual(file.providers.map(({ name }) => name));
  expect(suits(file)).toBe(true);
});

test("what is left out is what the documentation says", () => {
  const { declarations } = readHttpProviders(JSON.stringify(everything), providerNames);
  expect(declarations[4]).toMatchObject({ channel: "sms", method: "POST", vars: {}, headers: {}, refused: [] });
});

/** Every place in a value below the root, as pointers. */
function placesOf(value: unknown, at = ""): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [`${at}/${name}`, ...placesOf(inner, `${at}/${name}`)]);
}

function put(file: Loose, pointer: string, value: unknown): void {
  const steps = pointer.split("/");
  const last = steps.pop() ?? "";
  const parent = lookUp({ root: file }, `/root${steps.join("/")}`) as Loose;
  if (value === undefined) delete parent[last];
  else parent[last] = value;
}

/** What is wrong wherever it stands: an object and a list of what nothing has, and a text with a control character. */
const odd = [{ canary: 1 }, [[]], "can\u0000ary"];
const mutations = placesOf(everything)
  // In a body of JSON any value may stand, and any body may lack what only the reader misses.
  .filter((pointer) => !/^\/providers\/(?:[13]\/body\/|\d\/body$)/.test(pointer))
  .flatMap((pointer) => odd.map((value) => ({ pointer, value, what: JSON.stringify(value) })));

test("there are hundreds of mutations", () => expect(mutations.length).toBeGreaterThan(300));

test.each(mutations)("$pointer that is $what is told by a pointer and a sentence", ({ pointer, value }) => {
  const file = changed((copy) => put(copy, pointer, value));
  const faults = faultsOf(file);
  expect(faults.length).toBeGreaterThan(0);
  for (const fault of faults) expect(fault).toMatch(/^(\/\S+ )?[a-zG{][^\n]{4,}[^.\s]$/);
  expect(faults.join("\n")).not.toContain("can\u0000ary");
  expect(pointers(faults).some((each) => each === pointer || each.startsWith(`${pointer}/`))).toBe(true);
  expect(suits(file)).toBe(false);
});

const everyObject = ["", ...placesOf(everything)].filter((pointer) => {
  const found = pointer === "" ? everything : lookUp(everything, pointer);
  const isFree = /\/(vars|headers|body|locales)(\/|$)/.test(pointer);
  return typeof found === "object" && found !== null && !Array.isArray(found) && !isFree;
});

test.each(everyObject)("what is not known in %s is told, all of it", (pointer) => {
  const file = changed((copy) => {
    put(copy, `${pointer}/colour`, "red");
    put(copy, `${pointer}/shape`, "round");
  });
  expect(inOrder(faultsOf(file))).toEqual([`${pointer}/colour`, `${pointer}/shape`]);
  expect(suits(file)).toBe(false);
});

const required =
  `name url content accepted accepted/status auth/kind auth/name auth/secret refused/0/status refused/0/cause
  reports/signature reports/signature/kind reports/signature/header reports/signature/over reports/signature/secret
  reports/reference reports/status reports/delivered reports/undelivered`
    .split(/\s+/)
    .map((path) => `/providers/0/${path}`);

test.each(required)("without %s it is told what is missing", (pointer) => {
  const file = changed((copy) => put(copy, pointer, undefined));
  expect(faultsOf(file)).toContain(`${pointer} is missing`);
  expect(suits(file)).toBe(false);
});

describe("what stands in the wrong place or form", () => {
  const first = "/providers/0";
  test.each<[string, unknown]>([
    ["name", "console"],
    ["name", "messagebird"],
    ["name", "constructor"],
    ["name", "none"],
    ["name", "__proto__"],
    ["name", "toString"],
    ["name", "Acme"],
    ["name", "a/b"],
    ["name", "a".repeat(33)],
    ["channel", "pigeon"],
    ["url", "http://gw.example/send"],
    ["url", "http://8.8.8.8/send"],
    ["url", "http://134744072/"],
    ["url", "http://169.254.169.254/latest"],
    ["url", "ftp://gw.example/"],
    ["url", "//gw.example/send"],
    ["url", "https://{to}.example/send"],
    ["url", "https://gw.example:{to}/"],
    ["url", "https://user:pass@gw.example/"],
    ["url", "https://gw.example/#{to}"],
    ["url", "https://gw.example/a b"],
    ["url", "https://gw.example\\evil/"],
    ["url", "https://"],
    ["url", "https://gw.example/a/../b"],
    ["url", "https://gw.example/a/%2e%2E?x"],
    ["url", "https://gw.example/{to"],
    ["url", `https://gw.example/${"a".repeat(2_000)}`],
    ["method", "post"],
    ["method", "DELETE"],
    ["auth/kind", "digest"],
    ["auth/kind", "constructor"],
    ["auth", { kind: "basic", user: "me:you", secret: "ACME_KEY" }],
    ["reports/signature", { kind: "basic", user: "a:", secret: "ACME_KEY" }],
    ["auth/name", "Host"],
    ["auth/name", "content-LENGTH"],
    ["auth/name", "X Key"],
    ["auth/name", "X-{to}"],
    ["auth/secret", "acme_key"],
    ["auth/secret", "PROVIDERS"],
    ["auth/secret", "KEY_FILE"],
    ["auth/secret", "../MASTER_KEY"],
    ["headers", { Authorization: "Bearer 1" }],
    ["headers", { "X-To": "{to}" }],
    ["headers", { "X-A": "a\r\nb" }],
    ["headers", { "Transfer-Encoding": "chunked" }],
    ["content", "xml"],
    ["body", null],
    ["body", []],
    ["from", "a much too long name"],
    ["vars", { Upper: "a" }],
    ["vars", { to: "a" }],
    ["vars", { empty: "" }],
    ["accepted/status", 200],
    ["accepted/status", []],
    ["accepted/status", [99]],
    ["accepted/status", ["200"]],
    ["accepted/equals", "queued"],
    ["accepted/equals", []],
    ["accepted/pointer", "result"],
    ["accepted/pointer", "/a~2"],
    ["id", "message_id"],
    ["refused/0/cause", "unknown"],
    ["refused/0/retry_after", 10],
    ["refused", {}],
    ["reports/signature/kind", "hmac-md5"],
    ["reports/signature/over", []],
    ["reports/signature/over", ["bodi"]],
    ["reports/signature/timestamp", "X-Time"],
    ["reports/signature/over", ["body", "timestamp"]],
    ["reports/reference", "ref"],
    ["reports/delivered", []],
  ])("%s %j is told", (path, value) => {
    const file = changed((copy) => put(copy, `${first}/${path}`, value));
    const told = pointers(faultsOf(file));
    const near = told.some((each) => each.startsWith(`${first}/${path.split("/")[0]}`));
    expect({ near, suits: suits(file) }).toEqual({ near: true, suits: false });
  });

  test.each<[string, string, (provider: Loose) => void]>([
    [
      "an unknown placeholderholder",
      "body/msg has the unknown placeholder {name}",
      (p) => (p.body.msg = "{text} {name}"),
    ],
    [
      "a placeholder in a URL that nobody knows",
      "url has the unknown placeholder {sum}",
      (p) => (p.url = "https://gw.example/{sum}"),
    ],
    ["a sender that nobody gives", "from is missing, and {from} stands for it", (p) => (p.body.from = "{from}")],
    ["no number", "body must hold {to} or {to_digits}, or the url must: nobody would get it", (p) => delete p.body.to],
    ["no text", "body must hold {text} or {code}, or the url must: nothing would be told", (p) => delete p.body.msg],
    [
      "a name that two have",
      "name is another provider's too",
      (p) => {
        p.name = "rich";
      },
    ],
    [
      "a field of a report beside what is signed",
      "reports/reference is read from the query, so over must list url",
      (p) => (p.reports.reference = "?ref"),
    ],
    [
      "a body that nothing signs",
      "reports/status is read from the body, so over must list body or form",
      (p) => (p.reports.signature.over = ["url"]),
    ],
    [
      "where reports come to, without any",
      "reports is missing, and {report_url} stands for where they come to",
      (p) => {
        p.body.callback = "{report_url}";
        delete p.reports;
      },
    ],
    [
      "a name of the language that nobody gives",
      "locales is missing, and {locale_name} stands for what it has",
      (p) => (p.body.lang = "{locale_name}"),
    ],
    [
      "a placeholder in a name",
      "body/{code} is a name: placeholders are filled in values",
      (p) => (p.body["{code}"] = "{text}"),
    ],
    [
      "a word that means two things",
      "reports/undelivered/0 is one of delivered, too",
      (p) => (p.reports.undelivered = p.reports.delivered),
    ],
    [
      "a header that is the secret's",
      "headers/x-api-KEY is the header that auth writes",
      (p) => (p.headers = { "x-api-KEY": "1" }),
    ],
    [
      "a header in two spellings",
      "headers/x-a is given twice, in other letters",
      (p) => (p.headers = { "X-A": "1", "x-a": "2" }),
    ],
    [
      "a lone brace",
      "body/msg has a brace that belongs to no placeholder such as {to}",
      (p) => (p.body.msg = "{text} {"),
    ],
  ])("%s is told, which no schema can say", (_, fault, change) => {
    const file = changed(({ providers }) => change(providers[0]));
    const at = fault.startsWith("name") ? "/providers/1/" : `${first}/`;
    expect(faultsOf(file)).toContain(at + fault);
  });

  test("names that come again in their object are told, each of them, in whatever way they are written", () => {
    const written = JSON.stringify(acme)
      .replace('"content":', '"refus\\u0065d":[],"content":')
      .replace('"to":', '"a/b~":"]}\\"a,","a/b~":"{\\"to\\":","to":')
      .replace('"providers":', '"providers":[],"providers":');
    expect(readHttpProviders(written, providerNames).faults).toEqual([
      "/providers is given twice",
      "/providers/0/body/a~1b~0 is given twice",
      "/providers/0/refused is given twice",
    ]);
  });

  test("all faults are told at once, those of the shape and those between parts", () => {
    const file = changed((copy) => {
      copy.providers[0].auth.kind = "digest";
      copy.providers[0].body.msg = "{text}{nobody}";
      copy.providers[1].refused[4].cause = "whim";
      copy.providers[2].name = "webhook";
      copy.more = 1;
    });
    expect(inOrder(faultsOf(file))).toEqual([
      "/more",
      "/providers/0/auth/kind",
      "/providers/0/body/msg",
      "/providers/1/refused/4/cause",
      "/providers/2/name",
    ]);
  });
});

describe("what is no such file at all is told without a word of it", () => {
  test.each([
    ["secret-key", "is not JSON"],
    ['{"providers": [}', "is not JSON"],
    ["[]", "must be an object"],
    ["null", "must be an object"],
    ["{}", "/providers is missing"],
    ['{"providers":{}}', "/providers must be a list"],
    ['{"providers":[]}', "/providers must have an entry"],
    ['{"providers":[null]}', "/providers/0 must be an object"],
    ['{"__proto__":{"providers":[]}}', "must not have the name __proto__ in it"],
    [`"${" ".repeat(262_144)}"`, "is larger than 256 KiB"],
  ])("%#", (text, fault) => {
    expect(readHttpProviders(text, providerNames).faults).toEqual([fault]);
  });
});
