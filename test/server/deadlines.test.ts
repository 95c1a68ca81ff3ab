/**
 * Deadlines: a client's own is kept where it is shorter than the server's, and nothing absurd in its header is a fault
 * of ours. A body that never comes holds a place for no longer than any other call.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ApiKey } from "../../src/otp/keys/api-key.ts";
import { refuse } from "../../src/otp/reason.ts";
import { createOwnAddressOf } from "../../src/server/http/client-address.ts";
import { createPace } from "../../src/server/listener/pace.ts";
import { createConnections } from "../../src/server/listener/connections.ts";
import { createGateway } from "../../src/server/rpc/gateway.ts";
import { createCodecs } from "../../src/server/rpc/codecs.ts";
import { connectionLimits, startServer } from "../../src/server/listener/server.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces } from "../support/clients/surfaces.ts";
import { createManualSystem } from "../support/service/system.ts";
import { overHttp1, overHttp2 } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

describe.each(surfaces)("over $name", (surface) => {
  test("a client's deadline of 30 s, longer than ours, is accepted", async () => {
    const options = { key: world.key, timeoutMs: 30_000 };
    const sent = await surface.call(world.url, "SendOtp", { phone: newPhone() }, options);
    expect(sent.value).toMatchObject({ state: "STATE_PENDING" });
  });

  test.each([
    "",
    "soon",
    "-1",
    "1.5",
    "1e9",
    "0x10",
    "NaN",
    "Infinity",
    "9999999999",
    "99999999999",
    "99999999H",
    "1 S",
  ])("a deadline of %j does no harm", async (absurd) => {
    const headers = { "connect-timeout-ms": absurd, "grpc-timeout": absurd };
    const sent = await surface.call(world.url, "SendOtp", { phone: newPhone() }, { key: world.key, headers });
    expect(sent.value).toMatchObject({ state: "STATE_PENDING" });
  });

  test.each(["0m", "1n", "999u"])(
    "a deadline of %s begins nothing: no text that nobody would hear of",
    async (none) => {
      const phone = newPhone();
      const headers = { "connect-timeout-ms": "0", "grpc-timeout": none };
      const refused = await surface.call(world.url, "SendOtp", { phone }, { key: world.key, headers });
      expectRefusal(refused, "DEADLINE");
      expect(refused.message).toBe("The deadline is less than 1 ms, so the call was not begun. It had no effect.");
      expect(world.network.received.filter(({ to }) => to === phone)).toEqual([]);
    },
  );

  test("a deadline of 1 ms is kept or missed, and nothing else", async () => {
    const headers = { "connect-timeout-ms": "1", "grpc-timeout": "1m" };
    const { reason } = await surface.call(world.url, "SendOtp", { phone: newPhone() }, { key: world.key, headers });
    expect([undefined, "DEADLINE"]).toContain(reason);
  });
});

const key: ApiKey = {
  id: "k",
  kind: "live",
  tenant: "default",
  name: "",
  scopes: ["send"],
  origins: [],
  isApp: false,
  channels: ["sms"],
  digest: new Uint8Array(),
  createMs: 0,
  expireMs: null,
  revokeMs: null,
  lastUseMs: null,
  lastRefuseMs: null,
};

/** A gateway whose calls live for 80 ms, in front of nothing. */
async function startImpatient() {
  const faults: unknown[] = [];
  const ended: (string | undefined)[] = [];
  const connections = createConnections({
    pace: createPace(),
    ...connectionLimits,
    idleMs: 60_000,
    maxAgeMs: 0,
    connectionsMax: 100,
    ownAddressOf: createOwnAddressOf([]),
    isProxy: () => false,
  });
  const onFault = (error: unknown) => void faults.push(error);
  const gateway = createGateway({
    codecs: createCodecs(() => Promise.reject(new Error("no call gets so far")), 16_384),
    system: createManualSystem(),
    authorize: async ({ headers }) =>
      headers.authorization === undefined
        ? { key: undefined, address: undefined, refusal: refuse("API_KEY_MISSING").refusal }
        : { key, address: undefined, refusal: undefined },
    addressOf: () => ({ name: "127.0.0.1", text: "127.0.0.1" }),
    ownAddressOf: () => undefined,
    wasValid: () => false,
    listsOrigin: () => Promise.resolve(false),
    pages: () => () => undefined,
    onAuthenticated: connections.authenticated,
    bodyBytesMax: 16_384,
    deadlineMs: 80,
    callsMax: 10,
    onCall: (call) => void ended.push(call.refusal?.reason),
    onFault,
  });
  const server = await startServer({ handler: gateway, connections, host: "127.0.0.1", port: 0, onFault });
  return { url: `http://127.0.0.1:${server.port}`, server, gateway, ended, faults };
}

test.each([
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
])("a body that never ends is answered DEADLINE over %s", async (_, wire) => {
  const impatient = await startImpatient();
  const headers = { authorization: "Bearer x", "content-type": "application/json" };
  const answer = await wire(impatient.url, { path: "/v1/otp/send", headers, body: '{"pho', unfinished: true });
  expect([answer.status, answer.text]).toEqual([504, expect.stringContaining('"DEADLINE"')]);
  // Nothing is under way any more, so this resolves by itself.
  await impatient.gateway.drain();
  expect(impatient.ended).toEqual(["DEADLINE"]);
  await impatient.server.stop(100);
  expect(impatient.faults).toEqual([]);
});
