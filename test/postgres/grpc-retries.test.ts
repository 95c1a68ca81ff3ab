/**
 * What gRPC's libraries do by themselves with several instances on one database: no call is lost when they are replaced
 * one by one, and none is made twice whose commit nobody knows of.
 */
import { once } from "node:events";
import { rmSync } from "node:fs";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { SendOtpRequestSchema } from "../../gen/otp/v1/otp_service_pb.ts";
import { countRows } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { readDocument } from "../support/readers/document.ts";
import { libraries, type Report } from "../support/clients/grpc/callers.ts";
import { newPhone } from "../support/data/phones.ts";
import { freePort } from "../support/network/ports.ts";
import { firstKey, startOtpd, type Otpd } from "../support/processes/process.ts";
import { startTcpProxy, through } from "../support/network/tcp-proxy.ts";
import { startWorld, temporaryFolder } from "../support/service/world.ts";
import { sampled } from "../support/extent.ts";

/** What a call writes, and nothing that the instance does by itself. */
const ofCalls = /(insert|update)-verifications|writes/;

const serviceConfig = readDocument("docs/integrate.md").only("json");
const hostOf = ({ url }: { url: string }) => new URL(url).host;
/** Few enough that a call that has to be made again finds the first one done within its tries, on the slowest machine too. */
const callsAtOnce = 8;

describe.each(sampled(libraries, 2))("$name", (library) => {
  beforeAll(() => library.prepare(), 600_000);

  test("loses no call when two instances are replaced one by one under load", async ({ onTestFinished }) => {
    const folder = temporaryFolder();
    const url = (await newDatabase()) ?? "";
    const env = {
      OTP_DATABASE_URL: url,
      OTP_MASTER_KEY: Buffer.alloc(32, 7).toString("base64url"),
      OTP_KEY_LIMIT: "none",
    };
    // Each comes back on its port, which nobody takes meanwhile.
    const start = async () => startOtpd(folder, { ...env, OTP_PORT: `${await freePort()}` });
    const first = await start();
    const key = await firstKey(first);
    const instances: Otpd[] = [first, await start()];
    const caller = library.start(instances.map(hostOf), serviceConfig);
    onTestFinished(async () => {
      await caller.end();
      await Promise.all(instances.map((instance) => instance.end("SIGKILL")));
      rmSync(folder, { recursive: true, force: true });
    });

    const reports: Report[] = [];
    let isOver = false;
    let answered = 0;
    let enough = { at: 0, reached: () => {} };
    const more = () => new Promise<void>((reached) => (enough = { at: answered + 200, reached }));
    const loop = async () => {
      for (let number = 0; !isOver; number += 1) {
        const metadata = { authorization: `Bearer ${key}`, "idempotency-key": newPhone() };
        reports.push(
          await caller.call("SendOtp", SendOtpRequestSchema, { phone: newPhone() }, { seconds: 60, metadata }),
        );
        answered += 1;
        if (answered === enough.at) enough.reached();
      }
    };
    const loops = Array.from({ length: callsAtOnce }, loop);
    for (const [at, old] of instances.entries()) {
      await more();
      const exit = once(old.process, "exit");
      old.process.kill("SIGTERM");
      expect(await exit).toEqual([0, null]);
      const fresh = await startOtpd(folder, { ...env, OTP_PORT: new URL(old.url).port });
      instances[at] = fresh;
      // The clients have found it: with no connection at all, their libraries fail a call at once.
      await fresh.waitFor(/"rpc":"SendOtp"/, "errors");
    }
    await more();
    isOver = true;
    await Promise.all(loops);

    const failed = reports.filter(({ code }) => code !== 0);
    expect(failed.map(({ code, message }) => `${code} ${message}`).slice(0, 5)).toEqual([]);
    expect(await countRows({ kind: "postgres", url }, "verifications")).toBe(reports.length);
  });

  test("makes a call whose commit is lost again with a key, and never without", async ({ onTestFinished }) => {
    const proxy = await startTcpProxy(Number(new URL(inject("postgres") ?? "").port));
    const world = await startWorld({ OTP_DATABASE_URL: through(proxy, (await newDatabase()) ?? "") });
    const caller = library.start([hostOf(world)], serviceConfig);
    onTestFinished(async () => {
      await caller.end();
      await world.stop();
      await proxy.stop();
    });
    const calls = () => world.observed.filter(({ event }) => event === "call").length;
    const sendLosing = async (more: Record<string, string>) => {
      const before = calls();
      const lost = proxy.cutAt("there", "COMMIT", ofCalls);
      const metadata = { authorization: `Bearer ${world.key}`, ...more };
      const report = await caller.call(
        "SendOtp",
        SendOtpRequestSchema,
        { phone: newPhone() },
        { seconds: 60, metadata },
      );
      await lost;
      return { code: report.code, tries: calls() - before };
    };
    expect(await sendLosing({})).toEqual({ code: 14, tries: 1 });
    expect(await sendLosing({ "idempotency-key": "mine" })).toEqual({ code: 0, tries: 2 });
  });
});
