/**
 * The console's pages in a real browser: what an operator under attack finds and does there, and that a page does nothing that
 * it should not.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ConsoleUser } from "../../../src/otp/keys/console-session.ts";
import { commandLine } from "../../../src/otp/operators/audit.ts";
import { addConsoleLink } from "../../../src/service/operators/console-sessions.ts";
import { surfaces, type Message, type Rpc } from "../../support/clients/surfaces.ts";
import { startBrowser, visit, type Visitor } from "../../support/pages/browser.ts";
import { startWorld, temporaryFolder, type World } from "../../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];
const prefix = "+3161234";
/** Where screenshots are left; a folder that goes with the machine unless CONSOLE_SCREENSHOTS names one. */
const shots = process.env["CONSOLE_SCREENSHOTS"] ?? temporaryFolder();

let world: World;
let browser: Browser;
beforeAll(async () => {
  mkdirSync(shots, { recursive: true });
  const env = { OTP_PHONE_LIMITS: "1000@1s", OTP_DAILY_MESSAGE_CAP: "60" };
  world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0", ...env });
  browser = await startBrowser();
  for (let i = 0; i < 30; i++) {
    const { value } = await call("SendOtp", { phone: `${prefix}${String(i).padStart(4, "0")}` });
    await call("CancelOtp", { request_id: String(value?.["request_id"]) });
    world.system.advance(60_000);
  }
  for (let i = 0; i < 20; i++) await call("SendOtp", { phone: `${prefix}${5_000 + i}` });
});
afterAll(async () => {
  await browser.close();
  await world.stop();
});

const call = (rpc: Rpc, message: Message) => rest.call(world.url, rpc, message, { key: world.key });

/** Signs in by a fresh link, and shows a page. */
async function signIn(user: Partial<ConsoleUser> = {}): Promise<Visitor> {
  const ann: ConsoleUser = { user: "ann", scopes: ["admin.read", "admin.write"], tenant: null, ...user };
  const link = await world.beside((store) => addConsoleLink({ store, system: world.system }, ann, commandLine));
  return visit(browser, `${world.adminUrl}/console#token=${link.reveal()}`);
}

/** Goes to a page by its link, as with the keyboard. */
async function open(page: Page, name: string): Promise<void> {
  const link = page.getByRole("link", { name, exact: true });
  await link.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

/** Light, dark, and as narrow as a small phone; nothing sticks out. */
async function look(page: Page, name: string): Promise<void> {
  for (const scheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.screenshot({ path: join(shots, `${name}-${scheme}.png`), fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.screenshot({ path: join(shots, `${name}-360.png`), fullPage: true });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  await page.setViewportSize({ width: 1280, height: 900 });
}

test("the overview says what is wrong, and leads to where it is", async () => {
  const { page, misdeeds, leave } = await signIn();
  const wrong = page.getByRole("region", { name: "What is wrong now" });
  await wrong.getByText(/has used 83 % of its daily cap on messages/).waitFor();
  await page.getByRole("region", { name: "Caps of today", exact: true }).first().getByText("50 of 60").waitFor();
  await look(page, "overview");
  await wrong.getByRole("link", { name: /Few codes are typed/ }).click();
  await page.getByRole("heading", { level: 1, name: "Fraud" }).waitFor();
  await page.getByText(/^\+3161234••••: the guard would block it until/).waitFor();
  expect(misdeeds).toEqual([]);
  await leave();
});

test("a suspect is explained, the guard is told to enforce, and the block is lifted", async () => {
  const { page, misdeeds, leave, announced } = await signIn();
  await open(page, "Fraud");
  const suspects = page.getByRole("region", { name: "Suspects" }).first();
  await suspects.getByText("would be refused").waitFor();
  await suspects.getByText("20 messages").waitFor();
  await suspects.getByText("0 of 30").waitFor();
  await suspects.getByRole("button", { name: "Explain" }).click();
  await page.getByRole("region", { name: "Decisions" }).getByText("too few typed (observed)").waitFor();
  await look(page, "fraud");
  await page.getByRole("button", { name: "Enforce", exact: true }).click();
  await look(page, "fraud-enforce");
  await page.getByRole("dialog").getByRole("button", { name: "Enforce", exact: true }).click();
  await page.getByText("What it finds is refused").waitFor();
  expect((await call("SendOtp", { phone: `${prefix}6000` })).reason).toBe("DESTINATION_BLOCKED");
  await page.getByRole("button", { name: "Unblock" }).click();
  await suspects.getByText("sends go through").waitFor();
  expect((await call("SendOtp", { phone: `${prefix}6000` })).reason).toBeUndefined();
  await page.getByRole("button", { name: "Block", exact: true }).last().click();
  await page.getByLabel("Prefix or number").fill("+3197");
  await page.getByLabel("Note").fill("<b>pumped</b>");
  await page.getByRole("button", { name: "Block it" }).click();
  await page.getByRole("region", { name: "Entries of the lists" }).getByText("<b>pumped</b>").waitFor();
  await expect.poll(announced).toContain("It is blocked.");
  await page.getByRole("button", { name: "Allow", exact: true }).last().click();
  await page.getByLabel("Prefix or number").fill("+31971");
  await page.getByRole("button", { name: "Allow it" }).click();
  await page.getByRole("button", { name: "Remove +31971", exact: true }).click();
  await page.getByText("allowed", { exact: true }).waitFor({ state: "detached" });
  await expect.poll(announced).toContain("It is not on the lists any more.");
  expect(page.url()).not.toContain("3197");
  expect(misdeeds).toEqual([]);
  await leave();
});

test("who may only read is offered nothing to change", async () => {
  const { page, misdeeds, leave } = await signIn({ user: "bob", scopes: ["admin.read"] });
  await open(page, "Fraud");
  await page.getByRole("region", { name: "Suspects" }).first().getByRole("button", { name: "Explain" }).waitFor();
  await page.getByText("What it finds is refused").waitFor();
  for (const name of ["Block", "Allow", "Unblock", "Remove", "Enforce", "Only observe"]) {
    expect(await page.getByRole("button", { name: new RegExp(`^${name}\\b`) }).count()).toBe(0);
  }
  expect(misdeeds).toEqual([]);
  await leave();
});

test("a number is erased by whoever types it whole, though it is masked, and no other number is", async () => {
  const { page, misdeeds, leave } = await signIn();
  const { value } = await call("SendOtp", { phone: "+31612345699" });
  const ref = String(value?.["request_id"]).slice(0, 12);
  const goTo = (to: string) => page.evaluate((hash) => void (location.hash = hash), `#/verification?ref=${to}`);
  await goTo(ref);
  await page.getByRole("button", { name: "Erase the number" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("The whole number").fill("+31612345698");
  await dialog.getByRole("button", { name: "Erase it" }).click();
  await dialog.getByText("That is not the number of this request, which is +31•••••••99.").waitFor();
  await dialog.getByLabel("The whole number").fill("+31 6 1234 5699");
  await dialog.getByRole("button", { name: "Erase it" }).click();
  await dialog.getByText("The number is erased").waitFor();
  await page.keyboard.press("Escape");
  await goTo(ref);
  await page.getByText("No request with this id is stored.").waitFor();
  expect((await call("GetOtp", { request_id: String(value?.["request_id"]) })).reason).toBe("REQUEST_NOT_FOUND");
  expect(misdeeds).toEqual([]);
  await leave();
});

test("what happens is there as it happens, and stands still while it is paused", async () => {
  const { page, misdeeds, leave } = await signIn();
  await open(page, "Live");
  await page.getByText("Watching.").waitFor();
  await call("SendOtp", { phone: "+31612345678" });
  const activities = page.getByRole("region", { name: "Activities" });
  await activities.getByRole("cell", { name: "+31•••••••78" }).first().waitFor();
  await look(page, "live");
  expect(await activities.textContent()).not.toContain("12345678");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("Paused: what happens meanwhile is not shown.").waitFor();
  await page.getByRole("button", { name: "Go on" }).waitFor();
  expect(misdeeds).toEqual([]);
  await leave();
});
