/**
 * The console for everybody: each of its pages shows what there is, by day, by night and on a small phone, with nothing that axe
 * finds; takes strangers' words as text; and can be worked by keyboard.
 */
import type { Browser, Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { auditActions } from "../../src/otp/operators/audit.ts";
import { adminClient, type AdminClient } from "../support/clients/admin.ts";
import { connectByFetch, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { wrongCode } from "../support/data/phones.ts";
import { startFarEnd } from "../support/fakes/far-end.ts";
import { lacks } from "../support/machine.ts";
import { focused, pageMsMax, startBrowser, type Visitor } from "../support/pages/browser.ts";
import { endWithTests, expectShown, filled, goTo, lookAt, signIn, withConsole } from "../support/pages/console.ts";
import { startWorld, type World } from "../support/service/world.ts";

const [verified, refused, pending, blocked] = ["+31612000001", "+31612000002", "+31612000003", "+31655000001"] as const;
/** Runs where it is taken as markup, and asks for a picture. */
const markup = "<img/src=/owned/onerror=owned()>";

let world: World;
let browser: Browser;
let operators: AdminClient;
let visitor: Visitor;
let page: Page;
/** The first characters of the request that no message arrived for. */
let undelivered = "";
/** The same of the one under way. */
let waiting = "";

const call = (rpc: Rpc, message: Message) =>
  connectByFetch.call(world.url, rpc, message, { key: world.key, headers: { "user-agent": markup } });

async function send(phone: string, purpose = ""): Promise<string> {
  const { value } = await call("SendOtp", { phone, ...(purpose === "" ? {} : { purpose }) });
  return String(value?.["request_id"]);
}

async function refOf(phone: string): Promise<string> {
  const { verifications } = await operators.findVerifications({ phone });
  return verifications[0]?.requestRef ?? "";
}

/** A verified number, one that the provider refused, one under way, and one that is not sent to; strangers' words in each field. */
async function fillWorld(): Promise<void> {
  const id = await send(verified);
  const code = world.network.codeFor(verified);
  await call("VerifyOtp", { request_id: id, code: wrongCode(code) });
  await call("VerifyOtp", { request_id: id, code });
  world.system.advance(60_000);
  world.network.script.push({ kind: "refused", cause: "recipient", detail: `absent subscriber ${markup}` });
  await send(refused, markup);
  world.network.script.push({ kind: "accepted", providerMessageId: markup });
  await send(pending, markup);
  [undelivered, waiting] = [await refOf(refused), await refOf(pending)];
  await operators.block({ prefix: "+31655", note: `pumped ${markup}` });
  expect((await call("SendOtp", { phone: blocked })).reason).toBe("DESTINATION_BLOCKED");
  await operators.createTenant({ id: "acme", settings: { daily_cap: "500", brand: markup.slice(0, 20) } });
  const lifetime = { seconds: 86_400n };
  await operators.createApiKey({ kind: "live", tenant: "acme", name: `shop ${markup}`, lifetime });
  await world.makeKey({ kind: "pub", origins: [`https://${markup}`] });
  await operators.createWebhook({ tenant: "acme", url: `https://hooks.example/?${markup}` });
}

/** A page: its address, what it shows once something happens, and what it is for. */
interface Shown {
  readonly name: string;
  readonly happens?: () => Promise<unknown>;
  readonly shows: readonly string[];
  readonly action: string;
}

const pages: readonly Shown[] = [
  { name: "overview", shows: ["1 of 3", "What is wrong now", "Show the keys", "By country"], action: "Show" },
  { name: "live", happens: watched, shows: ["Watching.", "+31•••••••04"], action: "Pause" },
  { name: "verification", shows: ["verified", "pending", "failed"], action: "Search" },
  { name: "fraud", shows: ["+31655", "blocked", "pumped"], action: "Block" },
  { name: "providers", shows: ["1. test", "is called"], action: "Try" },
  { name: "tenants", shows: ["acme", "daily_cap", "shop"], action: "New tenant" },
  { name: "webhooks", shows: ["hooks.example", "takes events"], action: "New endpoint" },
  { name: "audit", shows: ["settings.daily_cap", "verdict: block"], action: "Show" },
];

const withProxy = { OTP_CONSOLE_PROXY: "127.0.0.1", OTP_CONSOLE_USERS: "pam@example.com=admin.read" };

/** A send while somebody watches. */
async function watched(): Promise<void> {
  await page.getByText("Watching.").waitFor();
  await send("+31612000004", markup);
}

describe.skipIf(lacks("the console", "chromium"))("the console, for everybody,", () => {
  beforeAll(async () => {
    [world, browser] = await Promise.all([
      startWorld({ ...withConsole, ...withProxy, OTP_DAILY_MESSAGE_CAP: "60" }),
      startBrowser(),
    ]);
    operators = adminClient(world.adminUrl, (await world.makeAdminKey()).text);
    await fillWorld();
  });
  endWithTests(() => ({ visitor, browser, world }));

  const open = async (user = "ann") => {
    visitor = await signIn(browser, world, { user });
    ({ page } = visitor);
  };

  test("takes in whom a proxy names without a link, and nobody again who has signed out until he says so", async () => {
    const context = await browser.newContext({ extraHTTPHeaders: { "x-forwarded-user": "pam@example.com" } });
    context.setDefaultTimeout(pageMsMax);
    const shown = await context.newPage();
    await shown.goto(`${world.adminUrl}/console`);
    await shown.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    // An answer that comes after the session's end ends this page by itself.
    await filled(shown);
    expect(await shown.locator("#who").innerText()).toContain("pam@example.com");
    const beside = await context.newPage();
    await beside.goto(`${world.adminUrl}/console#/audit`);
    await beside.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    await beside.getByRole("button", { name: "Sign out everywhere" }).click();
    await beside.getByText("You are signed out.").waitFor();
    await shown.getByRole("link", { name: "Webhooks" }).click();
    await shown.getByText("There is no session here, or it has ended.").waitFor();
    await shown.getByRole("button", { name: "Sign in as pam@example.com" }).click();
    await shown.getByRole("heading", { level: 1, name: "Webhooks" }).waitFor();
    await shown.getByRole("link", { name: "Audit" }).click();
    await shown.locator("td", { hasText: "tenant.create" }).first().waitFor();
    await context.setExtraHTTPHeaders({ "x-forwarded-user": "eve@example.com" });
    await shown.reload();
    await shown.getByText("otpd console", { exact: true }).waitFor();
    await context.close();
  });

  test("has these pages", async () => {
    await open();
    const links = await page.locator("#pages a").evaluateAll((all) => all.map((each) => each.getAttribute("href")));
    expect(links).toEqual(pages.map(({ name }) => `#/${name}`));
  });

  test("shows on each what there is, by day, by night and at 360 px", async () => {
    await open();
    const wrong: string[] = [];
    for (const { name, happens, shows } of pages) {
      await goTo(page, name);
      await happens?.();
      await expectShown(page, shows);
      const isoTimes = (await page.locator("main").innerText()).match(/\d{4}-\d\d-\d\dT\S+/g);
      if (isoTimes !== null) wrong.push(`${name} shows ${isoTimes.join(", ")}`);
      wrong.push(...(await lookAt(page, name)));
    }
    await goTo(page, `verification?ref=${undelivered}`);
    await expectShown(page, ["absent subscriber", "What happened"]);
    wrong.push(...(await lookAt(page, "story")));
    await goTo(page, "tenants?tenant=acme");
    await expectShown(page, ["daily_cap", "500"]);
    wrong.push(...(await lookAt(page, "tenant")));
    expect(wrong).toEqual([]);
  });

  test("takes strangers' words as text, in every field and in the address", async () => {
    await open(`eve${markup}`);
    const expectText = async (link: string, isShown: readonly string[]) => {
      await goTo(page, link);
      await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
      await expectShown(page, isShown);
      // The picture of the header is the only one.
      expect([link, await page.evaluate(() => document.images.length)]).toEqual([link, 1]);
      expect([link, await page.locator("[onerror], main script").count()]).toEqual([link, 0]);
    };
    expect(await page.locator("#who").innerText()).toContain(markup);
    await expectText(`verification?ref=${undelivered}`, [`absent subscriber ${markup}`]);
    await expectText(`verification?ref=${waiting}`, [markup]);
    await expectText("verification", [markup]);
    await expectText("tenants", [`shop ${markup}`, `https://${markup}`]);
    await expectText("tenants?tenant=acme", [markup.slice(0, 20)]);
    await expectText("overview", [`shop ${markup}`]);
    await expectText("fraud", [`pumped ${markup}`]);
    // In a sentence that the service makes, and of a console's user in the audit.
    await expectText(`fraud?tenant=default&prefix=${encodeURIComponent(blocked)}`, [`+31655 (pumped ${markup})`]);
    await page.getByRole("button", { name: "Block", exact: true }).last().click();
    await page.getByLabel("Prefix or number").fill("+31656");
    await page.getByLabel("Note").fill(markup);
    await page.getByRole("button", { name: "Block it" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expectText("audit?action=destination.block", [
      `user:eve${markup}`,
      `note: ${markup}`,
      `note: pumped ${markup}`,
    ]);
    await expectText("webhooks", ["hooks.example"]);
    await expectText("audit", [markup.slice(0, 20)]);
    await page.getByLabel("What", { exact: true }).selectOption("destination.block");
    await page.getByRole("button", { name: "Show" }).click();
    await expectShown(page, [`note: pumped ${markup}`]);
    // The form is drawn anew with what it has shown.
    await expect
      .poll(() => page.getByLabel("What", { exact: true }).locator("option").allInnerTexts())
      .toEqual(["All", ...auditActions.toSorted()]);
    const given = encodeURIComponent(markup);
    for (const link of ["verification?ref=", "fraud?prefix=", "fraud?tenant=", "audit?actor=", "overview?tenant="]) {
      await expectText(`${link}${given}`, []);
    }
    await expectText(`tenants?tenant=${given}`, [`Settings of ${markup}`]);
  });

  test("takes strangers' words as text in what happens and in dialogs too", async () => {
    await open();
    const expectNone = async (where: string) => {
      expect([where, await page.evaluate(() => document.images.length)]).toEqual([where, 1]);
      expect([where, await page.locator("[onerror]").count()]).toEqual([where, 0]);
    };
    await goTo(page, "live");
    await page.getByText("Watching.").waitFor();
    world.network.script.push({ kind: "refused", cause: "recipient", detail: markup });
    await send("+31612000005", markup);
    await expectShown(page, ["+31•••••••05", "FAILED"]);
    await expectNone("live");
    const dialog = page.getByRole("dialog");
    const inDialog = async (link: string, words: string) => {
      await dialog.getByText(words).first().waitFor();
      await expectNone(link);
      await page.keyboard.press("Escape");
    };
    await goTo(page, "tenants");
    const ofShop = page.locator("tr", { hasText: `shop ${markup}` });
    for (const name of ["Rotate", "Revoke"]) {
      await ofShop.getByRole("button", { name: `${name} shop ${markup}` }).click();
      await inDialog(`tenants, ${name}`, `shop ${markup}`);
    }
    await goTo(page, "providers");
    world.network.script.push({ kind: "refused", cause: "content", detail: `no: ${markup}` });
    await page.getByRole("button", { name: "Try test, sms" }).click();
    await dialog.getByLabel("Phone").fill("+31612000006");
    await dialog.getByRole("button", { name: "Send it" }).click();
    await inDialog("providers, Try", `no: ${markup}`);
    const farEnd = await startFarEnd({ status: 500, headers: { "content-type": "text/html" }, body: markup });
    await operators.createWebhook({ tenant: "acme", url: `${farEnd.url}/hook` });
    await goTo(page, "webhooks");
    await page.locator("tr", { hasText: farEnd.url }).getByRole("button", { name: "Test" }).click();
    await inDialog("webhooks, Test", "It did not take the test event");
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.locator("tr", { hasText: farEnd.url }).getByText("HTTP 500").waitFor();
    expect(farEnd.asked).toHaveLength(1);
    await farEnd.stop();
  });

  test("leads by keyboard past its links to what a page is for", async () => {
    await open();
    for (const { name, action } of pages) {
      await goTo(page, name);
      await page.locator("#skip").focus();
      await page.keyboard.press("Enter");
      await expect.poll(() => focused(page)).toBe(await page.locator("h1").innerText());
      const passed: string[] = [];
      while (passed.at(-1) !== action && passed.length < 30) {
        await page.keyboard.press("Tab");
        passed.push(await focused(page));
      }
      expect([name, passed]).toEqual([name, expect.arrayContaining([action])]);
    }
    // There is nobody but the keyboard: a search is typed, and its story opened.
    await goTo(page, "verification");
    await page.getByLabel("Number, request or first digits").focus();
    await page.keyboard.type("0612345678");
    await page.keyboard.press("Enter");
    await page.getByText("A number begins with + and its country code").waitFor();
    await page.getByLabel("Number, request or first digits").fill("");
    await page.keyboard.type(waiting);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: `Request ${waiting}` }).waitFor();
    const cancel = page.getByRole("button", { name: "Cancel", exact: true });
    await cancel.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").getByText("Its code no longer verifies.").waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe("Cancel");
  });
});
