/**
 * The progress of a command, on standard error: on a terminal one line that each call overwrites, elsewhere nothing, or now and
 * then a line.
 */

/** Shows a text on the line of progress; an empty one clears it. On a terminal only: a log has no use for it. */
export function showProgress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001B[K${text}`);
}

const barWidth = 20;

/** Shows how much of `total` is done, with a bar on a terminal; elsewhere a line for each tenth of the way. */
export function createProgressBar(total: number): (done: number, what: string) => void {
  let tenths = 0;
  return (done, what) => {
    const share = total === 0 ? 1 : done / total;
    const percent = `${Math.floor(share * 100)} %`;
    if (process.stderr.isTTY) {
      const bar = "#".repeat(Math.floor(share * barWidth)).padEnd(barWidth, "-");
      showProgress(`[${bar}] ${percent.padStart(5)}  ${done} of ${total} rows, ${what}`);
    } else if (Math.floor(share * 10) > tenths) {
      tenths = Math.floor(share * 10);
      process.stderr.write(`${percent.padStart(5)}  ${done} of ${total} rows, ${what}\n`);
    }
  };
}
