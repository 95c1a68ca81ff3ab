/**
 * What operators read, on PostgreSQL: the same answers from the statements of reports.
 */
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Dimension, Interval } from "../../gen/otp/admin/v1/admin_service_pb.ts";
import { measures } from "../../src/otp/operators/statistics.ts";
import { sumKeys } from "../../src/store/rows/sums.ts";
import { adminClient, type AdminClient } from "../support/clients/admin.ts";
import { callUntilReached, surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { startWorld, type World } from "../support/service/world.ts";
import { hourMs } from "../../src/system.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
let client: AdminClient;
beforeAll(async () => {
  world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0", OTP_DAILY_MESSAGE_CAP: "30" });
  client = adminClient(world.adminUrl, (await world.makeAdminKey()).text);
  for (const prefix of ["+3161299", "+3161298"]) {
    for (let i = 0; i < 12; i++) await call("SendOtp", { phone: `${prefix}${String(i).padStart(4, "0")}` });
  }
});
afterAll(() => world.stop());

const call = (rpc: Rpc, message: Message) =>
  callUntilReached(() => rest.call(world.url, rpc, message, { key: world.key }));

test("suspects are listed a page at a time, and unblocking none changes nothing", async () => {
  const { suspects } = await client.listSuspects({});
  expect(suspects.map(({ prefix, sent, refused }) => ({ prefix, sent, refused }))).toEqual(
    expect.arrayContaining([
      { prefix: "+3161298", sent: 10, refused: 2 },
      { prefix: "+3161299", sent: 10, refused: 2 },
    ]),
  );
  const first = await client.listSuspects({ pageSize: 1 });
  const second = await client.listSuspects({ pageSize: 1, pageToken: first.nextPageToken });
  expect([...first.suspects, ...second.suspects]).toEqual(suspects);
  expect(await client.unblock({ prefix: "+3161299" })).toMatchObject({ guardLifted: false, entryRemoved: false });
  expect((await client.listAudit({ action: "guard.lift" })).entries).toEqual([]);
});

test("an audit is read by its time, a page at a time", async () => {
  for (const note of ["one", "two", "three"]) await client.block({ prefix: "+882139", note });
  const asked = { action: "destination.block", subject: "+882139" };
  const { entries } = await client.listAudit(asked);
  expect(entries.map(({ change }) => change)).toEqual([
    "note: two → three",
    "note: one → two",
    "verdict: block; note: one",
  ]);
  const first = await client.listAudit({ ...asked, pageSize: 2 });
  const second = await client.listAudit({ ...asked, pageSize: 2, pageToken: first.nextPageToken });
  expect([[...first.entries, ...second.entries], second.nextPageToken]).toEqual([entries, ""]);
});

test("an overview has the sums, what is used of caps, and what is wrong", async () => {
  const { counts, caps, problems } = await client.getOverview({});
  expect(counts?.asked).toBe(24n);
  expect(caps).toMatchObject([{ tenant: "default", kind: "messages", max: 30n }]);
  expect(Number(caps[0]?.used)).toBeGreaterThanOrEqual(24);
  expect(problems.map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(["cap_near", "prefix_suspected", "no_reports"]),
  );
});

test("large sums are exact, whole, by time and by group", async () => {
  const { database } = world;
  if (database.kind !== "postgres") throw new Error("not PostgreSQL");
  const own = new Client(database.url);
  await own.connect();
  const daysAgo = 100;
  const hour = Math.floor(Date.now() / hourMs) - daysAgo * 24;
  const columns = [...sumKeys, ...measures];
  const text = `INSERT INTO sums (${columns.join(", ")}) VALUES (${columns.map((_, i) => `$${i + 1}`).join(", ")})`;
  const large = 2 ** 52 + 1;
  for (const [tenant, asked, cost] of [
    ["shop", large, 3],
    ["bank", 2, large],
  ] as const) {
    const sums = measures.map((each) => (each === "asked" ? asked : each === "cost" ? cost : 0));
    await own.query(text, [hour, tenant, "NL", "bird", 0, "EUR", ...sums]);
  }
  await own.end();
  const period = { from: timestampFromMs((hour - 24) * hourMs), to: timestampFromMs((hour + 24) * hourMs) };
  const { counts, byTime, byGroup, lines } = await client.getOverview({
    ...period,
    interval: Interval.DAY,
    groupBy: Dimension.COUNTRY,
  });
  const all = { asked: BigInt(large) + 2n, cost: { micros: BigInt(large) + 3n, currency: "EUR" } };
  expect(counts).toMatchObject(all);
  expect(byTime).toMatchObject([{ counts: all }]);
  expect(byGroup).toMatchObject([{ country: "NL", counts: all }]);
  expect(lines).toMatchObject([{ country: "NL", counts: { asked: all.asked } }]);
  expect((await client.getStats(period)).rows).toMatchObject([{ counts: all }]);
});

test("look-ups that strangers cause at the operators' port never take all connections of the calls", async () => {
  const { database } = world;
  if (database.kind !== "postgres") throw new Error("not PostgreSQL");
  const own = new Client(database.url);
  await own.connect();
  await own.query("BEGIN");
  // Whoever is looked up now waits until this is over.
  await own.query("LOCK TABLE console_sessions, admin_keys");
  const waiting = async () => {
    const { rows } = await own.query<{ count: number }>(
      "SELECT count(*)::int AS count FROM pg_locks WHERE NOT granted AND relation IN ('console_sessions'::regclass, 'admin_keys'::regclass)",
    );
    return rows[0]?.count;
  };
  const strangers = Array.from({ length: 40 }, (_, i) =>
    fetch(`${world.adminUrl}/otp.admin.v1.AdminService/GetSession`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        cookie: `otpd-console=${Buffer.alloc(32, i).toString("base64url")}`,
      },
      body: "{}",
    }),
  );
  const answered = Promise.allSettled(strangers);
  await expect.poll(waiting).toBe(4);
  // Beside them a call is answered, before any of theirs is.
  expect((await call("SendOtp", { phone: "+31612345670" })).reason).toBeUndefined();
  expect(await waiting()).toBe(4);
  await own.query("ROLLBACK");
  await answered;
  await own.end();
});
