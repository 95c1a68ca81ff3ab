/**
 * The form where things are strange: words that are markup elsewhere, a web page without storage, a key that is not for it.
 */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { lacks } from "../support/machine.ts";
import { newPhone } from "../support/data/phones.ts";
import { endVisit, type VisitOptions, type Visitor } from "../support/pages/browser.ts";
import { startEmbedded, toldOn, type Embedded } from "../support/pages/embedded.ts";
import type { World } from "../support/service/world.ts";

let embedded: Embedded;
let world: World;
let visitor: Visitor | undefined;
let page: Page;

const form = (attributes = "") => embedded.form(attributes);
const told = () => toldOn(page);
const codeOf = (phone: string) => world.network.codeFor(phone);
const expectError = (field: "phone" | "code", sentence: string | RegExp) =>
  page.locator(`#${field}-error`, { hasText: sentence }).waitFor();
const expectProven = () => page.getByRole("heading", { name: "This number is proven" }).waitFor();

/** Opens a page with this body. */
async function open(body: string, options: VisitOptions = {}): Promise<void> {
  await visitor?.leave();
  visitor = await embedded.open(body, options);
  ({ page } = visitor);
}

async function sendTo(phone: string): Promise<string> {
  await page.locator("#phone").fill(phone);
  await page.locator("#phone").press("Enter");
  await page.locator("#step-code").waitFor();
  return codeOf(phone);
}

describe.skipIf(lacks("the form", "chromium"))("the form, where things are strange,", () => {
  beforeAll(async () => {
    embedded = await startEmbedded();
    ({ world } = embedded);
  });
  afterAll(() => embedded.stop());
  beforeEach(async () => {
    // Enough for the limits of an address, from which all of these pages come.
    world.system.advance(3_600_000);
    visitor = undefined;
    await open(form());
  });
  afterEach(() => endVisit(visitor));

  describe("strange words are text", () => {
    const strange = `"><img src=x onerror="throw Error('run')"><script>throw Error('run')</script>$&{n}`;
    const attribute = strange.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");

    test("from attributes", async () => {
      const names = ["phone", "locale", "purpose", "channels", "id"];
      await open(form(names.map((name) => `${name}="${attribute}"`).join(" ")));
      expect(await page.locator("#given").textContent()).toBe(`The code goes to ${strange}.`);
      await page.getByRole("button", { name: "Send code" }).press("Enter");
      await expectError("phone", /\.$/);
      expect(await page.locator("img, otp-form script").count()).toBe(0);
    });

    test("from the server", async () => {
      const said = {
        request_id: strange,
        state: "STATE_PENDING",
        phone: strange,
        code_length: strange,
        expires_in_seconds: strange,
        resend_in_seconds: strange,
        resends_remaining: strange,
        receipt: strange,
      };
      const headers = { "access-control-allow-origin": "*", "access-control-allow-headers": "*, authorization" };
      await page.route(/\/v1\/otp\/send$/, (route) =>
        route.fulfill({ json: { ...said, expires_in_seconds: 600 }, headers }),
      );
      await page.route(/GetOtp$/, (route) => route.fulfill({ json: { ...said, expires_in_seconds: 600 }, headers }));
      await page.locator("#phone").fill("+14155552671");
      await page.locator("#phone").press("Enter");
      await page.locator("#step-code").waitFor();
      const looked = page.waitForResponse(/GetOtp$/);
      await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
      await looked;
      await page.locator("#code-phone", { hasText: "onerror" }).waitFor();
      expect(await page.locator("#code-phone").textContent()).toBe(strange);
      const refusal = { reason: strange, message: strange, attempts_remaining: strange, retry_after_seconds: strange };
      await page.route(/\/v1\/otp\/verify$/, (route) => route.fulfill({ status: 400, json: refusal, headers }));
      await page.locator("#code").fill("123456");
      await expectError("code", "That did not work, and the server did not say why. Try again in a moment.");
      expect((await told()).at(-1)).toEqual({ type: "refused", detail: { reason: strange } });
      expect(await page.locator("img, otp-form script").count()).toBe(0);
    });

    test.each(["null", "[]", '"text"', "<html>", ""])("also an answer that is %j", async (body) => {
      const headers = { "access-control-allow-origin": "*" };
      await page.route(/\/v1\/otp\/send$/, (route) => route.fulfill({ status: 502, body, headers }));
      await page.locator("#phone").fill("+14155552671");
      await page.locator("#phone").press("Enter");
      await expectError("phone", "That did not work, and the server did not say why. Try again in a moment.");
    });
  });

  test("a page in a sandbox has no storage, and the form works without", async () => {
    await open(form(), {
      before: () => {
        Object.assign(globalThis, { told: [] });
        Object.defineProperty(globalThis, "sessionStorage", {
          get() {
            throw new DOMException("denied", "SecurityError");
          },
        });
      },
    });
    await page.locator("#code").waitFor({ state: "attached" });
    const code = await sendTo(newPhone());
    await page.keyboard.type(code);
    await expectProven();
  });

  test("a key that is not for this page is refused in a sentence", async () => {
    const { text } = await world.makeKey({ kind: "pub", scopes: ["send"], origins: ["https://other.example"] });
    await open(`<otp-form server="${world.url}" key="${text}"></otp-form>`);
    await page.locator("#phone").fill(newPhone());
    await page.locator("#phone").press("Enter");
    await expectError("phone", "This page may not do that.");
    expect(await told()).toEqual([{ type: "refused", detail: { reason: "ORIGIN_NOT_ALLOWED" } }]);
  });
});
