/**
 * The demo page: a number, a code, done. It calls the service as any web client would, and shows what its answers say: the
 * boxes follow `code_length`, the countdowns follow `resend_in_seconds` and `expires_in_seconds`.
 */
import {
  State,
  type ResendOtpResponse,
  type SendOtpResponse,
  type VerifyOtpResponse,
} from "../../gen/otp/v1/otp_service_pb.ts";
import { createOtpClient, nameOf, troubleOf } from "./client.ts";
import { createCodeField } from "./code-field.ts";
import { counted, countdown, onTheClock } from "./countdown.ts";
import { element } from "./elements.ts";
import { showInbox } from "./inbox.ts";
import { claimsOf, masked } from "./receipt.ts";
import { explain, type Trouble } from "./sentences.ts";
import { uniqueName } from "./system.ts";
import { awaitSms, bindableOrigin } from "./web-otp.ts";

const steps = ["phone", "code", "done"] as const;
type Step = (typeof steps)[number];

const phone = element("phone", HTMLInputElement);
const send = element("send", HTMLButtonElement);
const code = element("code", HTMLInputElement);
const verify = element("verify", HTMLButtonElement);
const resend = element("resend", HTMLButtonElement);
const fresh = element("fresh", HTMLButtonElement);
const change = element("change", HTMLButtonElement);
const announcer = element("announcer", HTMLParagraphElement);

const client = createOtpClient(settingOf("otpd-key"));
const field = createCodeField(code, element("boxes", HTMLDivElement), () => void submitCode());

/** The request whose code is asked for; undefined before one is sent. */
let requestId: string | undefined;
/** True while a call is under way: nothing is sent twice. */
let isBusy = false;
/** Rises when the person goes elsewhere on the page: answers to earlier calls are ignored then. */
let visit = 0;
/** The Idempotency-Key of the next send: the same until it is answered, so that a lost answer texts nobody twice. */
let sendName = uniqueName();
/** The code that was tried last and the Idempotency-Key of that try, until it is answered. */
let lastTry: { code: string; name: string } | undefined;
let stopReadingSms = () => {};

function settingOf(name: string): string {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

// ---- what is seen and heard -----------------------------------------------------------------------------------------

function showStep(step: Step): void {
  for (const one of steps) {
    element(`step-${one}`, HTMLElement).hidden = one !== step;
    const mark = element(`mark-${one}`, HTMLLIElement);
    mark.classList.toggle("past", steps.indexOf(one) < steps.indexOf(step));
    if (one === step) mark.setAttribute("aria-current", "step");
    else mark.removeAttribute("aria-current");
  }
}

/** Has a screen reader say a sentence, also if it is the same as before. */
function announce(sentence: string): void {
  announcer.textContent = "";
  setTimeout(() => (announcer.textContent = sentence), 50);
}

/** Shows what is wrong with a field below it. */
function showFault(input: HTMLInputElement, sentence: string): void {
  showError(input, sentence);
  input.setAttribute("aria-invalid", "true");
}

/** Shows below a field why a call failed that is not the field's fault; "" clears it. */
function showError(input: HTMLInputElement, sentence: string): void {
  element(`${input.id}-error`, HTMLParagraphElement).textContent = sentence;
  input.removeAttribute("aria-invalid");
  if (sentence !== "") announce(sentence);
}

/** A disabled button would lose the focus, so a button that has to wait is marked and does nothing. */
function hold(button: HTMLButtonElement, hasToWait: boolean): void {
  button.setAttribute("aria-disabled", `${hasToWait}`);
}

function isHeld(button: HTMLButtonElement): boolean {
  return button.getAttribute("aria-disabled") === "true";
}

// ---- calls ----------------------------------------------------------------------------------------------------------

/** Runs a call with `button` busy. Undefined when another call is under way, or when its answer is to be ignored. */
async function call<Answer>(
  button: HTMLButtonElement,
  act: () => Promise<Answer>,
): Promise<{ answer: Answer } | { trouble: Trouble } | undefined> {
  if (isBusy) return undefined;
  isBusy = true;
  const asked = visit;
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await act();
    return asked === visit ? { answer } : undefined;
  } catch (failure) {
    return asked === visit ? { trouble: troubleOf(failure) } : undefined;
  } finally {
    button.removeAttribute("aria-busy");
    if (asked === visit) isBusy = false;
  }
}

async function sendCode(button: HTMLButtonElement): Promise<void> {
  const typed = phone.value.trim();
  const outcome = await call(button, () =>
    client.sendOtp({ phone: typed, webOrigin: bindableOrigin(location) }, { headers: { "Idempotency-Key": sendName } }),
  );
  if (outcome === undefined) return;
  if ("trouble" in outcome) return refuseSend(outcome.trouble);
  sendName = uniqueName();
  lookAtInbox();
  const sent = outcome.answer;
  requestId = sent.requestId;
  lastTry = undefined;
  showError(phone, "");
  showError(code, "");
  element("code-phone", HTMLElement).textContent = typed;
  for (const where of ["code-count", "hint-count"]) element(where, HTMLElement).textContent = `${sent.codeLength}`;
  field.open(sent.codeLength);
  verify.hidden = false;
  fresh.hidden = true;
  element("waits", HTMLDivElement).hidden = false;
  showStep("code");
  startCountdowns(sent);
  readSms();
  field.focus();
  announce(`Code sent. Enter its ${counted(sent.codeLength, "digit")}.`);
}

function refuseSend(trouble: Trouble): void {
  const { about, sentence } = explain(trouble);
  // Without an answer it may have been sent. After an answer the next send is a new one.
  if (trouble.reason !== undefined) sendName = uniqueName();
  leaveRequest();
  showStep("phone");
  (about === "phone" ? showFault : showError)(phone, sentence);
  phone.focus();
}

async function submitCode(): Promise<void> {
  if (requestId === undefined || code.disabled || isBusy) return;
  if (!field.isFull) {
    showFault(code, `The code has ${code.maxLength} digits.`);
    return field.focus();
  }
  const typed = field.value;
  const id = requestId;
  if (lastTry?.code !== typed) lastTry = { code: typed, name: uniqueName() };
  const { name } = lastTry;
  stopReadingSms();
  showError(code, "");
  const outcome = await call(verify, () =>
    client.verifyOtp({ requestId: id, code: typed }, { headers: { "Idempotency-Key": name } }),
  );
  if (outcome === undefined) return;
  if ("answer" in outcome) return succeed(outcome.answer);
  if (outcome.trouble.reason !== undefined) lastTry = undefined;
  const { about, sentence } = explain(outcome.trouble);
  if (about === "over") return endRequest(sentence);
  if (about === "code") field.clear();
  readSms();
  (about === "code" ? showFault : showError)(code, sentence);
  field.focus();
}

async function resendCode(): Promise<void> {
  if (requestId === undefined || isHeld(resend)) return;
  const id = requestId;
  const outcome = await call(resend, () => client.resendOtp({ requestId: id }));
  if (outcome === undefined) return;
  if ("answer" in outcome) {
    showError(code, "");
    startCountdowns(outcome.answer);
    lookAtInbox();
    announce("The same code was sent again.");
    return field.focus();
  }
  const { trouble } = outcome;
  const { about, sentence } = explain(trouble);
  if (about === "over") return endRequest(sentence);
  showError(code, sentence);
  await refresh();
}

/** Reads the request's state: after a refused resend, and when the page is visible again. */
async function refresh(): Promise<void> {
  if (requestId === undefined || code.disabled || isBusy) return;
  const id = requestId;
  const asked = visit;
  const seen = await client.getOtp({ requestId: id }).catch(() => undefined);
  if (seen === undefined || asked !== visit || id !== requestId || isBusy) return;
  if (seen.state === State.PENDING) return startCountdowns(seen);
  endRequest(explain({ reason: nameOf(seen.reason) }).sentence);
}

// ---- the request's life ---------------------------------------------------------------------------------------------

type Waits = Pick<SendOtpResponse | ResendOtpResponse, "expiresInSeconds" | "resendInSeconds" | "resendsRemaining">;

let stopCountdowns = () => {};

/** A resend needs 60 s of the code's life, and takes a second on the way. */
const resendUntilSeconds = 61;

function startCountdowns({ expiresInSeconds, resendInSeconds, resendsRemaining }: Waits): void {
  stopCountdowns();
  const due = element("resend-due", HTMLElement);
  let stopResend = () => {};
  let isOffered = resendsRemaining > 0 && expiresInSeconds - resendInSeconds >= resendUntilSeconds;
  const withdrawResend = () => {
    isOffered = false;
    stopResend();
    due.textContent = "";
    if (document.activeElement === resend) field.focus();
    showResends(0);
  };
  if (isOffered) {
    showResends(resendsRemaining);
    let hadToWait = false;
    stopResend = countdown(resendInSeconds, (seconds) => {
      hold(resend, seconds > 0);
      due.textContent = seconds > 0 ? `in ${onTheClock(seconds)}` : "";
      if (seconds === 0 && hadToWait) announce("You can have the code sent again now.");
      hadToWait = true;
    });
  } else withdrawResend();
  const expiry = element("expiry", HTMLElement);
  const stopExpiry = countdown(expiresInSeconds, (seconds) => {
    expiry.textContent = onTheClock(seconds);
    if (isOffered && seconds < resendUntilSeconds) withdrawResend();
    if (seconds === 0) endRequest(explain({ reason: "OTP_EXPIRED" }).sentence);
  });
  stopCountdowns = () => {
    stopResend();
    stopExpiry();
  };
}

/** Shows how often the code can be sent again. More than once may become once as time passes, so only the last is shown. */
function showResends(count: number): void {
  const words = count === 0 ? "It cannot be sent again." : count === 1 ? "· 1 left" : "";
  element("resends-left", HTMLElement).textContent = words;
  resend.hidden = count === 0;
}

function readSms(): void {
  stopReadingSms();
  stopReadingSms = awaitSms((found) => field.fill(found));
}

function stopWaiting(): void {
  stopCountdowns();
  stopReadingSms();
}

/** The code is over: it is cleared, and a new one can be sent. */
function endRequest(sentence: string): void {
  stopWaiting();
  requestId = undefined;
  const hadFocus = element("step-code", HTMLElement).contains(document.activeElement);
  field.clear();
  field.close();
  verify.hidden = true;
  fresh.hidden = false;
  element("waits", HTMLDivElement).hidden = true;
  showError(code, sentence);
  if (hadFocus || document.activeElement === document.body) fresh.focus();
}

function succeed(answer: VerifyOtpResponse): void {
  stopWaiting();
  requestId = undefined;
  element("proven", HTMLElement).textContent = masked(answer.phone);
  element("proven-id", HTMLElement).textContent = answer.requestId;
  const claims = claimsOf(answer.receipt);
  element("receipt", HTMLElement).hidden = claims.length === 0;
  element("claims", HTMLDListElement).replaceChildren(
    ...claims.flatMap(([name, text]) => {
      const [term, detail] = [document.createElement("dt"), document.createElement("dd")];
      [term.textContent, detail.textContent] = [name, text];
      return [term, detail];
    }),
  );
  showStep("done");
  element("done-title", HTMLHeadingElement).focus();
  announce("The code was right. This number is proven.");
}

/** Leaves the request, whatever is under way for it. */
function leaveRequest(): void {
  visit += 1;
  isBusy = false;
  stopWaiting();
  requestId = undefined;
}

function startOver(): void {
  leaveRequest();
  showError(phone, "");
  showStep("phone");
  phone.focus();
  phone.select();
}

// ---- what the person does -------------------------------------------------------------------------------------------

element("phone-form", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  if (phone.value.trim() === "") {
    showFault(phone, "Give a phone number.");
    phone.focus();
  } else void sendCode(send);
});
phone.addEventListener("input", () => {
  // Another number is another send.
  sendName = uniqueName();
});
element("code-form", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  void submitCode();
});
resend.addEventListener("click", () => void resendCode());
fresh.addEventListener("click", () => void sendCode(fresh));
change.addEventListener("click", () => {
  // If this does not get through, the code stays valid until its end, and nothing is lost.
  if (requestId !== undefined) client.cancelOtp({ requestId }).catch(() => {});
  startOver();
});
element("again", HTMLButtonElement).addEventListener("click", () => {
  phone.value = "";
  startOver();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") void refresh();
});

const lookAtInbox = showInbox(settingOf("otpd-inbox"), settingOf("otpd-token"), (found) => {
  if (requestId === undefined) return;
  field.focus();
  field.fill(found);
});
phone.focus();
