/** Bodies that a secret key leaves undone: they are bounded, and refuse no other tenant and nobody elsewhere. */
import { expect, onTestFinished, test } from "vitest";
import { openRaw, type RawConnection } from "../support/clients/raw.ts";
import { overHttp1 } from "../support/clients/wire.ts";
import { othersKey, startListener, testKey } from "../support/service/listener.ts";

const bodiesMax = 8;
const path = "/v1/otp/send";
const body = '{"phone":"+31612345678"}';

test.each([
  ["another tenant at the same address", othersKey, undefined],
  ["the same tenant elsewhere", testKey, "127.0.0.2"],
])(
  "all that there may be of one tenant at one address do not refuse %s: the oldest makes room",
  async (_, key, from) => {
    const listener = await startListener({ callsMax: bodiesMax });
    const begin = async () => {
      const connection = await openRaw(listener.port);
      const head = ["host: otpd", `authorization: Bearer ${testKey}`, "content-type: application/json"];
      connection.write([`POST ${path} HTTP/1.1`, ...head, `content-length: ${body.length}`, "", "{"].join("\r\n"));
      return connection;
    };
    const undone: RawConnection[] = [];
    for (let begun = 1; begun <= bodiesMax; begun += 1) {
      undone.push(await begin());
      await listener.came(begun);
    }
    onTestFinished(async () => {
      for (const connection of undone) connection.destroy();
      await listener.stop(0);
    });
    const send = async (who: string, at?: string) => {
      const headers = { authorization: `Bearer ${who}`, "content-type": "application/json" };
      return (await overHttp1(listener.url, { path, headers, body, from: at })).status;
    };
    // Nobody has more than this tenant at this address.
    expect(await send(testKey)).toBe(503);
    expect(await send(key, from)).toBe(200);
    const [oldest, ...others] = undone;
    expect((await oldest?.closed)?.toString()).toBe("");
    expect(others.map(({ socket }) => socket.readableEnded || socket.destroyed)).not.toContain(true);
  },
);
