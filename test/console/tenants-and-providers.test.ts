/**
 * The console's pages of tenants, keys and providers in a real browser, as an operator and an admin of one tenant use them.
 */
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ConsoleUser } from "../../src/otp/keys/console-session.ts";
import { connectByFetch } from "../support/clients/surfaces.ts";
import { lacks } from "../support/machine.ts";
import { axeFindings } from "../support/pages/axe.ts";
import { endVisit, focused, startBrowser, type Visitor } from "../support/pages/browser.ts";
import { signIn, withConsole } from "../support/pages/console.ts";
import { startWorld, type World } from "../support/service/world.ts";

const operator: ConsoleUser = { user: "ann", scopes: ["admin.read", "admin.write"], tenant: null };
let world: World;
let browser: Browser;
let visitor: Visitor;
let page: Page;

describe.skipIf(lacks("the console", "chromium"))("the console", () => {
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser.close());
  beforeEach(async () => {
    world = await startWorld({ ...withConsole, OTP_DAILY_MESSAGE_CAP: "500" });
  });
  // The last one runs first.
  afterEach(() => world.stop());
  afterEach(() => endVisit(visitor));

  async function open(user: ConsoleUser = operator): Promise<void> {
    visitor = await signIn(browser, world, user);
    ({ page } = visitor);
  }

  const goTo = (name: string) => page.getByRole("link", { name, exact: true }).click();
  const rowOf = (name: string) =>
    page
      .getByRole("row")
      .filter({ has: page.getByRole("cell", { name, exact: true }) })
      .first();
  const inDialog = () => page.getByRole("dialog");

  async function makeTenant(id: string): Promise<void> {
    await page.getByRole("button", { name: "New tenant" }).click();
    await inDialog().getByLabel("Name").fill(id);
    await inDialog().getByLabel("Brand").fill("Acme");
    await inDialog().getByLabel("Messages in a UTC day").fill("100");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: `Settings of ${id}` }).waitFor();
  }

  async function change(setting: string, value: string): Promise<void> {
    await page.getByRole("button", { name: `Change ${setting}`, exact: true }).click();
    await inDialog().locator("[name=value]").fill(value);
    await inDialog().getByRole("button", { name: "Change it" }).click();
  }

  test("takes back what it asks when its page is left", async () => {
    await open();
    await goTo("Tenants and keys");
    await page.getByRole("button", { name: "New tenant" }).click();
    await inDialog().waitFor();
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await expect.poll(() => inDialog().count()).toBe(0);
    await goTo("Fraud");
    await page.getByRole("heading", { level: 1, name: "Fraud" }).waitFor();
  });

  test("tells a key that has ended, and offers nothing more to do with it", async () => {
    const { id } = await world.makeKey({ expireMs: world.system.now() + 60_000 });
    await open();
    await goTo("Tenants and keys");
    await page.getByRole("row").filter({ hasText: id }).getByRole("button", { name: "Rotate" }).waitFor();
    world.system.advance(60_000);
    await page.reload();
    const row = page.getByRole("row").filter({ hasText: id });
    await row.waitFor();
    expect(await row.innerText()).toContain("ended");
    expect(await row.getByRole("button").count()).toBe(0);
  });

  test("makes a tenant by keyboard, tells each setting's source, changes and disables it", async () => {
    await open();
    await goTo("Tenants and keys");
    await rowOf("default").waitFor();
    await makeTenant("acme");
    await expect.poll(() => rowOf("brand").innerText()).toMatch(/Acme\s+its own/);
    expect(await rowOf("daily_cap").innerText()).toMatch(/100\s+its own/);
    expect(await rowOf("max_attempts").innerText()).toMatch(/5\s+default/);
    await change("limits", "user=5@1h,page=3@1m");
    await expect.poll(() => rowOf("limits").innerText()).toContain("user=5@1h,page=3@1m");
    // What is taken out of the list is taken out of the setting.
    await change("limits", "page=3@1m");
    await expect.poll(() => rowOf("limits").innerText()).toMatch(/limits\s+page=3@1m\s/);
    // The focus stays where it was, although the table was filled anew.
    await expect.poll(() => focused(page)).toBe("Change");
    expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe("Change limits");
    await change("daily_cap", "");
    await expect.poll(() => rowOf("daily_cap").innerText()).toMatch(/500\s+OTP_DAILY_MESSAGE_CAP/);
    await change("ttl_seconds", "9");
    await inDialog().getByRole("alert").filter({ hasText: "settings.ttl_seconds must be" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "All tenants" }).click();
    await rowOf("acme").getByRole("button", { name: "Disable" }).click();
    await inDialog().getByRole("button", { name: "Disable it" }).click();
    await rowOf("acme").getByRole("button", { name: "Enable" }).click();
    await rowOf("acme").getByRole("button", { name: "Disable" }).waitFor();
  });

  test("shows strangers' and operators' words as text", async () => {
    await open();
    await goTo("Tenants and keys");
    await makeTenant("acme");
    await change("brand", `<img src=x onerror="x()">`.slice(0, 25));
    await expect.poll(() => rowOf("brand").innerText()).toContain("<img src=x");
    expect(await page.locator("main img").count()).toBe(0);
  });

  test("lets an admin of one tenant make it stricter, and says why not looser", async () => {
    await world.beside((store) =>
      store.registry.changeTenant("acme", () => ({ keep: { settings: "{}", disableMs: null }, result: undefined })),
    );
    await open({ ...operator, tenant: "acme" });
    expect(await page.getByRole("link", { name: "Providers" }).count()).toBe(0);
    await goTo("Tenants and keys");
    await change("daily_cap", "50");
    await expect.poll(() => rowOf("daily_cap").innerText()).toMatch(/50\s+its own/);
    await change("daily_cap", "51");
    await inDialog().getByRole("alert").filter({ hasText: "raises no cap or limit" }).waitFor();
    await page.keyboard.press("Escape");
    // What would be refused in any case is not offered.
    for (const name of ["New tenant", "Change audience"]) {
      expect(await page.getByRole("button", { name }).count()).toBe(0);
    }
  });

  test("tells how providers fare, and tries one", async () => {
    world.network.script.push({ kind: "accepted" }, { kind: "refused", cause: "balance", detail: "no credit" });
    for (const phone of ["+31612345678", "+31612345679"]) {
      await connectByFetch.call(world.url, "SendOtp", { phone }, { key: world.key });
    }
    await open();
    await goTo("Providers");
    await expect.poll(() => rowOf("1. test").innerText()).toMatch(/is called\s+2\s+1 \(50 %\)/);
    world.network.script.push({ kind: "refused", cause: "recipient", detail: "unknown +31612345670" });
    await page.getByRole("button", { name: "Try test, sms" }).click();
    await inDialog().getByLabel("Phone").fill("12");
    await page.keyboard.press("Enter");
    await inDialog().getByRole("alert").filter({ hasText: "phone is not a number in E.164" }).waitFor();
    await inDialog().getByLabel("Phone").fill("+31612345670");
    await page.keyboard.press("Enter");
    await inDialog().getByText("It refused the message for its recipient: nothing was sent.").waitFor();
    await inDialog().getByText("unknown +31•••••••70").waitFor();
    await inDialog().getByRole("button", { name: "Close" }).click();
    expect(page.url()).not.toContain("612345670");
  });

  test.each(["light", "dark"] as const)(
    "has nothing that axe finds, in %s colours and on a narrow screen",
    async (colorScheme) => {
      await open();
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width: 360, height: 800 });
      await goTo("Providers");
      await rowOf("1. test").waitFor();
      expect(await axeFindings(page)).toEqual([]);
      await page.getByRole("button", { name: "Try test, sms" }).click();
      expect(await axeFindings(page)).toEqual([]);
      await page.keyboard.press("Escape");
      await goTo("Tenants and keys");
      await rowOf("default").waitFor();
      expect(await axeFindings(page)).toEqual([]);
      await makeTenant("acme");
      await rowOf("brand").waitFor();
      expect(await axeFindings(page)).toEqual([]);
      await page.getByRole("button", { name: "Change texts" }).click();
      expect(await axeFindings(page)).toEqual([]);
      // The page itself is no wider than the screen: tables scroll in themselves.
      const isWider = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      expect(await isWider()).toBe(false);
      await page.keyboard.press("Escape");
    },
  );

  test("says what to do when the server does not answer, and goes on from there", async () => {
    await open();
    await goTo("Providers");
    await rowOf("1. test").waitFor();
    await page.route("**/GetProviders*", (route) => route.abort());
    await page.getByRole("button", { name: "Refresh" }).click();
    const trouble = page.getByRole("alert").filter({ hasText: "The server cannot be reached. Is it running?" });
    await trouble.waitFor();
    await page.unroute("**/GetProviders*");
    await trouble.getByRole("button", { name: "Try again" }).click();
    await expect.poll(() => rowOf("1. test").innerText()).toContain("is called");
    // What was cut off on purpose is an error to the browser.
    visitor.misdeeds.splice(
      0,
      visitor.misdeeds.length,
      ...visitor.misdeeds.filter((each) => !each.includes("net::ERR")),
    );
  });
});
