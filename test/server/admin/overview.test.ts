/**
 * GetOverview over real sockets: sums, caps, and what is wrong now in a sentence each; of one tenant, nothing of others.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  Dimension,
  Interval,
  Problem_Severity,
  type GetOverviewResponse,
} from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { reportProblems } from "../../../src/service/operators/problems.ts";
import { adminClient, type AdminClient } from "../../support/clients/admin.ts";
import { surfaces, type Message, type Rpc } from "../../support/clients/surfaces.ts";
import { startWorld, type World } from "../../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
let client: AdminClient;
beforeAll(async () => {
  world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0", OTP_DAILY_MESSAGE_CAP: "40" });
  client = adminClient(world.adminUrl, (await world.makeAdminKey()).text);
  const settings = JSON.stringify({ country_caps: "NL=3" });
  await world.beside((store) =>
    store.registry.changeTenant("acme", () => ({ keep: { settings, disableMs: null }, result: undefined })),
  );
});
afterAll(() => world.stop());

const call = (rpc: Rpc, message: Message, key = world.key) => rest.call(world.url, rpc, message, { key });
const kinds = ({ problems }: GetOverviewResponse) => problems.map(({ kind }) => kind);

test("a service at rest has nothing wrong", async () => {
  const overview = await client.getOverview({});
  expect(overview).toMatchObject({ caps: [], problems: [], queuedMessages: 0n });
  expect(overview.counts?.asked ?? 0n).toBe(0n);
});

test("sums, caps and what is wrong come together, the worst first", async () => {
  const phones = Array.from({ length: 33 }, (_, i) => `+316${1000 + i}5678`);
  const sent = [];
  for (const phone of phones) sent.push(await call("SendOtp", { phone }));
  const request_id = String(sent[0]?.value?.["request_id"]);
  world.system.advance(7_000);
  await call("VerifyOtp", { request_id, code: world.network.codeFor(phones[0] ?? "") });
  for (let i = 0; i < 12; i++) await call("SendOtp", { phone: `+4915112${String(i).padStart(6, "0")}` });
  const soon = world.system.now() + 86_400_000;
  const { id } = await world.makeKey({ expireMs: soon });
  await world.makeKey({ expireMs: soon + 30 * 86_400_000 });
  const overview = await client.getOverview({});
  expect(overview.counts).toMatchObject({ verified: 1n });
  expect(overview.counts?.verifyTimeP50).toBeDefined();
  expect(overview.caps).toMatchObject([{ tenant: "default", kind: "messages", used: 40n, max: 40n, currency: "" }]);
  expect(kinds(overview)).toEqual(["cap_reached", "no_reports", "key_expiring"]);
  const [cap, reports, key] = overview.problems;
  expect(cap).toMatchObject({
    severity: Problem_Severity.CRITICAL,
    sentence:
      "Tenant default has used 100 % of its daily cap on messages: sends are refused as SPEND_LIMIT until midnight UTC.",
    link: "overview?tenant=default",
  });
  expect(reports).toMatchObject({ severity: Problem_Severity.WARNING, link: "providers" });
  expect(reports?.sentence).toMatch(/^The provider test took 40 messages in this period and reported on none: /);
  expect(key?.sentence).toContain(id);
  // What prints is asked for no reports: it has none.
  expect(reportProblems([{ provider: "console", messages: 40, reported: 0 }])).toEqual([]);
});

test("an overview has what GetStats says of its period, by time and by group, and the course of the largest groups", async () => {
  const [interval, country] = [Interval.HOUR, Dimension.COUNTRY];
  const { byTime, byGroup, lines, counts } = await client.getOverview({ interval, groupBy: country });
  const bare = ({ rows }: Awaited<ReturnType<AdminClient["getStats"]>>) =>
    rows.map((row) => ({ ...row, counts: row.counts && { ...row.counts, refused: {} } }));
  expect(byTime).toEqual(bare(await client.getStats({ interval })));
  expect(byGroup).toEqual(bare(await client.getStats({ groupBy: [country] })));
  expect(lines.map((row) => [row.startTime, row.country, row.counts?.asked])).toEqual(
    byGroup.map((row) => [byTime[0]?.startTime, row.country, row.counts?.asked]),
  );
  expect(await client.getOverview({})).toMatchObject({ counts, byTime: [], byGroup: [], lines: [] });
  const odd = await client.getOverview({ groupBy: 77 as Dimension }).catch(ConnectError.from);
  expect(odd).toMatchObject({ code: Code.InvalidArgument, rawMessage: expect.stringMatching(/^group_by /) });
});

test("a breaker that is open is told of, and what it means", async () => {
  world.network.script.push(
    ...Array.from({ length: 5 }, () => ({ kind: "refused", cause: "balance", detail: "-" }) as const),
  );
  const { text } = await world.makeKey({ tenant: "acme" });
  for (let i = 0; i < 5; i++) await call("SendOtp", { phone: `+4915222${String(i).padStart(6, "0")}` }, text);
  const { problems } = await client.getOverview({});
  expect(problems.find(({ kind }) => kind === "provider_open")).toMatchObject({
    severity: Problem_Severity.CRITICAL,
    sentence:
      "The provider test failed too often and is left alone until a trial succeeds, and no other takes sms, so nothing is sent by it.",
    link: "providers",
  });
});

test("an admin of one tenant reads its own alone, whatever it asks for", async () => {
  const bound = adminClient(world.adminUrl, (await world.makeAdminKey({ tenant: "acme" })).text);
  const [unnamed, own] = [await bound.getOverview({}), await bound.getOverview({ tenant: "acme" })];
  expect(own).toEqual(unnamed);
  expect(own.counts?.asked).toBe(5n);
  expect(own.queuedMessages).toBe(0n);
  const text = JSON.stringify(own, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value));
  expect(text).not.toContain("default");
  expect(kinds(own)).not.toContain("provider_open");
  expect(own.caps.map(({ tenant }) => tenant)).not.toContain("default");
});

test("what is prefixes' is linked to the page on fraud, with what enforcing would have done", async () => {
  const { text } = await world.makeKey({ tenant: "acme" });
  world.system.advance(86_400_000);
  for (let i = 0; i < 12; i++) await call("SendOtp", { phone: `+491511299${String(i).padStart(4, "0")}` }, text);
  for (let i = 0; i < 12; i++) await call("SendOtp", { phone: `+3161299${String(i).padStart(4, "0")}` }, text);
  const { problems, caps } = await client.getOverview({ tenant: "acme" });
  expect(problems.find(({ kind }) => kind === "prefix_suspected")).toMatchObject({
    severity: Problem_Severity.WARNING,
    sentence: expect.stringMatching(
      /^More is sent than codes are typed, to \+\d+•••• by tenant acme, .* nothing is refused, since the guard observes: \d+ sends? would have been\.$/,
    ) as string,
    link: expect.stringMatching(/^fraud\?tenant=acme&prefix=%2B/) as string,
  });
  expect(caps[0]).toMatchObject({ tenant: "acme", kind: "country:NL", used: 3n, max: 3n });
  expect(kinds({ problems } as GetOverviewResponse)).toContain("cap_reached");
});

test("a period that cannot be is refused with its field", async () => {
  const at = (seconds: bigint) => ({ seconds, nanos: 0 });
  const refused = await client.getOverview({ from: at(200_000_000n), to: at(100_000_000n) }).catch(ConnectError.from);
  expect(refused).toMatchObject({ code: Code.InvalidArgument, rawMessage: expect.stringMatching(/^to .*[^.]\.$/) });
});
