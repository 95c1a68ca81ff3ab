/**
 * What the form says, by name. `{n}`, `{time}` and `{phone}` stand for a count, a duration and a number; a count of one has a
 * sentence of its own before the bar.
 */

export interface Words {
  // The form itself.
  readonly steps: string;
  readonly stepPhone: string;
  readonly stepCode: string;
  readonly stepDone: string;
  readonly phone: string;
  readonly country: string;
  readonly phoneHint: string;
  readonly sendingTo: string;
  readonly send: string;
  readonly enterCode: string;
  readonly code: string;
  readonly sentTo: string;
  readonly sentDigits: string;
  readonly change: string;
  readonly checkedWhenFull: string;
  readonly verify: string;
  readonly fresh: string;
  readonly resend: string;
  readonly call: string;
  readonly whatsapp: string;
  readonly dueIn: string;
  readonly oneLeft: string;
  readonly noneLeft: string;
  readonly expiresIn: string;
  readonly proven: string;
  // What is told as it happens.
  readonly codeSent: string;
  readonly resendDue: string;
  readonly resent: string;
  readonly calling: string;
  readonly codeRight: string;
  readonly givePhone: string;
  readonly giveDigits: string;
  readonly about: string;
  readonly again: string;
  readonly againIn: string;
  // Refusals.
  readonly phoneInvalid: string;
  readonly phoneNotMobile: string;
  readonly phoneUnreachable: string;
  readonly channelUnsupported: string;
  readonly codeMalformed: string;
  readonly purposeMismatch: string;
  readonly wrongCode: string;
  readonly wrongCodeLeft: string;
  readonly lastWrongCode: string;
  readonly expired: string;
  readonly locked: string;
  readonly alreadyVerified: string;
  readonly canceled: string;
  readonly failed: string;
  readonly notFound: string;
  readonly resendsExhausted: string;
  readonly keyRefused: string;
  readonly notAllowed: string;
  readonly challengeFailed: string;
  readonly countryNotAllowed: string;
  readonly blocked: string;
  readonly resendTooSoon: string;
  readonly phoneLimited: string;
  readonly networkLimited: string;
  readonly serverBusy: string;
  readonly capReached: string;
  readonly tooOften: string;
  readonly inProgress: string;
  readonly deliveryFailed: string;
  readonly tooLate: string;
  readonly internal: string;
  readonly badRequest: string;
  readonly unreachable: string;
  readonly unknown: string;
}
