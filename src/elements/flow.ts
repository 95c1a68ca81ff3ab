/**
 * The way from a number to its proof: what the person does, what is asked of the server, and how its answers change the
 * form. The boxes follow `code_length`, the countdowns follow `resend_in_seconds` and `expires_in_seconds`.
 */
import { tokenIn } from "./bot-check.ts";
import { createClient, look, type Fields, type Outcome, type Path, type Told } from "./client.ts";
import { createCodeField, type CodeField } from "./code-field.ts";
import { createKeeper, type Keeper } from "./kept-request.ts";
import type { PhoneField } from "./phone-field.ts";
import { explain, isDecided, type Matter, type Trouble } from "./refusals.ts";
import type { Speech } from "./speech.ts";
import { uniqueName } from "./system.ts";
import { showSent, type View } from "./view.ts";
import { createWaits, isHeld, type Waits } from "./waits.ts";
import { awaitSms, bindableOrigin } from "./web-otp.ts";

/** What the web page has said of the form. Each is read when it is needed. */
export interface Settings {
  /** An origin; "" for the web page's own. */
  readonly server: string;
  readonly key: string;
  readonly purpose: string;
  /** The language asked for, as it was written; "" for none. */
  readonly locale: string;
  /** The number that the web page has; "" where the person is asked. */
  readonly phone: string;
  /** The send's own first. */
  readonly channels: readonly string[];
  /** What tells forms of one web page apart. */
  readonly id: string;
}

export interface FlowOptions {
  readonly view: View;
  readonly phoneField: PhoneField;
  readonly settings: () => Settings;
  readonly speech: () => Speech;
  readonly emit: (name: "sent" | "verified" | "refused" | "expired", detail: object) => void;
}

export class Flow {
  readonly #options: FlowOptions;
  readonly #view: View;
  readonly #field: CodeField;
  readonly #waits: Waits;
  /** The request whose code is asked for; undefined before one is sent. */
  #requestId: string | undefined;
  /** True while a call is under way: nothing is sent twice. */
  #isBusy = false;
  /** Rises when the person goes elsewhere in the form: answers to earlier calls are ignored then. */
  #visit = 0;
  /** The Idempotency-Key of the next send: the same until it is answered, so that a lost answer texts nobody twice. */
  #sendName = uniqueName();
  /** The code that was tried last and the Idempotency-Key of that try, until it is answered. */
  #lastTry: { code: string; name: string } | undefined;
  /** The channel of the last resend and its Idempotency-Key, until it is answered. */
  #lastResend: { channel: string; name: string } | undefined;
  #stopReadingSms = () => {};

  constructor(options: FlowOptions) {
    this.#options = options;
    this.#view = options.view;
    this.#field = createCodeField(this.#view.code, this.#view.boxes, () => void this.submitCode());
    this.#waits = createWaits({
      view: this.#view,
      speech: options.speech,
      channels: () => options.settings().channels,
      onFocusLost: () => this.#field.focus(),
      onExpired: () => this.#end({ reason: "OTP_EXPIRED" }),
    });
  }

  // ---- the phone ----------------------------------------------------------------------------------------------------

  async send(button: HTMLButtonElement): Promise<void> {
    const { phone: given, channels, locale, purpose } = this.#settings;
    const { words } = this.#speech;
    const phone = given === "" ? this.#options.phoneField.value : given;
    if (phone === "") return this.#refusePhone("phone", words.givePhone);
    const token = tokenIn(this.#view.botCheck);
    if (token === "") return this.#refusePhone("other", words.challengeFailed);
    const [channel = ""] = channels;
    const fields = {
      phone,
      web_origin: bindableOrigin(location),
      locale,
      purpose,
      channel,
      challenge_token: token ?? "",
    };
    const outcome = await this.#call(button, "/v1/otp/send", fields, this.#sendName);
    if (outcome === undefined) return;
    if ("trouble" in outcome) return this.#refuseSend(outcome.trouble);
    this.#sendName = uniqueName();
    const { told } = outcome;
    this.#keeper.set({ id: told.requestId, codeLength: told.codeLength });
    this.#open(told.requestId, told.codeLength, phone);
    this.#waits.start(told);
    this.#field.focus();
    this.#view.announce(words.codeSent.replace("{n}", `${told.codeLength}`));
    this.#options.emit("sent", { requestId: told.requestId, codeLength: told.codeLength });
    if (told.isRepeated) await this.refresh();
  }

  /** Another number is another send. */
  changePhone(): void {
    this.#sendName = uniqueName();
  }

  #refuseSend(trouble: Trouble): void {
    const { about, sentence } = explain(trouble, this.#speech);
    // It may have been sent, and one that was passed by a bot check may come again unchanged. Else the next send is a new one.
    if (isDecided(trouble) && trouble.waitSeconds === undefined) this.#sendName = uniqueName();
    this.#leave();
    this.#view.showStep("phone");
    this.#refusePhone(about, sentence);
    this.#emitRefused(trouble);
  }

  #refusePhone(about: Matter, sentence: string): void {
    const { phone, phoneError, asked, send } = this.#view;
    this.#showError(phone, phoneError, sentence, about === "phone");
    (asked.hidden ? send : phone).focus();
  }

  // ---- the code -----------------------------------------------------------------------------------------------------

  async submitCode(): Promise<void> {
    const { code, codeError, verify } = this.#view;
    const id = this.#requestId;
    if (id === undefined || code.disabled || this.#isBusy) return;
    if (!this.#field.isFull) {
      const sentence = this.#speech.words.giveDigits.replace("{n}", `${code.maxLength}`);
      this.#showError(code, codeError, sentence, true);
      return this.#field.focus();
    }
    const typed = this.#field.value;
    if (this.#lastTry?.code !== typed) this.#lastTry = { code: typed, name: uniqueName() };
    const { purpose } = this.#settings;
    this.#stopReadingSms();
    this.#showError(code, codeError, "");
    const fields = { request_id: id, code: typed, purpose };
    const outcome = await this.#call(verify, "/v1/otp/verify", fields, this.#lastTry.name);
    if (outcome === undefined) return;
    if ("told" in outcome) return this.#succeed(outcome.told);
    const { trouble } = outcome;
    if (isDecided(trouble)) this.#lastTry = undefined;
    const { about, sentence } = explain(trouble, this.#speech);
    if (about === "over") return this.#end(trouble);
    if (about === "code") this.#field.clear();
    this.#readSms();
    this.#showError(code, codeError, sentence, about === "code");
    this.#field.focus();
    this.#emitRefused(trouble);
  }

  /** Has the code sent again, by the send's own channel or by another. */
  async resend(button: HTMLButtonElement, channel: string): Promise<void> {
    const id = this.#requestId;
    if (id === undefined || isHeld(button)) return;
    const { code, codeError, announce } = this.#view;
    if (this.#lastResend?.channel !== channel) this.#lastResend = { channel, name: uniqueName() };
    const fields = { request_id: id, channel };
    const outcome = await this.#call(button, "/v1/otp/resend", fields, this.#lastResend.name);
    if (outcome === undefined) return;
    const { words } = this.#speech;
    if ("told" in outcome) {
      this.#lastResend = undefined;
      this.#showError(code, codeError, "");
      this.#waits.start(outcome.told);
      announce(channel === "voice" ? words.calling : words.resent);
      this.#field.focus();
      return outcome.told.isRepeated ? this.refresh() : undefined;
    }
    const { trouble } = outcome;
    if (isDecided(trouble)) this.#lastResend = undefined;
    const { about, sentence } = explain(trouble, this.#speech);
    if (about === "over") return this.#end(trouble);
    this.#showError(code, codeError, sentence);
    this.#emitRefused(trouble);
    await this.refresh();
  }

  /**
   * Reads the request's state: after a refused resend or a repeated answer, after a reload, and when the web page is visible
   * again.
   */
  async refresh(): Promise<void> {
    const id = this.#requestId;
    if (id === undefined || this.#view.code.disabled || this.#isBusy) return;
    const asked = this.#visit;
    const outcome = await this.#client.call(look, { request_id: id });
    if (asked !== this.#visit || id !== this.#requestId || this.#isBusy) return;
    if ("trouble" in outcome) {
      const { trouble } = outcome;
      if (explain(trouble, this.#speech).about === "over") this.#end(trouble);
      return;
    }
    const { told } = outcome;
    if (!told.isPending) return this.#end({ reason: told.reason });
    if (isOther(this.#settings.phone, told.phone)) return this.#forget();
    showSent(this.#view, this.#speech, told.codeLength, told.phone);
    this.#waits.start(told);
  }

  // ---- the request's life -------------------------------------------------------------------------------------------

  /** Begins: with the request that was pending before a reload, or with the number. */
  begin(): void {
    const kept = this.#keeper.get();
    if (kept === undefined) return this.#view.showStep("phone");
    this.#open(kept.id, kept.codeLength, "");
    this.#waits.hide();
    void this.refresh();
  }

  /** The form is taken out of the web page. The request goes on. */
  rest(): void {
    this.#leave();
  }

  /** Sends a new code where that needs no more than the number, which a reload forgets; else asks for it. */
  renew(): void {
    const hasPhone = this.#settings.phone !== "" || this.#options.phoneField.value !== "";
    if (hasPhone && tokenIn(this.#view.botCheck) === undefined) void this.send(this.#view.fresh);
    else this.startOver();
  }

  /** Cancels the pending request, and asks for the number. */
  startOver(): void {
    if (this.#requestId !== undefined) {
      void this.#client.call("/v1/otp/cancel", { request_id: this.#requestId });
      this.#keeper.forget();
    }
    this.#askPhone();
    const { phone, asked, send } = this.#view;
    (asked.hidden ? send : phone).focus();
    phone.select();
  }

  /** Cancels the pending request, and empties the form without taking the focus. */
  clear(): void {
    if (this.#requestId !== undefined) void this.#client.call("/v1/otp/cancel", { request_id: this.#requestId });
    this.#keeper.forget();
    this.#askPhone();
    // What was said of the code that is gone stays to be read otherwise.
    this.#view.hush();
    this.#view.phone.value = "";
    // As if it had been emptied by hand.
    this.#view.phone.dispatchEvent(new Event("input"));
  }

  #askPhone(): void {
    this.#leave();
    this.#showError(this.#view.phone, this.#view.phoneError, "");
    this.#view.showStep("phone");
  }

  focus(): void {
    const { phone, asked, send, phoneSection, codeSection, fresh, doneTitle, code } = this.#view;
    if (!phoneSection.hidden) (asked.hidden ? send : phone).focus();
    else if (codeSection.hidden) doneTitle.focus();
    else if (code.disabled) fresh.focus();
    else this.#field.focus();
  }

  /** Puts a code in, as if it had been typed. */
  fill(code: string): void {
    if (this.#requestId === undefined) return;
    this.#field.focus();
    this.#field.fill(code);
  }

  #open(id: string, codeLength: number, phone: string): void {
    const { phone: input, phoneError, code, codeError, verify, fresh, showStep, change, asked } = this.#view;
    this.#requestId = id;
    this.#lastTry = undefined;
    this.#lastResend = undefined;
    this.#showError(input, phoneError, "");
    this.#showError(code, codeError, "");
    showSent(this.#view, this.#speech, codeLength, phone);
    this.#field.open(codeLength);
    verify.hidden = false;
    fresh.hidden = true;
    // The number is the web page's to change.
    change.hidden = asked.hidden;
    showStep("code");
    this.#readSms();
  }

  #readSms(): void {
    this.#stopReadingSms();
    this.#stopReadingSms = awaitSms((found) => this.#field.fill(found));
  }

  #stopWaiting(): void {
    this.#waits.stop();
    this.#stopReadingSms();
  }

  /** The code is over: it is cleared, and a new one can be sent. */
  #end(trouble: Trouble): void {
    const { code, codeError, codeSection, verify, fresh } = this.#view;
    this.#stopWaiting();
    const requestId = this.#requestId;
    this.#requestId = undefined;
    this.#keeper.forget();
    const hadFocus = codeSection.matches(":focus-within");
    this.#field.clear();
    this.#field.close();
    verify.hidden = true;
    fresh.hidden = false;
    this.#waits.hide();
    this.#showError(code, codeError, explain(trouble, this.#speech).sentence);
    if (hadFocus) fresh.focus();
    if (trouble.reason === "OTP_EXPIRED") this.#options.emit("expired", { requestId });
    else this.#emitRefused(trouble);
  }

  #succeed({ requestId, phone, receipt }: Told): void {
    this.#stopWaiting();
    this.#requestId = undefined;
    this.#keeper.forget();
    this.#view.showStep("done");
    this.#view.doneTitle.focus();
    this.#view.announce(this.#speech.words.codeRight);
    this.#options.emit("verified", { receipt, requestId, phone });
  }

  /** Leaves the request, whatever is under way for it. */
  #leave(): void {
    this.#visit += 1;
    this.#isBusy = false;
    this.#stopWaiting();
    this.#requestId = undefined;
  }

  /** The request that was kept is another's: it is nobody's here. */
  #forget(): void {
    this.#keeper.forget();
    this.#askPhone();
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  /** Runs a call with `button` busy. Undefined when another call is under way, or when its answer is to be ignored. */
  async #call(button: HTMLButtonElement, path: Path, fields: Fields, name: string): Promise<Outcome | undefined> {
    if (this.#isBusy) return undefined;
    this.#isBusy = true;
    const asked = this.#visit;
    button.setAttribute("aria-busy", "true");
    const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""));
    const outcome = await this.#client.call(path, given, name);
    button.removeAttribute("aria-busy");
    if (asked !== this.#visit) return undefined;
    this.#isBusy = false;
    return outcome;
  }

  /** Shows below a field what is wrong, with the field or otherwise; "" clears it. */
  #showError(input: HTMLInputElement, error: HTMLElement, sentence: string, isItsFault = false): void {
    error.textContent = sentence;
    if (isItsFault) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    if (sentence !== "") this.#view.announce(sentence);
  }

  #emitRefused({ reason, silence, attemptsLeft, waitSeconds }: Trouble): void {
    const without = silence === "late" ? "DEADLINE" : silence === "unreachable" ? "UNREACHABLE" : "";
    this.#options.emit("refused", {
      reason: reason ?? without,
      attemptsRemaining: attemptsLeft,
      retryAfterSeconds: waitSeconds,
    });
  }

  get #settings(): Settings {
    return this.#options.settings();
  }

  get #speech(): Speech {
    return this.#options.speech();
  }

  get #client() {
    return createClient(this.#settings.server, this.#settings.key);
  }

  get #keeper(): Keeper {
    const { server, purpose, id } = this.#settings;
    return createKeeper(server, purpose, id);
  }
}

/** Whether a masked number, such as "+31•••••••78", is not that of the number that the web page has. */
function isOther(given: string, masked: string): boolean {
  const digits = `+${given.replaceAll(/\D/g, "")}`;
  return given !== "" && (digits.slice(0, 3) !== masked.slice(0, 3) || digits.slice(-2) !== masked.slice(-2));
}
