/**
 * What can happen in a simulation, one function per kind of step. Each leaves the world at rest and checks what it alone
 * can know; what must hold always is checked after every step by whoever runs them.
 */
import { createKeyRing } from "../../src/otp/keys/key-ring.ts";
import type { Verdict } from "../../src/otp/verification/destination.ts";
import type { Reason } from "../../src/otp/reason.ts";
import type { Verification } from "../../src/otp/verification/verification.ts";
import { harmless, type Ask, type Call, type Callers } from "./callers.ts";
import type { Chance } from "./chance.ts";
import { turn } from "./machine.ts";
import { moods } from "./scripted-provider.ts";
import { hold } from "./violation.ts";
import { drawPolicy, type World } from "./world.ts";

export interface Scene {
  readonly world: World;
  readonly callers: Callers;
  readonly chance: Chance;
}

export type Step = (scene: Scene) => Promise<void>;

export const phones = ["+31612345671", "+31612345672", "+447400123456"];
const purposes = ["", "", "login"];
const hour = 3_600_000;

const terminalReasons: Record<string, Reason> = {
  VERIFIED: "OTP_ALREADY_VERIFIED",
  EXPIRED: "OTP_EXPIRED",
  LOCKED: "OTP_LOCKED",
  CANCELED: "OTP_CANCELED",
  FAILED: "OTP_FAILED",
};

/** A verification to act on: more often one that is pending. */
function pickVerification({ world, chance }: Scene): Verification | undefined {
  const all = world.invariants.allVerifications().toSorted((a, b) => a.createMs - b.createMs || (a.id < b.id ? -1 : 1));
  const pending = all.filter(({ state }) => state === "PENDING");
  const from = pending.length > 0 && chance.happens(0.8) ? pending.slice(-4) : all;
  return from.length === 0 ? undefined : chance.pick(from);
}

function sendAsk({ chance }: Scene): Ask {
  const bad = ["+3161234567", "0612345678", "+31201234567"];
  const phone = chance.happens(0.05) ? chance.pick(bad) : chance.pick(phones);
  return { rpc: "send", phone, knownUser: chance.happens(0.2), purpose: chance.pick(purposes) };
}

/** A guess: right, wrong, malformed, or the right code of another verification. */
function guessAsk({ world, chance }: Scene, v: Verification, right = 0.45): Ask {
  const code = world.invariants.known.get(v.id)?.code ?? "";
  const other = chance.pick([...world.invariants.known.values()]).code;
  const wrong = String((Number(code) + 1 + chance.below(10 ** v.digits - 1)) % 10 ** v.digits).padStart(v.digits, "0");
  const typed = chance.happens(right)
    ? chance.pick([code, `${code.slice(0, 3)} ${code.slice(3)}`])
    : chance.weighted([
        [6, wrong],
        [1, other],
        [1, ""],
        [1, `${code}0`],
        [1, code.slice(1)],
        [1, `${code.slice(0, -1)}x`],
      ]);
  const purpose = chance.happens(0.1) ? "another" : v.purpose;
  return { rpc: "verify", id: v.id, code: typed, purpose };
}

function actAsk(scene: Scene): Ask | undefined {
  const v = pickVerification(scene);
  if (v === undefined) return undefined;
  return scene.chance.weighted<() => Ask>([
    [6, () => guessAsk(scene, v)],
    [3, () => ({ rpc: "resend", id: v.id })],
    [1, () => ({ rpc: "cancel", id: v.id })],
    [2, () => ({ rpc: "get", id: v.id })],
  ])();
}

/** Makes one call with nothing beside it, and compares what it was told with what the database held before. */
async function callOne(scene: Scene, ask: Ask, key?: string): Promise<Call> {
  const { world, callers } = scene;
  const { invariants } = world;
  const before = invariants.everything();
  const buckets = invariants.buckets();
  const v = ask.rpc === "send" ? undefined : invariants.allVerifications().find(({ id }) => id === ask.id);
  const guesses = ask.rpc === "send" ? invariants.guessesOf(ask.phone, world.now()) : 0;
  const call = callers.call(ask, key);
  await world.rest();
  const result = call.answer?.result;
  if (result !== undefined && call.answer?.replayed === false) {
    if (!result.ok && harmless.has(result.refusal.reason)) {
      hold(before === invariants.everything(), "I11", `${result.refusal.reason} changed something`);
      // Less only where a bucket was emptier than its limit can make one: then it is brought back to empty.
      hold(invariants.buckets() <= buckets, "I11", `${result.refusal.reason} spent something`);
    }
    const isRecordsAnswer = !result.ok && result.refusal.reason.startsWith("IDEMPOTENCY");
    if (v !== undefined && !isRecordsAnswer) expectStanding(scene, ask, v, result.ok ? "ok" : result.refusal.reason);
    if (result.ok && ask.rpc === "send") expectLength(scene, result.value.id, guesses);
  }
  return call;
}

/** What a caller must be told of a verification that stands as `v`, as far as that follows from `v` alone. */
function expectStanding({ world }: Scene, ask: Ask, v: Verification, said: Reason | "ok"): void {
  const now = world.now();
  const state = v.state === "PENDING" && now >= v.expireMs ? "EXPIRED" : v.state;
  if (ask.rpc === "get" || ask.rpc === "send") return;
  if (state !== "PENDING") {
    const expected = ask.rpc === "cancel" && state === "CANCELED" ? "ok" : terminalReasons[state];
    hold(said === expected, "I5", `${ask.rpc} on ${state} got ${said}`);
    return;
  }
  if (ask.rpc === "cancel") hold(said === "ok", "I5", `cancel on PENDING got ${said}`);
  if (ask.rpc === "resend") {
    const waitMs = Math.ceil(Math.max(0, v.nextResendMs - now) / 1_000) * 1_000;
    const isLeft = v.resends < world.policy.resendGapsMs.length && v.expireMs - (now + waitMs) >= 60_000;
    const isTooSoon = isLeft && now < v.nextResendMs;
    hold(isLeft !== (said === "RESENDS_EXHAUSTED"), "I11", `resend with ${v.expireMs - now} ms left got ${said}`);
    hold(isTooSoon === (said === "RESEND_TOO_SOON"), "I11", `resend ${v.nextResendMs - now} ms early got ${said}`);
  }
  if (ask.rpc === "verify") {
    const typed = ask.code.replaceAll(/[ -]/g, "");
    const right = world.invariants.known.get(v.id)?.code === typed;
    const isShaped = typed.length === v.digits && /^\d+$/.test(typed);
    const compared = right ? "ok" : "CODE_MISMATCH";
    const expected = !isShaped ? "CODE_MALFORMED" : ask.purpose !== v.purpose ? "PURPOSE_MISMATCH" : compared;
    hold(said === expected, "I4", `${expected} was expected, ${said} came`);
  }
}

function expectLength({ world }: Scene, id: string, guesses: number): void {
  const { codeLength, codeLengthMax, guessPolicy } = world.policy;
  const wanted = [10, 8].find((digits) => digits <= codeLengthMax && guesses >= (digits === 10 ? 100 : 20)) ?? 0;
  const expected = guessPolicy === "strict" ? codeLength : Math.max(codeLength, wanted);
  const digits = world.invariants.known.get(id)?.code.length;
  hold(digits === expected, "I1", `${digits} digits after ${guesses} guesses`);
}

/** One send. */
const send: Step = async (scene) => {
  const { chance, callers } = scene;
  await callOne(scene, sendAsk(scene), chance.happens(0.4) ? callers.newKey() : undefined);
};

/** One act on a verification. */
const act: Step = async (scene) => {
  const { chance, callers } = scene;
  const ask = actAsk(scene);
  if (ask !== undefined) await callOne(scene, ask, chance.happens(0.4) ? callers.newKey() : undefined);
};

/** Several calls at once on one verification, and some with one key. */
const burst: Step = async (scene) => {
  const { world, callers, chance } = scene;
  const v = pickVerification(scene);
  if (v === undefined) return;
  const count = 2 + chance.below(9);
  const key = chance.happens(0.2) ? callers.newKey() : undefined;
  const same = guessAsk(scene, v);
  const calls = Array.from({ length: count }, () => {
    if (key !== undefined) return callers.call(same, key);
    const other: Ask = chance.pick<Ask>([
      { rpc: "resend", id: v.id },
      { rpc: "cancel", id: v.id },
      { rpc: "get", id: v.id },
    ]);
    return callers.call(chance.happens(0.85) ? guessAsk(scene, v, 0.25) : other);
  });
  await world.rest();
  if (key === undefined) return;
  const firsts = calls.filter(({ answer }) => answer?.replayed === false && answer.result.ok);
  hold(firsts.length <= 1, "I12", `${firsts.length} calls with one key took effect`);
};

/** Several sends to one phone at once; with one key they are one. */
const sendBurst: Step = async (scene) => {
  const { world, callers, chance } = scene;
  const ask = sendAsk(scene);
  const key = chance.happens(0.4) ? callers.newKey() : undefined;
  const before = world.invariants.known.size;
  const calls = Array.from({ length: 2 + chance.below(10) }, () => callers.call(ask, key));
  await world.rest();
  const opened = world.invariants.known.size - before;
  // After DELIVERY_FAILED a retry is a first call again, also where the store swallowed that answer.
  const failed = calls.filter(
    ({ answer, failed: isUnknown }) =>
      isUnknown === true || (answer?.result.ok === false && answer.result.refusal.reason === "DELIVERY_FAILED"),
  );
  hold(key === undefined || opened <= 1 + failed.length, "I12", `one key opened ${opened} verifications`);
};

/** A user who signs in again and again. */
const habit: Step = async (scene) => {
  const { world, callers, chance } = scene;
  const phone = chance.pick(phones);
  for (let times = 3 + chance.below(12); times > 0; times--) {
    const sent = callers.call({ rpc: "send", phone, knownUser: false, purpose: "" });
    await world.rest();
    if (sent.answer?.result.ok !== true) return;
    const { id } = sent.answer.result.value;
    callers.call({ rpc: "verify", id, code: world.invariants.known.get(id)?.code ?? "", purpose: "" });
    await world.rest();
  }
};

/** Someone who guesses until told to stop. */
const attack: Step = async (scene) => {
  const { world, callers, chance } = scene;
  const v = pickVerification(scene);
  if (v === undefined) return;
  for (let left = v.attemptsMax + 2; left > 0; left--) callers.call(guessAsk(scene, v, 0));
  await world.rest();
  if (chance.happens(0.5)) await callOne(scene, guessAsk(scene, v, 1));
};

/** A call repeated with its key: the same, or another that has no right to it. */
const repeat: Step = async (scene) => {
  const { world, callers, chance } = scene;
  if (callers.keyed.size === 0) return;
  const [key, [first]] = chance.pick([...callers.keyed].slice(-8)) as [string, [Call]];
  const before = world.invariants.everything();
  const call = await callOne(scene, first.ask, key);
  callers.inspectRepeat(key);
  if (call.answer?.replayed === true) {
    hold(before === world.invariants.everything(), "I12", "a repeat changed something");
    const other: Ask = first.ask.rpc === "send" ? { ...first.ask, purpose: "other" } : { ...first.ask, id: "other" };
    const misused = await callOne(scene, other, key);
    callers.keyed.get(key)?.pop();
    const result = misused.answer?.result;
    if (result !== undefined) {
      hold(!result.ok && result.refusal.reason === "IDEMPOTENCY_KEY_REUSED", "I12", "a key answers one request");
    }
  }
};

/** Another tenant tries what it can with ids that are not its own. */
const stranger: Step = async (scene) => {
  const { world, callers } = scene;
  const ask = actAsk(scene);
  if (ask === undefined) return;
  const before = world.invariants.everything();
  const call = callers.call(ask, undefined, "other");
  await world.rest();
  const result = call.answer?.result;
  if (result === undefined) return;
  hold(!result.ok && result.refusal.reason === "REQUEST_NOT_FOUND", "I14", "another tenant's id exists");
  hold(before === world.invariants.everything(), "I14", "another tenant's call changed something");
};

/** The last moment of a verification, and those beside it. */
const brink: Step = async (scene) => {
  const { world, chance } = scene;
  const v = pickVerification(scene);
  if (v === undefined || v.state !== "PENDING") return;
  const left = v.expireMs - world.now() + chance.pick([-60_001, -60_000, -59_999, -1, 0, 1]);
  if (left > 0) await world.advance(left);
  await callOne(scene, guessAsk(scene, v, 0.7));
  await callOne(scene, { rpc: "resend", id: v.id });
};

/** A user whose message does not come. */
const impatience: Step = async (scene) => {
  const { world, callers, chance } = scene;
  const v = pickVerification(scene);
  if (v === undefined || v.state !== "PENDING") return;
  const early = v.nextResendMs - world.now() - (chance.happens(0.2) ? 1 : 0);
  if (early > 0) await world.advance(early);
  for (let left = chance.pick([1, 1, 3]); left > 1; left--) callers.call({ rpc: "resend", id: v.id });
  await world.rest();
  await callOne(scene, { rpc: "resend", id: v.id }, chance.happens(0.4) ? callers.newKey() : undefined);
};

const wait: Step = async ({ world, chance }) => {
  const ms = chance.weighted([
    [3, chance.below(50)],
    [3, 400 + chance.below(2_000)],
    [4, 5_000 + chance.below(60_000)],
    [2, 60_000 + chance.below(600_000)],
    [1, hour * (1 + chance.below(12))],
  ]);
  world.note("wait", ms);
  await world.advance(ms);
};

/** Someone sets the machine's clock. */
const clock: Step = async ({ world, chance }) => {
  world.setWall(chance.pick([-24, -1, 1, 24]) * hour);
  await world.rest();
};

/** The process dies in the middle of whatever it was doing, and comes back, now and then differently configured. */
const crash: Step = async (scene) => {
  const { world, callers, chance } = scene;
  for (let left = chance.below(4); left > 0; left--)
    callers.call(actAsk(scene) ?? sendAsk(scene), chance.happens(0.5) ? callers.newKey() : undefined);
  for (let left = chance.below(3); left > 0; left--)
    callers.call(sendAsk(scene), chance.happens(0.5) ? callers.newKey() : undefined);
  for (let turns = chance.below(9); turns > 0; turns--) await turn();
  await world.crash();
  if (chance.happens(0.3)) world.machine.pass(chance.below(90_000));
  if (chance.happens(0.2)) world.setWall(chance.pick([-24, -1, 1, 24]) * hour);
  if (chance.happens(0.2)) {
    world.masterKeys = [chance.bytes(32), ...world.masterKeys];
    world.keys = createKeyRing(world.masterKeys);
    world.note("rotate");
  }
  if (chance.happens(0.2)) {
    const { phoneLimits } = drawPolicy(chance);
    world.policy = { ...world.policy, phoneLimits };
    world.invariants.budget.reset();
    world.note("reconfigure");
  }
  await world.boot();
};

/** An operator blocks a phone for a while, or allows a number that no plan knows. What is out already still verifies. */
const lists: Step = async (scene) => {
  const { world, callers, chance } = scene;
  const { registry } = world.life.store;
  const entry = (prefix: string, verdict: Verdict) => ({ tenant: "default", prefix, verdict, note: "", createMs: 0 });
  const phone = chance.pick([...phones, "+3161234567"]);
  const prefix = phone.slice(0, chance.pick([2, 7, phone.length]));
  const isAllowed = chance.happens(0.4);
  await registry.putDestination(entry(prefix, "block"));
  if (isAllowed) await registry.putDestination(entry(phone, "allow"));
  const isBlocked = !isAllowed;
  const before = new Set(world.invariants.known.keys());
  const sent = await callOne(scene, { rpc: "send", phone, knownUser: false, purpose: "" });
  for (const id of world.invariants.known.keys()) if (isAllowed && !before.has(id)) world.exempt.add(id);
  const result = sent.answer?.result;
  const expected = phones.includes(phone) ? "DESTINATION_BLOCKED" : "PHONE_INVALID";
  const isRefused = result?.ok === false && result.refusal.reason === expected;
  if (result !== undefined) {
    const isStrict = world.policy.guessPolicy === "strict";
    hold(isRefused === isBlocked || (isStrict && isRefused), "I17", `${isBlocked} was to be blocked`);
  }
  const pending = world.invariants.allVerifications().filter(({ state }) => state === "PENDING");
  const theirs = pending.find(({ id }) => world.invariants.known.get(id)?.phone === phone);
  if (theirs !== undefined) {
    const again = await callOne(scene, { rpc: "resend", id: theirs.id });
    hold(!isBlocked || again.answer?.result.ok !== true, "I17", "a resend goes to a blocked number");
    await callOne(scene, guessAsk(scene, theirs, 1));
  }
  for (const each of [prefix, phone]) await registry.removeDestination("default", each);
  await world.rest();
  callers.inspect();
};

const mood: Step = async ({ world, chance }) => {
  // Only what all providers refuse is told to callers.
  const isRefusedByAll = chance.happens(0.25);
  for (const provider of world.providers) provider.mood = isRefusedByAll ? "refusing" : chance.pick(moods);
  world.note(
    "mood",
    world.providers.map((provider) => provider.mood),
  );
};

/** The database refuses a share of what it is asked, or its commits fail, for a step or more. */
const storeFault: Step = async (scene) => {
  const { world, chance } = scene;
  const isCommit = chance.happens(0.5);
  if (isCommit) world.breakCommits(true);
  else Object.assign(world.faults, chance.pick([{ refused: 0.3 }, { unheard: 0.3 }, { refused: 0.2, unheard: 0.2 }]));
  world.disturbances += 1;
  for (let left = 1 + chance.below(4); left > 0; left--) await chance.pick([send, act, burst, sendBurst])(scene);
  if (chance.happens(0.5)) await world.advance(chance.below(20_000));
  world.breakCommits(false);
  Object.assign(world.faults, { refused: 0, unheard: 0 });
  world.disturbances += 1;
  await world.rest();
};

export const steps: readonly (readonly [weight: number, step: Step])[] = [
  [12, send],
  [16, act],
  [5, burst],
  [3, sendBurst],
  [2, habit],
  [2, attack],
  [6, repeat],
  [2, stranger],
  [4, brink],
  [6, impatience],
  [12, wait],
  [2, clock],
  [4, crash],
  [5, mood],
  [3, lists],
  [3, storeFault],
];
