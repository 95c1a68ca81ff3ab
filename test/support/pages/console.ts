/**
 * The console in a real browser: a person who signs in by a link, goes from page to page, and looks at each by day, and by night on a
 * small phone.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, expect } from "vitest";
import type { ConsoleUser } from "../../../src/otp/keys/console-session.ts";
import { commandLine } from "../../../src/otp/operators/audit.ts";
import { addConsoleLink } from "../../../src/service/operators/console-sessions.ts";
import { temporaryFolder, type World } from "../service/world.ts";
import { axeFindings } from "./axe.ts";
import { endVisit, visit, type VisitOptions, type Visitor } from "./browser.ts";

/** What a world needs to have a console. */
export const withConsole = { OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0" };

/** Where screenshots are left; a folder that goes with the machine unless CONSOLE_SCREENSHOTS names one. */
const shots = process.env["CONSOLE_SCREENSHOTS"] ?? temporaryFolder();

const wide = { width: 1280, height: 900 };
const narrow = { width: 360, height: 740 };

/** A way to look at a page. */
interface Look {
  readonly as: string;
  readonly colorScheme: "light" | "dark";
  readonly size: { readonly width: number; readonly height: number };
}

/** How a page is looked at. */
const looks: readonly Look[] = [
  { as: "light", colorScheme: "light", size: wide },
  { as: "dark-360", colorScheme: "dark", size: narrow },
];
/** Every way, for a long run. */
export const everyLook: readonly Look[] = [
  ...looks,
  { as: "dark", colorScheme: "dark", size: wide },
  { as: "light-360", colorScheme: "light", size: narrow },
];

/** Signs in by a fresh link, as `otpd console` prints it. */
export async function signIn(
  browser: Browser,
  world: World,
  user: Partial<ConsoleUser> = {},
  options: VisitOptions = {},
): Promise<Visitor> {
  const ann: ConsoleUser = { user: "ann", scopes: ["admin.read", "admin.write"], tenant: null, ...user };
  const link = await world.beside((store) => addConsoleLink({ store, system: world.system }, ann, commandLine));
  const visitor = await visit(browser, `${world.adminUrl}/console#token=${link.reveal()}`, options);
  await visitor.page.setViewportSize(wide);
  await visitor.page.locator("#pages a").first().waitFor();
  return visitor;
}

/** Ends the visit of each test, and once all are over what they shared. */
export function endWithTests(begun: () => { visitor: Visitor; browser: Browser; world: World }): void {
  afterAll(async () => {
    await begun().browser.close();
    await begun().world.stop();
  });
  afterEach(() => endVisit(begun().visitor));
}

/** Goes to a place of the console by its address, and waits until it is filled. */
export async function goTo(page: Page, link: string): Promise<void> {
  await page.evaluate(async (to) => {
    // The page's own listener is the earlier one: once ours is called, the place that was left is gone.
    const left = new Promise((done) => {
      addEventListener("hashchange", done, { once: true });
    });
    const before = location.hash;
    location.hash = `#/${to}`;
    if (location.hash !== before) await left;
  }, link);
  await page.locator("main h1").waitFor();
  await filled(page);
}

/** Every part of the page has its answer. */
export function filled(page: Page): Promise<void> {
  return page.waitForFunction(() => document.querySelector("main [aria-busy]") === null).then(() => undefined);
}

/** Waits until the page shows each of these. */
export async function expectShown(page: Page, shows: readonly string[]): Promise<void> {
  for (const each of shows) await expect.poll(() => page.locator("main").innerText()).toContain(each);
}

/** What is wrong with a page however it is looked at: what axe finds, and a page that is wider than its screen. */
export async function lookAt(page: Page, name: string, ways: readonly Look[] = looks): Promise<string[]> {
  mkdirSync(shots, { recursive: true });
  const wrong: string[] = [];
  for (const { as, colorScheme, size } of ways) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(size);
    await page.screenshot({ path: join(shots, `${name}-${as}.png`), fullPage: true });
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    if (width > size.width) wrong.push(`${name}-${as} is ${width} px wide`);
    // With what is folded away.
    await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
    wrong.push(...(await axeFindings(page)).map((found) => `${name}-${as}: ${found}`));
    await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = false)));
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(wide);
  return wrong;
}
