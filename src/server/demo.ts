/**
 * The demo page, in development only: GET /demo with its script and style, and GET /demo/inbox, what the console
 * provider printed. The page calls the service as any web client would, with a publishable key that this process makes
 * for it and forgets; nothing private is in it.
 *
 * The inbox shows codes to whoever asks, so it is there only while nobody but this machine can ask: the server listens
 * on a loopback address, and no SMS leaves. A browser on this machine is asked for more: the Host that it names must be
 * this machine too, else a foreign site could point its own name here (DNS rebinding) and read along.
 */
import { readFileSync } from "node:fs";
import type { Inbox } from "../delivery/inbox.ts";
import { invalid, ok, refuse } from "../otp/reason.ts";
import type { Secret } from "../otp/secret.ts";
import type { Visit } from "./visits.ts";
import type { Address } from "./server.ts";

export interface DemoOptions {
  /** What was sent; undefined when the provider is no console. */
  readonly inbox: Inbox | undefined;
  /** The address that is listened on. */
  readonly host: string;
  /** Makes the page's key, for these origins. */
  readonly makeKey: (origins: readonly string[]) => Secret;
}

export interface Demo {
  readonly visitOf: (path: string) => Visit | undefined;
  /** Makes the page's key, once the port is known. Returns the page's URL. */
  open(address: Address): string;
}

/** Nothing from elsewhere, nothing inline, in nobody's frame; the icon is all that is neither script nor style. */
const headers = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

/**
 * Makes the demo; undefined where strangers could have it send SMS that cost something: the page gives its key to
 * whoever asks for it, so either nobody but this machine can ask, or nothing is ever sent.
 */
export function createDemo({ inbox, host, makeKey }: DemoOptions): Demo | undefined {
  const isLocal = isLoopback(host);
  if (!isLocal && inbox === undefined) return undefined;
  const readable = isLocal ? inbox : undefined;
  const inboxState = readable !== undefined ? "open" : inbox === undefined ? "sent" : "exposed";
  const template = read("../demo/index.html").replace("{{inbox}}", inboxState);
  let page = "";

  const visits = new Map([
    ["/demo", visit("text/html", () => page)],
    ["/demo/page.js", fixed("text/javascript", read("../../gen/demo/page.js"))],
    ["/demo/style.css", fixed("text/css", read("../demo/style.css"))],
    ["/demo/form.css", fixed("text/css", read("../demo/form.css"))],
    ["/demo/icon.svg", fixed("image/svg+xml", read("../demo/icon.svg"))],
  ]);
  if (readable !== undefined) visits.set("/demo/inbox", inboxVisit(readable));

  return {
    visitOf: (path) => visits.get(path),
    open({ scheme, port }) {
      const names = new Set(["127.0.0.1", "localhost", "[::1]", ...(isLocal ? [inUrl(host)] : [])]);
      // As a browser writes them: without a default port.
      const origins = [...names].map((name) => new URL(`${scheme}://${name}:${port}`).origin);
      page = template.replace("{{key}}", makeKey(origins).reveal());
      return `${scheme}://${isLocal ? inUrl(host) : "localhost"}:${port}/demo`;
    },
  };
}

function inboxVisit(inbox: Inbox): Visit {
  return visit("application/json", (target) => {
    const since = new URLSearchParams(target.split("?", 2)[1]).get("since") ?? "0";
    if (!/^\d{1,15}$/.test(since)) return undefined;
    const { latest, messages } = inbox.since(Number(since));
    const shown = messages.map(({ time, ...message }) => ({ ...message, time: new Date(time).toISOString() }));
    return JSON.stringify({ latest, messages: shown });
  });
}

function fixed(type: string, body: string): Visit {
  return visit(type, () => body);
}

/** A visit by a browser that calls this machine by its name; undefined from `bodyOf` is a query that cannot be read. */
function visit(type: string, bodyOf: (target: string) => string | undefined): Visit {
  return {
    methods: ["GET", "HEAD"],
    async answer({ target, headers: asked }) {
      const authority = asked["host"] ?? asked[":authority"];
      const [, name] = /^(\[[0-9a-f:]+\]|[^:]+)(?::\d+)?$/i.exec(String(authority)) ?? [];
      if (name === undefined || !isLoopback(name.replace(/^\[|\]$/g, ""))) return refuse("ROUTE_NOT_FOUND");
      const body = bodyOf(target);
      if (body === undefined) return invalid(undefined, "since must be a whole number, 0 or more.");
      return ok({ type: `${type}; charset=utf-8`, body, headers });
    },
  };
}

/** Whether an address, or the one name for it, is this machine's own. */
function isLoopback(host: string): boolean {
  return /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/i.test(host);
}

function inUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** One of the page's files. They are read at the start, so that a missing one is found there. */
function read(path: string): string {
  return readFileSync(new URL(path, import.meta.url), "utf8");
}
