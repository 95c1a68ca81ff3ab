/**
 * Runs attacks against the real process, one after the other, and demands of each that memory stays within its bound and
 * that an honest caller with a key is served meanwhile.
 */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { begin, type Attack } from "../clients/attacks.ts";
import {
  collecting,
  firstKey,
  forgetPeak,
  heldMiB,
  peakMiB,
  residentMiB,
  startOtpd,
  type Otpd,
} from "../processes/process.ts";
import { temporaryFolder } from "./world.ts";

/** As the image and the units set them. */
export const mallocSettings = { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072" };
/** What strangers have it hold, once all else is collected: 9 were read, and more does not fit into what docs/security.md promises. */
const heldMiBMax = 24;
/** What connections that are over may leave behind. */
const leftMiBMax = 4;
/** Twice what it promises of the peak, which has what is not collected yet: that depends on who else has the processor. */
const growthMiBMax = 128;
/** Honest calls for which an attack is kept up. */
const callsDuring = 25;

/** Makes a test of each attack. All are on one process, so what one leaves behind counts with the next. */
export function measure(attacks: readonly Attack[]): void {
  const folder = temporaryFolder();
  let otpd: Otpd;
  let key: string;
  let restingMiB: number;
  let heldAtRestMiB: number;

  /** An honest call, on a connection of its own. */
  const call = async () => {
    const headers = { authorization: `Bearer ${key}`, connection: "close" };
    const answer = await fetch(`${otpd.url}/v1/otp/${"A".repeat(22)}`, { headers });
    return [answer.status, ((await answer.json()) as { reason: string }).reason];
  };
  const read = async (path: string) => (await fetch(`${otpd.url}${path}`)).text();

  beforeAll(async () => {
    otpd = await startOtpd(folder, { OTP_METRICS: "on", OTP_REFLECTION: "on", ...mallocSettings, ...collecting });
    key = await firstKey(otpd);
    for (let i = 0; i < 300; i += 1) {
      await call();
      await read(i % 2 === 0 ? "/metrics" : "/livez");
    }
    restingMiB = residentMiB(otpd.process.pid);
    heldAtRestMiB = await heldMiB(otpd);
  });
  afterAll(async () => {
    await otpd.end();
    rmSync(folder, { recursive: true, force: true });
  });

  test.each(attacks)("$name leave memory within its bound and honest calls answered", async (attack) => {
    const { pid } = otpd.process;
    forgetPeak(pid);
    const end = await begin(attack, Number(new URL(otpd.url).port));
    for (let i = 0; i < callsDuring; i += 1) expect(await call()).toEqual([404, "REQUEST_NOT_FOUND"]);
    const grownMiB = peakMiB(pid) - restingMiB;
    const heldMoreMiB = (await heldMiB(otpd)) - heldAtRestMiB;
    end();
    expect(heldMoreMiB).toBeLessThan(attack.isEnded === true ? leftMiBMax : heldMiBMax);
    expect(grownMiB).toBeLessThan(growthMiBMax);
  });
}
