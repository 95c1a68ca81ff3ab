/**
 * docs/browsers.md is true: its pages and components are run as they stand, in a browser, against the running service.
 */
import { join } from "node:path";
import { build, type Plugin } from "esbuild";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { compileScript, parse } from "vue/compiler-sfc";
import { publishableScopes } from "../../src/otp/keys/api-key.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { lacks } from "../support/machine.ts";
import { pageMsMax, startBrowser } from "../support/pages/browser.ts";
import { openShop, type Shop } from "../support/pages/shop.ts";
import { readDocument } from "../support/readers/document.ts";
import { startWorld, type World } from "../support/service/world.ts";

const root = join(import.meta.dirname, "../..");
const doc = readDocument("docs/browsers.md");

let world: World;
let shop: Shop;
let browser: Browser;
let page: Page;
let key = "";
/** What was posted to the shop's backend, which takes everything. */
let sessions: string[] = [];
const files = new Map<string, string>();

/** A text of the document, with the running service for those that it names. */
const ours = (text: string) =>
  text
    .replaceAll(/https:\/\/otp\.example|http:\/\/127\.0\.0\.1:8080/g, world.url)
    .replaceAll(/otp_pub_(?:…|\.\.\.)/g, key);

function htmlWith(text: string): string {
  const found = doc.blocks.filter((block) => block.language === "html" && block.text.includes(text));
  if (found.length !== 1) throw new Error(`${found.length} blocks have ${text}`);
  return ours(found[0]?.text ?? "");
}

async function open(body: string, scripts: readonly string[] = []): Promise<void> {
  await page.goto(shop.page(body, scripts));
}

/** Takes the form to a receipt, which is the shop's then. */
async function proveByForm(): Promise<string> {
  const phone = newPhone();
  await page.locator("#phone").fill(phone);
  await page.locator("#phone").press("Enter");
  await page.locator("#step-code").waitFor();
  await page.locator("#code").fill(world.network.codeFor(phone));
  await page.locator("#step-done").waitFor();
  return phone;
}

const receipt = /^[\w-]+\.[\w-]+\.[\w-]+$/;

describe.skipIf(lacks("docs/browsers.md", "chromium"))("docs/browsers.md", () => {
  beforeAll(async () => {
    world = await startWorld();
    shop = await openShop(world.url, { files, policy: "frame-ancestors 'none'" });
    browser = await startBrowser();
    ({ text: key } = await world.makeKey({
      kind: "pub",
      scopes: ["send", ...publishableScopes],
      origins: [shop.origin],
    }));
  });
  afterAll(async () => {
    await browser.close();
    shop.stop();
    await world.stop();
  });
  beforeEach(async () => {
    world.system.advance(3_600_000);
    sessions = [];
    page = await (await browser.newContext({ locale: "en-GB" })).newPage();
    page.setDefaultTimeout(pageMsMax);
    const faults: string[] = [];
    page.on("pageerror", (error) => faults.push(error.message));
    Object.assign(page, { faults });
    await page.route("**/session", async (route) => {
      sessions.push(route.request().postData() ?? "");
      await route.fulfill({ body: "you" });
    });
  });
  afterEach(async () => {
    await page.context().close();
    const { faults } = page as unknown as { faults: string[] };
    if (faults.length > 0) throw new Error(faults.join("\n"));
  });

  test("the form as it is embedded proves a number, by its hash", async () => {
    await open(htmlWith('querySelector("otp-form").addEventListener("verified"'));
    const posted = page.waitForRequest("**/session");
    await proveByForm();
    expect((await posted).postData()).toMatch(receipt);
  });

  test("Turnstile's token goes with each send, and the next one is asked for", async () => {
    // The far end: a widget that has a token at once, and another one when it is reset.
    const widget = `let n = 0; const field = document.createElement("input");
      field.type = "hidden"; field.name = "cf-turnstile-response";
      document.querySelector(".cf-turnstile").append(field);
      globalThis.turnstile = { reset: () => (field.value = "token-" + ++n) }; turnstile.reset();`;
    await page.route("https://challenges.cloudflare.com/**", (route) =>
      route.fulfill({ contentType: "text/javascript", body: widget }),
    );
    const loaded = page.waitForResponse("https://challenges.cloudflare.com/**");
    const script = `<script type="module" src="${world.url}/elements/otp-form.js"></script>`;
    await open(htmlWith("turnstile.reset()"), [script]);
    await loaded;
    const tokens: unknown[] = [];
    page.on("request", (request) => {
      const { challenge_token } = (request.url().endsWith("/send") ? request.postDataJSON() : {}) as Record<
        string,
        string
      >;
      if (challenge_token !== undefined) tokens.push(challenge_token);
    });
    await page.locator("[name=cf-turnstile-response]").waitFor({ state: "attached" });
    await page.locator("#phone").fill("12");
    await page.locator("#phone").press("Enter");
    await page.locator("#phone-error", { hasText: "not a phone number" }).waitFor();
    await page.locator("#phone").fill(newPhone());
    await page.locator("#phone").press("Enter");
    await page.locator("#step-code").waitFor();
    expect(tokens).toEqual(["token-1", "token-2"]);
  });

  test("the page with plain fetch has 40 lines, and proves a number past a lost answer and a wrong code", async () => {
    const html = htmlWith("crypto.randomUUID()");
    expect(html.trimEnd().split("\n").length).toBeLessThanOrEqual(40);
    await open(html);
    const phone = newPhone();
    let isLost = false;
    await page.route("**/v1/otp/send", async (route) => {
      if (isLost) return route.continue();
      isLost = true;
      await route.fetch();
      return route.abort("connectionreset");
    });
    const said = (words: string | RegExp) => page.getByRole("status").filter({ hasText: words }).waitFor();
    await page.getByRole("textbox", { name: "Phone number" }).fill(phone);
    await page.keyboard.press("Enter");
    await said("6 digits are on their way");
    expect(world.network.received.filter(({ to }) => to === phone)).toHaveLength(1);
    const code = world.network.codeFor(phone);
    const field = page.getByRole("textbox", { name: "Code" });
    await field.fill(wrongCode(code));
    await page.keyboard.press("Enter");
    await said("CODE_MISMATCH 4");
    await page.getByRole("button", { name: "Send again" }).press("Enter");
    await said(/RESEND_TOO_SOON \d+/);
    await field.fill(code);
    await page.getByRole("button", { name: "Go on" }).press("Enter");
    await said("proven: you");
    expect(sessions).toEqual([expect.stringMatching(receipt)]);
  });

  describe("components", () => {
    /** The package's entry, which is the build that the server serves. */
    const entry = (): Plugin => ({
      name: "the client's package",
      setup({ onResolve }) {
        onResolve({ filter: /^@otpd\/client\/otp-form$/ }, async () => {
          const answer = await fetch(`${world.url}/elements/integrity.json`);
          return { path: join(root, "gen", ((await answer.json()) as { latest: string }).latest) };
        });
      },
    });

    /** Runs a component where `begin` puts it into the page. */
    async function run(component: { contents: string; loader: "tsx" | "js" }, begin: string): Promise<void> {
      const { outputFiles } = await build({
        stdin: { contents: begin, loader: "jsx", resolveDir: root },
        bundle: true,
        write: false,
        format: "esm",
        jsx: "automatic",
        define: {
          "process.env.NODE_ENV": '"development"',
          __VUE_OPTIONS_API__: "true",
          __VUE_PROD_DEVTOOLS__: "false",
          __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false",
        },
        plugins: [
          entry(),
          {
            name: "the document",
            setup({ onResolve, onLoad }) {
              onResolve({ filter: /^proof$/ }, () => ({ path: "proof", namespace: "document" }));
              onLoad({ filter: /.*/, namespace: "document" }, () => ({ ...component, resolveDir: root }));
            },
          },
        ],
      });
      files.set("/component.js", outputFiles[0]?.text ?? "");
      await open('<div id="root"></div>', ['<script type="module" src="/component.js"></script>']);
    }
    const proven = () => page.evaluate(() => (globalThis as unknown as { proven: string[] }).proven);

    test("React's, also mounted twice as in its strict mode", async () => {
      await run(
        { contents: ours(doc.file("proof.tsx")), loader: "tsx" },
        `import { StrictMode } from "react";
         import { createRoot } from "react-dom/client";
         import { Proof } from "proof";
         globalThis.proven = [];
         const proof = <Proof onProven={(receipt) => proven.push(receipt)} />;
         createRoot(document.querySelector("#root")).render(<StrictMode>{proof}</StrictMode>);`,
      );
      await proveByForm();
      expect(await proven()).toEqual([expect.stringMatching(receipt)]);
    });

    test("Vue's", async () => {
      const { descriptor } = parse(ours(doc.only("vue")));
      const isCustomElement = (tag: string) => tag === "otp-form";
      expect(doc.text).toContain('isCustomElement: (tag) => tag === "otp-form"');
      const { content } = compileScript(descriptor, {
        id: "proof",
        inlineTemplate: true,
        templateOptions: { compilerOptions: { isCustomElement } },
      });
      await run(
        { contents: content, loader: "js" },
        `import { createApp } from "vue";
         import Proof from "proof";
         globalThis.proven = [];
         createApp(Proof, { onProven: (receipt) => proven.push(receipt) }).mount("#root");`,
      );
      await proveByForm();
      expect(await proven()).toEqual([expect.stringMatching(receipt)]);
    });
  });
});
