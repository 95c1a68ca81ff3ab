/**
 * Somebody sets the machine's clock, by an hour or a day, either way, at any step of send → wrong → resend → verify, with
 * and without a restart in between: nothing that ended lives again, no bucket is stuck for longer than its burst takes
 * to refill, and operators are warned. The real createSystem on a machine whose clocks a test holds.
 */
import { describe, expect, test } from "vitest";
import { createSystem } from "../../src/system.ts";
import { Callers, type Ask } from "./callers.ts";
import { Machine } from "./machine.ts";
import { World } from "./world.ts";
import { sampled } from "../support/extent.ts";

const hour = 3_600_000;
const phone = "+31612345678";
const policy = {
  codeLength: 6,
  codeLengthMax: 8,
  guessPolicy: "lengthen" as const,
  ttlMs: 600_000,
  attemptsMax: 5,
  resendGapsMs: [30_000, 60_000],
  phoneLimits: [{ burst: 5, intervalMs: 600_000 }],
  retentionMs: 72 * hour,
};

const steps = [
  "before the send",
  "after the send",
  "after the wrong code",
  "after the resend",
  "after the verify",
] as const;
const jumpsMs = [-24 * hour, -hour, hour, 24 * hour];
const cases = steps.flatMap((at) =>
  jumpsMs.flatMap((jumpMs) => [false, true].map((restart) => ({ at, jumpMs, restart, hours: jumpMs / hour }))),
);

async function startQuietWorld() {
  const world = new World(7, { policy, providers: 1, sendWaitMs: 0 });
  const callers = new Callers(world);
  await world.boot();
  const answerTo = async (ask: Ask): Promise<string> => {
    const call = callers.call(ask);
    await world.rest();
    world.invariants.inspect();
    callers.inspect();
    const result = call.answer?.result;
    return result?.ok === true ? "ok" : String(result?.refusal.reason);
  };
  return { world, callers, answerTo };
}

describe.each(sampled(cases, 3))("the clock is set by $hours h $at, restart: $restart", ({ at, jumpMs, restart }) => {
  test("a code lives its ten minutes at most, and what ended stays so", async () => {
    const { world, answerTo } = await startQuietWorld();
    const jump = async (step: (typeof steps)[number]) => {
      if (step !== at) return;
      // The note of the clock in the database is renewed by then.
      await world.advance(20_000);
      world.setWall(jumpMs);
      if (restart) {
        await world.crash();
        await world.boot();
      }
    };
    /** What a pending verification answers: a leap ahead of more than its life has ended it. */
    const pending = (answer: string, after: (typeof steps)[number]) =>
      jumpMs > 0 && at !== "before the send" && steps.indexOf(at) <= steps.indexOf(after) ? "OTP_EXPIRED" : answer;

    await jump("before the send");
    const beganMs = world.machine.monotonicMs();
    expect(await answerTo({ rpc: "send", phone, knownUser: false, purpose: "" })).toBe("ok");
    const [v] = world.invariants.allVerifications();
    const id = v?.id ?? "";
    const code = world.invariants.known.get(id)?.code ?? "";
    const wrong = code === "000000" ? "000001" : "000000";
    await jump("after the send");
    expect(await answerTo({ rpc: "verify", id, code: wrong, purpose: "" })).toBe(
      pending("CODE_MISMATCH", "after the send"),
    );
    await jump("after the wrong code");
    await world.advance(30_000);
    expect(await answerTo({ rpc: "resend", id })).toBe(pending("ok", "after the wrong code"));
    await jump("after the resend");
    expect(await answerTo({ rpc: "verify", id, code, purpose: "" })).toBe(pending("ok", "after the resend"));
    await jump("after the verify");
    const ended = pending("OTP_ALREADY_VERIFIED", "after the resend");
    expect(await answerTo({ rpc: "verify", id, code, purpose: "" })).toBe(ended);
    await world.advance(700_000);
    expect(await answerTo({ rpc: "verify", id, code, purpose: "" })).toBe(ended);
    // Across a restart a leap ahead looks like a long pause, and the note of the clock may be 20 s old.
    expect(world.jumps).toEqual(restart && jumpMs > 0 ? [] : [jumpMs + (restart ? 5_000 : 0)]);
    expect(world.machine.monotonicMs() - beganMs).toBeLessThan(hour);
    await world.end();
  });
});

describe.each(jumpsMs)("the clock is set by %i ms", (jumpMs) => {
  test.each([false, true])("an untouched code is dead ten minutes after its send, restart: %s", async (restart) => {
    const { world, answerTo } = await startQuietWorld();
    await answerTo({ rpc: "send", phone, knownUser: false, purpose: "" });
    const [v] = world.invariants.allVerifications();
    const code = world.invariants.known.get(v?.id ?? "")?.code ?? "";
    await world.advance(300_000);
    world.setWall(jumpMs);
    if (restart) {
      await world.crash();
      await world.boot();
    }
    await world.advance(300_000 + (restart ? 20_000 : 0));
    expect(await answerTo({ rpc: "verify", id: v?.id ?? "", code, purpose: "" })).toBe("OTP_EXPIRED");
    await world.end();
  });

  test.each([false, true])("an empty bucket gives one more after one interval, restart: %s", async (restart) => {
    const { world, callers, answerTo } = await startQuietWorld();
    const send: Ask = { rpc: "send", phone, knownUser: false, purpose: "" };
    for (let i = 0; i < 5; i++) expect(await answerTo(send)).toBe("ok");
    expect(await answerTo(send)).toBe("PHONE_RATE_LIMITED");
    await world.advance(20_000);
    world.setWall(jumpMs);
    if (restart) {
      await world.crash();
      await world.boot();
    }
    const call = callers.call(send);
    await world.rest();
    const result = call.answer?.result;
    const waitMs = result?.ok === false ? (result.refusal.retryAfterMs ?? Number.NaN) : 0;
    expect(waitMs).toBeLessThanOrEqual(600_000);
    await world.advance(waitMs);
    expect(await answerTo(send)).toBe("ok");
    await world.end();
  });

  test("the system tells of it, once, and of nothing when time only passes", () => {
    const machine = new Machine();
    const jumps: number[] = [];
    const system = createSystem((ms) => void jumps.push(ms), machine);
    machine.pass(24 * hour);
    system.now();
    machine.setWall(jumpMs);
    const before = system.now();
    machine.pass(1_000);
    expect(system.now()).toBeGreaterThanOrEqual(before + 1_000);
    expect(jumps).toEqual([jumpMs]);
  });
});
