/**
 * What HTTP/2 in cleartext reads past everybody until the turn is over: it is looked at as soon as a turn was long.
 */
import { afterEach, expect, test } from "vitest";
import { callFrames, frame, frameType, openRaw, type RawConnection } from "../support/clients/raw.ts";
import { hello, whenAnswered } from "../support/clients/strangers.ts";
import { startListener, testKey, type Listener } from "../support/service/listener.ts";

let listener: Listener;
const opened: RawConnection[] = [];
afterEach(async () => {
  for (const connection of opened.splice(0)) connection.destroy();
  await listener.stop(0);
});

const mebibyte = 1_048_576;
const update = frame(frameType.windowUpdate, 0, 0, Buffer.from([0, 0, 0, 1]));
const noise = Buffer.concat(Array.from({ length: mebibyte / update.length }, () => update));

async function open(...first: (string | Uint8Array)[]): Promise<RawConnection> {
  const connection = await openRaw(listener.port);
  opened.push(connection);
  connection.write(...hello, ...first);
  await whenAnswered([connection]);
  return connection;
}

/** Has the event loop stand still for longer than anything of the listener's lets pass. */
function standStill(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
}

test("a stranger who sends a mebibyte that asks for nothing is cut when a turn was long, and not with the next tick", async () => {
  listener = await startListener({ limits: { tickMs: 3_600_000 } });
  const caller = await open(callFrames(listener.port, 1, testKey));
  await listener.answered(1);
  const stranger = await open();
  for (const each of [caller, stranger]) each.write(noise);
  // As long as it is read turns may be long; then one is.
  const standing = setInterval(standStill, 10);
  await stranger.closed;
  clearInterval(standing);
  expect(listener.connections.count).toBe(1);
});
