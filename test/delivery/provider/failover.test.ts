/**
 * Failover, quick answers and delivery reports, through the whole service: MessageBird first, a webhook behind it, each
 * in a process of its own.
 */
import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newPhone } from "../../support/data/phones.ts";
import { temporaryFolder } from "../../support/service/world.ts";
import { behaviours } from "../../support/fakes/provider.ts";
import { certificateIn } from "../../support/network/certificate.ts";
import { signReport, startFake, startStation, trust, type Fake, type Station } from "./setup.ts";

const folder = temporaryFolder();
let messagebird: Fake;
let webhook: Fake;
let station: Station;

beforeAll(async () => {
  const certificate = certificateIn(folder);
  trust(certificate);
  messagebird = await startFake("messagebird", certificate);
  webhook = await startFake("webhook");
});
afterAll(() => {
  messagebird.stop();
  webhook.stop();
  rmSync(folder, { recursive: true, force: true });
});
// Each test has breakers of its own.
beforeEach(async () => {
  await messagebird.standing("accept");
  await webhook.standing("accept");
  station = await startStation(folder, messagebird, webhook);
});
afterEach(() => station.stop());

const send = (phone = newPhone()) => station.call("/v1/otp/send", { phone });
const get = async (id: unknown) => (await station.call(`/v1/otp/${String(id)}`)).body;

/** Requests that the fakes got since a moment, by reference. */
async function since(fake: Fake, from: number) {
  return (await fake.seen()).slice(from);
}

/** Asks until the delivery is as expected; the provider's word may still be on its way. */
async function deliveryOf(id: unknown, wanted: RegExp): Promise<Record<string, unknown>> {
  for (;;) {
    const seen = await get(id);
    if (wanted.test(String(seen["delivery"]))) return seen;
    await sleep(10);
  }
}

async function report(reference: string, status: string, id = "", more: Parameters<typeof signReport>[2] = {}) {
  const target = `/webhooks/messagebird?reference=${reference}&status=${status}${id === "" ? "" : `&id=${id}`}`;
  const jwt = await signReport(target, "", more);
  const response = await fetch(station.url + target, { headers: { "messagebird-signature-jwt": jwt } });
  return response.status;
}

test("a message that the first provider takes is not offered to the second", async () => {
  const before = (await webhook.seen()).length;
  const { body } = await send();
  expect(body).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
  expect(await get(body["request_id"])).toMatchObject({ provider: "messagebird", delivery_detail: "" });
  expect(await webhook.seen()).toHaveLength(before);
});

test.each(["401", "402", "404", "405", "422 originator", "422 recipient", "429", "302"] as const)(
  "after %s, proven not sent, the second provider has it before the caller is answered",
  async (behaviour) => {
    const [first, second] = [(await messagebird.seen()).length, (await webhook.seen()).length];
    await messagebird.script(behaviour);
    const { status, body } = await send();
    expect([status, body["delivery"]]).toEqual([200, "DELIVERY_ACCEPTED"]);
    expect(await get(body["request_id"])).toMatchObject({ provider: "webhook" });
    const [tried, taken] = [await since(messagebird, first), await since(webhook, second)];
    expect([tried.length, taken.length]).toEqual([1, 1]);
    expect(taken[0]?.reference).toBe(tried[0]?.reference);
    // A second later it is good for a minute less, which the text says.
    const codes = [taken[0]?.body["text"], tried[0]?.body["body"]].map((text) => /\d{6,}/.exec(String(text))?.[0]);
    expect(codes[0]).toMatch(/^\d{6}$/);
    expect(codes[0]).toBe(codes[1]);
  },
);

test.each(["accept, 500", "accept, reset", "bad JSON"] as const)(
  "after %s it is tried once more, and no more",
  async (behaviour) => {
    const [first, second] = [(await messagebird.seen()).length, (await webhook.seen()).length];
    await messagebird.script(behaviour);
    await webhook.script("500");
    const { status, body } = await send();
    expect(status).toBe(200);
    expect(body["delivery"]).toBe("DELIVERY_SENDING");
    expect((await since(messagebird, first)).length + (await since(webhook, second)).length).toBe(2);
  },
);

test("a recipient that every provider refuses is PHONE_UNREACHABLE, and costs the phone nothing", async () => {
  await station.stop();
  station = await startStation(folder, messagebird, webhook, { OTP_PHONE_LIMITS: "1@1h" });
  const phone = newPhone();
  await messagebird.script("422 recipient");
  await webhook.script("422 recipient");
  expect(await send(phone)).toMatchObject({ status: 400, body: { reason: "PHONE_UNREACHABLE", field: "phone" } });
  expect((await send(phone)).status).toBe(200);
  expect(await send(phone)).toMatchObject({ status: 429, body: { reason: "PHONE_RATE_LIMITED" } });
});

test("every provider proven down is DELIVERY_FAILED, and costs the phone nothing", async () => {
  await station.stop();
  station = await startStation(folder, messagebird, webhook, { OTP_PHONE_LIMITS: "1@1h" });
  const phone = newPhone();
  await messagebird.script("302");
  await webhook.script("404");
  expect(await send(phone)).toMatchObject({ status: 503, body: { reason: "DELIVERY_FAILED" } });
  expect((await send(phone)).status).toBe(200);
});

test("a provider that does not answer in time leaves the caller with what is known", async () => {
  await station.stop();
  station = await startStation(folder, messagebird, webhook, { OTP_SEND_WAIT_MS: "100" });
  await messagebird.script("hang");
  const { status, body } = await send();
  expect([status, body["delivery"]]).toEqual([200, "DELIVERY_SENDING"]);
});

test("a provider that asks to wait is asked once for each number, and the next one takes its message", async () => {
  const [first, second] = [(await messagebird.seen()).length, (await webhook.seen()).length];
  await messagebird.script("429 wait", "429 wait", "429 wait", "429 wait", "429 wait");
  for (let i = 0; i < 5; i++) expect((await send()).status).toBe(200);
  const [tried, taken] = [await since(messagebird, first), await since(webhook, second)];
  expect(tried).toHaveLength(5);
  expect(taken.map(({ reference }) => reference)).toEqual(tried.map(({ reference }) => reference));
});

test.each(["401", "404", "405"] as const)(
  "a provider that answers %s to all is left alone after 5",
  async (behaviour) => {
    const first = (await messagebird.seen()).length;
    await messagebird.standing(behaviour);
    for (let i = 0; i < 10; i++) expect((await send()).status).toBe(200);
    expect(await since(messagebird, first)).toHaveLength(5);
  },
);

describe("a delivery report", () => {
  const sent = async () => {
    const from = (await messagebird.seen()).length;
    const { body } = await send();
    return { id: body["request_id"], reference: (await messagebird.seen())[from]?.reference ?? "" };
  };

  test("moves the delivery on, and never back", async () => {
    const { id, reference } = await sent();
    expect(await report(reference, "sent")).toBe(200);
    expect(await get(id)).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
    expect(await report(reference, "delivered")).toBe(200);
    expect(await get(id)).toMatchObject({ delivery: "DELIVERY_DELIVERED" });
    for (const status of ["delivery_failed", "sent", "expired", "delivered"])
      expect(await report(reference, status)).toBe(200);
    expect(await get(id)).toMatchObject({ delivery: "DELIVERY_DELIVERED", provider: "messagebird" });
  });

  test("on the message before a resend that never left is told with who has that message", async () => {
    await station.stop();
    station = await startStation(folder, messagebird, webhook, { OTP_RESEND_GAPS: "1s" });
    const { id, reference } = await sent();
    await sleep(1_100);
    await messagebird.script("422 recipient");
    await webhook.script("422 recipient");
    expect((await station.call("/v1/otp/resend", { request_id: id })).body["reason"]).toBe("PHONE_UNREACHABLE");
    expect(await get(id)).toMatchObject({ delivery: "DELIVERY_REJECTED", provider: "webhook" });
    expect(await report(reference, "delivered")).toBe(200);
    expect(await get(id)).toMatchObject({
      delivery: "DELIVERY_DELIVERED",
      provider: "messagebird",
      delivery_detail: "",
      messages: [{ delivery: "DELIVERY_DELIVERED" }, { delivery: "DELIVERY_REJECTED", provider: "webhook" }],
    });
  });

  test("that is forged changes nothing and is 401", async () => {
    const { id, reference } = await sent();
    expect(await report(reference, "delivered", "", { key: "another" })).toBe(401);
    expect(await report(reference, "delivered", "", { expires: false })).toBe(401);
    expect(await get(id)).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
  });

  test("about a message nobody knows is 200", async () => {
    expect(await report("AAAAAAAAAAAAAAAAAAAAAA.0", "delivered")).toBe(200);
    expect(await report("nonsense", "delivered")).toBe(200);
  });

  test("of undelivered sends it by the next provider, once, however often it comes", async () => {
    const { id, reference } = await sent();
    const from = (await webhook.seen()).length;
    const reports = [1, 2, 3, 4].map(() => report(reference, "delivery_failed"));
    expect(await Promise.all(reports)).toEqual([200, 200, 200, 200]);
    expect(await deliveryOf(id, /ACCEPTED/)).toMatchObject({ provider: "webhook" });
    expect(await report(reference, "delivery_failed")).toBe(200);
    expect(await get(id)).toMatchObject({ delivery: "DELIVERY_ACCEPTED", provider: "webhook" });
    expect((await since(webhook, from)).map((request) => request.reference)).toEqual([reference]);
    // Late, but the handset has it after all.
    expect(await report(reference, "delivered")).toBe(200);
    expect(await get(id)).toMatchObject({ delivery: "DELIVERY_DELIVERED" });
  });

  test("that comes before the provider's answer counts", async () => {
    await station.stop();
    station = await startStation(folder, messagebird, webhook, { OTP_SEND_WAIT_MS: "50" });
    await messagebird.script("accept, no answer");
    const asked = messagebird.next();
    const { body } = await send();
    const { reference } = await asked;
    expect(await report(reference, "delivered")).toBe(200);
    expect(await get(body["request_id"])).toMatchObject({ delivery: "DELIVERY_DELIVERED" });
  });
});

test("of messages to a first provider that does everything wrong, each is taken, after two calls at the most", async () => {
  await station.stop();
  station = await startStation(folder, messagebird, webhook, { OTP_SEND_WAIT_MS: "0" });
  const [first, second] = [(await messagebird.seen()).length, (await webhook.seen()).length];
  // One after the other: together they would open the breaker before the first has answered.
  const ids: unknown[] = [];
  for (const behaviour of behaviours) {
    await messagebird.script(behaviour);
    ids.push((await send()).body["request_id"]);
  }
  for (const id of ids) await deliveryOf(id, /ACCEPTED|DELIVERED/);
  const calls = Map.groupBy(
    [...(await since(messagebird, first)), ...(await since(webhook, second))],
    ({ reference }) => reference,
  );
  expect(calls.size).toBe(behaviours.length);
  for (const [, requests] of calls) {
    expect(requests.length).toBeLessThanOrEqual(2);
    expect(requests.some(({ took }) => took)).toBe(true);
  }
});
