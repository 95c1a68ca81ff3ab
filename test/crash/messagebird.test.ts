/**
 * The process is killed in the middle of a delivery by MessageBird: the real adapter in the process that dies, an HTTPS
 * call of it under way to a fake of the API that lives on. Whatever the step, the SMS goes out at most once more after the
 * restart, every copy carries the same code, and the code is good.
 */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { certificateIn } from "../support/network/certificate.ts";
import { startFake, type Fake } from "../delivery/provider/setup.ts";
import { dueIn } from "../support/databases/book.ts";
import {
  codeIn,
  createDeployment,
  startCrashable,
  type Answered,
  type Crashable,
  type Deployment,
  type Failpoint,
} from "../support/processes/crashable.ts";
import { temporaryFolder } from "../support/service/world.ts";

const folder = temporaryFolder();
let fake: Fake;
let deployment: Deployment;
let env: Record<string, string>;
let service: Crashable;

/** Past the lease of a message in hand. */
const leaseMs = 31_000;

beforeAll(async () => {
  const certificate = certificateIn(folder);
  fake = await startFake("messagebird", certificate);
  deployment = await createDeployment(folder);
  env = {
    OTP_PROVIDERS: "messagebird",
    OTP_ALLOWED_COUNTRIES: "NL",
    OTP_MESSAGEBIRD_ACCESS_KEY: "live-key",
    OTP_MESSAGEBIRD_ORIGINATOR: "Acme",
    OTP_MESSAGEBIRD_BASE_URL: `https://127.0.0.1:${fake.port}`,
    NODE_EXTRA_CA_CERTS: certificate.cert,
  };
  service = await startCrashable(deployment, env);
});
afterAll(async () => {
  await service.killed();
  fake.stop();
  rmSync(folder, { recursive: true });
});

/** What the fake has taken for a phone, oldest first: the call's reference and the code in its text. */
async function takenFor(phone: string): Promise<{ reference: string; code: string }[]> {
  return (await fake.seen())
    .filter(({ took, body }) => took && body["recipients"] === phone.slice(1))
    .map(({ reference, body }) => ({ reference, code: codeIn(String(body["body"])) }));
}

const underWay = "a call under way";

/** Makes a call, and has the process killed at a place of it; what the call comes to. */
async function killedAt(at: Failpoint | typeof underWay, call: () => Promise<Answered | undefined>) {
  if (at !== underWay) {
    await service.arm(at, "kill");
    const answered = await call();
    await service.died();
    return answered;
  }
  await fake.script("accept, no answer");
  const asked = fake.next();
  const calling = call();
  await asked;
  await service.killed();
  return calling;
}

/** Each with how often the SMS goes out in all: once more where the process had no note of the answer yet. */
test.each([
  { at: "open.after", sms: 1, phone: "+31612345670" },
  { at: underWay, sms: 2, phone: "+31612345671" },
  { at: "settle.before", sms: 2, phone: "+31612345672" },
  { at: "settle.commit", sms: 2, phone: "+31612345673" },
  { at: "settle.after", sms: 1, phone: "+31612345674" },
] as const)(
  "killed at $at, an SMS goes out $sms times in all, with one code that is good",
  async ({ at, sms, phone }) => {
    const send = () => service.call("/v1/otp/send", { phone }, phone);
    expect(await killedAt(at, send)).toBeUndefined();

    deployment.aheadMs += leaseMs;
    service = await startCrashable(deployment, env);
    await service.until(() => dueIn(deployment.databasePath) === 0);
    const repeated = await send();
    expect(repeated).toMatchObject({ status: 200, replayed: true, body: { state: "STATE_PENDING" } });
    const taken = await takenFor(phone);
    expect(taken).toEqual(Array(sms).fill(taken[0]));
    const request = { request_id: repeated?.body["request_id"], code: taken[0]?.code };
    expect(await service.call("/v1/otp/verify", request)).toMatchObject({ status: 200, body: { phone } });
  },
);
