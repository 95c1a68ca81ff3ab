/**
 * `otpd` from its sources, whatever was built of them: for what is asked about single files.
 */
import { run } from "../../../src/cli.ts";

process.exitCode = await run(process.argv.slice(2));
