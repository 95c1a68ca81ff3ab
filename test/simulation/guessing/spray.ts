/**
 * The attacker who does not care whose phone it is: so many SMS within an hour, each to another phone, and five guesses at
 * each code.
 */
import type { Policy } from "../../../src/otp/verification/policy.ts";
import { hold } from "../violation.ts";
import { figuresOf, type Figures } from "./figures.ts";
import { World, isOpened, type Opened } from "./world.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** How he spreads his requests over the hour. */
export const sprayWays = ["evenly", "just below the rule", "sending first"] as const;
export type SprayWay = (typeof sprayWays)[number];

/** The minutes of the window, with the one under way, and the requests of five guesses that stay below 200 in it. */
const windowMs = 11 * minuteMs;
const requestsBelow = 39;

/** Plays an hour of `sms` messages. `verifiedOwn` of them go to phones of the attacker's own, spread evenly among them. */
export async function playSpray(policy: Policy, way: SprayWay, sms: number, verifiedOwn = 0): Promise<Figures> {
  const world = new World(policy, { isTargeted: false });
  const endMs = world.now() + hourMs;
  const waiting: Opened[] = [];
  const isOwn = (i: number) => Math.floor(((i + 1) * verifiedOwn) / sms) > Math.floor((i * verifiedOwn) / sms);
  let stepMs = Math.floor(hourMs / sms);
  if (way === "sending first") stepMs = Math.floor((9 * minuteMs) / sms);
  if (way === "just below the rule") stepMs = 0;
  for (let i = 0; i < sms && world.now() < endMs; i++) {
    const opened = await world.send("attacker", "default", phoneAt(i), false);
    if (!isOpened(opened)) throw new Error("each phone gets one SMS alone");
    if (isOwn(i)) {
      hold((await world.typeRight(opened)) === "verified", "admitted", "his own phone verifies");
    } else if (way === "sending first") waiting.push(opened);
    else await world.guess(opened, policy.attemptsMax);
    world.system.advance(way === "just below the rule" && i % requestsBelow === requestsBelow - 1 ? windowMs : stepMs);
  }
  for (const opened of waiting) await world.guess(opened, policy.attemptsMax);
  return figuresOf(world);
}

const phoneAt = (i: number) => `+3161${String(1_000_000 + i)}`;
