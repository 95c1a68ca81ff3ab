/** Bodies that a secret key leaves undone: they are bounded, and refuse no other tenant and nobody elsewhere. */
import { expect, onTestFinished, test } from "vitest";
import { openRaw, type RawConnection } from "../support/clients/raw.ts";
import { overHttp1 } from "../support/clients/wire.ts";
import { othersKey, startListener, testKey, type Listener } from "../support/service/listener.ts";

const bodiesMax = 8;
const path = "/v1/otp/send";
const body = '{"phone":"+31612345678"}';
const here = "127.0.0.1";
const addresses = Array.from({ length: bodiesMax }, (_, i) => `127.0.0.${i + 1}`);

async function listenWithin(max: number) {
  const listener = await startListener({ callsMax: max });
  const undone: RawConnection[] = [];
  onTestFinished(async () => {
    for (const connection of undone) connection.destroy();
    await listener.stop(0);
  });
  return { listener, undone };
}

async function begin({ port }: Listener, key: string, from: string): Promise<RawConnection> {
  const connection = await openRaw(port, undefined, from);
  const head = ["host: otpd", `authorization: Bearer ${key}`, "content-type: application/json"];
  connection.write([`POST ${path} HTTP/1.1`, ...head, `content-length: ${body.length}`, "", "{"].join("\r\n"));
  return connection;
}

async function send({ url }: Listener, key: string, from = here): Promise<number> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return (await overHttp1(url, { path, headers, body, from })).status;
}

test.each([
  ["another tenant at the same address", othersKey, here],
  ["the same tenant elsewhere", testKey, "127.0.0.2"],
])(
  "all that there may be of one tenant at one address do not refuse %s: the oldest makes room",
  async (_, key, from) => {
    const { listener, undone } = await listenWithin(bodiesMax);
    for (let begun = 1; begun <= bodiesMax; begun += 1) {
      undone.push(await begin(listener, testKey, here));
      await listener.came(begun);
    }
    // Nobody has more than this tenant at this address.
    expect(await send(listener, testKey)).toBe(503);
    expect(await send(listener, key, from)).toBe(200);
    const [oldest, ...others] = undone;
    expect((await oldest?.closed)?.toString()).toBe("");
    expect(others.map(({ socket }) => socket.readableEnded || socket.destroyed)).not.toContain(true);
  },
);

test("a call's time has how long its body took to be here apart, which is its client's", async () => {
  const { listener, undone } = await listenWithin(1);
  const connection = await begin(listener, testKey, here);
  undone.push(connection);
  await listener.came(1);
  // Its place is the next one's from when its body is waited for.
  const headers = { authorization: `Bearer ${testKey}` };
  const get = async () => (await overHttp1(listener.url, { method: "GET", path: "/v1/otp/nothing", headers })).status;
  await expect.poll(get).not.toBe(503);
  listener.advance(12_000);
  connection.write(body.slice(1));
  await connection.until((bytes) => (bytes.includes("200 OK") ? true : undefined));
  const sends = listener.calls.filter(({ call }) => call.rpc === "SendOtp");
  expect(sends).toMatchObject([{ status: 200, call: { bodyMs: 12_000 } }]);
});

test("all that there may be of one tenant, one from each address, refuse another tenant nothing, however many it has", async () => {
  const { listener, undone } = await listenWithin(bodiesMax);
  const theirs = addresses.slice(0, -2);
  for (const from of theirs) {
    undone.push(await begin(listener, testKey, from));
    await listener.came(undone.length);
  }
  for (let i = 0; i < 2; i += 1) {
    undone.push(await begin(listener, othersKey, here));
    await listener.came(undone.length);
  }
  expect(await send(listener, othersKey)).toBe(200);
  expect(undone.slice(theirs.length).map(({ socket }) => socket.readableEnded || socket.destroyed)).toEqual([
    false,
    false,
  ]);
});
