/**
 * Stops the real process in the midst of calls over every surface from another process, and tells what became of them.
 */
import Sqlite from "better-sqlite3";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { CallReport } from "../clients/load.ts";
import { startLoad } from "../clients/loading.ts";
import { firstKey, startOtpd } from "./process.ts";
import { temporaryFolder } from "../service/world.ts";

export interface Stopped {
  readonly exitCode: number | null;
  readonly tookMs: number;
  /** Calls that were answered before or at the stop, and how many of them on the surface with the fewest. */
  readonly answered: number;
  readonly answeredLeast: number;
  /** Calls whose whole request had left before the stop, and that were not served all the same. */
  readonly lost: readonly CallReport[];
  /** What calls that came later were told. */
  readonly laterOutcomes: Readonly<Record<string, number>>;
  /** Messages that the worker left behind. */
  readonly unsettled: number;
  readonly secondSignal: boolean;
}

/** One round. `pauseMs` is how long the load runs before the stop, once every surface was served; with `twice`, the signal comes again at once. */
export async function stopUnderLoad(pauseMs: number, twice: boolean): Promise<Stopped> {
  const folder = temporaryFolder();
  const otpd = await startOtpd(folder, { OTP_PHONE_LIMITS: "1000@1s", OTP_KEY_LIMIT: "none" });
  try {
    const key = await firstKey(otpd);
    const loops = { rest: 4, connect: 4, "grpc-web": 4, grpc: 4, "connect-h2": 4 };
    const load = startLoad({ port: Number(new URL(otpd.url).port), key, loops, streams: 2 });
    await load.served;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    const exit = once(otpd.process, "exit");
    const stopNs = process.hrtime.bigint();
    otpd.process.kill("SIGTERM");
    if (twice) otpd.process.kill("SIGTERM");
    const [exitCode] = (await exit) as [number | null];
    const tookMs = Number(process.hrtime.bigint() - stopNs) / 1e6;
    const { ok, others } = await load.report;
    const lost = others.filter(({ sentNs }) => sentNs !== null && BigInt(sentNs) < stopNs);
    const laterOutcomes: Record<string, number> = {};
    for (const { outcome } of others) laterOutcomes[outcome] = (laterOutcomes[outcome] ?? 0) + 1;
    const db = new Sqlite(join(folder, "data", "otp.db"), { readonly: true });
    const unsettled = db.prepare("SELECT count(*) FROM messages WHERE due_ms IS NOT NULL").pluck().get() as number;
    db.close();
    const counts = Object.values(ok);
    return {
      exitCode,
      tookMs,
      answered: counts.reduce((sum, count) => sum + count, 0),
      answeredLeast: counts.length < Object.keys(loops).length ? 0 : Math.min(...counts),
      lost,
      laterOutcomes,
      unsettled,
      secondSignal: twice,
    };
  } finally {
    await otpd.end("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
}
