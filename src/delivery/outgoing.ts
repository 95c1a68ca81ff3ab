/**
 * What a provider is handed of a message: the number, the code and the words of the channel. It is derived anew for each
 * call, and kept nowhere.
 */
import { deriveCode } from "../otp/message/code.ts";
import type { KeyRing } from "../otp/keys/key-ring.ts";
import type { SendOutcome } from "../otp/message/message.ts";
import { openPhone } from "../otp/phone-number.ts";
import { referenceFor } from "../otp/message/provider-text.ts";
import { spokenFor } from "../otp/template/spoken.ts";
import { renderText } from "../otp/template/template.ts";
import type { Tenant } from "../otp/operators/tenant.ts";
import type { Job } from "../store/store.ts";
import type { Instant } from "../system.ts";
import type { OutgoingMessage } from "./provider.ts";

/** A message that goes to nobody, and why. */
type Withheld = Extract<SendOutcome, { readonly kind: "refused" }>;

const withheld = (detail: string): Withheld => ({ kind: "refused", cause: "content", detail });

/** The message of a job, or why it is withheld. Pure. */
export function outgoingOf(
  { message, verification }: Job,
  keys: KeyRing,
  tenant: Tenant,
  now: Instant,
): OutgoingMessage | Withheld {
  const { id, kid, purpose, expireMs } = verification;
  const code = deriveCode(keys, verification);
  if (code === undefined) return withheld("the code is gone");
  if (tenant.isDisabled) return withheld("the tenant is disabled");
  const lifeLeftMs = expireMs - now;
  const { brand, policy } = tenant;
  const { channel } = message;
  const template = tenant.templates.templateFor(verification);
  const { dltTemplateId, dltEntityId } = template;
  // Nothing but an SMS is read by a browser or an app.
  const { webOrigin, appHash } = channel === "sms" ? verification : {};
  const written = {
    locale: template.locale,
    text: renderText(template, { code, brand, purpose, lifeLeftMs, webOrigin, appHash }),
  };
  return {
    channel,
    region: verification.region,
    reference: referenceFor(keys, { id, kid }, message.copy),
    to: openPhone(keys, kid, id, verification.phoneBox),
    code: code.reveal(),
    ...(channel === "voice" ? spokenFor(verification, { brand, code }) : written),
    validitySeconds: Math.floor(lifeLeftMs / 1000),
    ...(verification.digits > policy.codeLength ? { isLengthened: true } : {}),
    ...(dltTemplateId === undefined ? {} : { dltTemplateId }),
    ...(dltEntityId === undefined ? {} : { dltEntityId }),
  };
}
