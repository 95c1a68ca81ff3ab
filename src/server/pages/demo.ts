/**
 * The demo page, in development only:
 *
 *   GET /demo         the page with its script and style; its form is served to everybody (elements.ts)
 *   GET /demo/inbox   what the console provider printed
 *   GET /             says where to go
 *
 * The page calls the service as any web client would, with a publishable key that this process makes for it and forgets;
 * nothing private is in it.
 *
 * Everything that tells a key or a code asks for the token in the URL that the server prints: behind a proxy that
 * rewrites Host, as nginx does by default, everybody looks like a browser on this machine. The page sends the token to
 * the inbox in a header, so it is in one URL alone. The inbox is there only while nobody but this machine can ask: the
 * server listens on a loopback address, and no SMS leaves. The Host that a browser names must be this machine too, or a
 * foreign site could point its own name here (DNS rebinding).
 */
import { timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import type { Inbox } from "../../delivery/providers/console.ts";
import { isLoopback } from "../../delivery/public-address.ts";
import { digest } from "../../otp/keys/key-ring.ts";
import { invalid, ok, refuse } from "../../otp/reason.ts";
import type { Secret } from "../../otp/keys/secret.ts";
import { readOwnFile } from "../../own-files.ts";
import { ownPageHeaders } from "./own-page.ts";
import type { Page, PagesByPath } from "./pages.ts";
import { valuesOf } from "./query.ts";
import type { Address } from "../listener/server.ts";

export interface DemoOptions {
  /** What was sent; undefined when the provider is no console. */
  readonly inbox: Inbox | undefined;
  /** The address that is listened on. */
  readonly host: string;
  /** Makes the page's key, for these origins. */
  readonly makeKey: (origins: readonly string[]) => Secret;
  /** At least 128 random bits, in characters that a URL takes as they are. */
  readonly token: Secret;
}

export interface Demo {
  readonly pages: PagesByPath;
  /** Makes the page's key, once the port is known. Returns the page's URL. */
  open(address: Address): string;
}

const headers = { ...ownPageHeaders, "cache-control": "no-store" };

/** For whoever opens the server's address in a browser. */
const signpost = `This is otpd, in development. The demo page has the link that the server printed at its start.
GET /openapi.json describes the calls, and README.md shows the first ones.
`;

/** Makes the demo, for whoever has its URL. */
export function createDemo({ inbox, host, makeKey, token }: DemoOptions): Demo {
  const isLocal = isOwnHost(host);
  const readable = isLocal ? inbox : undefined;
  const inboxState = readable !== undefined ? "open" : inbox === undefined ? "sent" : "exposed";
  const template = read("src/demo/index.html").replace("{{inbox}}", inboxState).replace("{{token}}", token.reveal());
  let html = "";

  const pages = new Map([
    ["/", page("text/plain", () => signpost)],
    [
      "/demo",
      guarded(
        (target) => valuesOf(target, "token")?.[0],
        token,
        page("text/html", () => html),
      ),
    ],
    ["/demo/page.js", fixed("text/javascript", read("gen/demo/page.js"))],
    ["/demo/style.css", fixed("text/css", read("src/demo/style.css"))],
    ["/demo/icon.svg", fixed("image/svg+xml", read("src/demo/icon.svg"))],
  ]);
  if (readable !== undefined) {
    pages.set(
      "/demo/inbox",
      guarded((_, asked) => asked["x-demo-token"], token, inboxPage(readable)),
    );
  }

  return {
    pages,
    open({ scheme, port }) {
      const names = new Set(["127.0.0.1", "localhost", "[::1]", ...(isLocal ? [inUrl(host)] : [])]);
      // As a browser writes them: without a default port.
      const origins = [...names].map((name) => new URL(`${scheme}://${name}:${port}`).origin);
      html = template.replace("{{key}}", makeKey(origins).reveal());
      return `${scheme}://${isLocal ? inUrl(host) : "localhost"}:${port}/demo?token=${token.reveal()}`;
    },
  };
}

function inboxPage(inbox: Inbox): Page {
  return page("application/json", (target) => {
    const since = valuesOf(target, "since")?.[0] ?? "0";
    if (!/^\d{1,15}$/.test(since)) return undefined;
    const { latest, messages } = inbox.since(Number(since));
    const shown = messages.map(({ time, ...message }) => ({ ...message, time: new Date(time).toISOString() }));
    return JSON.stringify({ latest, messages: shown });
  });
}

type PageRequest = Parameters<Page["answer"]>[0];

/** A page for those alone who bring the token. */
function guarded(
  broughtBy: (target: string, headers: PageRequest["headers"]) => unknown,
  token: Secret,
  inner: Page,
): Page {
  const expected = digest(token.reveal());
  return {
    ...inner,
    async answer(asked) {
      const answer = await inner.answer(asked);
      const brought = broughtBy(asked.target, asked.headers);
      if (!answer.ok || (typeof brought === "string" && timingSafeEqual(digest(brought), expected))) return answer;
      return ok({
        status: 403,
        type: "text/plain; charset=utf-8",
        body: "Open the link that the server printed.\n",
        headers,
      });
    },
  };
}

function fixed(type: string, body: string): Page {
  return page(type, () => body);
}

/** A page by a browser that calls this machine by its name; undefined from `bodyOf` is a query that cannot be read. */
function page(type: string, bodyOf: (target: string) => string | undefined): Page {
  return {
    methods: ["GET", "HEAD"],
    async answer({ target, headers: asked }) {
      const authority = asked["host"] ?? asked[":authority"];
      const [, name] = /^(\[[0-9a-f:]+\]|[^:]+)(?::\d+)?$/i.exec(String(authority)) ?? [];
      if (name === undefined || !isOwnHost(name.replace(/^\[|\]$/g, ""))) return refuse("ROUTE_NOT_FOUND");
      const body = bodyOf(target);
      if (body === undefined) return invalid(undefined, "since must be a whole number, 0 or more.");
      return ok({ type: `${type}; charset=utf-8`, body, headers });
    },
  };
}

/** Whether an address or a name is this machine's own. */
function isOwnHost(host: string): boolean {
  return host.toLowerCase() === "localhost" || (isIP(host) !== 0 && isLoopback(host));
}

function inUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** One of the page's files. They are read at the start, so that a missing one is found there. */
function read(path: string): string {
  return readOwnFile(path).toString();
}
