/**
 * Where a run of the tests keeps its databases. They sync thousands of times, which takes milliseconds on a disk and nothing
 * in memory: so it is a folder in memory where the machine has room for one. Nobody pulls a plug here; what is killed is a
 * process, and what the system has of it stays.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";

const memory = "/dev/shm";
/** What has to be free, of the folder and of memory. A whole run took 0.4 GiB at most at any moment. */
const bytesMin = 4 * 2 ** 30;

/** Makes the folder, and has it removed with this process. Returns undefined where there is no room in memory. */
export function makeScratchFolder(): string | undefined {
  if (!hasRoom()) return undefined;
  const folder = mkdtempSync(join(memory, "otpd-tests-"));
  // As the system's own: PostgreSQL runs as another user, and secrets that all can read are to be found there.
  chmodSync(folder, 0o1777);
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function hasRoom(): boolean {
  try {
    const mounted = readFileSync("/proc/mounts", "utf8").split("\n");
    const options = mounted.map((line) => line.split(" ")).find(([, path]) => path === memory)?.[3] ?? "ro";
    const { bavail, bsize } = statfsSync(memory);
    const free = Number(/^MemAvailable: +(\d+) kB$/m.exec(readFileSync("/proc/meminfo", "utf8"))?.[1]) * 1_024;
    // Programs are run from it.
    return !/\b(ro|noexec)\b/.test(options) && Math.min(bavail * bsize, free) > bytesMin;
  } catch {
    return false;
  }
}
