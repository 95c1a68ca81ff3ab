/**
 * Preloaded into a process under test: at SIGUSR2 it collects what nobody holds any more, and prints what is left in bytes. The size
 * of a process depends on when its collector last had the processor; what it holds does not.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
setFlagsFromString("--no-expose-gc");
let count = 0;

process.on("SIGUSR2", () => {
  void (async () => {
    // What has a destructor of its own is freed a turn later, and with it what it held.
    for (let i = 0; i < 3; i += 1) {
      collect();
      await nextTurn();
    }
    const { heapUsed, external } = process.memoryUsage();
    count += 1;
    process.stderr.write(`collected ${count}: ${heapUsed + external} bytes\n`);
  })();
});
