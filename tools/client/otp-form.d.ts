/** What `<otp-form>` tells of. `detail` has what is told. */
export interface OtpFormEventMap {
  /** A code is on its way. */
  sent: CustomEvent<{ requestId: string; codeLength: number }>;
  /** The code was right. The receipt is for your backend, which checks it; `phone` is masked. */
  verified: CustomEvent<{ receipt: string; requestId: string; phone: string }>;
  /** A call was refused; UNREACHABLE and DEADLINE when no answer came. */
  refused: CustomEvent<{ reason: string; attemptsRemaining?: number; retryAfterSeconds?: number }>;
  /** The code's lifetime ended. */
  expired: CustomEvent<{ requestId?: string }>;
}

/** `<otp-form>`. To import it is to define it, where there are elements. */
export declare class OtpForm extends HTMLElement {
  /** Cancels the pending request, if there is one, and asks for the number again. */
  reset(): void;
  /** Puts a code in, as if it had been typed. */
  fill(code: string): void;
  addEventListener<Name extends keyof OtpFormEventMap>(
    type: Name,
    listener: (this: OtpForm, event: OtpFormEventMap[Name]) => unknown,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject,
    options?: boolean | AddEventListenerOptions,
  ): void;
}

declare global {
  interface HTMLElementTagNameMap {
    "otp-form": OtpForm;
  }
}
