/**
 * The two waits beside a code: until it can be sent again, and until it expires.
 */
import { countdown, onTheClock } from "./countdown.ts";
import type { Told } from "./client.ts";
import type { Speech } from "./speech.ts";
import type { View } from "./view.ts";

/** A resend needs 60 s of the code's life, and takes a second on the way. */
const resendUntilSeconds = 61;

export interface WaitsOptions {
  readonly view: View;
  readonly speech: () => Speech;
  /** The channels by which the code can be sent, the send's own first. */
  readonly channels: () => readonly string[];
  /** Runs when a button that has the focus goes away. */
  readonly onFocusLost: () => void;
  readonly onExpired: () => void;
}

export interface Waits {
  start(told: Pick<Told, "expiresInSeconds" | "resendInSeconds" | "resendsRemaining">): void;
  /** Nothing is known of the request: there is nothing to count, and no resend to offer. */
  hide(): void;
  stop(): void;
}

/** A disabled button would lose the focus, so a button that has to wait is marked and does nothing. */
export function hold(button: HTMLButtonElement, hasToWait: boolean): void {
  button.setAttribute("aria-disabled", `${hasToWait}`);
}

export function isHeld(button: HTMLButtonElement): boolean {
  return button.getAttribute("aria-disabled") === "true";
}

export function createWaits({ view, speech, channels, onFocusLost, onExpired }: WaitsOptions): Waits {
  const ways = new Map([
    ["", view.resend],
    ["voice", view.byVoice],
    ["whatsapp", view.byWhatsapp],
  ]);
  let stop = () => {};

  /** Shows how often the code can be sent again. More than once may become once as time passes, so only the last is shown. */
  function showResends(count: number): void {
    const { noneLeft, oneLeft } = speech().words;
    view.resendsLeft.textContent = count === 0 ? noneLeft : count === 1 ? oneLeft : "";
    const hadFocus = [...ways.values()].some((button) => button.matches(":focus"));
    const [first, ...others] = channels();
    for (const [channel, button] of ways) {
      button.hidden = count === 0 || (channel !== "" && (channel === first || !others.includes(channel)));
    }
    if (hadFocus && count === 0) onFocusLost();
  }

  function start({ expiresInSeconds, resendInSeconds, resendsRemaining }: Parameters<Waits["start"]>[0]): void {
    stop();
    let stopResend = () => {};
    let isOffered = resendsRemaining > 0 && expiresInSeconds - resendInSeconds >= resendUntilSeconds;
    const withdrawResend = () => {
      isOffered = false;
      stopResend();
      view.due.textContent = "";
      showResends(0);
    };
    if (isOffered) {
      showResends(resendsRemaining);
      let hadToWait = false;
      stopResend = countdown(resendInSeconds, (seconds) => {
        for (const button of ways.values()) hold(button, seconds > 0);
        view.due.textContent = seconds > 0 ? speech().words.dueIn.replace("{time}", onTheClock(seconds)) : "";
        if (seconds === 0 && hadToWait) view.announce(speech().words.resendDue);
        hadToWait = true;
      });
    } else withdrawResend();
    view.waits.hidden = false;
    const stopExpiry = countdown(expiresInSeconds, (seconds) => {
      view.expiry.textContent = onTheClock(seconds);
      if (isOffered && seconds < resendUntilSeconds) withdrawResend();
      if (seconds === 0) onExpired();
    });
    stop = () => {
      stopResend();
      stopExpiry();
    };
  }

  return {
    start,
    hide: () => void (view.waits.hidden = true),
    stop: () => stop(),
  };
}
