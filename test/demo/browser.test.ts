/**
 * The demo page in a real browser, by keyboard: what a person sees, what a screen reader is told, and where the focus is.
 */
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { endVisit, focused, messagesToCome, startBrowser, visit, type Visitor } from "../support/pages/browser.ts";
import { lacks } from "../support/machine.ts";
import { faintTexts } from "../support/pages/contrast.ts";
import { startDemo, type DemoServer } from "../support/service/demo.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";

type Sms = PromiseWithResolvers<{ code: string }>;
interface Asked {
  readonly otp: unknown;
  readonly signal: AbortSignal;
}

let demo: DemoServer;
/** Eight digits, and two attempts. */
let strict: DemoServer;
let browser: Browser;
let visitor: Visitor;
let page: Page;

const url = () => demo.page.replace("127.0.0.1", "localhost");

/** Sends a code to a number by keyboard alone, and returns the code that the inbox shows. */
async function sendTo(phone: string): Promise<string> {
  const message = await messagesToCome(page);
  await page.keyboard.type(phone);
  await page.keyboard.press("Enter");
  await page.locator("#step-code").waitFor();
  return codeIn(message(0));
}

async function codeIn(message: Locator): Promise<string> {
  return (await message.getByRole("button").textContent()) ?? "";
}

function expectError(field: "phone" | "code", sentence: string | RegExp): Promise<void> {
  return page.locator(`#${field}-error`, { hasText: sentence }).waitFor();
}

/** What a screen reader was told, up to the last of these, is these. */
async function expectAnnounced(sentences: string[]): Promise<void> {
  await expect.poll(() => visitor.announced()).toContain(sentences.at(-1));
  expect(await visitor.announced()).toEqual(sentences);
}

const expectProven = () => page.getByRole("heading", { name: "This number is proven" }).waitFor();

describe.skipIf(lacks("the demo page", "chromium"))("the demo page", () => {
  beforeAll(async () => {
    [browser, demo, strict] = await Promise.all([
      startBrowser(),
      startDemo({ OTP_PHONE_LIMITS: "3@10m" }),
      startDemo({ OTP_CODE_LENGTH: "8", OTP_MAX_ATTEMPTS: "2" }),
    ]);
  });
  afterAll(async () => {
    await browser.close();
    await Promise.all([demo.stop(), strict.stop()]);
  });
  beforeEach(async () => {
    // Enough for the limits of an address, from which all of these pages come.
    for (const server of [demo, strict]) server.system.advance(3_600_000);
    visitor = await visit(browser, url(), { clipboard: true });
    ({ page } = visitor);
  });
  afterEach(() => endVisit(visitor));

  test("takes a person from number to proof by keyboard alone", async () => {
    await expect.poll(() => focused(page)).toBe("#phone");
    const phone = newPhone();
    const message = (await messagesToCome(page))(0);
    const code = await sendTo(phone);
    await expect.poll(() => focused(page)).toBe("#code");
    expect(await message.textContent()).toContain(`To ${phone.slice(0, 3)}•••••••${phone.slice(-2)}`);
    // The page is at localhost, to which a code can be bound.
    expect(await message.textContent()).toContain(`@localhost #${code}`);

    await page.keyboard.type(wrongCode(code));
    await expectError("code", "That is not the code. 4 attempts left.");
    await expect.poll(() => focused(page)).toBe("#code");
    expect(await page.locator("#code").inputValue()).toBe("");
    await page.keyboard.type(code);
    await expectProven();
    await expect.poll(() => focused(page)).toBe("This number is proven");
    const masked = `${phone.slice(0, 3)}•••••••${phone.slice(-2)}`;
    expect(await page.locator("#proven").textContent()).toBe(masked);
    const claims = await page.locator("#claims > *").allTextContents();
    expect([claims[claims.indexOf("aud") + 1], claims[claims.indexOf("phone") + 1]]).toEqual(["default", masked]);
    for (const shown of [page.locator("body"), page.locator("#step-done")]) {
      expect(await shown.innerText()).not.toContain(phone.slice(3));
    }

    // A form that is reset says nothing that was still to be said.
    await expectAnnounced([
      "Code sent. Enter its 6 digits.",
      "That is not the code. 4 attempts left.",
      "The code was right. This number is proven.",
    ]);

    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await expect.poll(() => focused(page)).toBe("#phone");
    expect(await page.locator("#phone").inputValue()).toBe("");
  });

  test("asks once for a full code, and takes a pasted one with what stands around it", async () => {
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    const code = await sendTo(newPhone());
    const pasted = ` ${code.slice(0, 3)}-${code.slice(3)} `;
    await page.evaluate((text) => navigator.clipboard.writeText(text), pasted);
    const isPressed = Promise.withResolvers<void>();
    await page.route("**/v1/otp/verify", async (route) => {
      await isPressed.promise;
      await route.continue();
    });
    await page.keyboard.press("Control+V");
    await page.keyboard.press("Enter");
    isPressed.resolve();
    await expectProven();
    expect(asked.filter((path) => path.endsWith("/v1/otp/verify"))).toHaveLength(1);
  });

  test("takes the code out of whatever a browser fills in", async () => {
    const code = await sendTo(newPhone());
    await page.route("**/v1/otp/verify", () => {});
    const cases = [
      [code, code],
      [`Your code is ${code}. It expires in 10 minutes.`, code],
      [`12${code}`, `12${code.slice(0, 4)}`],
      [`${code.slice(0, 3)} ${code.slice(3)}`, code],
      ["a1b2", "12"],
    ];
    for (const [filled, shown] of cases) {
      await page.locator("#code").evaluate((input: HTMLInputElement, text) => {
        input.value = text;
        input.dispatchEvent(new Event("input", { bubbles: true }));
      }, filled ?? "");
      expect(await page.locator("#boxes").textContent()).toBe(shown);
    }
  });

  test("fills in a code that is clicked in the inbox", async () => {
    const message = await messagesToCome(page);
    await sendTo(newPhone());
    await message(0).getByRole("button").press("Enter");
    await expectProven();
  });

  test("has as many boxes as the code has digits, and ends with the last attempt", async () => {
    await visitor.leave();
    visitor = await visit(browser, strict.page);
    ({ page } = visitor);
    const message = await messagesToCome(page);
    const code = await sendTo(newPhone());
    expect(await page.locator("#boxes > span").count()).toBe(8);
    const field = page.getByRole("textbox", { name: "Code" });
    expect(await field.evaluate((input: HTMLInputElement) => [input.maxLength, input.pattern])).toEqual([
      8,
      "[0-9]{8}",
    ]);
    expect(code).toHaveLength(8);
    await page.keyboard.type(wrongCode(code));
    await expectError("code", "That is not the code. 1 attempt left.");
    await page.keyboard.type(wrongCode(code));
    await expectError("code", "That is not the code either, and it was the last attempt. Send a new one.");
    await expect.poll(() => focused(page)).toBe("Send a new code");
    await page.keyboard.press("Enter");
    await page.locator("#code:focus").waitFor();
    await page.keyboard.type(await codeIn(message(1)));
    await expectProven();
  });

  test("counts down to the next resend, and sends the same code again", async () => {
    const message = await messagesToCome(page);
    await visitor.standStill();
    await page.keyboard.type(`${newPhone()}\n`);
    const resend = page.getByRole("button", { name: "Send again" });
    await page.locator("#step-code").waitFor();
    expect(await page.locator("#waits").innerText()).toMatch(/^Send again in 0:30\s+Expires/);
    expect(await resend.getAttribute("aria-disabled")).toBe("true");
    await resend.press("Enter");

    await page.clock.runFor(30_000);
    expect(await page.locator("#waits").innerText()).toMatch(/^Send again\s+Expires/);
    expect(await page.locator("#expiry").textContent()).toBe("9:30");
    // To the server no time has passed.
    await resend.press("Enter");
    await expectError("code", /^It is too soon to send it again. Try again in 30 seconds.$/);
    await page.locator("#resend-due", { hasText: "in 0:30" }).waitFor();

    demo.system.advance(30_000);
    await page.clock.runFor(30_000);
    await resend.press("Enter");
    await page.clock.resume();
    expect(await codeIn(message(1))).toBe(await codeIn(message(0)));
    await page.locator("#resends-left", { hasText: "1 left" }).waitFor();
    await expect.poll(() => focused(page)).toBe("#code");
    // Each second of the countdowns passed in silence.
    await expectAnnounced([
      "Code sent. Enter its 6 digits.",
      "You can have the code sent again now.",
      "It is too soon to send it again. Try again in 30 seconds.",
      "You can have the code sent again now.",
      "The same code was sent again.",
    ]);
  });

  test("says when it is too late for a resend, when the code has expired, and sends a new one", async () => {
    await visitor.standStill();
    await page.keyboard.type(`${newPhone()}\n`);
    await page.locator("#step-code").waitFor();
    await page.clock.runFor(538_000);
    await page.getByRole("button", { name: "Send again" }).focus();
    await page.clock.runFor(2_000);
    expect(await page.locator("#waits").innerText()).toMatch(/^It cannot be sent again.\s+Expires in 1:00/);
    await expect.poll(() => focused(page)).toBe("#code");
    await page.clock.fastForward(61_000);
    await expectError("code", "This code has expired. Send a new one.");
    expect(await page.locator("#code").isDisabled()).toBe(true);
    await expect.poll(() => focused(page)).toBe("Send a new code");
    await page.keyboard.press("Enter");
    await page.locator("#code:focus").waitFor();
  });

  test("learns what happened while nobody looked", async () => {
    await sendTo(newPhone());
    demo.system.advance(600_000);
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await expectError("code", "This code has expired. Send a new one.");
  });

  test("cancels the request when the number is changed", async () => {
    const canceled = page.waitForResponse(/\/v1\/otp\/cancel$/);
    await sendTo(newPhone());
    await page.keyboard.press("Shift+Tab");
    await expect.poll(() => focused(page)).toBe("Change number");
    await page.keyboard.press("Enter");
    expect(await (await canceled).json()).toMatchObject({ state: "STATE_CANCELED" });
    await expect.poll(() => focused(page)).toBe("#phone");
  });

  test("takes a code that the browser read from the SMS, and stops reading once one is asked about", async () => {
    await page.addInitScript(() => {
      const sms = Promise.withResolvers<{ code: string }>();
      const asked: CredentialRequestOptions[] = [];
      Object.assign(globalThis, { OTPCredential: true, sms, asked });
      navigator.credentials.get = (options) => {
        asked.push(options ?? {});
        return sms.promise as never;
      };
    });
    await page.goto(url());
    const code = await sendTo(newPhone());
    await page.evaluate((read) => (globalThis as unknown as { sms: Sms }).sms.resolve({ code: read }), code);
    await expectProven();
    const asked = await page.evaluate(() =>
      (globalThis as unknown as { asked: Asked[] }).asked.map(({ otp, signal }) => [otp, signal.aborted]),
    );
    expect(asked).toEqual([[{ transport: ["sms"] }, true]]);
  });

  describe("can be used by everybody", () => {
    test("every part has its role and its name", async () => {
      const form = page.getByRole("main");
      const lines = (await form.ariaSnapshot()).split("\n").filter((line) => !line.includes("- option "));
      expect(lines).toEqual([
        "- main:",
        '  - heading "Verify a phone number" [level=1]',
        '  - list "Steps":',
        ...["Number", "Code", "Done"].map((step) => `    - listitem: ${step}`),
        '  - region "Number":',
        "    - text: Phone number",
        '    - combobox "Country":',
        '    - textbox "Phone number"',
        "    - paragraph: A number of this country, or one with its country code, such as +14155552671.",
        "    - paragraph",
        '    - button "Send code"',
        "  - status",
      ]);
      expect(await page.locator("[aria-current=step]").textContent()).toBe("Number");
      const field = page.getByRole("textbox", { name: "Phone number" });
      expect(await field.evaluate((input: HTMLInputElement) => [input.type, input.autocomplete])).toEqual([
        "tel",
        "tel",
      ]);
      await sendTo(newPhone());
      const snapshot = await form.ariaSnapshot();
      expect(snapshot).toContain('- textbox "Code"');
      // The boxes are for the eye; the field is there once.
      expect(snapshot.match(/textbox/g)).toHaveLength(1);
      expect(await page.locator("[aria-current=step]").textContent()).toBe("Code");
      const code = page.getByRole("textbox", { name: "Code" });
      expect(
        await code.evaluate((input: HTMLInputElement) => [input.inputMode, input.autocomplete, input.ariaInvalid]),
      ).toEqual(["numeric", "one-time-code", null]);
      const roles = await page.locator("[role]").evaluateAll((all) => all.map((one) => `${one.role} ${one.id}`));
      expect(roles).toEqual(["log log", "timer expiry", "status announcer"]);
    });

    test("the keyboard goes through it in the order in which it is read", async () => {
      await sendTo(newPhone());
      await page.keyboard.press("Shift+Tab");
      const order: string[] = [];
      for (const _ of Array.from({ length: 4 })) {
        order.push(await focused(page));
        await page.keyboard.press("Tab");
      }
      expect(order).toEqual(["Change number", "#code", "Verify", "Send again"]);
      await expect.poll(() => focused(page)).toMatch(/^\d{6}$/);
    });

    test.each(["light", "dark"] as const)("all text stands out from its ground, in %s colours", async (colorScheme) => {
      await page.emulateMedia({ colorScheme });
      const code = await sendTo(newPhone());
      expect(await faintTexts(page)).toEqual([]);
      await page.keyboard.type(wrongCode(code));
      await expectError("code", "4 attempts left");
      expect(await faintTexts(page)).toEqual([]);
      await page.keyboard.type(code);
      await expectProven();
      expect(await faintTexts(page)).toEqual([]);
    });

    test("a narrow screen shows it in one column, with nothing cut off", async () => {
      await page.setViewportSize({ width: 320, height: 640 });
      await sendTo(newPhone());
      const [form, phone] = [await page.getByRole("main").boundingBox(), await page.locator("aside").boundingBox()];
      expect(phone?.y).toBeGreaterThan((form?.y ?? 0) + (form?.height ?? 0));
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
    });
  });

  describe("says why in a sentence", () => {
    test("at the number", async () => {
      const limited = newPhone();
      for (let i = 0; i < 3; i++) await demo.call("SendOtp", { phone: limited });
      const cases: [phone: string, sentence: string][] = [
        ["", "Give a phone number."],
        ["12", "That is not a phone number we know. Give it with its country code, such as +14155552671."],
        ["+31201234567", "That number gets no text messages. Give a mobile number."],
        [limited, "This number got many messages already. Try again in about 10 minutes."],
      ];
      for (const [phone, sentence] of cases) {
        await page.locator("#phone").fill(phone);
        await page.keyboard.press("Enter");
        await expectError("phone", sentence);
        await expect.poll(() => focused(page)).toBe("#phone");
        expect(await page.locator("#phone").getAttribute("aria-invalid")).toBe("true");
      }
      const field = page.getByRole("textbox", { name: "Phone number", description: cases[3]?.[1] as string });
      expect(await field.count()).toBe(1);
      await expectAnnounced(cases.map(([, sentence]) => sentence));
    });

    test("at the code, with too few digits", async () => {
      await sendTo(newPhone());
      await page.keyboard.type("12 ab-3\n");
      await expectError("code", "The code has 6 digits.");
      expect(await page.locator("#code").inputValue()).toBe("123");
    });

    test("when the server cannot be reached, and a lost answer costs nothing", async () => {
      const code = await sendTo(newPhone());
      await page.route("**/v1/otp/verify", async (route) => {
        await route.fetch();
        await route.abort("connectionreset");
      });
      await page.keyboard.type(code);
      await expectError("code", "The server cannot be reached. Check your connection, and try again.");
      expect(await page.locator("#code").getAttribute("aria-invalid")).toBeNull();
      await page.unroute("**/v1/otp/verify");
      await page.keyboard.press("Enter");
      await expectProven();
    });

    test("when no answer comes in time", async () => {
      const isAsked = Promise.withResolvers<void>();
      await page.route("**/v1/otp/send", () => isAsked.resolve());
      await page.keyboard.type(newPhone());
      await page.keyboard.press("Enter");
      await isAsked.promise;
      await page.clock.runFor(20_000);
      await expectError("phone", "The server took too long. Try again; it will not count twice.");
    });

    test("when it gives a reason that the page does not know", async () => {
      await page.route("**/v1/otp/send", (route) =>
        route.fulfill({ status: 400, json: { code: "failed_precondition", message: "from the future" } }),
      );
      await page.keyboard.type(newPhone());
      await page.keyboard.press("Enter");
      await expectError("phone", "That did not work, and the server did not say why. Try again in a moment.");
    });
  });
});
