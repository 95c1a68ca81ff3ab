/**
 * docs/webhooks.md is true: the receiver is run as it stands, takes what the event worker posts, and nothing else; and
 * what it shows of an event is what is posted.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { postEvent } from "../../src/delivery/event-worker.ts";
import { createPost } from "../../src/delivery/post.ts";
import { backlogMax, endpointsMax, type Endpoint } from "../../src/otp/operators/endpoint.ts";
import { verificationEvents, type OwedEvent } from "../../src/otp/decisions/event.ts";
import { eventTypes } from "../../src/otp/event-type.ts";
import { sealPhone } from "../../src/otp/phone-number.ts";
import { end } from "../../src/otp/verification/verification.ts";
import { ann, ringOf } from "../store/acts.ts";
import { endpointOf } from "../store/endpoints.ts";
import { readDocument } from "../support/readers/document.ts";
import { parseEvent } from "../support/readers/events.ts";
import { verificationOf } from "../support/data/examples.ts";
import { deadOrigin } from "../support/fakes/far-end.ts";
import { temporaryFolder } from "../support/service/world.ts";

const root = join(import.meta.dirname, "../..");
const doc = readDocument("docs/webhooks.md");
const keys = ringOf(1);

const createMs = Date.UTC(2026, 0, 1, 12);
const id = "3q2-7wAAAAAAAAAAAAAAAA";
const pending = verificationOf({
  id,
  tenant: "acme",
  kid: keys.current.kid,
  phoneBox: sealPhone(keys.current, id, ann),
  delivery: "DELIVERED",
  attempts: 1,
  nextResendMs: createMs + 30_000,
  createMs,
  expireMs: createMs + 600_000,
});
const endMs = createMs + 31_000;
const [verified] = verificationEvents(pending, end(pending, "VERIFIED", endMs), [], endMs) as [OwedEvent];

let folder = "";
let receiver: ChildProcess;
let lines: AsyncIterator<string>;
let endpoint: Endpoint;
beforeAll(async () => {
  folder = temporaryFolder();
  // As npm would lay it out.
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "receiver.mjs"), doc.only("js"));
  const origin = await deadOrigin();
  endpoint = endpointOf("we_1", { url: `${origin}/` });
  const env = {
    PORT: new URL(origin).port,
    OTPD_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 5).toString("base64")}`,
  };
  receiver = spawn(process.execPath, ["receiver.mjs"], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  if (receiver.stdout === null) throw new Error("it has no output");
  lines = createInterface(receiver.stdout)[Symbol.asyncIterator]();
  await lines.next();
});
afterAll(async () => {
  receiver.kill();
  await once(receiver, "close");
  rmSync(folder, { recursive: true, force: true });
});

function post(event: OwedEvent, to = endpoint, now = Date.now()) {
  const dependencies = { keys, post: createPost({ isAllowed: () => true }) };
  return postEvent(dependencies, event, to, now, AbortSignal.timeout(20_000));
}

test("the receiver takes an event once, however often it comes", async () => {
  expect(await post(verified)).toEqual({ kind: "answered", status: 204 });
  expect(await post(verified)).toEqual({ kind: "answered", status: 204 });
  expect(await post({ ...verified, id: "evt_2", type: "verification.expired" })).toMatchObject({ status: 204 });
  expect((await lines.next()).value).toBe(`verification.verified ${id}`);
  expect((await lines.next()).value).toBe(`verification.expired ${id}`);
});

test("the receiver refuses what another has signed, and what is old", async () => {
  const { url } = endpoint;
  const forged = endpointOf("we_1", { url }, ringOf(1), 6);
  expect(await post(verified, forged)).toEqual({ kind: "answered", status: 401 });
  expect(await post(verified, endpoint, Date.now() - 301_000)).toEqual({ kind: "answered", status: 401 });
});

test("what anybody else posts, half a body or one that tells no length, ends nothing and is not read", async () => {
  const url = new URL(endpoint.url);
  const begin = (header: string) => {
    const socket = connect(Number(url.port), url.hostname);
    socket.write(`POST / HTTP/1.1\r\nhost: ${url.host}\r\nexpect: 100-continue\r\n${header}\r\n\r\n`);
    return socket;
  };
  const left = begin("content-length: 100");
  // Its handler has begun when it is told to go on.
  await once(left, "data");
  left.write("half");
  left.resetAndDestroy();
  await once(left, "close");
  const endless = begin("transfer-encoding: chunked");
  let answered = "";
  for await (const part of endless) if (/ 401 /.test((answered += part))) break;
  expect(answered).toContain("HTTP/1.1 401 ");
  expect(await post({ ...verified, id: "evt_3" })).toEqual({ kind: "answered", status: 204 });
});

test("the event that is shown is the one that is posted", async () => {
  const shown = parseEvent(doc.only("json"));
  let body = "";
  const keep = async (_: URL, __: object, posted: string) => {
    body = posted;
    return { kind: "answered", status: 204 } as const;
  };
  await postEvent({ keys, post: keep }, verified, endpoint, endMs, AbortSignal.timeout(20_000));
  expect(parseEvent(body)).toEqual(shown);
  expect(Object.keys(parseEvent(body).data)).toEqual(Object.keys(shown.data));
});

test("every type is told of, and the limits are those that hold", () => {
  const types = doc.table("type").map(([type]) => type);
  expect(types).toEqual(eventTypes.map((type) => `\`${type}\``));
  expect(doc.text).toContain(`at most ${endpointsMax} endpoints`);
  expect(doc.text).toContain(`${backlogMax.toLocaleString("en")} events wait`);
});
