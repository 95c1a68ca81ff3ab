/**
 * Proto ⇄ domain: a handler per RPC, and no rules. What a message must look like before any rule is asked (its shape) is
 * checked here, and a fault names its field.
 *
 * One call runs a handler from its decoded message to its answer or its refusal, which is a value: shape → Idempotency-Key →
 * limits of the address that the message names → the act. It sees to the deadline, and whatever goes wrong becomes a refusal.
 */
import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  Delivery,
  Reason,
  State,
  type OtpService,
  type SendOtpResponseSchema,
} from "../../../gen/otp/v1/otp_service_pb.ts";
import { channelsNamed, isPublishable, type ApiKey } from "../../otp/keys/api-key.ts";
import { channelName } from "../../otp/channel.ts";
import { fallbackMsMax, fallbackMsMin } from "../../otp/message/fallback.ts";
import { isLimitName, limitField, limitKeysMax, limitValueCharsMax } from "../../otp/limits/named-limit.ts";
import { judgeWebOrigin } from "../../otp/keys/origin.ts";
import { maskPhone } from "../../otp/phone-number.ts";
import { invalid, ok, refuse, type Result } from "../../otp/reason.ts";
import { requestRefOf } from "../../otp/verification/verification.ts";
import { tenantOfKey } from "../../otp/message/sandbox.ts";
import { Secret } from "../../otp/keys/secret.ts";
import { parseAndroidAppHash, parseWebOrigin, type LastLine } from "../../otp/template/last-line.ts";
import type { Answer, FallbackAsked, Sent } from "../../service/calls.ts";
import type { Verifications } from "../../service/verifications.ts";
import { canonicalAddress } from "../http/client-address.ts";
import type { AskedByMessage, Authorize } from "./authorize.ts";
import type { Call } from "./call.ts";
import type { Fields } from "./decoding.ts";
import { protoReasons } from "./errors.ts";
import { refusalOfFault, refusalOfLate } from "./faults.ts";
import { rpcs, type HandlerName } from "./rpcs.ts";

type Methods = (typeof OtpService)["method"];
type Request<Name extends HandlerName> = MessageShape<Methods[Name]["input"]>;
type Response<Name extends HandlerName> = MessageInitShape<Methods[Name]["output"]>;

type Act = keyof Verifications;
type Command<A extends Act> = Parameters<Verifications[A]>[1];
type Value<A extends Act> = Awaited<ReturnType<Verifications[A]>> extends Answer<infer V> ? V : never;

/** One RPC's steps from its message to its answer. The types between them are no business of others. */
export interface Handler<Name extends HandlerName = HandlerName, A extends Act = Act> {
  /** Reads a message into what is to be done, or refuses its shape. Pure. */
  read(request: Request<Name>, key: ApiKey): Result<Command<A>>;
  /** Which act does it. */
  readonly act: A;
  /** Writes what came of it. Pure. */
  write(value: Value<A>, key: ApiKey): Response<Name>;
}

/** Checks that the steps fit together. */
function handler<Name extends HandlerName, A extends Act>(_: Name, steps: Handler<Name, A>): Handler<Name> {
  return steps;
}

/** By the names that the table has (rpcs.ts). */
export const handlers: { readonly [Name in keyof Methods]: Handler<Name> } = {
  sendOtp: handler("sendOtp", {
    read({ phone, channel, locale, purpose, bind, knownUser, limitKeys, ...request }, key) {
      const refused =
        required("phone", phone, 256) ??
        atMost("channel", channel, 64) ??
        atMost("locale", locale, 35, languageTag) ??
        atMost("purpose", purpose, 64, visibleAscii) ??
        bindShape(bind);
      if (refused !== undefined) return refused;
      const hasLastLine = request.webOrigin !== "" || request.androidAppHash !== "";
      const lastLine = hasLastLine ? readLastLine(request.webOrigin, request.androidAppHash) : noLastLine;
      if (!lastLine.ok) return lastLine;
      const unfit =
        atMost("challenge_token", request.challengeToken, 4096) ??
        knownUserShape(knownUser, key) ??
        clientIpShape(request.clientIp, key) ??
        appHashShape(request.androidAppHash, key) ??
        limitKeysShape(limitKeys, key);
      if (unfit !== undefined) return unfit;
      const { webOrigin } = lastLine.value;
      const named = webOrigin === undefined ? lastLine : judgeWebOrigin(key, webOrigin);
      if (!named.ok) return named;
      const fallback = readFallback(request, channel);
      if (!fallback.ok) return fallback;
      const challengeToken = new Secret(request.challengeToken);
      const asked = { phone, channel, locale, purpose, bind, knownUser, challengeToken, ...lastLine.value };
      return ok({
        ...asked,
        ...(Object.keys(limitKeys).length === 0 ? {} : { limitKeys }),
        ...(fallback.value === undefined ? {} : { fallback: fallback.value }),
      });
    },
    act: "send",
    write: sentMessage,
  }),

  verifyOtp: handler("verifyOtp", {
    read({ requestId: id, code, purpose, bind, clientIp }, key) {
      const refused =
        required("request_id", id, 256) ??
        atMost("code", code, 256) ??
        atMost("purpose", purpose, 64, visibleAscii) ??
        bindShape(bind) ??
        clientIpShape(clientIp, key);
      return refused ?? ok({ id, code: new Secret(code), purpose, bind });
    },
    act: "verify",
    write: (verified, key) => ({
      requestId: verified.id,
      state: State.VERIFIED,
      phone: isPublishable(key.kind) ? maskPhone(verified.phone) : verified.phone,
      verifyTime: timestampFromMs(verified.verifyMs),
      receipt: verified.receipt,
    }),
  }),

  resendOtp: handler("resendOtp", {
    read: ({ requestId: id, channel, clientIp }, key) =>
      required("request_id", id, 256) ??
      atMost("channel", channel, 64) ??
      clientIpShape(clientIp, key) ??
      ok({ id, channel }),
    act: "resend",
    write: sentMessage,
  }),

  cancelOtp: handler("cancelOtp", {
    read: ({ requestId }) => required("request_id", requestId, 256) ?? ok(requestId),
    act: "cancel",
    write: ({ id, cancelMs }) => ({ requestId: id, state: State.CANCELED, cancelTime: timestampFromMs(cancelMs) }),
  }),

  getOtp: handler("getOtp", {
    read: ({ requestId }) => required("request_id", requestId, 256) ?? ok(requestId),
    act: "get",
    write(seen, key) {
      const message = sentMessage(seen);
      // How messages leave is between the operator and those who hold a secret key.
      const isPublic = isPublishable(key.kind);
      const messages = isPublic ? [] : seen.messages;
      const latest = isPublic ? undefined : seen.latest;
      return {
        ...message,
        expiresInSeconds: seen.state === "PENDING" ? message.expiresInSeconds : 0,
        reason: seen.reason === undefined ? Reason.UNSPECIFIED : protoReasons[seen.reason],
        phone: isPublic ? maskPhone(seen.phone) : seen.phone,
        channel: seen.channel,
        purpose: seen.purpose,
        createTime: timestampFromMs(seen.createMs),
        attemptsRemaining: seen.attemptsRemaining,
        provider: latest?.provider ?? "",
        deliveryDetail: latest?.detail ?? "",
        messages: messages.map(({ channel, provider, delivery, detail }) => ({
          channel,
          provider: provider ?? "",
          delivery: Delivery[delivery],
          detail: detail ?? "",
        })),
        ...(seen.endMs === null ? {} : { endTime: timestampFromMs(seen.endMs) }),
      };
    },
  }),
};

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

// ---- shapes ---------------------------------------------------------------------------------------------------------

type RefusedResult = Extract<Result<unknown>, { ok: false }>;

/** What a text has to look like, and how that is said. */
interface TextShape {
  readonly shape: RegExp;
  readonly what: string;
}
const languageTag: TextShape = { shape: /^[A-Za-z0-9-]*$/, what: "a BCP 47 tag such as pt-BR" };
const visibleAscii: TextShape = { shape: /^[\x20-\x7e]*$/, what: "visible ASCII" };

function required(field: string, value: string, charsMax: number): RefusedResult | undefined {
  return value === "" ? invalid(field, `${field} is required.`) : atMost(field, value, charsMax);
}

function atMost(field: string, value: string, charsMax: number, text?: TextShape): RefusedResult | undefined {
  if (value.length <= charsMax && (text === undefined || text.shape.test(value))) return undefined;
  return invalid(field, `${field} must be ${text?.what ?? "text"} of at most ${charsMax} characters.`);
}

type LastLineRead = Result<Required<LastLine>>;
const noLastLine: LastLineRead = { ok: true, value: { webOrigin: undefined, appHash: undefined } };

/** What is to stand in the last line of the SMS. */
function readLastLine(origin: string, hash: string): LastLineRead {
  const webOrigin = parseWebOrigin(origin);
  if (!webOrigin.ok) return webOrigin;
  const appHash = parseAndroidAppHash(hash);
  if (!appHash.ok) return appHash;
  if (origin === "" || hash === "") return ok({ webOrigin: webOrigin.value, appHash: appHash.value });
  return invalid("android_app_hash", "web_origin and android_app_hash both want the last line; give one of them.");
}

/** How a send goes on; undefined where it leaves that to the operator. */
function readFallback(
  {
    fallbackChannels,
    fallbackAfterSeconds,
    noFallback,
  }: Pick<Request<"sendOtp">, "fallbackChannels" | "fallbackAfterSeconds" | "noFallback">,
  channel: string,
): Result<FallbackAsked | undefined> {
  const field = "fallback_channels";
  const names = fallbackChannels.map(channelName);
  if (noFallback && names.length > 0) return invalid("no_fallback", `no_fallback leaves no room for ${field}.`);
  if (fallbackChannels.includes("")) return invalid(field, `${field} has an empty name.`);
  if (names.includes(channelName(channel))) return invalid(field, `${field} names the channel of the send itself.`);
  if (new Set(names).size < names.length) return invalid(field, `${field} names a channel twice.`);
  const afterMs = fallbackAfterSeconds === 0 ? undefined : fallbackAfterSeconds * 1000;
  if (afterMs !== undefined && (afterMs < fallbackMsMin || afterMs > fallbackMsMax)) {
    return invalid("fallback_after_seconds", "fallback_after_seconds must be 15 to 120, or 0.");
  }
  if (noFallback) return ok({ channels: [], afterMs });
  if (names.length === 0 && afterMs === undefined) return ok(undefined);
  return ok({ channels: names.length === 0 ? undefined : names, afterMs });
}

/** A stranger must not get into the lane that is kept free of strangers. */
function knownUserShape(knownUser: boolean, { kind }: ApiKey): RefusedResult | undefined {
  return knownUser && isPublishable(kind) ? invalid("known_user", "known_user is for secret API keys.") : undefined;
}

/** Android hands the text to the app that is named, without asking its user: whoever copies a page's key could name his own. */
function appHashShape(hash: string, { kind, isApp }: ApiKey): RefusedResult | undefined {
  if (hash === "" || !isPublishable(kind) || isApp) return undefined;
  return invalid("android_app_hash", "android_app_hash is for secret API keys, and for publishable ones of apps.");
}

function clientIpShape(clientIp: string, { kind }: ApiKey): RefusedResult | undefined {
  if (clientIp === "") return undefined;
  if (isPublishable(kind)) return invalid("client_ip", "client_ip is for secret API keys.");
  if (canonicalAddress(clientIp) !== undefined) return undefined;
  return invalid("client_ip", "client_ip must be an IPv4 or IPv6 address of at most 64 characters.");
}

function bindShape(bind: Readonly<Record<string, string>>): RefusedResult | undefined {
  const entries = Object.entries(bind);
  const fits =
    entries.length <= 10 && entries.every(([key, value]) => key !== "" && key.length <= 40 && value.length <= 128);
  if (fits) return undefined;
  return invalid("bind", "bind must have at most 10 entries, with keys of 1 to 40 and values of up to 128 characters.");
}

/** A stranger could use up whatever value he gives. */
function limitKeysShape(limitKeys: Readonly<Record<string, string>>, { kind }: ApiKey): RefusedResult | undefined {
  const entries = Object.entries(limitKeys);
  if (entries.length === 0) return undefined;
  if (isPublishable(kind)) return invalid("limit_keys", "limit_keys is for secret API keys.");
  if (entries.length > limitKeysMax)
    return invalid("limit_keys", `limit_keys must have at most ${limitKeysMax} entries.`);
  if (!entries.every(([name]) => isLimitName(name))) {
    return invalid("limit_keys", "limit_keys must have names that a limit of the tenant can have, such as user.");
  }
  const unfit = entries.find(([, value]) => value === "" || value.length > limitValueCharsMax);
  if (unfit === undefined) return undefined;
  const field = limitField(unfit[0]);
  return invalid(field, `${field} must have 1 to ${limitValueCharsMax} characters.`);
}

// ---- one call -------------------------------------------------------------------------------------------------------

export type Message = MessageShape<DescMessage>;

/** Performs a call past the gate. Never rejects. */
export type Perform = (call: Call, request: Message) => Promise<Result<Fields>>;

export interface PerformOptions {
  readonly verifications: Verifications;
  /** Judges a call once its message was read. */
  readonly byMessage: Authorize["byMessage"];
  /** Gets what was hidden from the caller. */
  readonly onFault: (call: Call, error: unknown) => void;
}

export function createPerform({ verifications, byMessage, onFault }: PerformOptions): Perform {
  async function act(call: Call, request: Message): Promise<Result<Fields>> {
    const { caller: key, address, idempotencyKey } = call;
    // The gateway has seen to it; but whatever calls this, nobody acts without a key.
    if (key === undefined) return refuse("API_KEY_MISSING");
    const steps: Handler = handlers[rpcs[call.rpc].handler];
    const command = steps.read(request as never, key);
    if (!command.ok) return command;
    if (idempotencyKey !== undefined && !/^[\x21-\x7e]{1,255}$/.test(idempotencyKey)) {
      return invalid("Idempotency-Key", "Idempotency-Key must be 1 to 255 visible ASCII characters.");
    }
    const { clientIp = "", fallbackChannels = [] } = request as Partial<AskedByMessage>;
    const permit = byMessage(call, key, { clientIp, fallbackChannels });
    if (!permit.ok) return permit;
    const caller = {
      tenant: tenantOfKey(key),
      keyId: key.id,
      callId: call.id,
      idempotencyKey,
      isPublishable: isPublishable(key.kind),
      channels: channelsNamed(key),
      address: address?.text,
      ...(permit.value === undefined ? {} : { permit: permit.value }),
    };
    if ("requestId" in request) call.requestRef = requestRefOf(request["requestId"]);
    const { result, replayed } = await verifications[steps.act](caller, command.value as never);
    call.isReplayed = replayed;
    // An id that is none may be any text, such as a phone number.
    if (!result.ok && result.refusal.reason === "REQUEST_NOT_FOUND") call.requestRef = undefined;
    if (!result.ok) return result;
    const written = steps.write(result.value, key);
    call.requestRef ??= requestRefOf(written.requestId);
    return ok(written);
  }

  return (call, request) => {
    call.reached = true;
    const isHarmlessTwice = call.idempotencyKey !== undefined || rpcs[call.rpc].idempotency !== "by key";
    const { promise, resolve } = Promise.withResolvers<Result<Fields>>();
    const end = (result: Result<Fields>) => {
      // What a late call has begun in the store is finished all the same.
      if (call.onLate === undefined) return;
      call.onLate = undefined;
      if (!result.ok) call.refusal = result.refusal;
      resolve(result);
    };
    call.onLate = (why) => {
      call.isCanceled = why === "the client is gone";
      end({ ok: false, refusal: refusalOfLate({ isHarmlessTwice }) });
    };
    call.performed = act(call, request).then(end, (error: unknown) => {
      if (call.onLate !== undefined) onFault(call, error);
      end({ ok: false, refusal: refusalOfFault(error, isHarmlessTwice) });
    });
    if (call.late !== undefined) call.onLate(call.late);
    return promise;
  };
}
