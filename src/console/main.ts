/**
 * The console: signs in with the link that `otpd console` printed, and shows the page that the address names. The address
 * holds no number and no token: the link's is taken out of it before anything else.
 */
import {
  calling,
  createAdminClient,
  findSession,
  isGivenUp,
  signIn,
  signInByProxy,
  signOut,
  SignedOut,
  type Standing,
} from "./api.ts";
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
/** In the address of who has signed out. */
const leftHash = "#signed-out";

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
    if (link !== undefined) {
      const csrf = await signIn(link);
      return csrf === undefined ? signedOut("spent") : await signedIn(csrf);
    }
    const { csrf, user } = await findSession();
    if (csrf !== undefined) return await signedIn(csrf);
    // Who has just signed out is not signed in again unasked.
    const hasLeft = location.hash === leftHash;
    if (user === undefined || hasLeft) return signedOut(hasLeft ? "left" : "none", user);
    await beginByProxy();
  } catch (failure) {
    if (failure instanceof SignedOut) return void ended();
    unreachable();
  }
}

async function beginByProxy(): Promise<void> {
  const csrf = await signInByProxy();
  return csrf === undefined ? signedOut("none") : signedIn(csrf);
}

/** From the beginning: the pages of a session that is over still listen to the address. */
async function beginAgain(): Promise<void> {
  await signInByProxy();
  if (location.hash === leftHash) history.replaceState(null, "", location.pathname);
  location.reload();
}

/** Says that the session is over, and offers another to whom a proxy names. */
async function ended(): Promise<void> {
  const { user } = await findSession().catch((): Standing => ({}));
  signedOut("none", user);
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
        void ended();
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
  history.replaceState(null, "", `${location.pathname}${leftHash}`);
  location.reload();
}

let quiet: ReturnType<typeof setTimeout> | undefined;

function say(sentence: string): void {
  status.textContent = sentence;
  clearTimeout(quiet);
  quiet = setTimeout(() => (status.textContent = ""), sayMs);
}

const whySignedOut = {
  none: "There is no session here, or it has ended.",
  spent: "This link was used already, or is older than ten minutes.",
  left: "You are signed out.",
};

/** `user` is whom a proxy names. */
function signedOut(why: keyof typeof whySignedOut, user?: string): void {
  navigation.replaceChildren();
  who.replaceChildren();
  const ways =
    user === undefined
      ? [
          make("p", {}, "Run this beside the server, and open the link that it prints. It works once."),
          make("pre", { class: "secret", attributes: { tabindex: 0 } }, "otpd console"),
        ]
      : [button(`Sign in as ${user}`, () => void beginAgain().catch(unreachable), "primary")];
  place.replaceChildren(
    make("h1", {}, "Sign in"),
    make("section", { class: "card" }, make("p", {}, whySignedOut[why]), ways),
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
