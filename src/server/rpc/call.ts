/**
 * One call on its way through the server: who asks, how, and what it was refused for. It goes from the gateway that reads
 * the headers to the handler of its RPC: as an argument on REST, in Connect's context values on the other surfaces.
 */
import type { Surface } from "../http/headers.ts";
import type { ApiKey } from "../../otp/keys/api-key.ts";
import type { Refusal } from "../../otp/reason.ts";
import type { ClientAddress } from "../http/client-address.ts";
import type { RpcName } from "./rpcs.ts";

export interface Call {
  /** Names the call in logs; answered as `x-call-id`. */
  readonly id: string;
  readonly surface: Surface;
  readonly rpc: RpcName;
  /** The authenticated key. */
  caller?: ApiKey;
  /** True where the key was not looked up, or in vain, and is a secret one that was valid lately. */
  isKnown?: boolean;
  /** The address whose limits the call counts for, as far as its headers tell. */
  address?: ClientAddress | undefined;
  /** True once the message was decoded and the call got past the gate. */
  reached: boolean;
  /** Which verification it was about, by the reference that logs have; undefined where none was named or made. */
  requestRef?: string | undefined;
  /** Its `Idempotency-Key`, as it came. */
  readonly idempotencyKey: string | undefined;
  /** True once it is known to be answered with what an earlier call was. */
  isReplayed: boolean;
  /** How long its body took to be here; undefined where it has none. */
  bodyMs?: number;
  /** Why its answer is no longer waited for, from then on. */
  late?: Late;
  /** To be run then, while its RPC is performed. */
  onLate?: ((why: Late) => void) | undefined;
  /** Resolves once all that its RPC has begun is done, which may be after it was answered as late. */
  performed?: Promise<void>;
  /** Why the call was refused in the end, if it was. */
  refusal?: Refusal;
  /** True where the client left before there was an answer. */
  isCanceled?: boolean;
  /** True where the client was late: the deadline that it set was over, or its body was not there in time. */
  isClientLate?: boolean;
}

/** A call that has just come. */
export function newCall(id: string, surface: Surface, rpc: RpcName, idempotencyKey: string | undefined): Call {
  return { id, surface, rpc, reached: false, idempotencyKey, isReplayed: false };
}

/** What the id of a call is made of, or of what was to be one: 12 characters that nobody has had before. */
export const callIdBytes = 9;

/** Why a call's answer is no longer waited for. */
export type Late = "the deadline has passed" | "the client is gone";
