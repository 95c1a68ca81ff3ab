/**
 * The form in a web page of another site: a service, a shop, a browser, and the key that the shop's page has.
 */
import type { Browser, Page } from "playwright-core";
import { publishableScopes } from "../../../src/otp/keys/api-key.ts";
import { createPhoneNetwork, startWorld, type PhoneNetwork, type World } from "../service/world.ts";
import { startBrowser, visit, type VisitOptions, type Visitor } from "./browser.ts";
import { openShop, type Shop } from "./shop.ts";

/** An event of the form. */
export interface Told {
  readonly type: string;
  readonly detail: Record<string, unknown>;
}

export interface Embedded {
  readonly world: World;
  readonly shop: Shop;
  readonly browser: Browser;
  /** Who calls, where the channel `voice` is asked for. */
  readonly callers: PhoneNetwork;
  readonly key: string;
  /** The form's element, with more attributes. */
  form(attributes?: string): string;
  /** Opens a page with this body, which has the latest build by its hash. */
  open(body: string, options?: VisitOptions): Promise<Visitor>;
  stop(): Promise<void>;
}

/** Notes the form's events, as they reach the document. */
function noteEvents(): void {
  const told: Told[] = [];
  Object.assign(globalThis, { told });
  for (const name of ["sent", "verified", "refused", "expired"]) {
    document.addEventListener(name, ({ type, detail }: CustomEventInit & Event) => {
      // Without what is not said.
      told.push(JSON.parse(JSON.stringify({ type, detail: detail as unknown })) as Told);
    });
  }
}

/** What the form has told of on a page. */
export function toldOn(page: Page): Promise<Told[]> {
  return page.evaluate(() => (globalThis as unknown as { told: Told[] }).told);
}

export async function startEmbedded(): Promise<Embedded> {
  const callers = createPhoneNetwork("caller");
  const world = await startWorld({}, undefined, { voice: [callers] });
  const [shop, browser] = await Promise.all([openShop(world.url), startBrowser()]);
  const scopes = ["send", ...publishableScopes] as const;
  const channels = ["sms", "voice"] as const;
  const { text: key } = await world.makeKey({ kind: "pub", scopes, origins: [shop.origin], channels });
  const answer = await fetch(`${world.url}/elements/integrity.json`);
  const { latest, builds } = (await answer.json()) as { latest: string; builds: Record<string, string> };
  const named = `src="${world.url}${latest}" integrity="${builds[latest]}" crossorigin="anonymous"`;
  return {
    world,
    shop,
    browser,
    callers,
    key,
    form: (attributes = "") => `<otp-form server="${world.url}" key="${key}" ${attributes}></otp-form>`,
    open: (body, options = {}) =>
      visit(browser, shop.page(body, [`<script type="module" ${named}></script>`]), {
        mayAsk: [world.url],
        before: noteEvents,
        ...options,
      }),
    async stop() {
      await browser.close();
      shop.stop();
      await world.stop();
    },
  };
}
