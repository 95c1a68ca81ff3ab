/**
 * The console over 100,000 verifications and months of all else, in a real browser: each page by day and by night, wide and at 360 px,
 * has nothing that axe finds and nothing that sticks out; and so has what it shows where there is nothing, and where nobody answers.
 * Its screenshots are to be looked at: CONSOLE_SCREENSHOTS names where they are left.
 */
import type { Browser, Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { liveIn, type LivedIn } from "../../tools/bench/drive/lived-in.ts";
import { productionEnv } from "../../tools/bench/drive/prepared.ts";
import { lacks } from "../support/machine.ts";
import { startBrowser, type Visitor } from "../support/pages/browser.ts";
import { endWithTests, everyLook, expectShown, goTo, lookAt, signIn, withConsole } from "../support/pages/console.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";

const verifications = 100_000;

let world: World;
let browser: Browser;
let visitor: Visitor;
let lived: LivedIn;

describe.skipIf(lacks("the console over 100,000 verifications", "chromium"))(
  "over 100,000 verifications the console",
  () => {
    beforeAll(async () => {
      const settings = { ...withConsole, OTP_MASTER_KEY: productionEnv("file:")["OTP_MASTER_KEY"] ?? "" };
      [world, browser] = await Promise.all([startWorld(settings, createManualSystem(1, Date.now())), startBrowser()]);
      lived = await liveIn({ url: `file:${world.databasePath}`, key: "" }, verifications);
    }, 600_000);
    endWithTests(() => ({ visitor, browser, world }));

    const open = async (): Promise<Page> => {
      visitor = await signIn(browser, world, { user: "ann" }, { clock: "machine" });
      return visitor.page;
    };
    /** Looks at what a page shows by then, and keeps what is wrong with it. */
    const lookingAt = (page: Page) => {
      const wrong: string[] = [];
      const look = async (name: string, shows: readonly string[]) => {
        await expectShown(page, shows);
        wrong.push(...(await lookAt(page, name, everyLook)));
      };
      return { wrong, look };
    };
    const search = async (page: Page, what: string) => {
      await goTo(page, "verification");
      await page.getByLabel("Number, request or first digits").fill(what);
      await page.getByRole("button", { name: "Search" }).click();
    };

    test("looks well on every page, however it is looked at", async () => {
      const page = await open();
      const { wrong, look } = lookingAt(page);
      const visit = async (link: string, name: string, shows: readonly string[]) => {
        await goTo(page, link);
        await look(name, shows);
      };
      await visit("overview", "overview-24h", ["What is wrong now", "By country"]);
      await visit("overview?period=30d&by=tenant", "overview-30d-by-tenant", ["demo-bank"]);
      await visit("overview?period=90d&by=provider", "overview-90d-by-provider", ["bird"]);
      await visit("live", "live", ["Nothing has happened yet"]);
      await visit("verification", "verifications", ["verified", "expired"]);
      await search(page, lived.phone);
      await look("verifications-by-number", [lived.ref]);
      await visit(`verification?ref=${lived.ref}`, "story", ["What happened"]);
      await visit("fraud", "fraud", ["+3161", "blocked"]);
      await visit("fraud?tenant=demo-shop&prefix=%2B44740055", "fraud-explained", ["Decisions"]);
      await visit("providers", "providers", ["is called"]);
      await visit("tenants", "tenants", ["small-001", "demo-bank"]);
      await visit("tenants?tenant=demo-bank", "tenant", ["daily_cap"]);
      await visit("webhooks", "webhooks", ["https://shop.example"]);
      await visit("audit", "audit", ["user:operator-"]);
      await visit("audit?subject=subject-77", "audit-by-subject", ["subject-77"]);
      expect(wrong).toEqual([]);
    });

    test("looks well where there is nothing, and where nobody answers", async () => {
      const page = await open();
      const { wrong, look } = lookingAt(page);
      await search(page, "+31699999999");
      await look("nothing-found", ["No verification of this number is stored."]);
      await goTo(page, "verification?ref=AAAAAAAAAAAA");
      await look("no-such-verification", ["No request with this id is stored"]);
      await goTo(page, "audit?actor=user%3Anobody");
      await look("nothing-done", ["Nothing was done that matches."]);
      await goTo(page, "overview?tenant=small-099");
      await look("nothing-asked", ["Nothing was asked for in this period."]);
      await page.route("**/otp.admin.v1.AdminService/**", (route) => route.abort("connectionrefused"));
      await goTo(page, "overview");
      await look("nobody-answers", [
        "The server cannot be reached. Is it running?",
        "Try again",
        "It could not be read.",
      ]);
      expect(wrong).toEqual([]);
    });
  },
);
