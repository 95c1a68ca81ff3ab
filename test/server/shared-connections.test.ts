/**
 * A connection that carries calls of many: what one stranger sends on it costs the others nothing.
 */
import { once } from "node:events";
import { connect, type ClientHttp2Session } from "node:http2";
import { afterEach, expect, test } from "vitest";
import { startListener, testKey, type Listener } from "../support/service/listener.ts";

let listener: Listener;
let session: ClientHttp2Session;
afterEach(async () => {
  session.destroy();
  await listener.stop(0);
});

/** Posts to a path and resolves with the status; undefined where the stream ended without one. */
async function post(path: string, body: string | Buffer, headers: Record<string, string> = {}) {
  const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/json", ...headers });
  let status: number | undefined;
  stream.on("response", (head) => (status = head[":status"]));
  stream.on("error", () => {});
  stream.resume();
  stream.end(body);
  await once(stream, "close");
  return status;
}
const send = () => post("/v1/otp/send", '{"phone":"+31612345678"}', { authorization: `Bearer ${testKey}` });

test.each([
  ["brought a secret key", false],
  ["is a trusted proxy's", true],
])("a stranger's bodies do not end a connection that %s", async (_, isBehindProxy) => {
  listener = await startListener({ isBehindProxy });
  session = connect(listener.url);
  session.on("error", () => {});
  expect(isBehindProxy || (await send()) === 200).toBe(true);
  // Beyond a megabyte the stream is ended.
  const bodies = [900_000, 900_000, 3_000_000, 900_000, 900_000, 900_000];
  for (const bytes of bodies) {
    await Promise.all([post("/v1/otp/send", Buffer.alloc(bytes)), post("/nowhere", Buffer.alloc(bytes))]);
  }
  expect(session.closed).toBe(false);
  expect(await send()).toBe(200);
  expect(listener.connections.count).toBe(1);
});
