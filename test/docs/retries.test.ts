/**
 * The retries of docs/integrate.md fire: gRPC's own libraries carry out its service config, wait as long as they are told,
 * and end in the answer.
 */
import { rmSync } from "node:fs";
import { beforeAll, describe, expect, test, vi, type TestContext } from "vitest";
import { SendOtpRequestSchema } from "../../gen/otp/v1/otp_service_pb.ts";
import type { Call } from "../../src/server/rpc/call.ts";
import { readDocument } from "../support/readers/document.ts";
import { libraries, type Library } from "../support/clients/grpc/callers.ts";
import { layLine, type Line } from "../support/network/line.ts";
import { newPhone } from "../support/data/phones.ts";
import { runOtpd, startOtpd } from "../support/processes/process.ts";
import { startWorld, temporaryFolder, type World } from "../support/service/world.ts";

const serviceConfig = readDocument("docs/integrate.md").only("json");
const unavailable = 14;

interface Stage {
  readonly world: World;
  readonly line: Line;
  send(phone: string, metadata?: Record<string, string>): ReturnType<ReturnType<Library["start"]>["call"]>;
  /** The reasons that calls were refused for, in order; undefined for one that succeeded. */
  heard(): (string | undefined)[];
}

async function setStage(library: Library, { onTestFinished }: TestContext): Promise<Stage> {
  const world = await startWorld();
  const line = await layLine(world.url);
  const caller = library.start([new URL(line.url).host], serviceConfig);
  onTestFinished(async () => {
    await caller.end();
    await line.close();
    await world.stop();
  });
  return {
    world,
    line,
    send: (phone, metadata = {}) =>
      caller.call(
        "SendOtp",
        SendOtpRequestSchema,
        { phone },
        { seconds: 60, metadata: { authorization: `Bearer ${world.key}`, ...metadata } },
      ),
    heard: () =>
      world.observed.filter(({ event }) => event === "call").map(({ with: [call] }) => (call as Call).refusal?.reason),
  };
}

describe.concurrent.each(libraries)("$name", (library) => {
  beforeAll(() => library.prepare(), 600_000);

  test("tries DELIVERY_FAILED 4 times, and waits for as long as it is asked to in between", async (context) => {
    // The sandbox's provider is asked for two seconds by the server's clock, which has to go on.
    const folder = temporaryFolder();
    // It is told what came of the message, however slow the machine is.
    const otpd = await startOtpd(folder, { OTP_SEND_WAIT_MS: "10000" });
    const made = await runOtpd(folder, ["keys", "create", "--test", "--name", "ci"]);
    const [key] = /otp_test_\w+/.exec(made.output) ?? [];
    const caller = library.start([new URL(otpd.url).host], serviceConfig);
    context.onTestFinished(async () => {
      await caller.end();
      await otpd.end();
      rmSync(folder, { recursive: true, force: true });
    });
    const metadata = { authorization: `Bearer ${key}`, "idempotency-key": "mine" };
    const options = { seconds: 60, metadata };
    const report = await caller.call("SendOtp", SendOtpRequestSchema, { phone: "+14155550102" }, options);
    expect(report).toMatchObject({ code: unavailable, trailing: { "retry-after": "5" } });
    await otpd.end();
    expect(otpd.errors().match(/"reason":"DELIVERY_FAILED"/g)).toHaveLength(4);
    // Three times 5 s; its own pauses would be 2 s at most.
    expect(report.ms).toBeGreaterThan(14_500);
  });

  test("has the answer that was lost, though the call was still under way at its first retry", async (context) => {
    const { world, line, send, heard } = await setStage(library, context);
    world.network.script.push(async () => {
      line.cut();
      await vi.waitUntil(() => heard().includes("IDEMPOTENCY_IN_PROGRESS"), { timeout: 120_000 });
      return { kind: "accepted" };
    });
    const phone = newPhone();
    const report = await send(phone, { "idempotency-key": "mine" });
    expect(report).toMatchObject({ code: 0 });
    expect(world.network.received.filter(({ to }) => to === phone)).toHaveLength(1);
  });

  test("retries nothing that is final", async (context) => {
    const { send, heard } = await setStage(library, context);
    expect(await send("+31201234567")).toMatchObject({ code: 3 });
    expect(heard()).toEqual(["PHONE_NOT_MOBILE"]);
  });
});
