/** The system's tables of connections are read whole, however they are cut into pages, and with pauses. */
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readQueues } from "../../src/server/listener/system-queues.ts";
import { readAll } from "../support/network/queues.ts";
import { temporaryFolder } from "../support/service/world.ts";

const hex = (number: number, digits: number) => number.toString(16).toUpperCase().padStart(digits, "0");
/** A line as the system writes it, which pads it to 150 bytes. */
const line = (inode: number, bytes: number) =>
  `${`${inode}`.padStart(4)}: 0100007F:1F90 010200C0:C350 01 ${hex(bytes, 8)}:00000000 00:00000000 00000000     0        0 ${inode} 1 0000000012345678 20 4 30 10 -1`.padEnd(
    149,
  );

test("every queue of a long table is found, with pauses, and an empty one is passed over", () => {
  const path = join(temporaryFolder(), "tcp");
  const sizes = Array.from({ length: 4_000 }, (_, i) => (i % 3 === 0 ? 0 : i));
  writeFileSync(path, `${sizes.map((bytes, i) => line(i + 1, bytes)).join("\n")}\n`);
  const { queues, pauses } = readAll(readQueues([path, `${path}6`]));
  const expected = sizes.flatMap((bytes, i) => (bytes > 1 ? [{ inode: `${i + 1}`, bytes, port: 8_080 }] : []));
  expect(queues.map(({ inode, bytes, port }) => ({ inode, bytes, port }))).toEqual(expected);
  expect(pauses).toBe(2);
});

test("nothing is read behind a page that is not full: the system would go through its whole table for it", () => {
  const path = join(temporaryFolder(), "tcp");
  // 64 pages and some, of which the last one makes a pause due.
  const lines = Array.from({ length: 1_757 }, (_, i) => `${line(i + 1, 9)}\n`);
  writeFileSync(path, lines.join(""));
  const reading = readQueues([path]);
  reading.next();
  appendFileSync(path, `${line(9_999, 9)}\n`);
  expect(readAll(reading)).toMatchObject({ queues: { length: lines.length }, pauses: 0 });
});

test("a table that cannot be read is told of", () => {
  expect(() => readQueues([temporaryFolder()]).next()).toThrow("EISDIR");
});
