/**
 * The demo page for everybody: axe finds nothing, edges are seen where the system decides on colours, and on a phone's screen the code
 * that arrives is in view.
 */
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { lacks } from "../support/machine.ts";
import { axeFindings } from "../support/pages/axe.ts";
import { endVisit, messagesToCome, startBrowser, visit, type Visitor } from "../support/pages/browser.ts";
import { startDemo, type DemoServer } from "../support/service/demo.ts";

let demo: DemoServer;
let browser: Browser;
let visitor: Visitor;
let page: Page;

/** Sends a code, and waits until the inbox has it. */
async function send(): Promise<string> {
  const code = (await messagesToCome(page))(0).getByRole("button");
  await page.locator("#phone").fill(newPhone());
  await page.locator("#phone").press("Enter");
  await page.locator("#step-code").waitFor();
  return (await code.textContent()) ?? "";
}

describe.skipIf(lacks("the demo page", "chromium"))("the demo page", () => {
  beforeAll(async () => {
    [browser, demo] = await Promise.all([startBrowser(), startDemo()]);
  });
  afterAll(async () => {
    await browser.close();
    await demo.stop();
  });
  beforeEach(async () => {
    demo.system.advance(3_600_000);
    visitor = await visit(browser, demo.page.replace("127.0.0.1", "localhost"));
    ({ page } = visitor);
  });
  afterEach(() => endVisit(visitor));

  test.each(["light", "dark"] as const)("axe finds nothing at any step, in %s colours", async (colorScheme) => {
    await page.emulateMedia({ colorScheme });
    expect(await axeFindings(page)).toEqual([]);
    const code = await send();
    expect(await axeFindings(page)).toEqual([]);
    await page.locator("#code").fill(wrongCode(code));
    await page.locator("#code-error", { hasText: "4 attempts left" }).waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await page.locator("#code").fill(code);
    await page.locator("#proven").waitFor();
    expect(await axeFindings(page)).toEqual([]);
  });

  test("the messages are a list in a log, the newest first", async () => {
    const codes = [await send()];
    await page.getByRole("button", { name: "Change number" }).press("Enter");
    codes.unshift(await send());
    const log = page.getByRole("log", { name: "Messages" });
    const items = log.getByRole("list").getByRole("listitem");
    const shown = await items.getByRole("button").allTextContents();
    expect(shown.slice(0, 2)).toEqual(codes);
  });

  test("where the system decides on colours every button has an edge, and the field is itself", async () => {
    await page.emulateMedia({ forcedColors: "active" });
    const edge = (id: string) =>
      page.locator(id).evaluate((one) => {
        const { borderTopColor, borderTopWidth, borderTopStyle, backgroundColor } = getComputedStyle(one);
        return { seen: borderTopColor !== backgroundColor, borderTopWidth, borderTopStyle };
      });
    const seen = { seen: true, borderTopWidth: "1px", borderTopStyle: "solid" };
    expect(await edge("#send")).toEqual(seen);
    const code = await send();
    expect([await edge("#verify"), await edge("#code")]).toEqual([seen, seen]);
    expect(await page.locator("#boxes").isVisible()).toBe(false);
    await page.locator("#code").fill(code);
    await page.locator("#again").waitFor();
    expect(await edge("#again")).toEqual(seen);
  });

  test("on 360×740 the code that arrived is in view beside the field for it, without scrolling", async () => {
    await page.setViewportSize({ width: 360, height: 740 });
    const code = await send();
    const boxes = [page.locator("#messages").getByRole("button", { name: code }), page.locator("#code")];
    for (const box of boxes) {
      const { y = 0, height = 9_999 } = (await box.boundingBox()) ?? {};
      expect([y >= 0, Math.max(y + height, 740)]).toEqual([true, 740]);
    }
    expect(await page.evaluate(() => [scrollY, document.documentElement.scrollWidth])).toEqual([0, 360]);
  });
});
