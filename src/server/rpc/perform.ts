/**
 * One call of one RPC, from its decoded message to its answer or its refusal, which is a value: shape → Idempotency-Key →
 * limits of the address that the message names → the act. It sees to the deadline, and whatever goes wrong becomes a refusal.
 */
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { isPublishable } from "../../otp/api-key.ts";
import { invalid, ok, refuse, type Result } from "../../otp/reason.ts";
import { tenantOfKey } from "../../otp/sandbox.ts";
import type { Verifications } from "../../service/verifications.ts";
import type { Authorize } from "./authorize.ts";
import type { Call } from "./call.ts";
import type { Fields } from "./decoding.ts";
import { refusalOfFault, refusalOfLate } from "./faults.ts";
import { handlers, type Handler } from "./handlers.ts";
import { rpcs } from "./rpcs.ts";

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
    const handler: Handler = handlers[rpcs[call.rpc].handler];
    const command = handler.read(request as never, key);
    if (!command.ok) return command;
    if (idempotencyKey !== undefined && !/^[\x21-\x7e]{1,255}$/.test(idempotencyKey)) {
      return invalid("Idempotency-Key", "Idempotency-Key must be 1 to 255 visible ASCII characters.");
    }
    const permit = byMessage(call, key, "clientIp" in request ? String(request["clientIp"]) : "");
    if (!permit.ok) return permit;
    const caller = {
      tenant: tenantOfKey(key),
      keyId: key.id,
      idempotencyKey,
      isPublishable: isPublishable(key.kind),
      address: address?.text,
      ...(permit.value === undefined ? {} : { permit: permit.value }),
    };
    const { result, replayed } = await handler.act(verifications, caller, command.value);
    call.isReplayed = replayed;
    return result.ok ? ok(handler.write(result.value, key)) : result;
  }

  return (call, request) => {
    call.reached = true;
    const isHarmlessTwice = call.idempotencyKey !== undefined || rpcs[call.rpc].idempotency !== "by key";
    return new Promise((resolve) => {
      const end = (result: Result<Fields>) => {
        // What a late call has begun in the store is finished all the same.
        if (call.onLate === undefined) return;
        call.onLate = undefined;
        if (!result.ok) call.refusal = result.refusal;
        resolve(result);
      };
      call.onLate = (why) => {
        call.isCanceled = why === "the client is gone";
        end({ ok: false, refusal: refusalOfLate(isHarmlessTwice) });
      };
      act(call, request).then(end, (error: unknown) => {
        if (call.onLate !== undefined) onFault(call, error);
        end({ ok: false, refusal: refusalOfFault(error, isHarmlessTwice) });
      });
      if (call.late !== undefined) call.onLate(call.late);
    });
  };
}
