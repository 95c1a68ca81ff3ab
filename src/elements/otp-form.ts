/**
 * `<otp-form>`: a form that takes a person from a phone number to its proof, as a custom element for any web page. It
 * needs no library, makes no markup of texts, and has its style in a sheet of its own.
 *
 * The web page tells it things by attributes, and it tells the web page things by events.
 */
import { Flow, type Settings } from "./flow.ts";
import { createPhoneField, type PhoneField } from "./phone-field.ts";
import { speechFor, type Speech } from "./speech.ts";
import { createView, type View } from "./view.ts";

/** Where there are no elements, as where a web page is rendered by a server, the form can be imported and is not there. */
const Base = (globalThis.HTMLElement as typeof HTMLElement | undefined) ?? (Object as unknown as typeof HTMLElement);

export class OtpForm extends Base {
  static readonly observedAttributes = ["locale", "phone"];

  #view: View | undefined;
  #flow: Flow | undefined;
  #phoneField: PhoneField | undefined;
  #speech: Speech = speechFor([]);
  readonly #onVisible = () => {
    if (document.visibilityState === "visible") void this.#flow?.refresh();
  };

  connectedCallback(): void {
    this.#draw();
    document.addEventListener("visibilitychange", this.#onVisible);
    this.#flow?.begin();
  }

  disconnectedCallback(): void {
    document.removeEventListener("visibilitychange", this.#onVisible);
    this.#flow?.rest();
  }

  attributeChangedCallback(): void {
    if (this.isConnected && this.#view !== undefined) this.#say();
  }

  /** Cancels the pending request, if there is one, and asks for the number again. */
  reset(): void {
    this.#flow?.clear();
  }

  /** Puts a code in, as if it had been typed. */
  fill(code: string): void {
    this.#flow?.fill(code);
  }

  /** Focuses what the person has to fill in next. */
  override focus(): void {
    this.#flow?.focus();
  }

  #draw(): void {
    if (this.#view === undefined) {
      const view = createView(this.attachShadow({ mode: "open" }));
      this.#view = view;
      this.#phoneField = createPhoneField(view, () => this.#flow?.changePhone());
      this.#flow = new Flow({
        view,
        phoneField: this.#phoneField,
        settings: () => this.#settings(),
        speech: () => this.#speech,
        emit: (name, detail) => this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true })),
      });
      listen(view, this.#flow);
    }
    this.#say();
  }

  /** Says everything that stands still, in the language of the form. */
  #say(): void {
    const view = this.#view;
    if (view === undefined) return;
    const { phone, locale } = this.#settings();
    const around = this.closest<HTMLElement>("[lang]")?.lang ?? "";
    const tags = [locale, around, ...navigator.languages].filter((tag) => tag !== "");
    // What a web page or a person asks for first counts, even where it is not one of the six.
    this.#speech = speechFor(tags.slice(0, locale === "" ? tags.length : 1));
    view.speak(this.#speech);
    this.#phoneField?.speak(this.#speech.language);
    this.#phoneField?.suggest([...[locale].filter((tag) => tag.includes("-")), ...navigator.languages, ...tags]);
    view.asked.hidden = phone !== "";
    view.given.hidden = phone === "";
    view.given.textContent = this.#speech.words.sendingTo.replace("{phone}", () => phone);
  }

  #settings(): Settings {
    const said = (name: string) => this.getAttribute(name)?.trim() ?? "";
    const channels = said("channels")
      .toLowerCase()
      .split(/[\s,]+/);
    return {
      server: said("server").replace(/\/+$/, ""),
      // React and Vue keep `key` for themselves.
      key: said("api-key") === "" ? said("key") : said("api-key"),
      purpose: said("purpose"),
      locale: said("locale"),
      phone: said("phone"),
      channels: channels.filter((channel) => channel !== ""),
      id: this.id,
    };
  }
}

/** What the person does. */
function listen(view: View, flow: Flow): void {
  const onSubmit = (form: HTMLFormElement, act: () => Promise<void>) =>
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void act();
    });
  onSubmit(view.phoneForm, () => flow.send(view.send));
  onSubmit(view.codeForm, () => flow.submitCode());
  view.resend.addEventListener("click", () => void flow.resend(view.resend, ""));
  view.byVoice.addEventListener("click", () => void flow.resend(view.byVoice, "voice"));
  view.byWhatsapp.addEventListener("click", () => void flow.resend(view.byWhatsapp, "whatsapp"));
  view.change.addEventListener("click", () => flow.startOver());
  view.fresh.addEventListener("click", () => flow.renew());
}

const registry = globalThis.customElements as CustomElementRegistry | undefined;
if (registry !== undefined && registry.get("otp-form") === undefined) registry.define("otp-form", OtpForm);
