/**
 * One simulation: a seed's steps, the invariants after each, and at the end a time without faults in which everything
 * must come to its end.
 */
import { Callers } from "./callers.ts";
import { Chance } from "./chance.ts";
import { phones, steps } from "./steps.ts";
import { hold, Violation } from "./violation.ts";
import { World } from "./world.ts";

export interface Report {
  readonly traceHash: string;
  /** How often each thing was told to callers. */
  readonly answerCounts: ReadonlyMap<string, number>;
  readonly verifications: number;
  readonly smsCount: number;
  readonly fallbacks: number;
  readonly jumps: number;
  readonly crashes: number;
}

export interface Length {
  readonly steps: number;
}

export const shortLength: Length = { steps: 40 };

/** Runs one seed. Rejects with the violation, the seed and the step in its message. */
export async function simulate(seed: number, length: Length = shortLength): Promise<Report> {
  const world = new World(seed);
  const chance = new Chance(seed * 4);
  const callers = new Callers(world);
  const scene = { world, callers, chance };
  const inspect = () => {
    callers.inspect();
    world.invariants.inspect();
  };
  let at = "the start";
  try {
    await world.boot();
    for (let i = 0; i < length.steps; i++) {
      const step = chance.weighted(steps);
      at = `step ${i}, ${step.name}`;
      world.note(step.name);
      await step(scene);
      inspect();
    }
    at = "the end";
    await converge(world, callers, inspect);
    world.invariants.inspectTexts();
    const report = {
      traceHash: world.traceHash(),
      answerCounts: callers.answerCounts,
      verifications: world.invariants.known.size,
      smsCount: world.invariants.smsCount,
      fallbacks: world.invariants.fallbacks,
      jumps: world.jumps.length,
      crashes: world.crashes,
    };
    await world.end();
    return report;
  } catch (error) {
    world.remove();
    const what = error instanceof Violation ? error.message : String(error instanceof Error ? error.stack : error);
    throw new Error(
      `seed ${seed}, ${at}: ${what}\nReplay: OTPD_SEED=${seed} npx vitest run --config test/vitest.config.ts test/simulation/simulation.test.ts`,
      {
        cause: error,
      },
    );
  }
}

/** Faults stop. Whoever waits as long as told gets a code and is verified, and whatever is open ends in its time. */
async function converge(world: World, callers: Callers, inspect: () => void): Promise<void> {
  for (const provider of world.providers) provider.mood = "kind";
  // Long enough for every call, retry, throttle and lease that is still out.
  await world.advance(61_000);
  inspect();
  for (const phone of phones) {
    const id = await insist(world, callers, phone);
    if (id === undefined) continue;
    const code = world.invariants.known.get(id)?.code ?? "";
    const verified = callers.call({ rpc: "verify", id, code, purpose: "" });
    await world.rest();
    hold(verified.answer?.result.ok === true, "I15", "the right code is taken once faults stop");
    inspect();
  }
  await world.advance(world.policy.ttlMs + 100_000);
  await world.advance(1_000);
  inspect();
  for (const v of world.invariants.allVerifications()) hold(v.state !== "PENDING", "I7", `${v.state} after its time`);
  const owed = world.db.prepare("SELECT count(*) FROM messages WHERE due_ms IS NOT NULL").pluck().get();
  hold(owed === 0, "I7", `${String(owed)} messages are still owed`);
}

/** Sends, waits as long as it is told to, and sends again. Undefined when the strict policy refuses the phone. */
async function insist(world: World, callers: Callers, phone: string): Promise<string | undefined> {
  for (let tries = 0; tries < 3; tries++) {
    const call = callers.call({ rpc: "send", phone, knownUser: false, purpose: "" });
    await world.rest();
    const result = call.answer?.result;
    if (result?.ok === true) return result.value.id;
    if (result?.refusal.reason === "DESTINATION_BLOCKED" && world.policy.guessPolicy === "strict") return undefined;
    hold(result?.refusal.retryAfterMs !== undefined, "I15", `${result?.refusal.reason} without faults`);
    await world.advance(result.refusal.retryAfterMs);
  }
  throw new Violation("I15: a caller who waits as told gets a code");
}
