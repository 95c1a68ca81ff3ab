/**
 * Proto ⇄ domain: one short method per RPC, and no rules. What a message must look like before any rule is asked (its
 * shape) is checked here, and a fault names its field.
 */
import type { MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ConnectError } from "@connectrpc/connect";
import {
  Delivery,
  Reason,
  State,
  type OtpService,
  type SendOtpResponseSchema,
} from "../../../gen/otp/v1/otp_service_pb.ts";
import { isPublishable, type ApiKey } from "../../otp/api-key.ts";
import { maskPhone } from "../../otp/phone-number.ts";
import { invalid, ok, refuse, type Refusal, type Result } from "../../otp/reason.ts";
import { tenantOfKey } from "../../otp/sandbox.ts";
import { Secret } from "../../otp/secret.ts";
import { parseAndroidAppHash, parseWebOrigin } from "../../otp/template/last-line.ts";
import type { Quotas } from "../../service/quotas.ts";
import type { Answer, Caller, Sent } from "../../service/calls.ts";
import type { Verifications } from "../../service/verifications.ts";
import type { Call } from "./call.ts";
import { canonicalAddress } from "../http/client-address.ts";
import { protoReasons, toConnectError } from "./errors.ts";

/** Marks what an earlier call with the same `Idempotency-Key` was answered. */
export const replayedHeader = "idempotency-replayed";

type Methods = (typeof OtpService)["method"];

/** One function per RPC: from its message and its call to its answer. Throws a refusal as Connect encodes it. */
export type OtpHandlers = {
  readonly [Rpc in keyof Methods]: (
    request: MessageShape<Methods[Rpc]["input"]>,
    call: Call,
  ) => Promise<MessageInitShape<Methods[Rpc]["output"]>>;
};

export function createOtpService(verifications: Verifications, quotas: Quotas): OtpHandlers {
  /** Runs the act for the authenticated caller, unless the shape was refused already. Throws a refusal for Connect. */
  async function perform<T>(
    shape: Result<unknown>,
    call: Call,
    act: (caller: Caller) => Promise<Answer<T>>,
    clientIp = "",
  ): Promise<T> {
    if (!shape.ok) throw thrown(shape.refusal, call);
    const key = keyOf(call);
    const idempotencyKey = idempotencyKeyOf(call);
    if (!idempotencyKey.ok) throw thrown(idempotencyKey.refusal, call);
    const tenant = tenantOfKey(key);
    const from = call.address;
    const caller = {
      tenant,
      keyId: key.id,
      idempotencyKey: idempotencyKey.value,
      isPublishable: isPublishable(key.kind),
      address: from?.text,
    };
    const address = clientIp === "" ? from?.name : canonicalAddress(clientIp);
    if (address === undefined) return unwrap(await act(caller), call);
    const isSend = call.rpc === "SendOtp" || call.rpc === "ResendOtp";
    if (isSend) return unwrap(await act({ ...caller, permit: quotas.send(tenant, address) }), call);
    // What a publishable key's address may do was asked at the gate.
    const refusal = clientIp === "" ? undefined : quotas.call(tenant, address);
    if (refusal !== undefined) throw thrown(refusal, call);
    return unwrap(await act(caller), call);
  }

  return {
    async sendOtp(request, call) {
      const webOrigin = parseWebOrigin(request.webOrigin);
      const appHash = parseAndroidAppHash(request.androidAppHash);
      const shape = all(
        required("phone", request.phone, 256),
        atMost("channel", request.channel, 64),
        atMost("locale", request.locale, 35, /^[A-Za-z0-9-]*$/, "a BCP 47 tag such as pt-BR"),
        purposeShape(request.purpose),
        bindShape(request.bind),
        webOrigin,
        appHash,
        lastLineShape(request.webOrigin, request.androidAppHash),
        atMost("challenge_token", request.challengeToken, 4096),
        knownUserShape(request.knownUser, keyOf(call)),
        clientIpShape(request.clientIp, keyOf(call)),
        ownOrigin(webOrigin, keyOf(call)),
      );
      const { phone, channel, locale, purpose, bind, knownUser } = request;
      const command = {
        phone,
        channel,
        locale,
        purpose,
        bind,
        knownUser,
        webOrigin: webOrigin.ok ? webOrigin.value : undefined,
        appHash: appHash.ok ? appHash.value : undefined,
        challengeToken: new Secret(request.challengeToken),
      };
      return sentMessage(await perform(shape, call, (caller) => verifications.send(caller, command), request.clientIp));
    },

    async verifyOtp(request, call) {
      const shape = all(
        required("request_id", request.requestId, 256),
        atMost("code", request.code, 256),
        purposeShape(request.purpose),
        bindShape(request.bind),
        clientIpShape(request.clientIp, keyOf(call)),
      );
      const { requestId: id, purpose, bind } = request;
      const command = { id, code: new Secret(request.code), purpose, bind };
      const verified = await perform(shape, call, (caller) => verifications.verify(caller, command), request.clientIp);
      return {
        requestId: verified.id,
        state: State.VERIFIED,
        phone: isPublishable(keyOf(call).kind) ? maskPhone(verified.phone) : verified.phone,
        verifyTime: timestampFromMs(verified.verifyMs),
        receipt: verified.receipt,
      };
    },

    async resendOtp({ requestId, clientIp }, call) {
      const shape = all(required("request_id", requestId, 256), clientIpShape(clientIp, keyOf(call)));
      return sentMessage(await perform(shape, call, (caller) => verifications.resend(caller, requestId), clientIp));
    },

    async cancelOtp({ requestId }, call) {
      const shape = required("request_id", requestId, 256);
      const canceled = await perform(shape, call, (caller) => verifications.cancel(caller, requestId));
      return { requestId: canceled.id, state: State.CANCELED, cancelTime: timestampFromMs(canceled.cancelMs) };
    },

    async getOtp({ requestId }, call) {
      const shape = required("request_id", requestId, 256);
      const seen = await perform(shape, call, (caller) => verifications.get(caller, requestId));
      const message = sentMessage(seen);
      // How messages leave is between the operator and those who hold a secret key.
      const isPublic = isPublishable(keyOf(call).kind);
      return {
        ...message,
        expiresInSeconds: seen.state === "PENDING" ? message.expiresInSeconds : 0,
        reason: seen.reason === undefined ? Reason.UNSPECIFIED : protoReasons[seen.reason],
        phone: isPublic ? maskPhone(seen.phone) : seen.phone,
        channel: seen.channel,
        purpose: seen.purpose,
        createTime: timestampFromMs(seen.createMs),
        attemptsRemaining: seen.attemptsRemaining,
        provider: isPublic ? "" : seen.provider,
        deliveryDetail: isPublic ? "" : seen.deliveryDetail,
        ...(seen.endMs === null ? {} : { endTime: timestampFromMs(seen.endMs) }),
      };
    },
  };
}

function sentMessage(sent: Sent) {
  return {
    requestId: sent.id,
    state: State[sent.state],
    delivery: Delivery[sent.delivery],
    codeLength: sent.digits,
    expireTime: timestampFromMs(sent.expireMs),
    expiresInSeconds: Math.max(0, Math.round((sent.expireMs - sent.at) / 1000)),
    resendInSeconds: sent.nextResendMs === null ? 0 : Math.max(0, Math.ceil((sent.nextResendMs - sent.at) / 1000)),
    resendsRemaining: sent.resendsRemaining,
    ...(sent.nextResendMs === null ? {} : { nextResendTime: timestampFromMs(sent.nextResendMs) }),
  } satisfies MessageInitShape<typeof SendOtpResponseSchema>;
}

/** Gives the value out, or throws the refusal for Connect to encode. */
function unwrap<T>({ result, replayed }: Answer<T>, call: Call): T {
  call.isReplayed = replayed;
  if (result.ok) return result.value;
  throw thrown(result.refusal, call);
}

/** A refusal as Connect encodes it, noted as what the call came to. */
function thrown(refusal: Refusal, call: Call): ConnectError {
  call.refusal = refusal;
  const error = toConnectError(refusal);
  if (call.isReplayed) error.metadata.set(replayedHeader, "true");
  return error;
}

function idempotencyKeyOf({ idempotencyKey: key }: Call): Result<string | undefined> {
  if (key === undefined) return ok(undefined);
  return /^[\x21-\x7e]{1,255}$/.test(key)
    ? ok(key)
    : invalid("Idempotency-Key", "Idempotency-Key must be 1 to 255 visible ASCII characters.");
}

function keyOf({ caller }: Call): ApiKey {
  if (caller === undefined) throw new Error("a call without an authenticated key got past the gate");
  return caller;
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

/** The first refusal, or the first value. */
function all(...checks: Result<unknown>[]): Result<unknown> {
  return checks.find((check) => !check.ok) ?? ok(undefined);
}

function required(field: string, value: string, charsMax: number): Result<unknown> {
  return value === "" ? invalid(field, `${field} is required.`) : atMost(field, value, charsMax);
}

function atMost(field: string, value: string, charsMax: number, shape = /^/, what = "text"): Result<unknown> {
  return value.length <= charsMax && shape.test(value)
    ? ok(undefined)
    : invalid(field, `${field} must be ${what} of at most ${charsMax} characters.`);
}

function purposeShape(purpose: string): Result<unknown> {
  return atMost("purpose", purpose, 64, /^[\x20-\x7e]*$/, "visible ASCII");
}

function lastLineShape(webOrigin: string, androidAppHash: string): Result<unknown> {
  return webOrigin === "" || androidAppHash === ""
    ? ok(undefined)
    : invalid("android_app_hash", "web_origin and android_app_hash both want the last line; give one of them.");
}

/** A stranger must not get into the lane that is kept free of strangers. */
function knownUserShape(knownUser: boolean, { kind }: ApiKey): Result<unknown> {
  return knownUser && isPublishable(kind) ? invalid("known_user", "known_user is for secret API keys.") : ok(undefined);
}

function clientIpShape(clientIp: string, { kind }: ApiKey): Result<unknown> {
  if (clientIp === "") return ok(undefined);
  if (isPublishable(kind)) return invalid("client_ip", "client_ip is for secret API keys.");
  return canonicalAddress(clientIp) === undefined
    ? invalid("client_ip", "client_ip must be an IPv4 or IPv6 address of at most 64 characters.")
    : ok(undefined);
}

/** Or a page could have its users' browsers offer the code to another site; so could whoever took an app's key out of it. */
function ownOrigin(webOrigin: Result<string | undefined>, { kind, origins }: ApiKey): Result<unknown> {
  const named = webOrigin.ok ? webOrigin.value : undefined;
  if (!isPublishable(kind) || named === undefined) return ok(undefined);
  return origins.includes(named) ? ok(undefined) : refuse("ORIGIN_NOT_ALLOWED", { field: "web_origin" });
}

function bindShape(bind: Readonly<Record<string, string>>): Result<unknown> {
  const entries = Object.entries(bind);
  const fits =
    entries.length <= 10 && entries.every(([key, value]) => key !== "" && key.length <= 40 && value.length <= 128);
  return fits
    ? ok(undefined)
    : invalid("bind", "bind must have at most 10 entries, with keys of 1 to 40 and values of up to 128 characters.");
}
