/**
 * One call of one RPC, from its decoded message to its answer or its refusal, which is a value: shape → Idempotency-Key →
 * limits of the address that the message names → the act. It sees to the deadline, and whatever goes wrong becomes a refusal.
 */
import { create, type DescMessage, type DescMethod, type MessageShape } from "@bufbuild/protobuf";
import { OtpService } from "../../../gen/otp/v1/otp_service_pb.ts";
import { isPublishable } from "../../otp/api-key.ts";
import { invalid, ok, refuse, type Result } from "../../otp/reason.ts";
import { tenantOfKey } from "../../otp/sandbox.ts";
import type { Verifications } from "../../service/verifications.ts";
import type { Authorize } from "./authorize.ts";
import { ClientGone, Late, type Call } from "./call.ts";
import { refusalOfFault } from "./faults.ts";
import { handlers, type Handler } from "./handlers.ts";
import { rpcs } from "./rpcs.ts";

export type Message = MessageShape<DescMessage>;

/** Performs a call past the gate; `encode` makes of its answer what is given out. Never rejects. */
export type Perform = <T>(call: Call, request: Message, encode: (answer: Message) => T) => Promise<Result<T>>;

export interface PerformOptions {
  readonly verifications: Verifications;
  /** Judges a call once its message was read. */
  readonly byMessage: Authorize["byMessage"];
  /** Gets what was hidden from the caller. */
  readonly onFault: (call: Call, error: unknown) => void;
}

export function createPerform({ verifications, byMessage, onFault }: PerformOptions): Perform {
  async function act(call: Call, request: Message): Promise<Result<Message>> {
    const { caller: key, address } = call;
    // The gateway has seen to it; but whatever calls this, nobody acts without a key.
    if (key === undefined) return refuse("API_KEY_MISSING");
    const { handler: name } = rpcs[call.rpc];
    const handler: Handler = handlers[name];
    const command = handler.read(request as never, key);
    if (!command.ok) return command;
    const idempotencyKey = idempotencyKeyOf(call);
    if (!idempotencyKey.ok) return idempotencyKey;
    const permit = byMessage(call, key, "clientIp" in request ? String(request["clientIp"]) : "");
    if (!permit.ok) return permit;
    const caller = {
      tenant: tenantOfKey(key),
      keyId: key.id,
      idempotencyKey: idempotencyKey.value,
      isPublishable: isPublishable(key.kind),
      address: address?.text,
      ...(permit.value === undefined ? {} : { permit: permit.value }),
    };
    const { result, replayed } = await handler.act(verifications, caller, command.value);
    call.isReplayed = replayed;
    if (!result.ok) return result;
    const { output }: DescMethod = OtpService.method[name];
    return ok(create(output, handler.write(result.value, key)));
  }

  return async (call, request, encode) => {
    call.reached = true;
    try {
      // What a late call has begun in the store is finished all the same.
      const result = await Promise.race([act(call, request), call.late]);
      if (result.ok) return ok(encode(result.value));
      call.refusal = result.refusal;
    } catch (error) {
      if (error instanceof Late) call.isCanceled = error instanceof ClientGone;
      else onFault(call, error);
      const isHarmlessTwice = call.idempotencyKey !== undefined || rpcs[call.rpc].idempotency !== "by key";
      call.refusal = refusalOfFault(error, isHarmlessTwice);
    }
    return { ok: false, refusal: call.refusal };
  };
}

function idempotencyKeyOf({ idempotencyKey: key }: Call): Result<string | undefined> {
  if (key === undefined) return ok(undefined);
  return /^[\x21-\x7e]{1,255}$/.test(key)
    ? ok(key)
    : invalid("Idempotency-Key", "Idempotency-Key must be 1 to 255 visible ASCII characters.");
}
