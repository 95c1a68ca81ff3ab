/**
 * A real browser for our pages and for the form: Debian's Chromium, without a window, driven by playwright. Every page writes down what
 * it should not have done.
 */
import { chromium, type Browser, type Locator, type Page } from "playwright-core";
import { chromiumPath } from "../machine.ts";

/** How long a page may take for one thing, on the slowest machine. */
export const pageMsMax = 120_000;

/** Starts the browser. It asks nobody for anything but what a page asks for. */
export function startBrowser(): Promise<Browser> {
  const quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
  const args = [...quiet, "--disable-component-update", "--disable-sync"];
  // Chromium has no sandbox for root.
  return chromium.launch({
    executablePath: chromiumPath,
    args,
    chromiumSandbox: process.getuid?.() !== 0,
    timeout: pageMsMax,
  });
}

export interface Visitor {
  readonly page: Page;
  /** What the page should not have done: thrown, complained, broken its policy, or asked somebody else. */
  readonly misdeeds: string[];
  /** What a screen reader was told, in order. */
  announced(): Promise<string[]>;
  /** From now on the page's clock moves only as it is told to; the inbox, which is asked again and again, stands still too. */
  standStill(): Promise<void>;
  leave(): Promise<void>;
}

/** Ends a visit, if there is one. Fails where the page did what it should not have. */
export async function endVisit(visitor: Visitor | undefined): Promise<void> {
  await visitor?.leave();
  const misdeeds = visitor?.misdeeds ?? [];
  if (misdeeds.length > 0) throw new Error(misdeeds.join("\n"));
}

export interface VisitOptions {
  readonly clipboard?: boolean;
  /** `machine`: the page has the clock that real pages have, with its fractions; else one of its own, which can be moved. */
  readonly clock?: "machine";
  /** The other origins that the page may ask. */
  readonly mayAsk?: readonly string[];
  /** What the page is to find in place before its own script runs. */
  readonly before?: () => void;
}

/** Opens `url` on a fresh page; the clock is the page's own, and can be moved. */
export async function visit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visitor> {
  const context = await browser.newContext({ locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce" });
  if (options.clipboard === true) await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  page.setDefaultTimeout(pageMsMax);
  const misdeeds: string[] = [];
  page.on("pageerror", (error) => misdeeds.push(`threw ${error.message}`));
  page.on("console", (message) => {
    // Chromium notes every status from 400 on, and every call that got no answer; to the page both are answers.
    const isRefusal = message.text().startsWith("Failed to load resource: ") && message.location().url !== url;
    if (!isRefusal) misdeeds.push(`said ${message.type()} ${message.text()}`);
  });
  page.on("request", (request) => {
    const allowed = [new URL(url).origin, ...(options.mayAsk ?? [])];
    if (!allowed.includes(new URL(request.url()).origin)) misdeeds.push(`asked for ${request.url()}`);
  });
  if (options.clock === undefined) await page.clock.install();
  await page.addInitScript(() => {
    const kept = { announced: [] as string[], violations: [] as string[] };
    Object.assign(globalThis, { kept });
    document.addEventListener("securitypolicyviolation", (event) => kept.violations.push(event.violatedDirective));
    /** What is put into a live region is told, also in an element's own tree. */
    const watch = (root: Node) =>
      new MutationObserver((records) => {
        for (const { target } of records) {
          const region = (target instanceof Element ? target : target.parentElement)?.closest("[aria-live]");
          const text = region?.textContent ?? "";
          if (text !== "") kept.announced.push(text);
        }
      }).observe(root, { childList: true, characterData: true, subtree: true });
    watch(document);
    const attach = Reflect.get(Element.prototype, "attachShadow");
    Element.prototype.attachShadow = function attachShadow(init) {
      const root = attach.call(this, init);
      watch(root);
      return root;
    };
  });
  if (options.before !== undefined) await page.addInitScript(options.before);
  await page.goto(url);
  type Kept = { kept: { announced: string[]; violations: string[] } };
  const kept = () => page.evaluate(() => (globalThis as unknown as Kept).kept);
  return {
    page,
    misdeeds,
    announced: async () => (await kept()).announced,
    standStill: async () => page.clock.pauseAt((await page.evaluate(() => Date.now())) + 1_000),
    async leave() {
      misdeeds.push(...(await kept()).violations.map((directive) => `broke ${directive}`));
      await context.close();
    },
  };
}

/** The text of the element that has the focus, or its id where it has none; in an element with a tree of its own, of the one in it. */
export function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    let active = document.activeElement;
    while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
    const { innerText, id } = active as HTMLElement;
    const isField = active instanceof HTMLInputElement || active instanceof HTMLSelectElement;
    return isField || innerText.trim() === "" ? `#${id}` : innerText.trim().replaceAll(/\s+/g, " ");
  });
}

/** The messages that the demo's inbox is going to show on a page, from the next one on. */
export async function messagesToCome(page: Page): Promise<(index: number) => Locator> {
  const token = new URL(page.url()).searchParams.get("token") ?? "";
  const answer = await fetch(new URL("/demo/inbox", page.url()), { headers: { "x-demo-token": token } });
  const { latest } = (await answer.json()) as { latest: number };
  return (index) => page.locator(`#messages > li[value="${latest + 1 + index}"]`);
}
