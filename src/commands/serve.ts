/**
 * `otpd serve`: runs the service until it is told to stop.
 */
import { isatty } from "node:tty";
import { parseConfig } from "../config/config.ts";
import type { RunningService } from "../main.ts";
import { createSystem } from "../system.ts";
import { createTelemetry } from "../telemetry.ts";
import { parseArgs, readText, valueOf, version } from "./command.ts";

/** Standard output and error have so long for their last lines. */
const lastWordsMs = 500;

/** Runs the service; resolves once it has stopped. */
export async function serve(args: string[]): Promise<void> {
  parseArgs({ args, options: {} });
  const parsed = parseConfig(process.env, readText);
  const config = valueOf("otpd cannot start", parsed);
  const telemetry = createTelemetry(config.logLevel, version());
  for (const warning of parsed.warnings) telemetry.warning(warning);
  const system = createSystem(telemetry.clockJump);
  const stopped = Promise.withResolvers<void>();
  let service: RunningService | undefined;
  // Before the start: whoever reads "listening" may send a signal at once. Until then no call is under way.
  const stop = () => {
    if (service === undefined) process.exit(0);
    // Whoever says so twice does not want to wait.
    service.stop().then(stopped.resolve, stopped.reject);
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  const terminal = [0, 1, 2].find(isatty);
  process.on("SIGHUP", () => {
    // A terminal that is gone ends what was started in it.
    if (terminal !== undefined && !isatty(terminal)) stop();
    else service?.reload();
  });
  // Not imported at the top: loading the server is half of the start-up time, and no other command needs it.
  const { startService } = await import("../main.ts");
  const print = process.stdout.write.bind(process.stdout);
  service = await startService(config, { system, telemetry, print, version: version() });
  service.boundHeap();
  await stopped.promise;
  // Everything is closed. Neither a provider's library nor a slow reader may keep the process alive.
  setTimeout(() => process.exit(0), lastWordsMs);
  await telemetry.flush();
  process.stdout.write("", () => process.exit(0));
}
