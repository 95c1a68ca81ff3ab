/**
 * The demo page from the server's side: where it is served and where not, and what it tells to whom.
 */
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, request as pass } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createInbox } from "../../src/delivery/providers/console.ts";
import { Secret } from "../../src/otp/keys/secret.ts";
import { createDemo } from "../../src/server/pages/demo.ts";
import { startDemo, type DemoServer } from "../support/service/demo.ts";
import { production } from "../support/service/environment.ts";
import { newPhone } from "../support/data/phones.ts";
import { overHttp1, overHttp2 } from "../support/clients/wire.ts";
import { startWorld } from "../support/service/world.ts";

const files = ["/demo", "/demo/page.js", "/demo/style.css", "/demo/icon.svg"];
const paths = [...files, "/demo/inbox", "/demo/inbox?since=0"];

interface Inbox {
  latest: number;
  messages: { number: number; to: string; text: string; time: string }[];
}

let demo: DemoServer;
beforeAll(async () => {
  demo = await startDemo();
});
afterAll(() => demo.stop());

const withToken = () => ({ headers: { "x-demo-token": demo.token } });

async function inboxSince(since: number): Promise<Inbox> {
  return (await (await fetch(`${demo.url}/demo/inbox?since=${since}`, withToken())).json()) as Inbox;
}

/** The path as the demo's own page asks for it. */
const asked = (path: string) => (path === "/demo" ? `/demo?token=${demo.token}` : path);

describe("in development", () => {
  test.each(files)("%s comes with strict headers", async (path) => {
    const answer = await fetch(demo.url + asked(path));
    expect(answer.status).toBe(200);
    expect((await answer.text()).length).toBeGreaterThan(100);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-security-policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-resource-policy": "same-origin",
      "cache-control": "no-store",
    });
  });

  test("each file has its type", async () => {
    const types = await Promise.all(
      [...files, "/demo/inbox"].map(async (path) =>
        (await fetch(demo.url + asked(path), withToken())).headers.get("content-type"),
      ),
    );
    expect(types.map((type) => type?.replace("; charset=utf-8", ""))).toEqual([
      "text/html",
      "text/javascript",
      "text/css",
      "image/svg+xml",
      "application/json",
    ]);
  });

  test("the server's address alone says where to go, without the page's token", async () => {
    const answer = await fetch(`${demo.url}/`);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/plain; charset=utf-8"]);
    const said = await answer.text();
    expect(said).toContain("GET /openapi.json");
    expect(said).not.toContain(demo.token);
  });

  test("other methods are refused", async () => {
    const answer = await fetch(`${demo.url}/demo`, { method: "POST", body: "x" });
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  test("the banner names the page", () => {
    expect(demo.printed[0]).toContain(`\n\nOr try it in a browser: ${demo.url}/demo?token=${demo.token}\n`);
    // 18 random bytes.
    expect(demo.token).toMatch(/^[\w-]{24}$/);
  });
});

describe("in production", () => {
  test("there is no page: its paths are answered as any unknown one is", async () => {
    const world = await startWorld({ ...production, OTP_MASTER_KEY: Buffer.alloc(32, 7).toString("base64url") });
    const bare = async (path: string) => {
      const { status, headers, text } = await overHttp1(world.url, { method: "GET", path });
      for (const name of ["date", "x-call-id"]) headers.delete(name);
      return { status, headers: [...headers], text };
    };
    const unknown = await bare("/nowhere");
    expect(unknown).toMatchObject({ status: 404, text: expect.stringContaining("ROUTE_NOT_FOUND") as string });
    for (const path of ["/", ...paths]) expect(await bare(path)).toEqual(unknown);
    expect(world.printed).toEqual([]);
    await world.stop();
  });
});

describe("the page's key", () => {
  test("sends and verifies", async () => {
    const { latest } = await inboxSince(0);
    const sent = await demo.call("SendOtp", { phone: newPhone() });
    const [message] = (await inboxSince(latest)).messages;
    const [code] = /\d{6}/.exec(message?.text ?? "") ?? [];
    const verified = await demo.call("VerifyOtp", { request_id: sent["request_id"], code });
    expect(verified).toMatchObject({ state: "STATE_VERIFIED" });
  });

  test("is neither stored nor printed, and ends with the process", async () => {
    const other = await startDemo();
    const key = await other.pageKey();
    const stored = readdirSync(other.folder).map((file) => readFileSync(join(other.folder, file)).toString("latin1"));
    const [, , id = ""] = key.split("_");
    expect(id).toHaveLength(10);
    expect(stored.length).toBeGreaterThan(0);
    expect(stored.filter((bytes) => bytes.includes(id))).toEqual([]);
    expect(other.printed.join("")).not.toContain(id);
    await other.stop();
    const answer = await fetch(`${demo.url}/v1/otp/${"a".repeat(22)}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    expect([answer.status, await answer.json()]).toEqual([401, expect.objectContaining({ reason: "API_KEY_INVALID" })]);
  });
});

describe("the inbox", () => {
  test("holds what the console printed, with the number masked", async () => {
    const { latest } = await inboxSince(0);
    await demo.call("SendOtp", { phone: "+14155552671", locale: "en" });
    const { messages, ...rest } = await inboxSince(latest);
    expect(rest).toEqual({ latest: latest + 1 });
    expect(messages).toEqual([
      {
        number: latest + 1,
        to: "+14•••••••71",
        text: expect.stringMatching(/^\d{6} is your otpd verification code\./) as string,
        time: "2026-01-01T12:00:00.000Z",
      },
    ]);
    expect(demo.printed.at(-1)).toContain(messages[0]?.text);
    expect(await inboxSince(latest + 1)).toEqual({ latest: latest + 1, messages: [] });
  });

  test("keeps the last 50, of accepted messages only", async () => {
    const inbox = createInbox(() => 0);
    const sms = { to: "+31612345678", region: "NL", validitySeconds: 600, reference: "test" };
    const outcomes = ["rejected", ...Array.from({ length: 53 }, () => "accepted")];
    const provider = inbox.copying({
      name: "console",
      send: async () => ({ kind: outcomes.shift() ?? "rejected" }) as never,
    });
    for (let i = 0; i < 54; i++) await provider.send({ ...sms, text: `${i}` } as never, new AbortController().signal);
    const { latest, messages } = inbox.since(0);
    expect(latest).toBe(53);
    expect(messages.map(({ text }) => text)).toEqual(Array.from({ length: 50 }, (_, i) => `${i + 4}`));
  });

  test.each(["since=x", "since=-1", "since=1e3", "since=9999999999999999"])("refuses %s", async (query) => {
    const answer = await fetch(`${demo.url}/demo/inbox?${query}`, withToken());
    expect([answer.status, ((await answer.json()) as Record<string, unknown>)["reason"]]).toEqual([
      400,
      "INVALID_REQUEST",
    ]);
  });
});

describe("who may ask", () => {
  const own = ["localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080"];
  const foreign = [
    "shop.example",
    "shop.example:8080",
    "localhost.shop.example",
    "127.0.0.1.shop.example",
    "127.0.0.1@shop.example",
    "192.168.1.5:8080",
    "[::2]:8080",
    "0.0.0.0:8080",
    "localhost:8080:80",
    "",
  ];
  const status = async (host: string, path: string) =>
    (await overHttp1(demo.url, { method: "GET", path: asked(path), headers: { ...withToken().headers, host } })).status;

  test.each(own)("a browser that calls this machine %j", async (host) => {
    for (const path of paths) expect([path, await status(host, path)]).toEqual([path, 200]);
  });

  test.each(foreign)("not one that calls it %j", async (host) => {
    for (const path of paths) expect([path, await status(host, path)]).toEqual([path, 404]);
  });

  test("over HTTP/2 the same", async () => {
    const ask = async (authority: string) =>
      (
        await overHttp2(demo.url, {
          method: "GET",
          path: "/demo/inbox",
          headers: { ...withToken().headers, ":authority": authority },
        })
      ).status;
    expect([await ask("localhost:8080"), await ask("shop.example:8080")]).toEqual([200, 404]);
  });
});

/** What nginx does by default: whoever asks, the server behind it hears its own name. */
async function startProxy(upstream: string) {
  const proxy = createServer((request, response) => {
    const { host } = new URL(upstream);
    const onward = pass(upstream + (request.url ?? ""), { headers: { ...request.headers, host } }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, stop: () => proxy.close() };
}

describe("a stranger behind a proxy that rewrites Host", () => {
  test("gets neither key nor codes without the printed link, and is told to open it", async () => {
    await demo.call("SendOtp", { phone: newPhone() });
    const proxy = await startProxy(demo.url);
    const tries: [string, Record<string, string>][] = [
      ["/demo", {}],
      ["/demo?token=", {}],
      [`/demo?token=${demo.token.slice(1)}`, {}],
      [`/demo?token=${demo.token}x`, {}],
      ["/demo", { "x-demo-token": demo.token }],
      ["/demo/inbox", {}],
      ["/demo/inbox?since=0", { "x-demo-token": "" }],
      [`/demo/inbox?token=${demo.token}`, {}],
      ["/demo/inbox", { "x-demo-token": `${demo.token}x` }],
    ];
    for (const [path, headers] of tries) {
      const answer = await fetch(proxy.url + path, { headers });
      const text = await answer.text();
      expect([path, answer.status, text]).toEqual([path, 403, "Open the link that the server printed.\n"]);
      expect(answer.headers.get("referrer-policy")).toBe("no-referrer");
    }
    for (const path of files.slice(1)) {
      expect(await (await fetch(proxy.url + path)).text()).not.toMatch(/otp_(live|test|pub)_\w/);
    }
    expect((await fetch(`${proxy.url}/demo?token=${demo.token}`)).status).toBe(200);
    proxy.stop();
  });
});

describe("where the page and its inbox are served", () => {
  const served = (host: string, hasConsole: boolean, port = 8080) => {
    const inbox = hasConsole ? createInbox(() => 0) : undefined;
    const origins: string[] = [];
    const makeKey = (allowed: readonly string[]) => {
      origins.push(...allowed);
      return new Secret("key");
    };
    const made = createDemo({ inbox, host, makeKey, token: new Secret("token") });
    const url = made.open({ scheme: "http", host, port });
    return { url, origins, paths: paths.filter((path) => made.pages.get(path) !== undefined) };
  };

  test.each([
    ["127.0.0.1", "http://127.0.0.1:8080"],
    ["localhost", "http://localhost:8080"],
    ["::1", "http://[::1]:8080"],
    ["127.0.0.2", "http://127.0.0.2:8080"],
  ])("on %s with the console, both", (host, origin) => {
    const { url, origins, paths: there } = served(host, true);
    expect(there).toEqual([...files, "/demo/inbox"]);
    expect(url).toBe(`${origin}/demo?token=token`);
    expect(origins).toEqual(expect.arrayContaining([origin, "http://127.0.0.1:8080", "http://localhost:8080"]));
  });

  test.each(["0.0.0.0", "::", "192.168.1.5", "shop.example", "127.0.0.1.shop.example"])(
    "on %s with the console, the page alone: others could read the codes",
    (host) => {
      const { url, origins, paths: there } = served(host, true);
      expect({ there, url }).toEqual({ there: files, url: "http://localhost:8080/demo?token=token" });
      expect(origins.join()).not.toContain(host === "127.0.0.1.shop.example" ? "shop" : `${host}:8080`);
    },
  );

  test("an origin is written as a browser writes it, without a default port", () => {
    expect(served("127.0.0.1", true, 80).origins).toEqual(["http://127.0.0.1", "http://localhost", "http://[::1]"]);
  });

  test("where SMS are really sent, the page alone", () => {
    expect(served("127.0.0.1", false).paths).toEqual(files);
  });

  const { OTP_WEBHOOK_URL, OTP_WEBHOOK_SECRET } = production;
  const webhook = { OTP_WEBHOOK_URL, OTP_WEBHOOK_SECRET };
  const messagebird = {
    OTP_MESSAGEBIRD_ACCESS_KEY: "k",
    OTP_MESSAGEBIRD_ORIGINATOR: "Acme",
    OTP_VOICE_UNATTENDED: "on",
    OTP_VOICE_DAILY_CAP: "50",
  };
  const bird = { OTP_BIRD_API_KEY: "bk_eu1_abc", OTP_BIRD_ORIGINATOR: "Acme" };

  describe.each([
    ["OTP_PROVIDERS", "webhook", webhook],
    ["OTP_PROVIDERS", "console,webhook", webhook],
    // SMS are printed.
    ["OTP_VOICE_PROVIDERS", "messagebird", messagebird],
    ["OTP_WHATSAPP_PROVIDERS", "bird", bird],
  ])("with %s=%s", (variable, names, settings) => {
    const env = { ...settings, [variable]: names, OTP_ALLOWED_COUNTRIES: "*" };

    test("there is no page", async () => {
      const other = await startDemo(env);
      for (const path of paths) expect([path, (await fetch(other.url + path)).status]).toEqual([path, 404]);
      expect(other.printed.join("")).not.toContain("/demo");
      await other.stop();
    });

    test("and OTP_DEMO=on there is one, which says that there is no inbox", async () => {
      const other = await startDemo({ ...env, OTP_DEMO: "on" });
      const page = await (await fetch(other.page)).text();
      expect(page).toContain('<meta name="otpd-inbox" content="sent" />');
      expect((await fetch(`${other.url}/demo/inbox`, { headers: { "x-demo-token": other.token } })).status).toBe(404);
      await other.stop();
    });
  });

  test("with OTP_DEMO=off there is none", async () => {
    const other = await startDemo({ OTP_DEMO: "off" });
    for (const path of paths) expect([path, (await fetch(other.url + path)).status]).toEqual([path, 404]);
    expect(other.printed.join("")).not.toContain("/demo");
    await other.stop();
  });
});

describe("nothing private is in the page", () => {
  test("no secret key, no number but the example, no address of elsewhere", async () => {
    await demo.call("SendOtp", { phone: newPhone() });
    const loaded = [...files, "/elements/otp-form.js"];
    const texts = await Promise.all(loaded.map(async (path) => (await fetch(demo.url + asked(path))).text()));
    const all = texts.join("\n").replace(await demo.pageKey(), "");
    expect(all).not.toMatch(/otp_(live|test|pub)_\w/);
    expect(new Set(all.match(/\+\d{7,15}/g))).toEqual(new Set(["+14155552671"]));
    expect(new Set(all.match(/\b(?:https?|wss?):\/\/[\w.]+/g))).toEqual(new Set(["http://www.w3.org"]));
    const [, firstKey = "?"] = /(otp_live_\w+)/.exec(demo.printed[0] ?? "") ?? [];
    expect(all).not.toContain(firstKey.split("_")[2]);
  });
});
