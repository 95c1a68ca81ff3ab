/**
 * The form for everybody, in each of its languages: axe finds nothing, every text stands out, nothing is cut off on a narrow screen,
 * and it moves nothing where nothing is to move.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { builtInTemplates } from "../../src/otp/template/built-in.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { lacks } from "../support/machine.ts";
import { axeFindings } from "../support/pages/axe.ts";
import { faintTexts } from "../support/pages/contrast.ts";
import { startEmbedded, type Embedded } from "../support/pages/embedded.ts";
import { sampled } from "../support/extent.ts";

let embedded: Embedded;

describe.skipIf(lacks("the form", "chromium"))("the form, for everybody,", () => {
  beforeAll(async () => {
    embedded = await startEmbedded();
  });
  afterAll(() => embedded.stop());

  test.each(sampled(builtInTemplates, 4).map(({ locale }) => locale))("in %s", async (locale) => {
    const { world } = embedded;
    world.system.advance(3_600_000);
    const body = `<main><h1>Shop</h1>${embedded.form(`locale="${locale}" channels="sms voice whatsapp"`)}</main>`;
    const visitor = await embedded.open(body);
    const { page } = visitor;
    await page.setViewportSize({ width: 320, height: 640 });
    const expectFine = async () => {
      expect(await axeFindings(page)).toEqual([]);
      expect(await faintTexts(page)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
    };
    await page.locator("#phone").waitFor();
    await expectFine();
    const phone = newPhone();
    await page.locator("#phone").fill(phone);
    await page.locator("#phone").press("Enter");
    await page.locator("#step-code").waitFor();
    const code = world.network.codeFor(phone);
    await page.locator("#code").fill(wrongCode(code));
    await page.locator("#code-error", { hasText: "4" }).waitFor();
    await expectFine();
    const moving = await page.locator("#verify").evaluate((button) => getComputedStyle(button).transitionProperty);
    expect(moving).toBe("none");
    await page.locator("#code").fill(code);
    await page.locator("#step-done").waitFor();
    await expectFine();
    await visitor.leave();
    expect(visitor.misdeeds).toEqual([]);
  });
});
