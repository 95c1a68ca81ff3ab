/**
 * A file of ours as a page: plain or as gzip, with an ETag by which a client asks whether it has changed.
 */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { ok } from "../../otp/reason.ts";
import type { PageAnswer } from "../http/response.ts";
import { knows } from "./documents.ts";
import type { Page } from "./pages.ts";

export interface OwnFile {
  readonly type: string;
  readonly body: Buffer;
  /** Beside those that say which of its two forms it is in; `cache-control` is among them. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Makes the page of a file. Both of its forms are in memory once, however many ask. */
export function filePage({ type, body, headers: own }: OwnFile): Page {
  // Weak, since it stands for the plain one and the one as gzip.
  const etag = `W/"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
  const headers = { ...own, etag, vary: "Accept-Encoding" };
  const plain: PageAnswer = { type, body, headers };
  // For the first who asks: all of them would be a hundredth of a start.
  let zipped: PageAnswer | undefined;
  const zip = () => (zipped ??= { type, body: gzipSync(body), headers: { ...headers, "content-encoding": "gzip" } });
  return {
    methods: ["GET", "HEAD"],
    answer({ headers: asked }) {
      if (knows(asked["if-none-match"], etag)) return Promise.resolve(ok({ ...plain, unchanged: true }));
      // Every browser names it as a word; who refuses it in words of quality gets it plain.
      const takesGzip = /(?:^|, ?)gzip(?:,|$)/.test(String(asked["accept-encoding"] ?? ""));
      return Promise.resolve(ok(takesGzip ? zip() : plain));
    },
  };
}
