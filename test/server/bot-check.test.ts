/**
 * A service with a bot check: backends with their secret keys notice nothing of it, over every surface, and no address keeps
 * the pages of others from theirs.
 */
import { once } from "node:events";
import { connect } from "node:http2";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newPhone } from "../support/data/phones.ts";
import { secretText, startSiteverify, type Siteverify } from "../support/fakes/siteverify.ts";
import { overHttp1 } from "../support/clients/wire.ts";
import { surfaces } from "../support/clients/surfaces.ts";
import { startWorld, type World } from "../support/service/world.ts";

let far: Siteverify;
let world: World;
beforeAll(async () => {
  far = await startSiteverify();
  world = await startWorld({ OTP_CHALLENGE_VERIFY_URL: far.url, OTP_CHALLENGE_SECRET: secretText });
});
afterAll(async () => {
  await world.stop();
  far.stop();
});

test.each(surfaces)("over $name, a secret key sends with whatever it brings, and nobody is asked", async (surface) => {
  for (const more of [{}, { challenge_token: "bad" }, { challenge_token: "x".repeat(4_096) }]) {
    const sent = await surface.call(world.url, "SendOtp", { phone: newPhone(), ...more }, { key: world.key });
    expect(sent.value).toMatchObject({ state: "STATE_PENDING" });
  }
  expect(await far.asked()).toEqual([]);
});

/** A page's send of a test key, which has 100 at once. */
const sendOf = (key: string, challenge_token: string) => ({
  headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
  body: JSON.stringify({ phone: "+14155550100", challenge_token }),
});

test("of pages' calls that are left while they are checked, an address has 32 under way", async () => {
  const { text: key } = await world.makeKey({ kind: "pubtest", isApp: true, scopes: ["send"] });
  const session = connect(world.url);
  const before = (await far.asked()).length;
  const leave = async (wave: number, count: number): Promise<unknown[]> => {
    const streams = Array.from({ length: count }, (_, i) => {
      const { headers, body } = sendOf(key, `hold ${wave} ${i}`);
      const stream = session.request({ ":method": "POST", ":path": "/v1/otp/send", ...headers });
      stream
        .on("error", () => {})
        .resume()
        .end(body);
      return stream;
    });
    const answers = streams.map((stream) => once(stream, "response").then(([head]) => head[":status"] as unknown));
    if (wave > 0) return Promise.all(answers);
    await far.asked(before + count);
    const closed = streams.map((stream) => once(stream, "close"));
    for (const stream of streams) stream.close();
    return Promise.all(closed);
  };
  await leave(0, 32);
  expect(new Set(await leave(1, 8))).toEqual(new Set([429]));
  const { headers, body } = sendOf(key, "good for another");
  const other = await overHttp1(world.url, { path: "/v1/otp/send", headers, body, from: "127.0.0.2" });
  expect(other.status).toBe(200);
  await far.release();
  session.close();
});

test("checks that cannot be made have ten log lines a second", async () => {
  world.system.advance(600_000);
  const { text: key } = await world.makeKey({ kind: "pubtest", isApp: true, scopes: ["send"] });
  const asked = Array.from({ length: 25 }, () => {
    const { headers, body } = sendOf(key, "status 500");
    return overHttp1(world.url, { path: "/v1/otp/send", headers, body });
  });
  expect(new Set((await Promise.all(asked)).map(({ status }) => status))).toEqual(new Set([403]));
  expect(world.observed.filter(({ event }) => event === "fault")).toHaveLength(10);
});
