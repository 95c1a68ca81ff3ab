/**
 * Writes log lines. Their reader may be gone or stuck: neither may hold up the service, end it, or keep it from ending. A
 * line that cannot be written is lost; later ones are tried again.
 */
import { write, writeSync } from "node:fs";
import { promisify } from "node:util";

export interface LogLines {
  /** Takes a line with its newline. */
  write(line: string): void;
  /** Resolves once all lines are written, or cannot be. */
  written(): Promise<void>;
}

/**
 * Lines are written together: at so many characters, or after `waitMs`. A write for each line is a tenth of a call, and
 * each write wakes a thread beside this one.
 */
const togetherChars = 16_000;
const waitMs = 250;
/** Characters that wait at most. Lines beyond them are dropped and counted. */
const waitingCharsMax = 4_194_304;
/** A full pipe is tried again after this. */
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
    // While a write is under way the reader may be stuck: a second write could hang the process.
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
