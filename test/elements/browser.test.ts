/**
 * The form in a web page of another site, in a real browser: strict about what it loads, isolated, with nothing of ours but the
 * form's file by its hash.
 */
import type { Page, Route } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { lacks } from "../support/machine.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { endVisit, focused, type VisitOptions, type Visitor } from "../support/pages/browser.ts";
import { startEmbedded, toldOn, type Embedded } from "../support/pages/embedded.ts";
import type { Shop } from "../support/pages/shop.ts";
import { readDocument } from "../support/readers/document.ts";
import type { PhoneNetwork, World } from "../support/service/world.ts";

let embedded: Embedded;
let world: World;
let shop: Shop;
let callers: PhoneNetwork;
let key = "";
let visitor: Visitor | undefined;
let page: Page;

const form = (attributes = "") => embedded.form(attributes);
const told = () => toldOn(page);
const kept = () => page.evaluate(() => JSON.stringify({ ...sessionStorage }));
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

describe.skipIf(lacks("the form", "chromium"))("the form", () => {
  beforeAll(async () => {
    embedded = await startEmbedded();
    ({ world, shop, callers, key } = embedded);
  });
  afterAll(() => embedded.stop());
  beforeEach(async () => {
    // Enough for the limits of an address, from which all of these pages come.
    world.system.advance(3_600_000);
    visitor = undefined;
    await open(form());
  });
  afterEach(() => endVisit(visitor));

  test("takes a person from a number of the country to a receipt, past a wrong code", async () => {
    await page.locator("#country").selectOption("NL");
    await page.locator("#phone").fill("06 12345678");
    await page.locator("#phone").press("Enter");
    await page.locator("#step-code").waitFor();
    const code = codeOf("+31612345678");
    expect(await page.locator("#boxes > span").count()).toBe(6);
    await expect.poll(() => focused(page)).toBe("#code");
    await page.keyboard.type(wrongCode(code));
    await expectError("code", "That is not the code. 4 attempts left.");
    await page.keyboard.type(code);
    await expectProven();
    await expect.poll(() => focused(page)).toBe("This number is proven");
    const [sent, refused, verified, ...more] = await told();
    expect([sent, refused, more]).toEqual([
      { type: "sent", detail: { requestId: expect.stringMatching(/^[\w-]{22}$/) as string, codeLength: 6 } },
      { type: "refused", detail: { reason: "CODE_MISMATCH", attemptsRemaining: 4 } },
      [],
    ]);
    expect(verified?.detail).toEqual({
      receipt: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/) as string,
      requestId: sent?.detail["requestId"],
      phone: "+31•••••••78",
    });
    expect(await kept()).toBe("{}");
    await page.locator("#announcer", { hasText: "The code was right" }).waitFor({ state: "attached" });
    await expect
      .poll(() => visitor?.announced())
      .toEqual([
        "Code sent. Enter its 6 digits.",
        "That is not the code. 4 attempts left.",
        "The code was right. This number is proven.",
      ]);
  });

  test("a number with its country code shows its country", async () => {
    expect(await page.locator("#country").inputValue()).toBe("GB");
    const before = page.locator("#calling-code");
    expect([await before.textContent(), await before.isVisible()]).toEqual(["+44", true]);
    await page.locator("#country").selectOption("NL");
    expect(await before.textContent()).toBe("+31");
    await page.locator("#phone").fill("+351 912");
    expect([await page.locator("#country").inputValue(), await before.isVisible()]).toEqual(["PT", false]);
    await page.locator("#phone").fill("+44 7");
    await page.locator("#country").selectOption("JE");
    await page.locator("#phone").fill("+44 77");
    expect(await page.locator("#country").inputValue()).toBe("JE");
  });

  test("a reload keeps the pending request, and nothing of the phone is kept", async () => {
    const phone = newPhone();
    const code = await sendTo(phone);
    const stored = await kept();
    expect(stored).toMatch(/^\{"otp-form [^"]*":"[\w-]{22} 6"\}$/);
    expect(stored).not.toContain(phone.slice(-4));
    await page.reload();
    await page.locator("#code-phone", { hasText: `${phone.slice(0, 3)}•••••••${phone.slice(-2)}` }).waitFor();
    expect(await page.locator("#waits").innerText()).toMatch(/^Send again in 0:30\s+Expires in (10:00|9:\d\d)/);
    // Nobody is sent to a form that they did not ask for.
    expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("BODY");
    expect(await told()).toEqual([]);
    await page.locator("#code").fill(code);
    await expectProven();
    expect((await told()).map(({ type }) => type)).toEqual(["verified"]);
    await page.reload();
    await page.locator("#step-phone").waitFor();
  });

  test("a reload while the server is away keeps it too", async () => {
    const code = await sendTo(newPhone());
    await page.route("**/GetOtp", (route) => route.abort());
    const asked = page.waitForEvent("requestfailed");
    await page.reload();
    await asked;
    expect(await page.locator("#step-code").innerText()).toContain("We sent 6 digits.");
    await page.locator("#code").fill(code);
    await expectProven();
  });

  test("what leaves the page, or is taken out of it, cancels nothing; another number and reset() do", async () => {
    const canceled: string[] = [];
    page.on("request", (request) => {
      if (request.url().endsWith("/v1/otp/cancel")) canceled.push(request.postData() ?? "");
    });
    await sendTo(newPhone());
    await page.evaluate(() => {
      const one = document.querySelector("otp-form") as HTMLElement;
      one.remove();
      document.body.append(one);
    });
    await page.locator("#code-phone").waitFor();
    expect(canceled).toEqual([]);
    const [first] = await told();
    const answered = page.waitForResponse(/\/v1\/otp\/cancel$/);
    await page.getByRole("button", { name: "Change number" }).press("Enter");
    expect(await (await answered).json()).toMatchObject({ state: "STATE_CANCELED" });
    await expect.poll(() => focused(page)).toBe("#phone");
    expect(await kept()).toBe("{}");

    await sendTo(newPhone());
    const again = page.waitForResponse(/\/v1\/otp\/cancel$/);
    await page.evaluate(() => (document.querySelector("otp-form") as HTMLElement & { reset(): void }).reset());
    expect(await (await again).json()).toMatchObject({ state: "STATE_CANCELED" });
    await page.locator("#step-phone").waitFor();
    expect([await page.locator("#phone").inputValue(), await kept(), canceled.length]).toEqual(["", "{}", 2]);
    expect(await page.locator("#announcer").textContent()).toBe("");
    expect(await page.locator("#calling-code").isVisible()).toBe(true);
    expect(canceled[0]).toContain(String(first?.detail["requestId"]));
  });

  test("says that a code has expired, and sends a new one", async () => {
    await sendTo(newPhone());
    await page.clock.fastForward(601_000);
    await expectError("code", "This code has expired. Send a new one.");
    expect((await told()).map(({ type }) => type)).toEqual(["sent", "expired"]);
    await expect.poll(() => focused(page)).toBe("Send a new code");
    await page.keyboard.press("Enter");
    await page.locator("#code:focus").waitFor();
    expect((await told()).map(({ type }) => type)).toEqual(["sent", "expired", "sent"]);
  });

  test("sends again, and calls instead where that is on", async () => {
    await open(form('channels="sms voice"'));
    const phone = newPhone();
    const code = await sendTo(phone);
    await page.locator("#resend-due", { hasText: "in 0:30" }).waitFor();
    const ways = page.getByRole("button", { name: /Send again|Call me instead|WhatsApp/ });
    expect(await ways.allTextContents()).toEqual(["Send again", "Call me instead"]);
    world.system.advance(30_000);
    await page.clock.runFor(31_000);
    await page.getByRole("button", { name: "Call me instead" }).press("Enter");
    await page.locator("#resends-left", { hasText: "1 left" }).waitFor();
    expect(callers.received.findLast(({ to }) => to === phone)?.code).toBe(code);
    await expect.poll(() => focused(page)).toBe("#code");
    await page.keyboard.type(code);
    await expectProven();
  });

  test("what its page names is what is asked for, and what is verified", async () => {
    const phone = newPhone();
    await open(form(`phone="${phone}" purpose="pay" locale="nl-BE"`));
    expect(await page.locator("#phone").isVisible()).toBe(false);
    expect(await page.locator("#given").textContent()).toBe(`De code gaat naar ${phone}.`);
    expect(await page.locator("#step-phone").getAttribute("lang")).toBe("nl");
    const sending = page.waitForRequest(/\/v1\/otp\/send$/);
    await page.getByRole("button", { name: "Code versturen" }).press("Enter");
    expect((await sending).postDataJSON()).toEqual({
      phone,
      purpose: "pay",
      locale: "nl-BE",
      web_origin: shop.origin,
    });
    await page.locator("#step-code").waitFor();
    expect(world.network.received.findLast(({ to }) => to === phone)?.text).toContain("is je verificatiecode");
    expect(await page.getByRole("button", { name: "Ander nummer" }).isVisible()).toBe(false);
    await page.locator("#code").fill(codeOf(phone));
    await page.getByRole("heading", { name: "Dit nummer is bevestigd" }).waitFor();
  });

  test("the request of another number than the page's is not shown to whoever comes next", async () => {
    await open(form(`phone="+31612345678"`));
    await page.getByRole("button", { name: "Send code" }).press("Enter");
    await page.locator("#step-code").waitFor();
    await page.evaluate(() => document.querySelector("otp-form")?.setAttribute("phone", "+31612345699"));
    const looked = page.waitForResponse(/GetOtp$/);
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await looked;
    await page.locator("#given", { hasText: "+31612345699" }).waitFor();
    expect([await page.locator("#step-code").isVisible(), await kept()]).toEqual([false, "{}"]);
  });

  test("a code that the browser reads from the SMS is taken, and reading ends with it", async () => {
    await open(form(), {
      before: () => {
        const sms = Promise.withResolvers<{ code: string }>();
        const asked: CredentialRequestOptions[] = [];
        Object.assign(globalThis, { OTPCredential: true, sms, asked, told: [] });
        navigator.credentials.get = (options) => {
          asked.push(options ?? {});
          return sms.promise as never;
        };
      },
    });
    const phone = newPhone();
    const code = await sendTo(phone);
    expect(world.network.received.findLast(({ to }) => to === phone)?.text).toContain(`@localhost #${code}`);
    type Kept = { sms: PromiseWithResolvers<{ code: string }>; asked: CredentialRequestOptions[] };
    await page.evaluate((read) => (globalThis as unknown as Kept).sms.resolve({ code: read }), code);
    await expectProven();
    const asked = await page.evaluate(() =>
      (globalThis as unknown as Kept).asked.map((options) => [
        (options as { otp?: unknown }).otp,
        options.signal?.aborted,
      ]),
    );
    expect(asked).toEqual([[{ transport: ["sms"] }, true]]);
  });

  test("the token of a bot check goes with the send, and without one nothing is sent", async () => {
    const widget = '<div slot="bot-check"><input type="hidden" name="cf-turnstile-response" value="" /></div>';
    await open(`<otp-form server="${world.url}" key="${key}">${widget}</otp-form>`);
    const asked: unknown[] = [];
    page.on("request", (request) => {
      if (request.url().endsWith("/v1/otp/send") && request.method() === "POST") asked.push(request.postDataJSON());
    });
    await page.locator("#phone").fill(newPhone());
    await page.locator("#phone").press("Enter");
    await expectError("phone", "The bot check is not passed. Complete it, and try again.");
    expect(asked).toEqual([]);
    await page.locator("[name=cf-turnstile-response]").evaluate((input: HTMLInputElement) => (input.value = "token"));
    await page.locator("#phone").press("Enter");
    await page.locator("#step-code").waitFor();
    expect(asked).toEqual([expect.objectContaining({ challenge_token: "token" })]);
    // A new code needs a new token, which is asked for beside the number.
    await page.clock.fastForward(601_000);
    await page.getByRole("button", { name: "Send a new code" }).press("Enter");
    await expect.poll(() => focused(page)).toBe("#phone");
  });

  test.each([
    [504, "DEADLINE"],
    [503, "STORE_UNAVAILABLE"],
  ])("a verify that came to %i %s though it was done has its receipt at the next try", async (status, reason) => {
    const code = await sendTo(newPhone());
    await page.route(
      "**/v1/otp/verify",
      async (route) => {
        const answer = await route.fetch();
        expect(answer.status()).toBe(200);
        await route.fulfill({ response: answer, status, json: { code: "unavailable", reason, message: "lost" } });
      },
      { times: 1 },
    );
    await page.keyboard.type(code);
    await expect.poll(async () => (await told()).at(-1)?.detail).toMatchObject({ reason });
    await page.locator("#code").press("Enter");
    await expectProven();
    expect((await told()).at(-1)?.detail["receipt"]).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/);
  });

  test("a send that is answered at the second try shows the time that its code still has", async () => {
    const phone = newPhone();
    const lost = async (route: Route) => {
      const response = await route.fetch();
      expect(response.status()).toBe(200);
      const json = { code: "unavailable", reason: "STORE_UNAVAILABLE", message: "lost" };
      await route.fulfill({ response, status: 503, json });
    };
    await page.route("**/v1/otp/send", lost, { times: 1 });
    await page.locator("#phone").fill(phone);
    await page.locator("#phone").press("Enter");
    await expectError("phone", /./);
    world.system.advance(180_000);
    await page.locator("#phone").press("Enter");
    await page.locator("#waits", { hasText: /Expires in (7:00|6:\d\d)/ }).waitFor();
    await page.keyboard.type(codeOf(phone));
    await expectProven();
  });

  test("the page has its own words, looks and end", async () => {
    const words = '<span slot="send">Text me</span><p slot="done" id="thanks">Thank you</p>';
    await open(`<otp-form server="${world.url}" api-key="${key}">${words}</otp-form>`);
    const send = page.getByRole("button", { name: "Text me" });
    const background = () => send.evaluate((one) => getComputedStyle(one).backgroundColor);
    expect(await background()).toBe("rgb(11, 92, 173)");
    await page.evaluate(() =>
      document.querySelector<HTMLElement>("otp-form")?.style.setProperty("--otp-accent", "rgb(1, 2, 3)"),
    );
    expect(await background()).toBe("rgb(1, 2, 3)");
    const code = await sendTo(newPhone());
    expect(await page.locator("#thanks").isVisible()).toBe(false);
    await page.locator("#code").fill(code);
    await page.locator("#thanks").waitFor();
  });

  test("docs/browsers.md lists all of its properties, parts and slots", async () => {
    const { text } = readDocument("docs/browsers.md");
    const listed = (from: string, to: string) => {
      const part = text.slice(text.indexOf(from), text.indexOf(to, text.indexOf(from)));
      return [...part.matchAll(/`([a-z-]+)`/g)].map(([, name = ""]) => name);
    };
    await sendTo(newPhone());
    const there = await page.locator("otp-form").evaluate(({ shadowRoot }) => {
      const all = [...(shadowRoot?.querySelectorAll("*") ?? [])];
      const sheet = [...(shadowRoot?.adoptedStyleSheets[0]?.cssRules ?? [])].map(({ cssText }) => cssText).join("");
      return {
        parts: all.flatMap((one) => [...one.part]),
        slots: all.flatMap((one) => (one instanceof HTMLSlotElement ? one.name : [])),
        properties: sheet.match(/--otp-[a-z-]+/g) ?? [],
      };
    });
    // A part that is one thing alone is named as its slot or its field.
    const own = new Set(["phone", "code", "send", "change", "verify", "fresh", "resend", "call", "whatsapp"]);
    const parts = new Set(there.parts.filter((part) => !own.has(part)));
    expect([...parts].toSorted()).toEqual(listed("the parts", "`otp-form::part").toSorted());
    expect(there.slots.toSorted()).toEqual([...listed("**Words**", "### With"), "bot-check"].toSorted());
    expect([...new Set(there.properties)].toSorted()).toEqual(listed("**Looks**", "and the parts").toSorted());
  });
});
