/**
 * What operators see and do of the pumping guard over real sockets: why a prefix is refused, an end to that, and the guard's
 * mode; and what the audit has of it.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GuardMode } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { adminClient, type AdminClient } from "../../support/clients/admin.ts";
import { surfaces, type Message, type Rpc } from "../../support/clients/surfaces.ts";
import { select } from "../../support/databases/rows.ts";
import { startWorld, temporaryFolder, type World } from "../../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];
const prefix = "+3161234";

let world: World;
let client: AdminClient;
beforeAll(async () => {
  const prices = join(temporaryFolder(), "prices.json");
  writeFileSync(prices, JSON.stringify({ currency: "EUR", prices: [{ country: "NL", per_segment: "0.0730" }] }));
  const env = { OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0", OTP_PHONE_LIMITS: "1000@1s", OTP_PRICES_FILE: prices };
  world = await startWorld(env);
  client = adminClient(world.adminUrl, (await world.makeAdminKey({ name: "ann" })).text);
  await world.beside((store) =>
    store.registry.changeTenant("acme", () => ({ keep: { settings: "{}", disableMs: null }, result: undefined })),
  );
});
afterAll(() => world.stop());

const call = (rpc: Rpc, message: Message) => rest.call(world.url, rpc, message, { key: world.key });
const actions = async (action: string) =>
  (await client.listAudit({ action })).entries.map(({ actor, tenant, subject, before, after }) => ({
    by: actor.split(":")[0],
    tenant,
    subject,
    before: before === "" ? undefined : (JSON.parse(before) as unknown),
    after: after === "" ? undefined : (JSON.parse(after) as unknown),
  }));

/** Sends to a prefix as pumping does: no code is typed. */
async function pump(of: string): Promise<void> {
  for (let i = 0; i < 30; i++) {
    const { value } = await call("SendOtp", { phone: `${of}${String(i).padStart(4, "0")}` });
    await call("CancelOtp", { request_id: String(value?.["request_id"]) });
    world.system.advance(60_000);
  }
}

describe("while the guard observes", () => {
  beforeAll(async () => {
    await pump(prefix);
    for (const last of ["5678", "5679"]) await call("SendOtp", { phone: `${prefix}${last}` });
  });

  test("a prefix that would be refused is explained with its numbers, by a number of it or by itself", async () => {
    for (const destination of [`${prefix}5678`, prefix, "+31 61 234"]) {
      const { suspect, entry, longer, sentence } = await client.explainDestination({ destination });
      expect(suspect).toMatchObject({
        tenant: "default",
        prefix,
        country: "NL",
        phase: "tripped",
        mode: GuardMode.OBSERVE,
        refused: 2,
        savedMessages: 2n,
        saved: { micros: 146_000n, currency: "EUR" },
        decisions: [{ kind: "tripped", ended: 30, verified: 0, refused: 0, enforced: false }],
      });
      expect(suspect?.untilTime).toBeDefined();
      expect({ entry, longer }).toEqual({ entry: undefined, longer: [] });
      expect(sentence).toMatch(
        /^\+3161234••••: the guard would block it until \S+Z, the first time in a row\. It only observes/,
      );
    }
  });

  test("it is in the list with what enforcing would have saved, and so is one that got too many sends at once", async () => {
    for (let i = 0; i < 12; i++) await call("SendOtp", { phone: `+3161299${String(i).padStart(4, "0")}` });
    const { suspects, nextPageToken } = await client.listSuspects({});
    expect(nextPageToken).toBe("");
    expect(suspects).toMatchObject([
      {
        prefix: "+3161299",
        phase: "open",
        mode: GuardMode.OBSERVE,
        sent: 10,
        refused: 2,
        savedMessages: 2n,
        decisions: [{ kind: "limited", ended: 0, verified: 0, refused: 1, enforced: false }],
      },
      { prefix, phase: "tripped", savedMessages: 2n, saved: { micros: 146_000n, currency: "EUR" } },
    ]);
    expect((await client.explainDestination({ destination: "+3161299" })).sentence).toMatch(
      /: the guard would limit how many .* 2 sends beyond that would have been refused, the latest at \S+Z\. It only observes/,
    );
    const first = await client.listSuspects({ pageSize: 1, tenant: "default" });
    const second = await client.listSuspects({ pageSize: 1, tenant: "default", pageToken: first.nextPageToken });
    expect([...first.suspects, ...second.suspects]).toEqual(suspects);
    expect(second.nextPageToken).toBe("");
    const odd = await client.listSuspects({ pageToken: "x" }).catch(ConnectError.from);
    expect(odd).toMatchObject({ code: Code.InvalidArgument });
  });

  test("what is not known says so, and what is no number is refused without being repeated", async () => {
    const { suspect, sentence } = await client.explainDestination({ destination: "+4915112345678" });
    expect(suspect).toBeUndefined();
    expect(sentence).toMatch(/^Nothing is known of this prefix/);
    const wrong = await client.explainDestination({ destination: "nobody 5678" }).catch(ConnectError.from);
    expect(wrong).toMatchObject({ code: Code.InvalidArgument });
    expect(String(wrong)).not.toContain("5678");
  });
});

describe("SetGuard", () => {
  test("has a tenant's guard enforce, observe, and follow the operator's again, each in the audit", async () => {
    const modeOf = async (mode?: GuardMode) => (await client.setGuard({ tenant: "acme", ...(mode && { mode }) })).mode;
    expect(await modeOf(GuardMode.ENFORCE)).toBe(GuardMode.ENFORCE);
    expect(await modeOf(GuardMode.ENFORCE)).toBe(GuardMode.ENFORCE);
    expect(await modeOf()).toBe(GuardMode.OBSERVE);
    const stored = await select(world.database, "SELECT settings FROM tenants WHERE id = 'acme'");
    expect(stored).toEqual([{ settings: "{}" }]);
    const own = { by: "key", tenant: "acme", subject: "acme" };
    const [enforcing, none] = [{ fraud_guard: "enforce" }, {}].map((settings) => ({ settings, disable_time: null }));
    expect(await actions("guard.set")).toEqual([
      { ...own, before: enforcing, after: none },
      { ...own, before: none, after: enforcing },
    ]);
  });

  test("counts from the next call on", async () => {
    expect((await call("SendOtp", { phone: `${prefix}5680` })).reason).toBeUndefined();
    await client.setGuard({ mode: GuardMode.ENFORCE });
    expect((await call("SendOtp", { phone: `${prefix}5680` })).reason).toBe("DESTINATION_BLOCKED");
  });

  test("does not change what is not there, nor to what it does not know", async () => {
    const nobody = await client.setGuard({ tenant: "nobody", mode: 1 }).catch(ConnectError.from);
    expect(nobody).toMatchObject({ code: Code.NotFound });
    const unknown = await client.setGuard({ mode: 7 as GuardMode }).catch(ConnectError.from);
    expect(unknown).toMatchObject({ code: Code.InvalidArgument });
  });
});

describe("Unblock", () => {
  test("lifts the guard's block at once, once, and the audit tells of it without a number", async () => {
    expect(await client.unblock({ prefix: `${prefix}5678` })).toMatchObject({ guardLifted: true, entryRemoved: false });
    expect(await client.unblock({ prefix })).toMatchObject({ guardLifted: false, entryRemoved: false });
    expect((await call("SendOtp", { phone: `${prefix}5680` })).reason).toBeUndefined();
    const [lifted, ...others] = await actions("guard.lift");
    expect(others).toEqual([]);
    expect(lifted).toMatchObject({
      by: "key",
      tenant: "default",
      subject: prefix,
      before: { phase: "tripped", trips_in_a_row: 1 },
      after: { phase: "open", trips_in_a_row: 0, until_time: null },
    });
    const { suspect } = await client.explainDestination({ destination: prefix });
    expect(suspect?.decisions[0]).toMatchObject({ kind: "unblocked", refused: 4, enforced: true });
    expect(suspect).toMatchObject({ phase: "open", refused: 0, savedMessages: 4n, mode: GuardMode.ENFORCE });
  });

  test("takes an entry from the block list, and leaves one of the allow list", async () => {
    await client.block({ prefix: "+3197", note: "pumped" });
    await client.allow({ prefix: "+31971" });
    const { entry, longer, sentence } = await client.explainDestination({ destination: "+3197" });
    expect(entry).toMatchObject({ prefix: "+3197", blocked: true });
    expect(longer).toMatchObject([{ prefix: "+31971", blocked: false }]);
    expect(sentence).toMatch(/^The entry \+3197 \(pumped\) of the lists blocks it since \S+Z: nothing is sent\.$/);
    expect(await client.unblock({ prefix: "+3197" })).toMatchObject({ entryRemoved: true, guardLifted: false });
    expect(await client.unblock({ prefix: "+31971" })).toMatchObject({ entryRemoved: false, guardLifted: false });
    const { destinations } = await client.listDestinations({});
    expect(destinations.map((each) => each.prefix)).toEqual(["+31971"]);
    expect(await actions("destination.remove")).toMatchObject([{ subject: "+3197", tenant: "default" }]);
  });
});

describe("RemoveDestination", () => {
  test("takes an entry off the lists, whether it blocks or allows, and no other", async () => {
    await client.block({ prefix: "+3198" });
    await client.allow({ prefix: "+31981" });
    await client.allow({ prefix: "+319811" });
    expect(await client.removeDestination({ prefix: "+31981" })).toMatchObject({ removed: true });
    expect(await client.removeDestination({ prefix: "+31981" })).toMatchObject({ removed: false });
    expect(await client.removeDestination({ prefix: "+3198" })).toMatchObject({ removed: true });
    const { destinations } = await client.listDestinations({});
    expect(destinations.map((each) => each.prefix).filter((each) => each.startsWith("+3198"))).toEqual(["+319811"]);
    const noted = await actions("destination.remove");
    expect(noted.map(({ subject }) => subject)).toEqual(expect.arrayContaining(["+31981", "+3198"]));
  });

  test("is of one's own tenant alone, and of an entry's own spelling", async () => {
    const bound = adminClient(world.adminUrl, (await world.makeAdminKey({ tenant: "acme" })).text);
    await client.allow({ prefix: "+3199" });
    expect(await bound.removeDestination({ prefix: "+3199" })).toMatchObject({ removed: false });
    expect((await client.explainDestination({ destination: "+3199" })).entry?.blocked).toBe(false);
    await expect(client.removeDestination({ prefix: "0612345678" })).rejects.toThrow(/prefix must be/);
    await expect(client.removeDestination({ prefix: "+3199", tenant: "nobody" })).rejects.toThrow(/not_found/);
  });
});

test("an admin of one tenant explains and changes its own alone", async () => {
  const bound = adminClient(world.adminUrl, (await world.makeAdminKey({ tenant: "acme" })).text);
  const { nextPageToken } = await client.listSuspects({ pageSize: 1 });
  for (const page of [{}, { pageToken: nextPageToken }]) expect((await bound.listSuspects(page)).suspects).toEqual([]);
  expect((await bound.explainDestination({ destination: prefix })).suspect).toBeUndefined();
  expect(await bound.unblock({ prefix })).toMatchObject({ entryRemoved: false, guardLifted: false });
  expect((await bound.setGuard({ mode: GuardMode.OBSERVE })).mode).toBe(GuardMode.OBSERVE);
  const modes = await select(world.database, "SELECT id, settings FROM tenants ORDER BY id");
  expect(modes).toEqual([
    { id: "acme", settings: '{"fraud_guard":"observe"}' },
    { id: "default", settings: '{"fraud_guard":"enforce"}' },
  ]);
});

test("an admin of one tenant has its guard enforce, and not observe again", async () => {
  const bound = adminClient(world.adminUrl, (await world.makeAdminKey({ tenant: "acme" })).text);
  expect((await bound.setGuard({ mode: GuardMode.ENFORCE })).mode).toBe(GuardMode.ENFORCE);
  const before = await select(world.database, "SELECT * FROM audit");
  for (const mode of [GuardMode.OBSERVE, GuardMode.UNSPECIFIED]) {
    const refused = await bound.setGuard({ mode }).catch(ConnectError.from);
    expect(refused).toMatchObject({ code: Code.PermissionDenied });
  }
  expect(await select(world.database, "SELECT * FROM audit")).toEqual(before);
  expect((await client.setGuard({ tenant: "acme", mode: GuardMode.OBSERVE })).mode).toBe(GuardMode.OBSERVE);
});

test("a whole number of the lists is masked for whom numbers are not for, in the sentence too", async () => {
  await client.block({ prefix: "+31612345678" });
  const blind = adminClient(world.adminUrl, (await world.makeAdminKey({ scopes: ["admin.read"] })).text);
  const told = await blind.explainDestination({ destination: "+31612345678" });
  expect(told.entry?.prefix).toMatch(/^\+31•+78$/);
  expect(told.sentence).not.toContain("12345678");
  const looks = (await actions("phone.look")).length;
  expect((await client.explainDestination({ destination: "+31612345678" })).entry?.prefix).toBe("+31612345678");
  expect(await actions("phone.look")).toHaveLength(looks + 1);
});
