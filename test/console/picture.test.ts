/**
 * The console over the sample month, in a browser with the clock that real ones have: each page is alive, and README's picture is made
 * of the first (`npm run test:picture`).
 */
import type { Browser, Page } from "playwright-core";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { createKeyRing } from "../../src/otp/keys/key-ring.ts";
import { fillSample } from "../../src/service/sample/fill.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { createSystem } from "../../src/system.ts";
import { lacks } from "../support/machine.ts";
import { startBrowser, type Visitor } from "../support/pages/browser.ts";
import { endWithTests, expectShown, filled, goTo, signIn, withConsole } from "../support/pages/console.ts";
import { keyText } from "../support/service/environment.ts";
import { createManualSystem } from "../support/service/system.ts";
import { configOf, startWorld, type World } from "../support/service/world.ts";

const size = { width: 1280, height: 1330 };
const settings = { ...withConsole, OTP_MASTER_KEY: keyText };

let world: World;
let browser: Browser;
let visitor: Visitor;

describe.skipIf(lacks("the console's picture", "chromium"))("the console over the sample month", () => {
  beforeAll(async () => {
    const noon = Date.UTC(2026, 10, 22, 18, 30);
    [world, browser] = await Promise.all([startWorld(settings, createManualSystem(1, noon)), startBrowser()]);
    const keys = createKeyRing(configOf({ OTP_MASTER_KEY: keyText }).masterKeys ?? []);
    // Beside the server, whose locks it waits for: by timers that go on, at a time that stands still.
    const system = createSystem(() => {}, { wallMs: () => noon, monotonicMs: () => 0 });
    const store = await openSqlite({ path: world.databasePath, system, exclusive: false });
    const came = await fillSample({ store, system, keys, seed: 1, sweep: () => Promise.resolve() });
    await store.close();
    if (came.kind !== "filled") throw new Error(came.kind);
  });
  endWithTests(() => ({ visitor, browser, world }));

  const open = async () => {
    visitor = await signIn(browser, world, { user: "ann" }, { clock: "machine" });
    return visitor.page;
  };

  /** Waits as a person does: a busy machine may end the read of a month after its 2 s, and the page offers to try again. */
  const expectRead = async (page: Page, shows: readonly string[]) => {
    const again = page.locator("main").getByRole("button", { name: "Try again" });
    const pressAndRead = async () => {
      for (const button of await again.all()) await button.click({ timeout: 1_000 }).catch(() => {});
      return page.locator("main").innerText();
    };
    await expect.poll(pressAndRead).toContain(shows[0]);
    await expectShown(page, shows);
  };

  test.each([
    { link: "overview", shows: ["demo-bank has used 86 %", "+1415377••••", "Netherlands"] },
    { link: "overview?period=today", shows: ["Today, UTC", "Cost", "Caps of today"] },
    { link: "overview?period=30d&by=provider", shows: ["messagebird", "€"] },
    { link: "verification", shows: ["demo-shop", "expired", "verified"] },
    { link: "fraud", shows: ["+44740055", "+1415377", "United Kingdom"] },
    { link: "providers", shows: ["bird", "not configured now"] },
    { link: "tenants", shows: ["demo-clinic", "checkout page", "revoked"] },
    { link: "webhooks", shows: ["https://clinic.example/hooks"] },
    { link: "audit", shows: ["fraud_guard: observe → enforce", "verdict: block"] },
  ])("is alive at $link", async ({ link, shows }) => {
    const page = await open();
    await goTo(page, link);
    await expectRead(page, shows);
    expect(await page.locator("main .trouble").count()).toBe(0);
  });

  test("has its picture in the README", async () => {
    const page = await open();
    await page.setViewportSize(size);
    await goTo(page, "overview?period=30d");
    // On a busy machine its report may take longer than one may.
    await expect
      .poll(async () => {
        await page.reload();
        await filled(page);
        return page.locator(".uplot canvas").count();
      })
      .toBeGreaterThan(3);
    const made = await page.screenshot({ path: process.env["CONSOLE_PICTURE"] ?? join(world.folder, "console.png") });
    const kept = new URL("../../docs/console.png", import.meta.url);
    expect(sizeOf(readFileSync(kept))).toEqual(size);
    expect(sizeOf(made)).toEqual(size);
    expect(statSync(kept).size).toBeLessThan(200_000);
    expect(readFileSync(new URL("../../README.md", import.meta.url), "utf8")).toContain("](docs/console.png)");
  });
});

/** The size that a PNG says. */
const sizeOf = (png: Buffer) => ({ width: png.readUInt32BE(16), height: png.readUInt32BE(20) });
