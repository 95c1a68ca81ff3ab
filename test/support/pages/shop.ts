/**
 * A web page of another site, with the form in it: strict about what it loads and whom it asks, and isolated from other origins.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface Shop {
  readonly origin: string;
  /** The address of a page that has this in its body. */
  page(body: string, scripts?: readonly string[]): string;
  stop(): void;
}

/** What the policy has to name, of the otpd at that address. */
const policyFor = (otpd: string) =>
  [
    "default-src 'none'",
    `script-src 'self' ${otpd}`,
    `connect-src ${otpd}`,
    // The page's own icon.
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join("; ");

export interface ShopOptions {
  /** Scripts of the shop's own, by their paths. */
  readonly files?: ReadonlyMap<string, string>;
  /** Its policy instead of the strict one. */
  readonly policy?: string;
}

/** Opens a shop beside the otpd at that address. */
export async function openShop(
  otpd: string,
  { files = new Map(), policy = policyFor(otpd) }: ShopOptions = {},
): Promise<Shop> {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://shop.example");
    const script = files.get(pathname);
    if (script !== undefined) return response.writeHead(200, { "content-type": "text/javascript" }).end(script);
    if (pathname !== "/") return response.writeHead(404).end();
    response.writeHead(200, {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy,
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-embedder-policy": "require-corp",
    });
    const scripts = searchParams.getAll("script").join("\n");
    const body = searchParams.get("body") ?? "";
    return response.end(
      `<!doctype html><html lang="en"><title>Shop</title><link rel="icon" href="data:," />${scripts}${body}</html>`,
    );
  });
  await once(server.listen(0, "localhost"), "listening");
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  return {
    origin,
    page(body, scripts = [`<script type="module" src="${otpd}/elements/otp-form.js"></script>`]) {
      const query = new URLSearchParams([
        ["body", body],
        ...scripts.map((script): [string, string] => ["script", script]),
      ]);
      return `${origin}/?${query.toString()}`;
    },
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
}
