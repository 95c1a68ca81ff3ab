/**
 * What is posted to webhook endpoints, as the document's `webhooks`: a body for each type of event, told apart by `type`. The
 * test reader of events holds every event that a test receives against it (test/support/readers/events.ts).
 */
import { eventTypes } from "../../../src/otp/event-type.ts";
import { refTo, type JsonObject } from "./schemas.ts";

const text = (description: string) => ({ type: "string", description });
const count = (description: string) => ({ type: "integer", minimum: 0, description });
const moment = (description: string) => ({ type: "string", format: "date-time", description });
const maybe = (schema: { readonly type: string }) => ({ ...schema, type: [schema.type, "null"] });

const tenant = text("Whose it is.");
const ofVerification = {
  request_id: text("What the send answered."),
  tenant,
  channel: text("How the message went, or, in an event about no message, how the code was asked for."),
  channels: { type: "array", description: "Those by which messages were owed so far.", items: { type: "string" } },
  country: text("ISO 3166-1 alpha-2, of the phone."),
  purpose: text("As the send gave it."),
  state: refTo("State"),
  reason: {
    description: "What a further call is refused with; null while it is pending.",
    anyOf: [refTo("Reason"), { type: "null" }],
  },
  delivery: refTo("Delivery"),
  resends: count("Resends so far."),
  create_time: moment("When the send was taken."),
  expire_time: moment("When the code ends."),
  end_time: maybe(moment("When it ended; null while it is pending.")),
  test: { type: "boolean", description: "Whether it was done with a test key." },
  phone: text("Masked, or whole if the endpoint shows phones. Not there where it cannot be read any more."),
};
const ofMessage = {
  ...ofVerification,
  copy: count("0 for the first message, and one more for each resend."),
  provider: maybe(text("Who took it; null for nobody.")),
  provider_message_id: maybe(text("The provider's own id of the message.")),
  reference: text("Our own, which the provider was given."),
};

interface Facts {
  readonly about: string;
  readonly properties: JsonObject;
  /** Those that may be missing. */
  readonly optional: readonly string[];
}

const verification: Facts = { about: "A verification.", properties: ofVerification, optional: ["phone"] };
const message: Facts = { about: "A message of a verification.", properties: ofMessage, optional: ["phone"] };
const fraud: Facts = {
  about: "A prefix that the pumping guard limits or blocks, or would if it enforced.",
  properties: {
    tenant,
    prefix: text("A number without its last four digits, or a shorter beginning of numbers."),
    sends: count("Sends to it that have ended."),
    verified: count("Those of them that were verified."),
    enforced: { type: "boolean", description: "Whether sends are refused." },
    until_time: maybe(moment("Until when; null for a limit.")),
  },
  optional: [],
};
const spend: Facts = {
  about: "A share of a daily cap that is used.",
  properties: {
    tenant,
    share_percent: { type: "integer", enum: [80, 100], description: "Which share." },
    cap: count("The cap, in messages."),
    cap_amount: text("The cap in money, a decimal."),
    currency: text("ISO 4217, of `cap_amount`."),
    day: { type: "string", format: "date", description: "The UTC day." },
  },
  optional: ["cap", "cap_amount", "currency"],
};
const trial: Facts = { about: "A try of the endpoint.", properties: { tenant }, optional: [] };

const factsOf: Readonly<Record<(typeof types)[number], { readonly name: string; readonly facts: Facts }>> = {
  "verification.created": { name: "VerificationFacts", facts: verification },
  "verification.accepted": { name: "MessageFacts", facts: message },
  "verification.delivered": { name: "MessageFacts", facts: message },
  "verification.undelivered": { name: "MessageFacts", facts: message },
  "verification.verified": { name: "VerificationFacts", facts: verification },
  "verification.expired": { name: "VerificationFacts", facts: verification },
  "verification.locked": { name: "VerificationFacts", facts: verification },
  "verification.canceled": { name: "VerificationFacts", facts: verification },
  "verification.failed": { name: "VerificationFacts", facts: verification },
  "fraud.limited": { name: "FraudFacts", facts: fraud },
  "fraud.tripped": { name: "FraudFacts", facts: fraud },
  "spend.warning": { name: "SpendFacts", facts: spend },
  "webhook.test": { name: "TrialFacts", facts: trial },
};
const types = [...eventTypes, "webhook.test"] as const;

/** `VerificationCreatedEvent` of `verification.created`. */
export function eventName(type: string): string {
  const words = type.split(".").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1));
  return `${words.join("")}Event`;
}

const factSchemas = Object.values(factsOf).map(({ name, facts: { about, properties, optional } }) => {
  const required = Object.keys(properties).filter((field) => !optional.includes(field));
  return [name, { type: "object", description: about, required, properties }] as const;
});
const bodies = types.map((type) => [
  eventName(type),
  {
    type: "object",
    description: `The body of \`${type}\`.`,
    required: ["type", "timestamp", "data"],
    properties: {
      type: { type: "string", description: "What happened.", enum: [type] },
      timestamp: moment("When it happened."),
      data: refTo(factsOf[type].name),
    },
  },
]);

export const eventSchemas: JsonObject = {
  OtpEvent: {
    description: "An event. Pass over a type that you do not know.",
    oneOf: types.map((type) => refTo(eventName(type))),
    discriminator: {
      propertyName: "type",
      mapping: Object.fromEntries(types.map((type) => [type, `#/components/schemas/${eventName(type)}`])),
    },
  },
  ...(Object.fromEntries([...bodies, ...factSchemas]) as JsonObject),
};

const signed = [
  ["webhook-id", "The event's id: the same for every try of it."],
  ["webhook-timestamp", "When this try was made, in Unix seconds. Refuse what is older than 5 minutes."],
  [
    "webhook-signature",
    "By Standard Webhooks: `v1,` and a base64 HMAC-SHA-256; more than one while a secret is rotated.",
  ],
].map(([name = "", description = ""]) => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" },
}));

/** One endpoint gets events of every type that it asked for, so there is one webhook. */
export const webhooks: JsonObject = {
  event: {
    post: {
      operationId: "OnEvent",
      tags: ["events"],
      summary: "What happened, posted to a tenant's endpoint",
      description:
        "Anything but 2xx is tried again, for some 76 hours, so an event may come twice; and events come in no order. Endpoints and their types are added with `otpd webhooks add`.",
      security: [],
      parameters: signed,
      requestBody: { required: true, content: { "application/json": { schema: refTo("OtpEvent") } } },
      responses: {
        "204": { description: "Taken, as by any other 2xx." },
        "410": { description: "No more: the endpoint is disabled." },
      },
    },
  },
};
