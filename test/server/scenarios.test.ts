/**
 * One list of scenarios, over every surface: the real server on a real port with real SQLite and each surface's own client.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { surfaces, type Message, type Rpc } from "../support/surfaces.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

describe.each(surfaces)("over $name", (surface) => {
  const call = (rpc: Rpc, message: Message, headers: Record<string, string> = {}) =>
    surface.call(world.url, rpc, message, { key: world.key, headers });

  test("a code is sent, mistyped, typed right, and cannot be used again", async () => {
    const sent = await call("SendOtp", { phone: "+31612345678" });
    expect(sent.value).toMatchObject({
      state: "STATE_PENDING",
      delivery: "DELIVERY_ACCEPTED",
      expires_in_seconds: 600,
      resend_in_seconds: 30,
      resends_remaining: 2,
      code_length: 6,
    });
    const request_id = String(sent.value?.["request_id"]);
    const code = world.network.codeFor("+31612345678");
    const wrong = code === "000000" ? "000001" : "000000";
    expect(await call("VerifyOtp", { request_id, code: wrong })).toMatchObject({
      reason: "CODE_MISMATCH",
      code: "FAILED_PRECONDITION",
      attemptsRemaining: 4,
    });
    expect((await call("VerifyOtp", { request_id, code })).value).toMatchObject({
      request_id,
      state: "STATE_VERIFIED",
      phone: "+31612345678",
    });
    expect(await call("VerifyOtp", { request_id, code })).toMatchObject({ reason: "OTP_ALREADY_VERIFIED" });
  });
});
