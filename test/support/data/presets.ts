/**
 * What the manual of each preset's provider says, as far as a test can: what it is asked, how it answers, what it reports.
 */
import { createHash, createHmac, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { SignJWT } from "jose";
import type { presetNames } from "../../../src/delivery/providers/http/preset.ts";
import { publicUrl, sms } from "../../delivery/http/setup.ts";
import {
  basic,
  formType,
  jsonType,
  manualsOfChannels,
  twilioError,
  twilioPost,
  vonageKeys,
  vonageToken,
  type PresetManual,
} from "./channel-presets.ts";
import type { ScriptedReply } from "../fakes/scripted-gateway.ts";

const { reference } = sms;
/** The secret in the path of reports that nobody signs. */
export const path = "q7Zk2mV9xT4bR8nW3cY6pL";
const edKey = createPrivateKey({
  key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, 7)]),
  format: "der",
  type: "pkcs8",
});
const vonageError = (status: number, type: string, title: string): ScriptedReply => ({
  status,
  headers: { "content-type": "application/problem+json" },
  body: { type: `https://developer.vonage.com/api-errors${type}`, title, detail: "no", instance: "bf0ca0bf927b3b52" },
});
const telnyxError = (status: number, code: string): ScriptedReply => ({
  status,
  body: { errors: [{ code, title: "no", detail: `no: ${sms.to}` }] },
});
const infobipRejection = (name: string): ScriptedReply => ({
  status: 200,
  body: {
    messages: [{ to: "31612345678", status: { groupId: 5, groupName: "REJECTED", id: 12, name }, messageId: "m" }],
  },
});
const infobipError = (status: number, messageId: string): ScriptedReply => ({
  status,
  body: { requestError: { serviceException: { messageId, text: "no" } } },
});

export const manuals: Record<(typeof presetNames)[number], PresetManual> = {
  ...manualsOfChannels,
  twilio: {
    entry: { from: "+15551234567", vars: { account_sid: "AC42" } },
    secret: "auth-token",
    reportSecret: "auth-token",
    asked: {
      method: "POST",
      path: "/2010-04-01/Accounts/AC42/Messages.json",
      headers: { authorization: basic("AC42:auth-token"), ...formType },
      body: {
        To: sms.to,
        From: "+15551234567",
        Body: sms.text,
        ValidityPeriod: "540",
        StatusCallback: `${publicUrl}/webhooks/twilio?reference=${reference}`,
      },
    },
    taken: { status: 201, body: { sid: "SM1", status: "queued", error_code: null } },
    id: "SM1",
    refusals: [
      [twilioError(400, 21_211), "recipient"],
      [twilioError(400, 21_610), "recipient"],
      [twilioError(400, 21_614), "recipient"],
      [twilioError(400, 21_635), "recipient"],
      [twilioError(400, 21_408), "content"],
      // Of a trial account, and of a body that is none.
      [twilioError(400, 21_608), "content"],
      [twilioError(400, 400), "content"],
      [twilioError(400, 21_606), "content"],
      [twilioError(401, 20_003), "credentials"],
      [twilioError(404, 20_404), "credentials"],
    ],
    throttled: [twilioError(429, 20_429), twilioError(400, 21_611)],
    report(status) {
      const target = `/webhooks/twilio?reference=${reference}`;
      const fields = { MessageStatus: status, MessageSid: "SM1", AccountSid: "AC42", To: sms.to, ErrorCode: "30003" };
      return twilioPost(target, fields);
    },
    statuses: { sent: "ACCEPTED", delivered: "DELIVERED", undelivered: "UNDELIVERED", failed: "UNDELIVERED" },
  },
  vonage: {
    entry: { from: "Acme", vars: { application_id: "aaaa-bbbb" } },
    secret: vonageKeys.privateKey,
    reportSecret: "signature-secret",
    asked: {
      method: "POST",
      path: "/v1/messages",
      headers: { authorization: vonageToken, accept: "application/json" },
      body: {
        message_type: "text",
        channel: "sms",
        to: "31612345678",
        from: "Acme",
        text: sms.text,
        client_ref: reference,
        webhook_version: "v1",
        webhook_url: `${publicUrl}/webhooks/vonage`,
      },
    },
    taken: { status: 202, body: { message_uuid: "aaaaaaaa-bbbb" } },
    id: "aaaaaaaa-bbbb",
    refusals: [
      [vonageError(401, "#unauthorized", "Unauthorized"), "credentials"],
      [vonageError(403, "#forbidden", "Forbidden"), "credentials"],
      [vonageError(402, "#low-balance", "Low balance"), "balance"],
      [vonageError(422, "/messages#1430", "Invalid recipient"), "recipient"],
      [vonageError(422, "/messages-olympus#1170", "Invalid or Missing Msisdn Param"), "recipient"],
      [vonageError(422, "/messages#1240", "1240"), "recipient"],
      [vonageError(422, "/messages#1070", "Partner quota exceeded"), "balance"],
      [vonageError(422, "/messages#1060", "Partner account barred"), "credentials"],
      [vonageError(422, "/messages#1120", "Invalid sender"), "content"],
      [vonageError(422, "#invalid-json", "Invalid JSON"), "content"],
    ],
    throttled: [
      vonageError(429, "/messages#1010", "Rate Limit Hit"),
      vonageError(422, "/messages#1000", "Throttled"),
      vonageError(422, "/messages#1241", "Too many send requests"),
    ],
    async report(status, now) {
      const sent = { message_uuid: "aaaaaaaa-bbbb", client_ref: reference, status, channel: "sms", to: "31612345678" };
      const body = JSON.stringify(sent);
      const claims = {
        iss: "Vonage",
        api_key: "abcd1234",
        payload_hash: createHash("sha256").update(body).digest("hex"),
      };
      const token = new SignJWT(claims).setProtectedHeader({ alg: "HS256", typ: "JWT" }).setIssuedAt(now / 1_000);
      const headers = { ...jsonType, authorization: `Bearer ${await token.sign(Buffer.from("signature-secret"))}` };
      return { target: "/webhooks/vonage", headers, body };
    },
    statuses: { submitted: "ACCEPTED", delivered: "DELIVERED", rejected: "UNDELIVERED", undeliverable: "UNDELIVERED" },
  },
  infobip: {
    entry: { from: "Acme", vars: { base_url: "xyz.api.infobip.com" } },
    secret: "api-key",
    reportSecret: path,
    asked: {
      method: "POST",
      path: "/sms/2/text/advanced",
      headers: { authorization: "App api-key", accept: "application/json" },
      body: {
        messages: [
          {
            from: "Acme",
            destinations: [{ to: "31612345678" }],
            text: sms.text,
            callbackData: reference,
            notifyUrl: `${publicUrl}/webhooks/infobip/${path}`,
            notifyContentType: "application/json",
          },
        ],
      },
    },
    taken: {
      status: 200,
      body: {
        messages: [{ messageId: "m-1", status: { groupId: 1, groupName: "PENDING", name: "PENDING_ACCEPTED" } }],
      },
    },
    id: "m-1",
    refusals: [
      [infobipRejection("REJECTED_NOT_ENOUGH_CREDITS"), "balance"],
      [infobipRejection("REJECTED_DESTINATION"), "recipient"],
      [infobipRejection("REJECTED_SENDER"), "content"],
      [infobipError(401, "UNAUTHORIZED"), "credentials"],
      [infobipError(400, "BAD_REQUEST"), "content"],
    ],
    throttled: [infobipError(429, "TOO_MANY_REQUESTS")],
    report: (name) => ({
      target: `/webhooks/infobip/${path}`,
      headers: jsonType,
      body: JSON.stringify({
        results: [{ messageId: "m-1", callbackData: reference, status: { groupName: name.split("_")[0], name } }],
      }),
    }),
    statuses: {
      PENDING_ENROUTE: "ACCEPTED",
      // In the group DELIVERED: no handset has it yet.
      DELIVERED_TO_OPERATOR: "ACCEPTED",
      DELIVERED_TO_HANDSET: "DELIVERED",
      UNDELIVERABLE_NOT_DELIVERED: "UNDELIVERED",
      EXPIRED_EXPIRED: "UNDELIVERED",
      REJECTED_OPERATOR: "UNDELIVERED",
    },
  },
  telnyx: {
    entry: { from: "+15551234567" },
    secret: "KEY1",
    reportSecret: createPublicKey(edKey).export({ type: "spki", format: "der" }).subarray(-32).toString("base64"),
    asked: {
      method: "POST",
      path: "/v2/messages",
      headers: { authorization: "Bearer KEY1" },
      body: {
        from: "+15551234567",
        to: sms.to,
        text: sms.text,
        tags: [reference],
        use_profile_webhooks: false,
        webhook_url: `${publicUrl}/webhooks/telnyx`,
      },
    },
    taken: { status: 200, body: { data: { id: "403-1", record_type: "message", to: [{ status: "queued" }] } } },
    id: "403-1",
    refusals: [
      [telnyxError(422, "40310"), "recipient"],
      [telnyxError(409, "40300"), "recipient"],
      [telnyxError(400, "10002"), "recipient"],
      [telnyxError(403, "20100"), "balance"],
      [telnyxError(401, "10009"), "credentials"],
      [telnyxError(422, "40305"), "content"],
      [telnyxError(400, "10003"), "content"],
    ],
    throttled: [telnyxError(429, "10011")],
    report(status, now) {
      const payload = { id: "403-1", tags: [reference], to: [{ phone_number: sms.to, status }], errors: [] };
      const body = JSON.stringify({ data: { event_type: "message.finalized", payload, record_type: "event" } });
      const at = `${Math.floor(now / 1_000)}`;
      const said = sign(null, Buffer.from(`${at}|${body}`), edKey).toString("base64");
      const headers = { ...jsonType, "telnyx-timestamp": at, "telnyx-signature-ed25519": said };
      return { target: "/webhooks/telnyx", headers, body };
    },
    statuses: {
      sent: "ACCEPTED",
      delivered: "DELIVERED",
      delivery_failed: "UNDELIVERED",
      sending_failed: "UNDELIVERED",
    },
  },
  "sms-gate": {
    entry: { vars: { username: "AB12" } },
    secret: "pw",
    reportSecret: "signing-key",
    asked: {
      method: "POST",
      path: "/3rdparty/v1/messages",
      headers: { authorization: basic("AB12:pw") },
      body: { id: reference, textMessage: { text: sms.text }, phoneNumbers: [sms.to], withDeliveryReport: true },
    },
    taken: { status: 202, body: { id: reference, state: "Pending", recipients: [{ state: "Pending" }] } },
    id: reference,
    refusals: [
      [{ status: 401, body: { message: "Unauthorized" } }, "credentials"],
      [{ status: 400, body: { message: "failed to validate: invalid phone number in row 1" } }, "recipient"],
      [{ status: 400, body: { message: "failed to validate" } }, "content"],
    ],
    throttled: [{ status: 429, body: { message: "Too Many Requests" } }],
    report(event, now) {
      const payload = { messageId: reference, phoneNumber: sms.to, reason: "RESULT_ERROR_GENERIC_FAILURE" };
      const body = JSON.stringify({ deviceId: "d", event, id: "e", payload, webhookId: "w" });
      const at = `${Math.floor(now / 1_000)}`;
      const said = createHmac("sha256", "signing-key")
        .update(body + at)
        .digest("hex");
      return { target: "/webhooks/sms-gate", headers: { ...jsonType, "x-timestamp": at, "x-signature": said }, body };
    },
    statuses: { "sms:sent": "ACCEPTED", "sms:delivered": "DELIVERED", "sms:failed": "UNDELIVERED" },
  },
  kannel: {
    entry: { from: "Acme", vars: { host: "kannel:13013", username: "otpd" } },
    secret: "pw",
    reportSecret: path,
    asked: {
      method: "GET",
      path: "/cgi-bin/sendsms",
      body: {
        password: "pw",
        username: "otpd",
        to: sms.to,
        from: "Acme",
        text: sms.text,
        charset: "UTF-8",
        "dlr-mask": "27",
        "dlr-url": `${publicUrl}/webhooks/kannel/${path}?reference=${reference}&status=%d`,
      },
    },
    taken: { status: 202, body: "0: Accepted for delivery" },
    refusals: [
      [{ status: 403, body: "Authorization failed for sendsms" }, "credentials"],
      [{ status: 400, body: "Missing receiver number, rejected" }, "recipient"],
      [{ status: 403, body: "Not routable. Do not try again." }, "recipient"],
      [{ status: 400, body: "Sender missing and no global set, rejected" }, "content"],
    ],
    throttled: [{ status: 503, body: "Temporal failure, try again later." }],
    report: (status) => ({
      target: `/webhooks/kannel/${path}?reference=${reference}&status=${status}`,
      headers: {},
      body: "",
    }),
    statuses: { "8": "ACCEPTED", "1": "DELIVERED", "2": "UNDELIVERED", "16": "UNDELIVERED" },
  },
};
