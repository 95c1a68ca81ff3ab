/**
 * What a declared provider is asked: each kind of content and of authentication, and hostile values, none of which leaves its
 * place.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { OutgoingMessage, Provider } from "../../../src/delivery/provider.ts";
import type { E164 } from "../../../src/otp/phone-number.ts";
import { startFarEnd, type Asked, type FarEnd } from "../../support/fakes/far-end.ts";
import { seededRandom } from "../../support/service/system.ts";
import { declared, patience, publicUrl, sms } from "./setup.ts";

let farEnd: FarEnd;
beforeAll(async () => {
  farEnd = await startFarEnd({ status: 200 });
});
afterAll(() => farEnd.stop());
beforeEach(() => void farEnd.asked.splice(0));

async function asked(provider: Provider, message: OutgoingMessage = sms): Promise<Asked> {
  expect(await provider.send(message, patience())).toEqual({ kind: "accepted" });
  return farEnd.asked.at(-1) as Asked;
}

const everyPlace = {
  to: "{to}",
  digits: "{to_digits}",
  text: "{text}",
  code: "{code}",
  from: "{from}",
  reference: "{reference}",
  seconds: "{validity_seconds}",
  locale: "{locale}",
  country: "{country}",
  own: "<{account}>",
};
const filled = {
  to: "+31612345678",
  digits: "31612345678",
  text: sms.text,
  code: "123456",
  from: "Acme",
  reference: sms.reference,
  seconds: "540",
  locale: "nl",
  country: "NL",
  own: "<AC 42/&?>",
};
const named = { from: "Acme", vars: { account: "AC 42/&?" } };

describe("a message is asked for", () => {
  test("as JSON, whose other values stay as they are", async () => {
    const body = { ...everyPlace, list: ["{to}", 7], deep: { flag: true, none: null, text: "{code}!" } };
    const {
      method,
      path,
      headers,
      body: text,
    } = await asked(declared({ url: `${farEnd.url}/send`, content: "json", body, ...named }));
    expect({ method, path }).toEqual({ method: "POST", path: "/send" });
    expect(headers["content-type"]).toBe("application/json");
    const deep = { flag: true, none: null, text: "123456!" };
    expect(JSON.parse(text)).toEqual({ ...filled, list: ["+31612345678", 7], deep });
  });

  test("as a form", async () => {
    const { headers, body } = await asked(
      declared({ url: `${farEnd.url}/send`, content: "form", body: { ...everyPlace, flash: true, n: 1 }, ...named }),
    );
    expect(headers["content-type"]).toBe("application/x-www-form-urlencoded");
    expect(Object.fromEntries(new URLSearchParams(body))).toEqual({ ...filled, flash: "true", n: "1" });
  });

  test("in the query, behind what the URL has, by GET and without a body", async () => {
    const entry = { url: `${farEnd.url}/send?v=2`, method: "GET", content: "query", body: everyPlace, ...named };
    const { method, path, body, headers } = await asked(declared(entry));
    expect({ method, body, type: headers["content-type"] }).toEqual({ method: "GET", body: "", type: undefined });
    const { pathname, searchParams } = new URL(path, farEnd.url);
    expect(pathname).toBe("/send");
    expect(Object.fromEntries(searchParams)).toEqual({ v: "2", ...filled });
    // A + is a space to some gateways, and a plus to others.
    expect(path).not.toContain("+");
  });

  test("in segments of the path and in the URL's own query", async () => {
    const url = `${farEnd.url}/{account}/to/{to}/x{code}?text={text}&lang={locale}`;
    const { path } = await asked(declared({ url, content: "query", body: {}, ...named }));
    const { pathname, searchParams } = new URL(path, farEnd.url);
    expect(pathname.split("/").map(decodeURIComponent)).toEqual(["", "AC 42/&?", "to", "+31612345678", "x123456"]);
    expect(Object.fromEntries(searchParams)).toEqual({ text: sms.text, lang: "nl" });
  });

  test("from the sender of its country", async () => {
    const entry = { url: farEnd.url, body: { to: "{to}", text: "{text}", from: "{from}" }, from: "Acme" };
    const provider = declared(entry, { originators: new Map([["US", "+15551234567"]]) });
    expect(JSON.parse((await asked(provider)).body)).toMatchObject({ from: "Acme" });
    expect(JSON.parse((await asked(provider, { ...sms, region: "US" })).body)).toMatchObject({ from: "+15551234567" });
  });

  test("with where its reports come to, and without that field where none can come", async () => {
    const signature = { kind: "path", secret: "PATH" };
    const reports = { signature, reference: "?ref", status: "?s", delivered: [1], undelivered: [2] };
    const body = { to: "{to}", text: "{text}", callback: "{report_url}?ref={reference}" };
    const entry = { url: farEnd.url, body, reports };
    expect(JSON.parse((await asked(declared(entry))).body)).toMatchObject({
      callback: `${publicUrl}/webhooks/acme/r3port?ref=${sms.reference}`,
    });
    const unreported = await asked(declared(entry, { publicUrl: undefined }));
    expect(Object.keys(JSON.parse(unreported.body) as object)).toEqual(["to", "text"]);
  });
});

describe("the secret is shown", () => {
  test.each<[object, string, string]>([
    [{ kind: "basic", secret: "S" }, "authorization", `Basic ${Buffer.from("us:pá ss").toString("base64")}`],
    [
      { kind: "basic", user: "otpd", secret: "S" },
      "authorization",
      `Basic ${Buffer.from("otpd:us:pá ss").toString("base64")}`,
    ],
    [{ kind: "bearer", secret: "S" }, "authorization", "Bearer t0ken"],
    [{ kind: "header", name: "X-Api-Key", secret: "S" }, "x-api-key", "t0ken"],
    [{ kind: "header", name: "Authorization", prefix: "App ", secret: "S" }, "authorization", "App t0ken"],
  ])("by %j", async (auth, header, value) => {
    const secret = value.startsWith("Basic") ? "us:pá ss" : "t0ken";
    const { headers } = await asked(declared({ url: farEnd.url, auth, headers: { "X-More": "1" } }, { secret }));
    expect(headers).toMatchObject({ [header]: value, "x-more": "1" });
  });

  test("in the query, encoded", async () => {
    const auth = { kind: "query", name: "api key", secret: "S" };
    const { path } = await asked(declared({ url: `${farEnd.url}/?a=1`, auth }, { secret: "t0&ken=" }));
    expect(path).toBe("/?a=1&api%20key=t0%26ken%3D");
  });
});

/** What breaks out of something somewhere. */
const crumbs = [
  '"',
  "'",
  "`",
  "\\",
  "\\u0022",
  "{",
  "}",
  "{text}",
  "{{to}}",
  "${7*7}",
  "%",
  "%0d%0a",
  "%2e%2e",
  "%00",
  "&",
  "&to=+1",
  "=",
  "?",
  "#",
  "/",
  "//",
  "../",
  "..",
  ".",
  ";",
  ",",
  "<",
  ">",
  "|",
  "\n",
  "\n\n@shop.example #1",
  "\t",
  " ",
  "  ",
  "\u2028",
  "\u202E",
  "é",
  "Ж",
  "汉",
  "🙂",
  "\uD800",
  "]]>",
  "--",
  "$(id)",
  "\r\nX-Evil: 1",
  "\r",
  "\u0000",
  "a@b",
  ":443",
];

/** 200 values, each of up to four of them. */
function hostile(): string[] {
  const random = seededRandom(2026);
  const one = () => crumbs[Math.floor(random() * crumbs.length)] ?? "";
  return Array.from({ length: 200 }, (_, i) =>
    i < crumbs.length ? (crumbs[i] ?? "") : Array.from({ length: 1 + Math.floor(random() * 4) }, one).join(""),
  );
}

/** A message whose every value is hostile; a number, a locale and a brand can be no such thing, and are all the same. */
function messageOf(value: string): OutgoingMessage {
  return { ...sms, text: `${value} 123456`, to: `+${value}` as E164, locale: value, code: value, reference: value };
}

const body = { to: "{to}", text: "{text}", lang: "{locale}", code: "{code}", ref: "{reference}", brand: "{brand}" };

/** What a place is to hold: halves of characters have no encoding. */
const expected = (value: string) => {
  const whole = value.toWellFormed();
  return { to: `+${whole}`, text: `${whole} 123456`, lang: whole, code: whole, ref: whole };
};

describe("200 hostile values in every place: each is refused before anything is asked, or stays where it stands", () => {
  const values = hostile();
  test("there are 200, and some are refused", () => {
    expect(values).toHaveLength(200);
    expect(values.filter((value) => /[\0\r\n]/.test(value)).length).toBeGreaterThan(20);
  });

  const kinds: Record<string, (asked: Asked) => unknown> = {
    json: ({ body: text }) => JSON.parse(text),
    form: ({ body: text }) => Object.fromEntries(new URLSearchParams(text)),
    query: ({ path }) => Object.fromEntries(new URL(path, farEnd.url).searchParams),
  };

  test.each(Object.keys(kinds))("of %s", async (content) => {
    const taken: string[] = [];
    for (const value of values) {
      farEnd.asked.splice(0);
      // A brand is the file's or the operator's own: control characters in it are a fault of the file.
      const brand = value.replaceAll(/\p{Cc}/gu, "") || "Acme";
      const provider = declared({ url: `${farEnd.url}/send`, content, body, vars: { brand } });
      const outcome = await provider.send(messageOf(value), patience());
      const isOdd = /[\0\r\n]/.test(value);
      expect(outcome.kind).toBe(isOdd ? "refused" : "accepted");
      const [one, ...more] = farEnd.asked;
      expect({ asked: one !== undefined, more }).toEqual({ asked: !isOdd, more: [] });
      if (one === undefined) continue;
      taken.push(value);
      expect(kinds[content]?.(one)).toEqual({ ...expected(value), brand: brand.toWellFormed() });
      expect(one).toMatchObject({ method: "POST", headers: { host: new URL(farEnd.url).host } });
      expect(one.path.split("?")[0]).toBe("/send");
      expect(Object.keys(one.headers)).not.toContain("x-evil");
    }
    expect(taken.length).toBeGreaterThan(100);
  });

  test("of a segment of the path", async () => {
    const provider = declared({ url: `${farEnd.url}/v1/{locale}/to/{to_digits}/x`, body: { text: "{text}" } });
    const outcomes = new Set<string>();
    for (const value of values) {
      farEnd.asked.splice(0);
      const { kind } = await provider.send({ ...sms, locale: value }, patience());
      const isOdd = /[\0\r\n]/.test(value) || /^\.{1,2}$/.test(value);
      outcomes.add(`${kind} ${isOdd}`);
      expect(farEnd.asked).toHaveLength(isOdd ? 0 : 1);
      for (const { path } of farEnd.asked) {
        const segments = path.split("/").map(decodeURIComponent);
        expect(segments).toEqual(["", "v1", value.toWellFormed(), "to", "31612345678", "x"]);
      }
    }
    expect([...outcomes].toSorted()).toEqual(["accepted false", "refused true"]);
  });

  test("a text of several lines is one text everywhere", async () => {
    for (const [content, read] of Object.entries(kinds)) {
      const one = await asked(declared({ url: farEnd.url, content, body: { to: "{to}", text: "{text}" } }));
      expect(read(one)).toEqual({ to: sms.to, text: sms.text });
    }
  });
});
