/**
 * Sign-in to the console: a link works once, a session ends when it should, and nobody but our own page acts with one.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { csrfOf, sessionDigest, type ConsoleUser } from "../../../src/otp/keys/console-session.ts";
import { commandLine } from "../../../src/otp/operators/audit.ts";
import { addConsoleLink } from "../../../src/service/operators/console-sessions.ts";
import { select } from "../../support/databases/rows.ts";
import { overHttp1 } from "../../support/clients/wire.ts";
import { startWorld, type World } from "../../support/service/world.ts";

const ann: ConsoleUser = { user: "ann", scopes: ["admin.read", "admin.write"], tenant: null };
const hourMs = 3_600_000;

let world: World;
afterEach(() => world.stop());

const start = async (variables: Record<string, string> = {}) => {
  world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0", ...variables });
};

const origin = () => new URL(world.adminUrl).origin;

async function newLink(user: ConsoleUser = ann): Promise<string> {
  return world.beside(async (store) =>
    (await addConsoleLink({ store, system: world.system }, user, commandLine)).reveal(),
  );
}

/** Posts as the console's page does, unless told otherwise. */
function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${world.adminUrl}${path}`, {
    method: "POST",
    headers: { origin: origin(), "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

interface SignedIn {
  readonly cookie: string;
  readonly csrf: string;
}

async function signedIn(answer: Response): Promise<SignedIn> {
  expect(answer.status).toBe(200);
  const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
  const { csrf_token: csrf } = (await answer.json()) as { csrf_token: string };
  return { cookie, csrf };
}

const signIn = async (token: string) => signedIn(await post("/console/session", { token }));

/** Asks who asks, with what a browser would send. */
async function whoAmI(headers: Record<string, string>): Promise<{ status: number; text: string }> {
  const answer = await post("/otp.admin.v1.AdminService/GetSession", {}, headers);
  return { status: answer.status, text: await answer.text() };
}

const asPage = ({ cookie, csrf }: SignedIn) => ({ cookie, "x-csrf-token": csrf });

describe("a link", () => {
  beforeEach(() => start());

  test("becomes a session, which says who it is and what it may", async () => {
    const answer = await post("/console/session", { token: await newLink() });
    expect(answer.headers.get("set-cookie")).toMatch(
      /^otpd-console=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    const { status, text } = await whoAmI(asPage(await signedIn(answer)));
    expect(status).toBe(200);
    expect(JSON.parse(text)).toMatchObject({ actor: "ann", scopes: ["admin.read", "admin.write"] });
  });

  test("works once, also when twenty bring it at once", async () => {
    const token = await newLink();
    const answers = await Promise.all(Array.from({ length: 20 }, () => post("/console/session", { token })));
    const statuses = answers.map(({ status }) => `${status}`).toSorted();
    expect(statuses).toEqual(["200", ...Array.from({ length: 19 }, () => "401")]);
    expect((await post("/console/session", { token })).status).toBe(401);
  });

  test("is in the audit, and so is who signed in by it, from where; neither with a token", async () => {
    const token = await newLink({ ...ann, tenant: "default", scopes: ["admin.read"] });
    await Promise.all([1, 2, 3].map(() => post("/console/session", { token })));
    const entries = await select(world.database, "SELECT * FROM audit WHERE action LIKE 'console.%' ORDER BY id");
    const about = { tenant: "default", subject: "ann", before: "" };
    expect(entries).toMatchObject([
      { action: "console.link", actor: "start", tenant: "", subject: "development" },
      { ...about, action: "console.link", actor: "cli", address: "", actor_tenant: "" },
      { ...about, action: "console.sign_in", actor: "user:ann", address: "127.0.0.1", actor_tenant: "default" },
    ]);
    const [, made, begun] = entries.map(({ after }) => JSON.parse(String(after)) as unknown);
    expect(made).toEqual({ scopes: ["admin.read"], expire_time: new Date(world.system.now() + 600_000).toISOString() });
    expect(begun).toEqual({ scopes: ["admin.read"], by: "link" });
    expect(JSON.stringify(entries)).not.toContain(token);
  });

  test("ends after ten minutes", async () => {
    const token = await newLink();
    world.system.advance(600_000);
    expect((await post("/console/session", { token })).status).toBe(401);
  });

  test.each([
    ["another site's page", { origin: "https://evil.example" }],
    ["no page at all", { origin: "null" }],
    ["what the browser calls cross-site", { "sec-fetch-site": "cross-site" }],
    ["another port of this machine", { origin: "http://127.0.0.1:1" }],
  ])("is not spent by %s", async (_, headers) => {
    const token = await newLink();
    expect((await post("/console/session", { token }, headers)).status).toBe(403);
    await signIn(token);
  });

  test("is nothing that can be guessed, and a guess is a plain refusal", async () => {
    for (const token of ["", "x", "A".repeat(43)]) expect((await post("/console/session", { token })).status).toBe(401);
    expect((await post("/console/session", { token: 7 })).status).toBe(400);
    const long = await post("/console/session", { token: "A".repeat(2_000) });
    expect(long.status).toBe(413);
    expect(await long.text()).toContain("larger than 1 KiB");
  });
});

describe("a session", () => {
  beforeEach(() => start());

  test("is no use without the page's second token, nor to another site's page", async () => {
    const session = await signIn(await newLink());
    const other = await signIn(await newLink());
    for (const headers of [
      { cookie: session.cookie },
      { cookie: session.cookie, "x-csrf-token": other.csrf },
      { ...asPage(session), origin: "https://evil.example" },
    ]) {
      const { status, text } = await whoAmI(headers);
      expect([status, text.includes("ORIGIN_NOT_ALLOWED")]).toEqual([403, true]);
    }
    expect((await post("/console/session/end-all", {}, { cookie: session.cookie })).status).toBe(403);
    expect((await whoAmI(asPage(session))).status).toBe(200);
  });

  test("is found behind a cookie of the same name that another page of this host has set for a longer path", async () => {
    const session = asPage(await signIn(await newLink()));
    const { status } = await whoAmI({ ...session, cookie: `otpd-console=toss; theme=dark; ${session.cookie}` });
    expect(status).toBe(200);
  });

  test("ends half an hour after its last use, and twelve hours after it began whatever its use", async () => {
    const session = await signIn(await newLink());
    for (let minutes = 0; minutes < 12 * 60 - 29; minutes += 29) {
      expect((await whoAmI(asPage(session))).status).toBe(200);
      world.system.advance(29 * 60_000);
    }
    expect((await whoAmI(asPage(session))).status).toBe(200);
    world.system.advance(29 * 60_000);
    const over = await whoAmI(asPage(session));
    expect([over.status, over.text.includes("SESSION_INVALID")]).toEqual([401, true]);
    const idle = await signIn(await newLink());
    world.system.advance(hourMs / 2);
    expect((await whoAmI(asPage(idle))).status).toBe(401);
  });

  test("ends at a sign-out, and all of a user's at a sign-out everywhere", async () => {
    const [first, second, third] = [
      await signIn(await newLink()),
      await signIn(await newLink()),
      await signIn(await newLink()),
    ];
    const out = await post("/console/session/end", {}, asPage(first));
    expect(out.headers.get("set-cookie")).toContain("otpd-console=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    expect((await whoAmI(asPage(first))).status).toBe(401);
    expect((await whoAmI(asPage(second))).status).toBe(200);
    expect((await post("/console/session/end-all", {}, asPage(second))).status).toBe(200);
    for (const session of [second, third]) expect((await whoAmI(asPage(session))).status).toBe(401);
  });

  test("may do what its link said, and nothing else", async () => {
    const reader = await signIn(await newLink({ user: "bob", scopes: ["admin.read"], tenant: null }));
    const answer = await post("/otp.admin.v1.AdminService/RevokeApiKey", { id: "x" }, asPage(reader));
    expect(await answer.json()).toMatchObject({ code: "permission_denied" });
  });

  test("is told apart by nothing that is in the database", async () => {
    const session = await signIn(await newLink());
    const [, token = ""] = session.cookie.split("=");
    const stored = await world.beside((store) => store.registry.findConsoleSession(sessionDigest(token)));
    const kept = Buffer.from(stored?.digest ?? []).toString("base64url");
    for (const digest of [kept, session.csrf]) {
      expect((await whoAmI({ cookie: `otpd-console=${digest}`, "x-csrf-token": csrfOf(digest) })).status).toBe(401);
    }
    expect(kept).toHaveLength(43);
  });
});

describe("a reverse proxy's header", () => {
  const proxied = { OTP_CONSOLE_PROXY: "127.0.0.1", OTP_CONSOLE_USERS: "ann@example.com=admin.read" };
  const named = { "x-forwarded-user": "ann@example.com", "x-forwarded-proto": "https" };

  test("begins a session for a user whom the operator knows, over TLS as the proxy says", async () => {
    await start(proxied);
    const answer = await post("/console/session", { token: "" }, named);
    expect(answer.headers.get("set-cookie")).toMatch(/^__Host-otpd-console=.*; Secure$/);
    const session = await signedIn(answer);
    const { status, text } = await whoAmI({ ...asPage(session), ...named });
    expect([status, JSON.parse(text)]).toMatchObject([200, { actor: "ann@example.com", scopes: ["admin.read"] }]);
    const entries = await select(
      world.database,
      "SELECT actor, subject, after FROM audit WHERE action = 'console.sign_in'",
    );
    const after = JSON.stringify({ scopes: ["admin.read"], by: "proxy" });
    expect(entries).toEqual([{ actor: "user:ann@example.com", subject: "ann@example.com", after }]);
    // Signed out at the proxy, or somebody else there by now.
    for (const user of ["", "eve@example.com"]) {
      expect((await whoAmI({ ...asPage(session), ...named, "x-forwarded-user": user })).status).toBe(401);
    }
  });

  test("on this machine is nothing from a page that has pointed its own name here", async () => {
    await start(proxied);
    const ask = (host: string, headers: Record<string, string> = {}) =>
      overHttp1(world.adminUrl, {
        path: "/console/session",
        headers: { host, origin: `http://${host}`, "content-type": "application/json", ...named, ...headers },
        body: '{"token":""}',
      });
    const { status, text } = await ask(`evil.example:${new URL(world.adminUrl).port}`);
    expect([status, JSON.parse(text)]).toMatchObject([401, { reason: "SESSION_INVALID" }]);
    // What browsers say over TLS alone, and no page can.
    const behind = { origin: "https://console.example", "sec-fetch-site": "same-origin" };
    expect((await ask("console.example", behind)).status).toBe(200);
  });

  test("is nothing from anybody else, nor for a user whom the operator does not know", async () => {
    await start({ ...proxied, OTP_CONSOLE_PROXY: "192.0.2.1" });
    expect((await post("/console/session", { token: "" }, named)).status).toBe(401);
    await world.stop();
    await start(proxied);
    for (const user of ["eve@example.com", "constructor", ""]) {
      expect((await post("/console/session", { token: "" }, { ...named, "x-forwarded-user": user })).status).toBe(401);
    }
  });
});

test("no page may frame the console, nor bring anything into it", async () => {
  await start();
  const page = await fetch(`${world.adminUrl}/console`);
  expect(page.headers.get("content-security-policy")).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  expect(page.headers.get("x-frame-options")).toBe("DENY");
});

test("a browser gets the console as gzip, at most 150 KB of it in all, and not again while it is the same", async () => {
  await start();
  const parts = ["", "/console.js", "/console.css", "/icon.svg"].map((path) => `${world.adminUrl}/console${path}`);
  let bytes = 0;
  for (const url of parts) {
    const zipped = await fetch(url, { headers: { "accept-encoding": "gzip, deflate, br, zstd" } });
    expect(zipped.headers.get("content-encoding")).toBe("gzip");
    expect(zipped.headers.get("vary")).toBe("Accept-Encoding");
    expect(zipped.headers.get("cache-control")).toBe("no-cache");
    expect(zipped.headers.get("x-frame-options")).toBe("DENY");
    bytes += Number(zipped.headers.get("content-length"));
    const plain = await fetch(url, { headers: { "accept-encoding": "identity" } });
    expect(plain.headers.get("content-encoding")).toBeNull();
    expect(await zipped.text()).toBe(await plain.text());
    const etag = plain.headers.get("etag") ?? "";
    expect((await fetch(url, { headers: { "if-none-match": etag, "cache-control": "no-cache" } })).status).toBe(304);
  }
  expect(bytes).toBeLessThanOrEqual(150_000);
});

test("a slash at the end leads to the console too", async () => {
  await start();
  const answer = await fetch(`${world.adminUrl}/console/`, { redirect: "manual" });
  expect([answer.status, answer.headers.get("location")]).toEqual([308, "/console"]);
  expect((await fetch(`${world.adminUrl}/console/`)).headers.get("content-type")).toBe("text/html; charset=utf-8");
});
