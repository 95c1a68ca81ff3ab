/**
 * The console: signs in with the link that `otpd console` printed, and shows the page that the address names. The address
 * holds no number and no token: the link's is taken out of it before anything else.
 */
import { isGivenUp, createAdminClient, findSession, signIn, signOut, SignedOut, calling } from "./api.ts";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { element } from "../demo/elements.ts";
import { monotonicMs } from "../elements/system.ts";
import { make } from "./dom.ts";
import type { Page, PageContext } from "./page.ts";
import { button } from "./parts.ts";
import { audit } from "./pages/audit.ts";
import { fraud } from "./pages/fraud.ts";
import { live } from "./pages/live.ts";
import { overview } from "./pages/overview.ts";
import { providers } from "./pages/providers.ts";
import { tenants } from "./pages/tenants.ts";
import { verification } from "./pages/verification.ts";
import { webhooks } from "./pages/webhooks.ts";

const allPages: readonly Page[] = [overview, live, verification, fraud, providers, tenants, webhooks, audit];
const sayMs = 6_000;

const place = element("page", HTMLElement);
const navigation = element("pages", HTMLElement);
const who = element("who", HTMLElement);
const status = element("status", HTMLElement);

// The address names a page of the console, and so cannot name a place on it.
element("skip", HTMLAnchorElement).addEventListener("click", (event) => {
  event.preventDefault();
  place.querySelector("h1")?.focus();
});

async function begin(): Promise<void> {
  const [, link] = /^#token=([\w-]+)$/.exec(location.hash) ?? [];
  if (link !== undefined) history.replaceState(null, "", location.pathname);
  try {
    const csrf = link === undefined ? await findSession() : await signIn(link);
    if (csrf === undefined) return signedOut(link === undefined ? "none" : "spent");
    await signedIn(csrf);
  } catch (failure) {
    if (failure instanceof SignedOut) return signedOut("none");
    unreachable();
  }
}

async function signedIn(csrf: string): Promise<void> {
  const client = createAdminClient(csrf);
  const session = await client.getSession({}, calling(new AbortController().signal));
  const pages = allPages.filter(({ isForOperators }) => isForOperators !== true || session.tenant === "");
  navigation.replaceChildren(
    ...pages.map(({ name, title }) => make("li", {}, make("a", { attributes: { href: `#/${name}` } }, title))),
  );
  who.replaceChildren(
    make("span", {}, session.actor, session.tenant === "" ? "" : ` (${session.tenant})`),
    button("Sign out", () => void leave(csrf, "this")),
    button("Sign out everywhere", () => void leave(csrf, "all")),
  );
  const began = monotonicMs();
  const beganMs = session.now === undefined ? 0 : timestampMs(session.now);
  let left = new AbortController();

  const show = () => {
    left.abort();
    left = new AbortController();
    const [name = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
    const page = pages.find((each) => each.name === name) ?? overview;
    for (const link of navigation.querySelectorAll("a")) {
      const isCurrent = link.hash === `#/${page.name}`;
      if (isCurrent) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      // On a narrow screen the links scroll in a row.
      if (isCurrent) link.scrollIntoView({ block: "nearest", inline: "center" });
    }
    document.title = `${page.title} · otpd`;
    const title = make("h1", { attributes: { tabindex: -1 } }, page.title);
    place.replaceChildren(title);
    const context: PageContext = {
      client,
      session,
      // Whole, as times on the wire are: the monotonic clock has fractions.
      now: () => Math.floor(beganMs + monotonicMs() - began),
      query: new URLSearchParams(query),
      left: left.signal,
      go: (link) => {
        if (location.hash === `#/${link}`) show();
        else location.hash = `#/${link}`;
      },
      say,
      fail: (failure) => {
        if (isGivenUp(failure)) return;
        left.abort();
        signedOut("none");
      },
    };
    page.show(place, context);
    // After a page was chosen, not at the start: there the reader begins at the top.
    if (isChosen) title.focus();
    isChosen = true;
  };
  let isChosen = false;
  window.addEventListener("hashchange", show);
  show();
}

async function leave(csrf: string, which: "this" | "all"): Promise<void> {
  await signOut(csrf, which);
  location.replace(location.pathname);
}

let quiet: ReturnType<typeof setTimeout> | undefined;

function say(sentence: string): void {
  status.textContent = sentence;
  clearTimeout(quiet);
  quiet = setTimeout(() => (status.textContent = ""), sayMs);
}

function signedOut(why: "none" | "spent"): void {
  navigation.replaceChildren();
  who.replaceChildren();
  place.replaceChildren(
    make("h1", {}, "Sign in"),
    make(
      "section",
      { class: "card" },
      make(
        "p",
        {},
        why === "spent"
          ? "This link was used already, or is older than ten minutes."
          : "There is no session here, or it has ended.",
      ),
      make("p", {}, "Run this beside the server, and open the link that it prints. It works once."),
      make("pre", { class: "secret", attributes: { tabindex: 0 } }, "otpd console"),
    ),
  );
}

function unreachable(): void {
  place.replaceChildren(
    make("h1", {}, "The server cannot be reached"),
    make(
      "section",
      { class: "card" },
      make("p", {}, "Is it running? "),
      button("Try again", () => location.reload(), "primary"),
    ),
  );
}

void begin();
