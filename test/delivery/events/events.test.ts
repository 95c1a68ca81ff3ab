/**
 * Events on their way to a tenant's endpoint: over HTTPS, to a consumer in a process of its own that checks with the
 * reference library, and that does all that consumers do.
 */
import { rmSync, writeFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { postsPerEndpointMax } from "../../../src/delivery/event-worker.ts";
import { retryWaitsMs } from "../../../src/otp/operators/endpoint.ts";
import type { E164 } from "../../../src/otp/phone-number.ts";
import { isPublic } from "../../../src/delivery/public-address.ts";
import type { Address, PostOptions } from "../../../src/delivery/post.ts";
import { rotateSecret } from "../../../src/service/operators/endpoints.ts";
import { ann, ringOf } from "../../store/acts.ts";
import { makeCertificate } from "../../support/network/certificate.ts";
import { parseEvent } from "../../support/readers/events.ts";
import { temporaryFolder } from "../../support/service/world.ts";
import { createWorkshop, startConsumer, type Consumer, type Posted, type Workshop } from "./setup.ts";

let folder = "";
let consumer: Consumer;
let anywhere: PostOptions;
beforeAll(async () => {
  folder = temporaryFolder();
  const { cert, key } = makeCertificate("consumer");
  const [certPath, keyPath] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  writeFileSync(certPath, cert);
  writeFileSync(keyPath, key);
  consumer = await startConsumer(certPath, keyPath);
  anywhere = { isAllowed: () => true, ca: readFileSync(certPath, "utf8") };
});
afterAll(() => {
  consumer.stop();
  rmSync(folder, { recursive: true, force: true });
});

let shop: Workshop;
beforeEach(async () => {
  shop = await createWorkshop();
  consumer.posted.splice(0);
  await consumer.script();
});
afterEach(async () => {
  await shop.end();
  if (shop.faults.length > 0) throw new Error("the worker had faults", { cause: shop.faults });
});

/** What the reference library makes of a POST; its clock is the machine's, so the timestamp is looked at here. */
function check({ headers, body }: Posted, secret: string): boolean {
  const flat = headers as Record<string, string>;
  const at = new Date(Number(flat["webhook-timestamp"]) * 1_000);
  const signature = new Webhook(secret).sign(String(flat["webhook-id"]), at, body);
  return String(flat["webhook-signature"]).split(" ").includes(signature);
}

describe("an event", () => {
  test("is posted as JSON, signed, with its phone masked or whole as the endpoint asks, and no code", async () => {
    const masked = await shop.add(`${consumer.httpsUrl}/masked?x=1`);
    const whole = await shop.add(`${consumer.httpsUrl}/whole`, true);
    const { verification } = await shop.acts.send(ann);
    const code = shop.acts.rightCode(verification);
    shop.work(anywhere);
    const posted = await consumer.count(2);
    for (const [path, secret, phone] of [
      ["/masked?x=1", masked.secret, "+31•••••••78"],
      ["/whole", whole.secret, ann],
    ] as const) {
      const one = posted.find((each) => each.path === path);
      if (one === undefined) throw new Error(`nothing came to ${path}`);
      expect(one.headers).toMatchObject({ "content-type": "application/json", "user-agent": "otpd" });
      expect(one.headers["webhook-id"]).toMatch(/^evt_[\w-]{22}$/);
      expect(check(one, secret)).toBe(true);
      expect(check(one, `whsec_${Buffer.alloc(32).toString("base64")}`)).toBe(false);
      expect(parseEvent(one.body)).toMatchObject({
        type: "verification.created",
        timestamp: new Date(shop.system.now()).toISOString(),
        data: { request_id: verification.id, phone },
      });
      expect(`${JSON.stringify(one.headers)}${one.body}`).not.toContain(code);
    }
    await shop.settled();
    expect(await shop.store.events.nextEventDue()).toBeUndefined();
  });

  test("that is not taken comes again by the schedule, with the same id and a timestamp of its own", async () => {
    const { id, secret } = await shop.add(consumer.httpsUrl);
    await consumer.script(500, 404, "hang", "redirect");
    await shop.acts.send(ann);
    const beganMs = shop.system.now();
    shop.work(anywhere);
    const waits = [5_000, 300_000, 1_800_000, 7_200_000];
    const due: number[] = [];
    for (const [i] of waits.entries()) {
      await consumer.count(i + 1);
      // The third gets no answer.
      if (i === 2) shop.losePatience();
      await shop.settled();
      const dueMs = (await shop.store.events.nextEventDue()) ?? 0;
      due.push(dueMs - shop.system.now());
      shop.system.advance(dueMs - shop.system.now());
    }
    const posted = await consumer.count(waits.length + 1);
    for (const [i, waitMs] of waits.entries()) {
      expect(due[i]).toBeGreaterThanOrEqual(waitMs);
      expect(due[i]).toBeLessThanOrEqual(waitMs * 1.1);
    }
    expect(new Set(posted.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect(new Set(posted.map(({ body }) => body)).size).toBe(1);
    expect(new Set(posted.map(({ headers }) => headers["webhook-timestamp"])).size).toBe(posted.length);
    expect(posted.every((one) => check(one, secret))).toBe(true);
    // A redirect is not followed: it is one more failure.
    expect(new Set(posted.map(({ path }) => path))).toEqual(new Set(["/"]));
    await shop.endpointOnce(id, ({ failingSinceMs }) => failingSinceMs === null);
    expect(shop.system.now() - beganMs).toBeGreaterThan(9_000_000);
  });

  test.each([
    ["default", ["dropped 1"]],
    ["default+test", []],
  ])("that nobody takes is given up after its last try, and each try is told of: of %s", async (tenant, dropped) => {
    await shop.add(consumer.httpsUrl);
    await consumer.script(...retryWaitsMs.map(() => 500), 500);
    await shop.acts.send(ann, { tenant });
    shop.work(anywhere);
    for (const [i] of retryWaitsMs.entries()) {
      await consumer.count(i + 1);
      await shop.settled();
      shop.system.advance(((await shop.store.events.nextEventDue()) ?? 0) - shop.system.now());
    }
    await shop.settled();
    expect(shop.tried).toEqual([...retryWaitsMs.map(() => "failed"), "failed", ...dropped]);
    expect(await shop.store.events.nextEventDue()).toBeUndefined();
  });

  test("whose answer has no end is taken, and its answer is not waited for", async () => {
    await shop.add(consumer.httpsUrl);
    await consumer.script("endless");
    await shop.acts.send(ann);
    shop.work(anywhere);
    await consumer.count(1);
    await shop.settled();
    expect(await shop.store.events.nextEventDue()).toBeUndefined();
  });

  test("that nobody has trusted the certificate for is not handed over", async () => {
    const { id } = await shop.add(consumer.httpsUrl);
    await shop.acts.send(ann);
    shop.work({ isAllowed: () => true });
    await shop.endpointOnce(id, ({ failingSinceMs }) => failingSinceMs !== null);
    expect(consumer.posted).toEqual([]);
  });

  test("that a crash left between the POST and its settling is posted again, with the same id", async () => {
    await shop.add(consumer.httpsUrl);
    await shop.acts.send(ann);
    const dead = { ...shop.store.events, recordTry: () => new Promise<never>(() => {}) };
    shop.work(anywhere, { events: dead, now: () => shop.store.now() });
    await consumer.count(1);
    shop.system.advance(60_000);
    shop.work(anywhere);
    const [first, second] = await consumer.count(2);
    expect(second?.headers["webhook-id"]).toBe(first?.headers["webhook-id"]);
  });

  test("claimed when a stop has begun is given back, and not posted", async () => {
    await shop.add(consumer.httpsUrl);
    await shop.acts.send(ann);
    const [claimed, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { events } = shop.store;
    const claimEvents: typeof events.claimEvents = async (claim) => {
      const jobs = await events.claimEvents(claim);
      claimed.resolve();
      await goOn.promise;
      return jobs;
    };
    const worker = shop.work(anywhere, { events: { ...events, claimEvents }, now: () => shop.store.now() });
    await claimed.promise;
    const stopped = worker.stop(10_000);
    goOn.resolve();
    await stopped;
    expect([consumer.posted, await events.nextEventDue()]).toEqual([[], shop.system.now()]);
  });

  test("under way at a stop is given back, and counts as no try", async () => {
    const { id } = await shop.add(consumer.httpsUrl);
    await consumer.script("hang", "hang");
    await shop.acts.send(ann);
    await shop.acts.send("+31612345679" as E164);
    const released: number[] = [];
    const { events } = shop.store;
    const releaseEvents: typeof events.releaseEvents = (jobs) => {
      released.push(jobs.length);
      return events.releaseEvents(jobs);
    };
    const worker = shop.work(anywhere, { events: { ...events, releaseEvents }, now: () => shop.store.now() });
    await consumer.count(2);
    await worker.stop(10);
    // At 256 of them, one by one would take longer than a stop may.
    expect(released).toEqual([2]);
    expect(await shop.store.events.nextEventDue()).toBe(shop.system.now());
    expect(await shop.store.events.findEndpoint(id)).toMatchObject({ failingSinceMs: null });
    const [job] = await shop.store.events.claimEvents({ max: 1, perEndpointMax: 1, busy: [] });
    expect(job?.tries).toBe(0);
  });
});

describe("an endpoint", () => {
  test("that answers 410 gets nothing any more, and operators are told", async () => {
    const { id } = await shop.add(consumer.httpsUrl);
    await consumer.script(410);
    await shop.acts.send(ann);
    shop.work(anywhere);
    const gone = await shop.endpointOnce(id, ({ disableMs }) => disableMs !== null);
    expect(gone.why).toBe("gone");
    await shop.settled();
    expect(shop.disabled.map((endpoint) => endpoint.id)).toEqual([id]);
    await shop.acts.send(ann);
    expect(await shop.store.events.nextEventDue()).toBeUndefined();
    expect(consumer.posted).toHaveLength(1);
  });

  test("that does not answer holds up no other", async () => {
    await shop.add(`${consumer.httpsUrl}/slow`);
    await consumer.script(...Array<"hang">(postsPerEndpointMax).fill("hang"));
    for (let i = 0; i < 2 * postsPerEndpointMax; i++) await shop.acts.send(ann);
    shop.work(anywhere);
    await consumer.count(postsPerEndpointMax);
    // The other half is left in the outbox meanwhile.
    expect(await shop.store.events.nextEventDue()).toBe(shop.system.now());
    await shop.add(`${consumer.httpsUrl}/quick`);
    await shop.acts.send(ann);
    while (!consumer.posted.some(({ path }) => path === "/quick")) await consumer.count(consumer.posted.length + 1);
    const first = consumer.posted.slice(0, postsPerEndpointMax).map(({ path }) => path);
    expect(first).toEqual(Array(postsPerEndpointMax).fill("/slow"));
  });

  test("whose secret was rotated gets signatures by both, until the time of the old one is over", async () => {
    const { id, secret: old } = await shop.add(consumer.httpsUrl);
    const dependencies = { store: shop.store, system: shop.system, keys: ringOf(1) };
    const made = await rotateSecret(dependencies, id, 60_000);
    if (typeof made === "string") throw new Error(made);
    const fresh = made.secret.reveal();
    shop.work(anywhere);
    await shop.acts.send(ann);
    await consumer.count(1);
    shop.system.advance(60_000);
    await shop.acts.send(ann);
    const [during, after] = await consumer.count(2);
    if (during === undefined || after === undefined) throw new Error("nothing came");
    expect([check(during, old), check(during, fresh)]).toEqual([true, true]);
    expect([check(after, old), check(after, fresh)]).toEqual([false, true]);
  });
});

describe("an address that is not public", () => {
  const v4 = { address: "127.0.0.1", family: 4 };
  const leadsTo = (...addresses: Address[]) => ({ resolve: async () => addresses });
  const https = () => consumer.httpsUrl;
  const http = (host: string) => () => `http://${host}:${consumer.httpPort}`;

  test.each<[string, () => string, Partial<PostOptions>]>([
    ["as it is", https, {}],
    ["in IPv6's clothes", http("[::ffff:127.0.0.1]"), {}],
    ["when a name leads there", http("shop.test"), leadsTo(v4)],
    ["when it is one of several", http("shop.test"), leadsTo({ address: "93.184.215.14", family: 4 }, v4)],
    ["when the machine itself resolves the name", http("localhost"), {}],
  ])("is not connected to %s", async (_, url, options) => {
    const { id } = await shop.add(url());
    await shop.acts.send(ann);
    shop.work({ ...anywhere, isAllowed: isPublic, ...options });
    const endpoint = await shop.endpointOnce(id, ({ failingSinceMs }) => failingSinceMs !== null);
    expect(endpoint.disableMs).toBeNull();
    expect(consumer.posted).toEqual([]);
  });

  test("is not come by behind a name that leads elsewhere the second time it is asked for", async () => {
    await shop.add(`http://shop.test:${consumer.httpPort}`);
    await shop.acts.send(ann);
    let asked = 0;
    const looked: string[] = [];
    shop.work({
      isAllowed: (address) => looked.push(address) > 0,
      resolve: async () => {
        asked += 1;
        return [asked === 1 ? v4 : { address: "10.0.0.1", family: 4 }];
      },
    });
    const [posted] = await consumer.count(1);
    // The connection is to what was looked at: nothing asks again.
    expect([asked, looked]).toEqual([1, ["127.0.0.1"]]);
    expect(posted?.headers.host).toBe(`shop.test:${consumer.httpPort}`);
  });
});
