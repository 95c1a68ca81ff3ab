/**
 * What holds for every RPC of the table, whichever surface it came by: nobody acts without a key, what is refused is a value,
 * and the table says of an RPC what the proto does.
 */
import { create, type DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel as Level } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { OtpService } from "../../gen/otp/v1/otp_service_pb.ts";
import type { ApiKey } from "../../src/otp/keys/api-key.ts";
import { ok } from "../../src/otp/reason.ts";
import type { Call } from "../../src/server/rpc/call.ts";
import { createPerform } from "../../src/server/rpc/handlers.ts";
import { rpcRows, rpcs, type RpcName } from "../../src/server/rpc/rpcs.ts";
import type { Verifications } from "../../src/service/verifications.ts";
import { StoreUnavailable } from "../../src/store/store.ts";
import { testEpochMs } from "../support/service/system.ts";

const key: ApiKey = {
  id: "k",
  kind: "live",
  tenant: "default",
  name: "",
  scopes: ["send", "verify", "read", "cancel"],
  origins: [],
  isApp: false,
  channels: ["sms"],
  digest: new Uint8Array(),
  createMs: testEpochMs,
  expireMs: null,
  revokeMs: null,
  lastUseMs: null,
  lastRefuseMs: null,
};

const names = rpcRows.map(({ name }) => name);

/** Performs one call of an RPC whose act throws; tells what it came to, and how many acts there were. */
async function performed(rpc: RpcName, more: Partial<Call>, fault: Error = new Error("a bug")) {
  let acts = 0;
  const hidden: unknown[] = [];
  const act = () => {
    acts += 1;
    return Promise.reject(fault);
  };
  const verifications = { send: act, verify: act, resend: act, cancel: act, get: act } as unknown as Verifications;
  const perform = createPerform({
    verifications,
    byMessage: () => ok(undefined),
    onFault: (_, error) => hidden.push(error),
  });
  const call: Call = {
    id: "call",
    surface: "rest",
    rpc,
    reached: false,
    idempotencyKey: undefined,
    isReplayed: false,
    ...more,
  };
  const { input }: DescMethod = OtpService.method[rpcs[rpc].handler];
  const request = create(input, { phone: "+31612345678", requestId: "A".repeat(22), code: "123456" });
  const result = await perform(call, request);
  return { refusal: result.ok ? undefined : result.refusal, noted: call.refusal, acts, hidden };
}

test.each(names)("%s does nothing for a call without a key", async (rpc) => {
  const { refusal, acts, hidden } = await performed(rpc, {});
  expect([refusal, acts, hidden]).toEqual([{ reason: "API_KEY_MISSING" }, 0, []]);
});

test.each(names)(
  "%s gives a fault out as a refusal, which is noted in the call, and tells the operator",
  async (rpc) => {
    const fault = new Error("a bug");
    const { refusal, noted, acts, hidden } = await performed(rpc, { caller: key }, fault);
    expect([refusal?.reason, noted, acts, hidden]).toEqual(["INTERNAL", refusal, 1, [fault]]);
  },
);

const doubtful: ReadonlySet<RpcName> = new Set(["SendOtp", "VerifyOtp", "ResendOtp"]);

test.each(names)("%s may be repeated after a lost commit where that does no harm", async (rpc) => {
  const lost = new StoreUnavailable("lost", { mayBeDone: true });
  const bare = await performed(rpc, { caller: key }, lost);
  expect(bare.refusal?.mayBeDone).toBe(doubtful.has(rpc) ? true : undefined);
  const keyed = await performed(rpc, { caller: key, idempotencyKey: "once" }, lost);
  expect(keyed.refusal).toEqual({ reason: "STORE_UNAVAILABLE", retryAfterMs: 1_000 });
});

test("the table has the proto's RPCs, and what the proto says of them", () => {
  const inProto = OtpService.methods.map(({ name, localName, idempotency }) => [
    name,
    { handler: localName, isSafe: idempotency === Level.NO_SIDE_EFFECTS },
  ]);
  const inTable = rpcRows.map(({ name, handler, idempotency }) => [name, { handler, isSafe: idempotency === "safe" }]);
  expect(Object.fromEntries(inTable)).toEqual(Object.fromEntries(inProto));
});
