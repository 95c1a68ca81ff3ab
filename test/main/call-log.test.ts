import { expect, test } from "vitest";
import type { Base } from "../../src/main/base.ts";
import { createCallLog } from "../../src/main/observers.ts";
import type { ApiKey } from "../../src/otp/keys/api-key.ts";
import type { Call } from "../../src/server/rpc/call.ts";
import { createManualSystem } from "../support/service/system.ts";

test("a repeat under an Idempotency-Key is refused once for the statistics", () => {
  const silent = { call() {}, turnedAway() {}, turnedAwayRest() {} };
  const base = { telemetry: silent, system: createManualSystem(), activities: { watchers: 0, tell() {} } };
  const counted: (string | undefined)[][] = [];
  const { onCall } = createCallLog(base as unknown as Base, (...refused) => counted.push(refused));
  const guess: Call = {
    id: "call",
    surface: "rest",
    rpc: "VerifyOtp",
    reached: true,
    idempotencyKey: "once",
    isReplayed: false,
    caller: { tenant: "acme", kind: "live" } as ApiKey,
    refusal: { reason: "CODE_MISMATCH", message: "" },
  };
  onCall(guess, 400, 1);
  for (let i = 0; i < 50; i++) onCall({ ...guess, isReplayed: true }, 400, 1);
  expect(counted).toEqual([["acme", "CODE_MISMATCH"]]);
});
