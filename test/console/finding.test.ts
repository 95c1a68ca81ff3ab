/**
 * How an operator finds things in the console: tables that are sorted, a request_id or a number that somebody complains with, what
 * was done on a day, and where conversion fell.
 */
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ConsoleUser } from "../../src/otp/keys/console-session.ts";
import { connectByFetch } from "../support/clients/surfaces.ts";
import { lacks } from "../support/machine.ts";
import { endVisit, focused, startBrowser, type Visitor } from "../support/pages/browser.ts";
import { signIn, withConsole } from "../support/pages/console.ts";
import { startWorld, type World } from "../support/service/world.ts";

const operator: ConsoleUser = { user: "ann", scopes: ["admin.read", "admin.write"], tenant: null };
const phone = "+31612345678";
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
    world = await startWorld(withConsole);
  });
  // The last one runs first.
  afterEach(() => world.stop());
  afterEach(() => endVisit(visitor));

  async function open(name: string): Promise<void> {
    visitor = await signIn(browser, world, operator);
    ({ page } = visitor);
    await page.getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
  }

  async function send(): Promise<string> {
    const { value } = await connectByFetch.call(world.url, "SendOtp", { phone }, { key: world.key });
    return String(value?.["requestId"] ?? value?.["request_id"]);
  }

  test("sorts a table at the press of a head, and keeps it so when it is filled anew", async () => {
    for (const name of ["b", "a", "c 10", "c 9"]) await world.makeKey({ name });
    await open("Tenants and keys");
    const keys = page.getByRole("region", { name: "Table: API keys" });
    await keys.waitFor();
    const names = async () => {
      const rows = await keys.locator("tbody td:first-child").allInnerTexts();
      return rows.map((text) => text.split("\n")[0]).filter((name) => /^[abc]( |$)/.test(name ?? ""));
    };
    const head = keys.getByRole("columnheader", { name: "Name" });
    expect(await head.getAttribute("aria-sort")).toBeNull();
    await head.getByRole("button").focus();
    await page.keyboard.press("Enter");
    await expect.poll(() => head.getAttribute("aria-sort")).toBe("ascending");
    expect((await names()).map((name) => name?.trim().replace(/ \S{10}$/, ""))).toEqual(["a", "b", "c 9", "c 10"]);
    await expect.poll(() => focused(page)).toBe("Name");
    await page.keyboard.press("Enter");
    await expect.poll(() => head.getAttribute("aria-sort")).toBe("descending");
    await keys.getByRole("columnheader", { name: "Last used" }).getByRole("button").click();
    await expect.poll(() => head.getAttribute("aria-sort")).toBeNull();
    await page.getByRole("link", { name: "Webhooks", exact: true }).click();
    await page.getByRole("link", { name: "Tenants and keys", exact: true }).click();
    const used = keys.getByRole("columnheader", { name: "Last used" });
    await used.waitFor();
    await expect.poll(() => used.getAttribute("aria-sort")).toBe("descending");
  });

  test("leads from a request_id to its story at once, and back", async () => {
    const id = await send();
    await open("Verifications");
    const what = page.getByLabel("Number, request or first digits");
    await what.fill(id);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: `Request ${id.slice(0, 12)}` }).waitFor();
    // A whole one could cancel: it stays out of the address.
    expect(page.url()).not.toContain(id);
    await page.goBack();
    await page.getByRole("heading", { name: "Results" }).waitFor();
    await expect.poll(() => what.inputValue()).toBe(id);
  });

  test("erases the number that was searched for, which is not typed again", async () => {
    await send();
    await open("Verifications");
    await page.getByLabel("Number, request or first digits").fill("+31 6 12345678");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Erase this number" }).click();
    await page
      .getByRole("dialog")
      .getByRole("heading", { name: `Erase ${phone}?` })
      .waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Erase it" }).click();
    const done = page.getByRole("dialog").filter({ hasText: "The number is erased" });
    await done.waitFor();
    expect(await done.innerText()).toMatch(/Verifications\s+1/);
    expect(page.url()).not.toContain("612345678");
  });

  test("splits a country by provider and channel, beside the period before", async () => {
    const verify = async (requestId: string) => {
      const code = world.network.codeFor(phone);
      await connectByFetch.call(world.url, "VerifyOtp", { requestId, code }, { key: world.key });
    };
    await verify(await send());
    world.system.advance(24 * 3_600_000);
    await send();
    await open("Overview");
    const row = page.getByRole("row").filter({ hasText: "Netherlands" }).last();
    await expect.poll(() => row.innerText()).toMatch(/Netherlands\s+1\s+0 %\s+100 %/);
    await row.getByRole("button", { name: "Split Netherlands" }).click();
    const split = page.getByRole("dialog").getByRole("row").filter({ hasText: "test" });
    expect(await split.innerText()).toMatch(/test\s+sms\s+1\s+0 %\s+100 %/);
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  });

  test("blocks a prefix, and says since when it is", async () => {
    await open("Fraud");
    await page.getByRole("button", { name: "Block", exact: true }).click();
    await page.getByRole("dialog").getByLabel("Prefix or number").fill("+3161234");
    await page.keyboard.press("Enter");
    const list = page.getByRole("region", { name: "Table: Entries of the lists" });
    await list.getByText("blocked").waitFor();
    expect(await list.getByRole("columnheader").allInnerTexts()).toEqual([
      "Prefix",
      "Says",
      "Note",
      "Since",
      "Actions",
    ]);
    await list.getByRole("button", { name: "Unblock +3161234" }).click();
    await page.getByText("No destination is blocked or allowed.").waitFor();
  });

  test("shows what was done between two times", async () => {
    await open("Audit");
    const rows = page.getByRole("region", { name: "Table: Audit" }).locator("tbody tr");
    await rows.first().waitFor();
    await page.getByLabel("Before").fill("2000-01-01T00:00");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByText("Nothing was done that matches.").waitFor();
    await page.getByLabel("Before").fill("");
    await page.getByLabel("From").fill("2000-01-01T00:00");
    await page.getByRole("button", { name: "Show" }).click();
    await rows.first().waitFor();
    await expect.poll(() => page.getByLabel("From").inputValue()).toBe("2000-01-01T00:00");
  });
});
