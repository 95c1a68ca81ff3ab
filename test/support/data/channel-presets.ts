/**
 * What the manuals of presets for calls and for WhatsApp say, and what all manuals are made of.
 */
import { createHash, createHmac, generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import { expect } from "vitest";
import type { OutgoingMessage } from "../../../src/delivery/provider.ts";
import { publicUrl, sms } from "../../delivery/http/setup.ts";
import type { ScriptedReply } from "../fakes/scripted-gateway.ts";

type Refusal = "recipient" | "credentials" | "balance" | "content";

export interface PresetManual {
  readonly entry: object;
  /** What it is handed, where that is no SMS. */
  readonly message?: OutgoingMessage;
  readonly secret: string;
  readonly reportSecret: string;
  /** What it is asked, but for the authority of the URL. */
  readonly asked: object;
  readonly taken: ScriptedReply;
  readonly id?: string;
  readonly refusals: readonly (readonly [reply: ScriptedReply, cause: Refusal])[];
  readonly throttled: readonly ScriptedReply[];
  /** A report that is signed, of this status. */
  readonly report: (status: string, now: number) => Promise<SentReport> | SentReport;
  readonly statuses: Readonly<Record<string, "ACCEPTED" | "DELIVERED" | "UNDELIVERED">>;
}
export interface SentReport {
  readonly target: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

const { reference } = sms;
export const basic = (pair: string) => `Basic ${Buffer.from(pair).toString("base64")}`;
export const jsonType = { "content-type": "application/json" };
export const formType = { "content-type": "application/x-www-form-urlencoded" };

export const twilioError = (status: number, code: number): ScriptedReply => ({
  status,
  body: { code, message: `no: ${sms.to}`, more_info: `https://www.twilio.com/docs/errors/${code}`, status },
});

/** A request of Twilio's, signed as its manual says. */
export function twilioPost(target: string, fields: Readonly<Record<string, string>>): SentReport {
  const sorted = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const said = createHmac("sha1", "auth-token").update(publicUrl + target + sorted.flat().join(""));
  const headers = { ...formType, "x-twilio-signature": said.digest("base64") };
  return { target, headers, body: new URLSearchParams(fields).toString() };
}

const spokenCall: OutgoingMessage = {
  ...sms,
  channel: "voice",
  locale: "nl-NL",
  prompt: 'Dit is "A&B" <Acme>.',
  text: "Je code is: één, twee, drie. vier, vijf, zes.",
};
const metaError = (status: number, code: number): ScriptedReply => ({
  status,
  body: { error: { message: `(#${code}) no: ${sms.to}`, type: "OAuthException", code, fbtrace_id: "A1" } },
});

/** An application's key, and the half of it that Vonage has. */
export const vonageKeys = generateKeyPairSync("rsa", {
  modulusLength: 2_048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

/** What a request to Vonage is authorized by: a token that such a key has signed. */
export const vonageToken = expect.stringMatching(/^Bearer ([\w-]+\.){2}[\w-]{342}$/) as unknown;

/** A request of Vonage's, signed as its manual says: the JWT names the body, and not the address. */
export async function vonagePost(target: string, said: object, now = Date.now()): Promise<SentReport> {
  const body = JSON.stringify(said);
  const hash = createHash("sha256").update(body).digest("hex");
  const jwt = await new SignJWT({ payload_hash: hash, api_key: "abcd1234", application_id: "aaaa-bbbb" })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setIssuer("Vonage")
    .setIssuedAt(Math.floor(now / 1_000))
    .setJti("62c7b22a")
    .sign(Buffer.from("signature-secret"));
  return { target, headers: { ...jsonType, authorization: `Bearer ${jwt}` }, body };
}

const vonageCallError = (status: number, body: object): ScriptedReply => ({ status, body });

export const manualsOfChannels = {
  "vonage-voice": {
    entry: { from: "15551234567", vars: { application_id: "aaaa-bbbb" } },
    message: spokenCall,
    secret: vonageKeys.privateKey,
    reportSecret: "signature-secret",
    asked: {
      method: "POST",
      path: "/v1/calls",
      headers: { authorization: vonageToken, ...jsonType },
      body: {
        to: [{ type: "phone", number: "31612345678" }],
        from: { type: "phone", number: "15551234567" },
        ncco: [
          { action: "talk", text: 'Dit is "A&B" <Acme>.', language: "nl-NL", bargeIn: true },
          {
            action: "input",
            type: ["dtmf"],
            dtmf: { maxDigits: 1, timeOut: 10 },
            eventUrl: [`${publicUrl}/webhooks/vonage-voice?speak=${reference}`],
            eventMethod: "POST",
          },
        ],
        event_url: [`${publicUrl}/webhooks/vonage-voice?reference=${reference}`],
        event_method: "POST",
        ringing_timer: 30,
      },
    },
    taken: {
      status: 201,
      body: { uuid: "63f61863", status: "started", direction: "outbound", conversation_uuid: "CON-f972836a" },
    },
    id: "63f61863",
    refusals: [
      [vonageCallError(401, { type: "UNAUTHORIZED", error_title: "Unauthorized" }), "credentials"],
      [vonageCallError(403, { type: "FORBIDDEN", error_title: "Forbidden" }), "credentials"],
      [
        vonageCallError(400, {
          type: "BAD_REQUEST",
          error_title: "Bad Request",
          invalid_parameters: { "to[0].number": "Is invalid." },
        }),
        "recipient",
      ],
      [
        vonageCallError(400, {
          type: "BAD_REQUEST",
          error_title: "Bad Request",
          invalid_parameters: { "from.number": "Is invalid." },
        }),
        "content",
      ],
    ],
    throttled: [vonageCallError(429, { type: "TOO_MANY_REQUESTS", error_title: "Too many requests" })],
    report: (status, now) =>
      vonagePost(
        `/webhooks/vonage-voice?reference=${reference}`,
        { from: "15551234567", to: "31612345678", uuid: "63f61863", conversation_uuid: "CON-f972836a", status },
        now,
      ),
    statuses: {
      started: "ACCEPTED",
      ringing: "ACCEPTED",
      answered: "DELIVERED",
      busy: "UNDELIVERED",
      unanswered: "UNDELIVERED",
      timeout: "UNDELIVERED",
      rejected: "UNDELIVERED",
      failed: "UNDELIVERED",
      cancelled: "UNDELIVERED",
    },
  },
  "twilio-voice": {
    entry: { from: "+15551234567", vars: { account_sid: "AC42" } },
    message: spokenCall,
    secret: "auth-token",
    reportSecret: "auth-token",
    asked: {
      method: "POST",
      path: "/2010-04-01/Accounts/AC42/Calls.json",
      headers: { authorization: basic("AC42:auth-token"), ...formType },
      body: {
        To: sms.to,
        From: "+15551234567",
        Timeout: "30",
        Twiml: [
          `<Response><Gather numDigits="1" timeout="15" action="${publicUrl}/webhooks/twilio-voice?speak=${reference}">`,
          `<Say language="nl-NL">Dit is &quot;A&amp;B&quot; &lt;Acme&gt;.</Say></Gather></Response>`,
        ].join(""),
        StatusCallback: `${publicUrl}/webhooks/twilio-voice?reference=${reference}`,
      },
    },
    taken: { status: 201, body: { sid: "CA1", status: "queued" } },
    id: "CA1",
    refusals: [
      [twilioError(400, 21_211), "recipient"],
      [twilioError(400, 13_224), "recipient"],
      [twilioError(400, 21_215), "content"],
      [twilioError(400, 21_210), "content"],
      [twilioError(400, 400), "content"],
      [twilioError(401, 20_003), "credentials"],
      [twilioError(404, 20_404), "credentials"],
    ],
    throttled: [twilioError(429, 20_429)],
    report(status) {
      const target = `/webhooks/twilio-voice?reference=${reference}`;
      return twilioPost(target, { CallStatus: status, CallSid: "CA1", AccountSid: "AC42", To: sms.to });
    },
    statuses: {
      ringing: "ACCEPTED",
      completed: "DELIVERED",
      busy: "UNDELIVERED",
      "no-answer": "UNDELIVERED",
      failed: "UNDELIVERED",
      canceled: "UNDELIVERED",
    },
  },
  "meta-whatsapp": {
    entry: { vars: { phone_number_id: "1059", template: "verify_code", language: "en_US" }, locales: { nl: "nl_NL" } },
    message: { ...sms, channel: "whatsapp" },
    secret: "EAAJ",
    reportSecret: "app-secret",
    asked: {
      method: "POST",
      path: "/v23.0/1059/messages",
      headers: { authorization: "Bearer EAAJ", ...jsonType },
      body: {
        messaging_product: "whatsapp",
        recipient_type: "individual",
        to: "31612345678",
        type: "template",
        template: {
          name: "verify_code",
          language: { code: "nl_NL" },
          components: [
            { type: "body", parameters: [{ type: "text", text: sms.code }] },
            { type: "button", sub_type: "url", index: "0", parameters: [{ type: "text", text: sms.code }] },
          ],
        },
        biz_opaque_callback_data: reference,
      },
    },
    taken: {
      status: 200,
      body: {
        messaging_product: "whatsapp",
        contacts: [{ input: "31612345678", wa_id: "31612345678" }],
        messages: [{ id: "wamid.1" }],
      },
    },
    id: "wamid.1",
    refusals: [
      [metaError(400, 131_026), "recipient"],
      [metaError(400, 131_030), "recipient"],
      [metaError(403, 130_497), "recipient"],
      [metaError(400, 130_472), "recipient"],
      [metaError(400, 131_049), "recipient"],
      [metaError(400, 131_042), "balance"],
      [metaError(401, 190), "credentials"],
      [metaError(403, 131_005), "credentials"],
      [metaError(404, 132_001), "content"],
      [metaError(400, 132_000), "content"],
    ],
    throttled: [metaError(429, 130_429), metaError(400, 131_056), metaError(400, 80_007)],
    report(status) {
      const said = { id: "wamid.1", status, recipient_id: "31612345678", biz_opaque_callback_data: reference };
      const value = { messaging_product: "whatsapp", statuses: [{ ...said, errors: [{ code: 131_026 }] }] };
      const body = JSON.stringify({ object: "whatsapp_business_account", entry: [{ id: "1", changes: [{ value }] }] });
      const signed = createHmac("sha256", "app-secret").update(body).digest("hex");
      const headers = { ...jsonType, "x-hub-signature-256": `sha256=${signed}` };
      return { target: "/webhooks/meta-whatsapp", headers, body };
    },
    statuses: { sent: "ACCEPTED", delivered: "DELIVERED", read: "DELIVERED", failed: "UNDELIVERED" },
  },
} satisfies Record<string, PresetManual>;
