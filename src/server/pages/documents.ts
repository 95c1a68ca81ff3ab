/**
 * What anybody may read, from any page and without a key: the public keys of receipts, GET /.well-known/jwks.json, and the
 * description of the REST paths, GET /openapi.json. Neither changes while the service runs, so caches may keep both for as
 * long as a receipt is good for, and then ask by their ETag whether there is a new one.
 */
import { createHash } from "node:crypto";
import type { PublicJwk } from "../../otp/keys/signing-key.ts";
import { readOwnFile } from "../../own-files.ts";
import type { PageAnswer } from "../http/response.ts";
import type { Page, PagesByPath } from "./pages.ts";

export function createPublicDocuments(keySet: { readonly keys: readonly PublicJwk[] }): PagesByPath {
  // Before it is asked for: what is not there ends the start.
  const openApi = readOwnFile("gen/openapi.json");
  let openApiPage: Page | undefined;
  return new Map([
    ["/.well-known/jwks.json", pageOf(keySet)],
    [
      "/openapi.json",
      {
        methods,
        isPublic: true,
        // Read and written again, which takes out the half of it that is indentation; for the first who asks, since it takes 7 ms.
        answer: (request) => (openApiPage ??= pageOf(JSON.parse(openApi.toString()))).answer(request),
      },
    ],
  ]);
}

const methods: Page["methods"] = ["GET", "HEAD"];

function pageOf(json: unknown): Page {
  const body = Buffer.from(JSON.stringify(json));
  const etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
  const headers = { etag, "cache-control": "public, max-age=300", "access-control-allow-origin": "*" };
  const whole: PageAnswer = { type: "application/json", body, headers };
  const unchanged: PageAnswer = { ...whole, unchanged: true };
  return {
    methods,
    isPublic: true,
    answer: (request) =>
      Promise.resolve({ ok: true, value: knows(request.headers["if-none-match"], etag) ? unchanged : whole }),
  };
}

/**
 * Whether a client says that it has this one already. A weak tag names it too (RFC 9110, 13.1.2). Looked for and not taken
 * apart: a list of 4,000 commas would take 1 ms.
 */
export function knows(ifNoneMatch: string | string[] | undefined, etag: string): boolean {
  return [ifNoneMatch ?? ""].flat().some((header) => header.trim() === "*" || header.includes(etag));
}
