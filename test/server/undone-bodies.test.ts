/** Bodies that a secret key leaves undone: they are bounded, and refuse no other tenant and nobody elsewhere. */
import { expect, onTestFinished, test } from "vitest";
import { openRaw, type RawConnection } from "../support/clients/raw.ts";
import { overHttp1 } from "../support/clients/wire.ts";
import { othersKey, startListener, testKey } from "../support/service/listener.ts";

const bodiesMax = 8;
const path = "/v1/otp/send";
const body = '{"phone":"+31612345678"}';

test("all that there may be of one tenant at one address refuse no other, and the oldest makes room", async () => {
  const listener = await startListener({ callsMax: bodiesMax });
  const begin = async (key: string) => {
    const connection = await openRaw(listener.port);
    const head = ["host: otpd", `authorization: Bearer ${key}`, "content-type: application/json"];
    connection.write([`POST ${path} HTTP/1.1`, ...head, `content-length: ${body.length}`, "", "{"].join("\r\n"));
    return connection;
  };
  const undone: RawConnection[] = [];
  for (let begun = 1; begun <= bodiesMax; begun += 1) {
    undone.push(await begin(testKey));
    await listener.came(begun);
  }
  onTestFinished(async () => {
    for (const connection of undone) connection.destroy();
    await listener.stop(0);
  });
  const send = async (key: string, from?: string) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    return (await overHttp1(listener.url, { path, headers, body, from })).status;
  };
  // Nobody has more than its own tenant at its own address.
  expect(await send(testKey)).toBe(503);
  expect(await send(othersKey)).toBe(200);
  expect(await send(testKey, "127.0.0.2")).toBe(200);
  // The second of these found the room that the first one had left.
  const [oldest, ...others] = undone;
  expect((await oldest?.closed)?.toString()).toBe("");
  expect(others.map(({ socket }) => socket.readableEnded || socket.destroyed)).not.toContain(true);
});
