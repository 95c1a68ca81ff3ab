/**
 * The long form of failover: thousands of messages to a first provider that does everything wrong in a seeded order, with
 * a healthy one behind it; and the breaker's whole way from open to closed, on a real clock.
 */
import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { behaviours } from "../support/fakes/provider.ts";
import { certificateIn } from "../support/network/certificate.ts";
import { declaredFirst, startFake, startStation, trust, type Fake } from "../delivery/provider/setup.ts";
import { newPhone } from "../support/data/phones.ts";
import { seededRandom } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";

const folder = temporaryFolder();
let messagebird: Fake;
let declared: Fake;
let webhook: Fake;
beforeAll(async () => {
  const certificate = certificateIn(folder);
  trust(certificate);
  messagebird = await startFake("messagebird", certificate);
  declared = await startFake("declared", certificate);
  webhook = await startFake("webhook");
});
afterAll(() => {
  messagebird.stop();
  declared.stop();
  webhook.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Good answers between the bad ones, so that the breaker is mostly closed: while it is open, no fault is tried. */
const acceptsBetween = 9;
const sendersAtOnce = 16;
/** While the breaker is open, each sender waits so long between two messages. */
const openWaitMs = 1_000;

test.each([
  [200, "MessageBird", () => messagebird, () => ({})],
  [50, "a declared gateway", () => declared, () => declaredFirst(folder, declared)],
])(
  "%i messages of every kind of fault of %s end well, after two calls at the most",
  async (sendsEach, _, faulty, env) => {
    const first = faulty();
    const second = (await webhook.seen()).length;
    const station = await startStation(folder, first, webhook, { OTP_SEND_WAIT_MS: "0", ...env() });
    const random = seededRandom(2026);
    const order = behaviours
      .flatMap((behaviour) => Array.from({ length: sendsEach }, () => behaviour))
      .map((behaviour) => ({ behaviour, at: random() }))
      .toSorted((a, b) => a.at - b.at)
      .flatMap(({ behaviour }) => [behaviour, ...Array.from({ length: acceptsBetween }, () => "accept" as const)]);
    await first.script(...order);
    const ids: string[] = [];
    await Promise.all(
      Array.from({ length: sendersAtOnce }, async () => {
        for (let before = -1, now = 0; now < order.length; before = now, now = (await first.seen()).length) {
          if (now === before) await sleep(openWaitMs);
          const { status, body } = await station.call("/v1/otp/send", { phone: newPhone() });
          expect(status).toBe(200);
          ids.push(String(body["request_id"]));
        }
      }),
    );
    const deliveries = new Map<string, number>();
    for (const id of ids) {
      for (;;) {
        const { body } = await station.call(`/v1/otp/${id}`);
        const delivery = String(body["delivery"]);
        if (!/QUEUED|SENDING/.test(delivery) || String(body["delivery_detail"]).startsWith("HTTP 5")) {
          deliveries.set(delivery, (deliveries.get(delivery) ?? 0) + 1);
          break;
        }
        await sleep(20);
      }
    }
    const offered = (await webhook.seen()).slice(second);
    const calls = Map.groupBy([...(await first.seen()), ...offered], ({ reference }) => reference);
    const most = Math.max(...[...calls.values()].map((requests) => requests.length));
    const tried = Map.groupBy(await first.seen(), ({ behaviour }) => behaviour);
    const taken = [...calls.values()].filter((requests) => requests.some(({ took }) => took)).length;
    console.log({
      messages: ids.length,
      firstCalls: (await first.seen()).length,
      secondCalls: offered.length,
      most,
      taken,
      deliveries,
    });
    for (const behaviour of behaviours) expect(tried.get(behaviour)?.length).toBeGreaterThanOrEqual(sendsEach);
    expect(most).toBeLessThanOrEqual(2);
    expect(taken / ids.length).toBeGreaterThanOrEqual(0.99);
    await station.stop();
  },
);

test("a breaker opens within 20 failed calls, and closes within 15 s of recovery", async () => {
  const station = await startStation(folder, messagebird, webhook);
  const send = () => station.call("/v1/otp/send", { phone: newPhone() });
  const from = (await messagebird.seen()).length;
  await messagebird.standing("500");
  for (let i = 0; i < 40; i++) await send();
  const opened = (await messagebird.seen()).length - from;
  await messagebird.standing("accept");
  const recovered = performance.now();
  let tookAgain = false;
  while (!tookAgain) {
    const { body } = await send();
    const { body: seen } = await station.call(`/v1/otp/${String(body["request_id"])}`);
    tookAgain = seen["provider"] === "messagebird";
    await sleep(100);
  }
  const closedAfterMs = performance.now() - recovered;
  console.log({ opened, closedAfterMs });
  expect(opened).toBeLessThanOrEqual(20);
  expect(closedAfterMs).toBeLessThanOrEqual(15_000);
  await station.stop();
});
