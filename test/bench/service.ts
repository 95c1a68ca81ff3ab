/**
 * The service as the benchmark drives it: all as shipped, but for a provider that accepts at once and passes the codes
 * to the load generator, in bundles over a socket, so that handing them over costs next to nothing per call.
 * Usage: service.ts <database> <socket of the load generator>
 */
import { connect } from "node:net";
import { parseConfig } from "../../src/config/config.ts";
import type { Provider } from "../../src/delivery/provider.ts";
import { startService } from "../../src/main.ts";
import { createSystem } from "../../src/system.ts";
import { createTelemetry } from "../../src/telemetry.ts";

const [databasePath = "", codesPath = ""] = process.argv.slice(2);
const codes = connect(codesPath);
let bundle = "";

const provider: Provider = {
  name: "bench",
  send({ to, text }) {
    if (bundle === "") {
      setImmediate(() => {
        codes.write(bundle);
        bundle = "";
      });
    }
    bundle += `${to} ${text.slice(0, text.indexOf(" "))}\n`;
    return Promise.resolve({ kind: "accepted" });
  },
};

const parsed = parseConfig({ OTP_PORT: "0", OTP_DATABASE_URL: `file:${databasePath}`, ...process.env }, () => "");
if (!parsed.ok) throw new Error(parsed.faults.join("\n"));
const service = await startService(parsed.value, {
  system: createSystem(),
  telemetry: createTelemetry(parsed.value.logLevel, "bench"),
  print: (text) => void process.stdout.write(text),
  providers: [provider],
});
process.stdout.write(`port ${service.port}\n`);
process.on("SIGTERM", () => void service.stop().then(() => process.exit(0)));
