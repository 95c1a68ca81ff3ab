/**
 * Log lines on their way out. Whoever reads them may be gone or stuck: neither may hold up the service, end it, or keep it
 * from ending. What cannot be written is lost, and what comes later is tried again.
 */
import { write, writeSync } from "node:fs";
import { promisify } from "node:util";

export interface LogLines {
  /** Takes a line with its newline. */
  write(line: string): void;
  /** Resolves once all that was taken is written, or cannot be. */
  written(): Promise<void>;
}

/** Lines wait for so many characters to come together, but no longer than `waitMs`: each by itself is a tenth of a call. */
const togetherChars = 16_000;
const waitMs = 50;
/** Characters that wait for a reader who does not read. Lines beyond them are counted instead. */
const waitingCharsMax = 4_194_304;
/** After this a full pipe is tried again. */
const fullMs = 100;

const put = promisify(write);

export function createLogLines(fd: number): LogLines {
  let waiting = "";
  let dropped = 0;
  let underWay: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  function begin(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (underWay !== undefined) return underWay;
    if (waiting === "") return Promise.resolve();
    const lost = dropped === 0 ? "" : `${JSON.stringify({ level: 40, dropped, msg: "log lines were dropped" })}\n`;
    const bytes = Buffer.from(waiting + lost);
    waiting = "";
    dropped = 0;
    underWay = hand(bytes);
    return underWay;
  }

  async function hand(bytes: Uint8Array): Promise<void> {
    await putAll(fd, bytes);
    underWay = undefined;
    if (waiting !== "") soon();
  }

  function soon(): void {
    if (waiting.length >= togetherChars) void begin();
    else timer ??= setTimeout(() => void begin(), waitMs);
  }

  process.once("exit", () => {
    // While a write is under way the reader may be stuck, and would keep the process for good.
    if (underWay !== undefined || waiting === "") return;
    try {
      writeSync(fd, waiting);
    } catch {
      // Nobody reads.
    }
  });

  return {
    write(line) {
      if (waiting.length + line.length > waitingCharsMax) dropped += 1;
      else waiting += line;
      soon();
    },
    async written() {
      while (underWay !== undefined || waiting !== "") await begin();
    },
  };
}

/** Writes bytes in full, unless there is an error. */
async function putAll(fd: number, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    try {
      at += (await put(fd, bytes, at)).bytesWritten;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") return;
      await new Promise((resolve) => setTimeout(resolve, fullMs));
    }
  }
}
