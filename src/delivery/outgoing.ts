/**
 * What a provider is given of a message that is owed: the number and the text are made here, anew for each call.
 */
import { deriveCode } from "../otp/code.ts";
import type { KeyRing } from "../otp/key-ring.ts";
import type { SendOutcome } from "../otp/message.ts";
import { openPhone } from "../otp/phone-number.ts";
import { referenceOf } from "../otp/reference.ts";
import { renderText } from "../otp/template/template.ts";
import type { Tenant } from "../otp/tenant.ts";
import type { Job } from "../store/store.ts";
import type { Instant } from "../system.ts";
import type { OutgoingMessage } from "./provider.ts";

/** A message that goes to nobody, and why. */
type Withheld = Extract<SendOutcome, { readonly kind: "refused" }>;

const withheld = (detail: string): Withheld => ({ kind: "refused", cause: "content", detail });

/** The message of a job as it is at that moment, or why nobody is to have it. Pure. */
export function outgoingOf(
  { message, verification }: Job,
  keys: KeyRing,
  tenant: Tenant,
  now: Instant,
): OutgoingMessage | Withheld {
  const { id, kid, purpose, webOrigin, appHash, expireMs } = verification;
  const code = deriveCode(keys, verification);
  if (code === undefined) return withheld("the code is gone");
  if (tenant.isDisabled) return withheld("the tenant is disabled");
  const lifeLeftMs = expireMs - now;
  const { brand, policy } = tenant;
  const template = tenant.templates.templateFor(verification);
  const { dltTemplateId, dltEntityId } = template;
  return {
    channel: message.channel,
    region: verification.region,
    reference: referenceOf(keys.find(kid) ?? keys.current, id, message.copy),
    to: openPhone(keys, kid, id, verification.phoneBox),
    text: renderText(template, { code, brand, purpose, lifeLeftMs, webOrigin, appHash }),
    validitySeconds: Math.floor(lifeLeftMs / 1000),
    ...(verification.digits > policy.codeLength ? { isLengthened: true } : {}),
    ...(dltTemplateId === undefined ? {} : { dltTemplateId }),
    ...(dltEntityId === undefined ? {} : { dltEntityId }),
  };
}
