/**
 * A declared provider in the whole service, against its gateway in a process of its own, over HTTPS: what each kind of answer
 * comes to, and its reports.
 */
import { createHmac } from "node:crypto";
import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SendOutcome } from "../../../src/otp/message/message.ts";
import { acme } from "../../support/data/http-providers.ts";
import { newPhone } from "../../support/data/phones.ts";
import { lacks } from "../../support/machine.ts";
import { certificateIn } from "../../support/network/certificate.ts";
import { temporaryFolder } from "../../support/service/world.ts";
import { behaviours, type Behaviour } from "../../support/fakes/provider.ts";
import {
  declaredFirst,
  signingKey,
  startFake,
  startStation,
  trust,
  type Fake,
  type Station,
} from "../provider/setup.ts";
import { sampled } from "../../support/extent.ts";

/** What is to come of each behaviour; what is not here may have been sent. */
const outcomes = new Map<Behaviour, string>([
  ["accept", "accepted"],
  ["401", "refused credentials"],
  ["402", "refused balance"],
  ["422 recipient", "refused recipient"],
  ["422 originator", "refused content"],
  ["429", "throttled"],
  ["429 wait", "throttled"],
]);

describe.skipIf(lacks("a declared provider over HTTPS", "openssl"))("a declared gateway", () => {
  const folder = temporaryFolder();
  let gateway: Fake;
  let webhook: Fake;
  let station: Station;

  const start = () => startStation(folder, gateway, webhook, declaredFirst(folder, gateway));
  beforeAll(async () => {
    const certificate = certificateIn(folder);
    trust(certificate);
    gateway = await startFake("declared", certificate);
    webhook = await startFake("webhook");
    station = await start();
  });
  afterAll(async () => {
    await station.stop();
    gateway.stop();
    webhook.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const get = async (id: unknown) => (await station.call(`/v1/otp/${String(id)}`)).body;

  test("has a message as its declaration says, with its secret", async () => {
    const phone = newPhone();
    const { body } = await station.call("/v1/otp/send", { phone });
    expect(body).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
    expect(await get(body["request_id"])).toMatchObject({ provider: "acme" });
    const last = (await gateway.seen()).at(-1);
    expect(last?.body).toMatchObject({ to: phone.slice(1), msg: expect.stringMatching(/^\d{6} /) as string });
    expect(last?.headers).toMatchObject({ "x-api-key": "live-key" });
    expect(JSON.stringify(station.observed)).not.toContain("live-key");
  });

  test.each(sampled(behaviours, 2))(
    "after %s a message is taken, in two calls at the most, and its meaning is told",
    async (behaviour) => {
      await gateway.script(behaviour);
      // A breaker of its own for each.
      await station.stop();
      station = await start();
      const before = (await gateway.seen()).length + (await webhook.seen()).length;
      const { status, body } = await station.call("/v1/otp/send", { phone: newPhone() });
      expect(status).toBe(200);
      // However slow the machine is: the answer tells only what is known by then.
      await expect.poll(async () => (await get(body["request_id"]))["delivery"]).toBe("DELIVERY_ACCEPTED");
      const calls = station.observed.filter(({ event }) => event === "providerCall").map(({ with: said }) => said);
      const [[provider, outcome] = []] = calls as [string, SendOutcome][];
      const told = outcome?.kind === "refused" ? `refused ${outcome.cause}` : outcome?.kind;
      expect({ provider, told }).toEqual({ provider: "acme", told: outcomes.get(behaviour) ?? "ambiguous" });
      const seen = [...(await gateway.seen()), ...(await webhook.seen())].length - before;
      expect(seen).toBe(behaviour === "accept" ? 1 : 2);
      expect(seen).toBe(calls.length);
    },
  );

  describe("reports to /webhooks/acme", () => {
    beforeAll(async () => {
      await station.stop();
      station = await start();
    });

    async function report(fields: object, key = signingKey): Promise<number> {
      const body = JSON.stringify(fields);
      const headers = { "x-signature": createHmac("sha256", key).update(body).digest("hex") };
      const response = await fetch(`${station.url}/webhooks/acme`, { method: "POST", headers, body });
      return response.status;
    }

    test("move the delivery on, and one that is forged changes nothing", async () => {
      const { body } = await station.call("/v1/otp/send", { phone: newPhone() });
      const ref = (await gateway.seen()).at(-1)?.reference;
      expect(await report({ ref, state: "FAILED" }, "another key")).toBe(401);
      expect((await fetch(`${station.url}/webhooks/acme`)).status).toBe(401);
      expect(await get(body["request_id"])).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
      expect(await report({ ref, state: "DELIVRD" })).toBe(200);
      expect(await get(body["request_id"])).toMatchObject({ delivery: "DELIVERY_DELIVERED", provider: "acme" });
      expect(await report({ ref, state: "FAILED" })).toBe(200);
      expect(await get(body["request_id"])).toMatchObject({ delivery: "DELIVERY_DELIVERED" });
    });

    test("come to that path and none below it, unless a secret is to stand there", async () => {
      for (const path of ["/webhooks/acme/more", "/webhooks/", "/webhooks/acme/", "/webhooks/acm"]) {
        expect((await fetch(station.url + path, { method: "POST" })).status).toBe(404);
      }
    });

    test("are still taken when no channel names the gateway any more, and it may have messages under way", async () => {
      await station.stop();
      const env = { ...declaredFirst(folder, gateway), OTP_PROVIDERS: "webhook" };
      station = await startStation(folder, gateway, webhook, env);
      expect(await report({ ref: "of a message before the start", state: "DELIVRD" })).toBe(200);
      expect(await report({ ref: "of a message before the start", state: "DELIVRD" }, "another key")).toBe(401);
      const told = station.observed.filter(({ event }) => event === "unmatchedReport").map(({ with: said }) => said[0]);
      expect(told).toEqual(["acme"]);
    });

    test("may bring a secret in the path, which no log has", async () => {
      const secret = "q7Zk2mV9xT4bR8nW3cY6pL";
      const signature = { kind: "path", secret: "ACME_REPORT_KEY" };
      const reports = { ...acme.providers[0]?.reports, signature, reference: "?ref", status: "?state" };
      const env = { ...declaredFirst(folder, gateway, { reports }), OTP_HTTP_ACME_REPORT_KEY: secret };
      await station.stop();
      station = await startStation(folder, gateway, webhook, env);
      const { body } = await station.call("/v1/otp/send", { phone: newPhone() });
      const ref = (await gateway.seen()).at(-1)?.reference;
      const bring = async (path: string) => (await fetch(`${station.url}${path}?ref=${ref}&state=DELIVRD`)).status;
      for (const path of ["", "/", `/${secret}x`, `/${secret.slice(1)}`, `/${secret.toLowerCase()}`]) {
        expect(await bring(`/webhooks/acme${path}`)).toBe(401);
      }
      expect(await bring(`/webhooks/acme/${secret}/x`)).toBe(404);
      expect(await get(body["request_id"])).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
      expect(await bring(`/webhooks/acme/${secret}`)).toBe(200);
      expect(await get(body["request_id"])).toMatchObject({ delivery: "DELIVERY_DELIVERED" });
      expect(JSON.stringify(station.observed)).not.toContain(secret.slice(1, -1));
    });
  });
});
