/**
 * What is remembered of headers, as against strangers who write the key of a page in one way after the other.
 */
import { expect, test } from "vitest";
import { createKnownHeaders } from "../../../src/service/callers/known-headers.ts";

const callers = "bearer  otp_live_caller";
const pages = "Bearer otp_pub_page";

test("a page's key in 160 spellings drives out neither a caller's header nor the page's own", () => {
  const known = createKnownHeaders<string>(8);
  known.remember(callers, "caller", false);
  known.remember(pages, "page", true);
  for (const scheme of ["bearer", "BEARER", "bEARER", "Bearer"]) {
    for (let tabs = 1; tabs <= 40; tabs += 1) known.remember(`${scheme}${"\t".repeat(tabs)}otp_pub_page`, "page", true);
  }
  expect([known.get(callers), known.get(pages)]).toEqual(["caller", "page"]);
});

test("nor do the keys of as many pages as there is room for drive out a caller's", () => {
  const known = createKnownHeaders<string>(8);
  known.remember(callers, "caller", false);
  for (let page = 0; page < 9; page += 1) known.remember(`${pages}${page}`, `page ${page}`, true);
  expect([known.get(callers), known.get(`${pages}0`), known.get(`${pages}8`)]).toEqual(["caller", undefined, "page 8"]);
});

test("of callers' headers the oldest goes, and one that is too long is not kept", () => {
  const known = createKnownHeaders<number>(8);
  for (let i = 0; i < 9; i += 1) known.remember(`Bearer otp_live_${i}`, i, false);
  known.remember(`Bearer ${" ".repeat(128)}otp_live_long`, 9, false);
  expect([0, 1, 8].map((i) => known.get(`Bearer otp_live_${i}`))).toEqual([undefined, 1, 8]);
  expect(known.get(`Bearer ${" ".repeat(128)}otp_live_long`)).toBeUndefined();
});
