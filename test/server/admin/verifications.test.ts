/**
 * Operators find verifications, read one's story and support a phone, over the operators' listener.
 */
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Client } from "@connectrpc/connect";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AdminService } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { State } from "../../../gen/otp/v1/otp_service_pb.ts";
import { maskPhone } from "../../../src/otp/phone-number.ts";
import { adminClient } from "../../support/clients/admin.ts";
import { surfaces } from "../../support/clients/surfaces.ts";
import { newPhone } from "../../support/data/phones.ts";
import { select } from "../../support/databases/rows.ts";
import { startWorld, type World } from "../../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
let admin: Client<typeof AdminService>;
beforeEach(async () => {
  world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0" });
  admin = adminClient(world.adminUrl, (await world.makeAdminKey({ name: "ann" })).text);
});
afterEach(() => world.stop());

async function send(phone = newPhone()): Promise<{ phone: string; id: string }> {
  const { value } = await rest.call(world.url, "SendOtp", { phone }, { key: world.key });
  return { phone, id: String(value?.["request_id"]) };
}

async function refusal(asked: Promise<unknown>): Promise<Code | undefined> {
  const error = await asked.then(() => undefined).catch((fault: unknown) => ConnectError.from(fault));
  return error?.code;
}

/** Actions of the audit, and whether any entry of it has this text. */
async function audit(text: string): Promise<{ actions: string[]; has: boolean }> {
  const rows = await select(world.database, "SELECT * FROM audit WHERE actor NOT IN ('start', 'cli') ORDER BY id");
  return { actions: rows.map((row) => String(row["action"])), has: JSON.stringify(rows).includes(text) };
}

test("a complaint with a number or a request_id leads to its story", async () => {
  world.network.script.push({ kind: "accepted", providerMessageId: "theirs-1" });
  const { phone, id } = await send();
  await send();
  const byPhone = await admin.findVerifications({ phone });
  expect(byPhone.verifications).toMatchObject([
    { requestRef: id.slice(0, 12), tenant: "default", phone: maskPhone(phone), state: State.PENDING, test: false },
  ]);
  expect((await admin.findVerifications({ requestRef: id })).verifications).toEqual(byPhone.verifications);
  expect((await admin.findVerifications({})).verifications).toHaveLength(2);
  expect((await admin.findVerifications({ state: State.VERIFIED })).verifications).toEqual([]);
  const story = await admin.getVerification({ requestRef: id.slice(0, 12) });
  expect(story).toMatchObject({
    verification: byPhone.verifications[0],
    diagnosis: "One text was accepted, and no report of its delivery has come; no code was typed so far.",
    messages: [{ number: 1, providerMessageId: "theirs-1", reference: expect.stringMatching(/^[\w-]{22}\.0$/) }],
    timeline: [{ kind: "send" }, { kind: "call", outcome: "accepted" }],
  });
  expect(JSON.stringify(story, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value))).not.toContain(
    id,
  );
});

test("a whole number is for who may see phones, and each look is in the audit, without it", async () => {
  const { phone, id } = await send();
  const { text } = await world.makeAdminKey({ name: "ben", scopes: ["admin.read"] });
  const reader = adminClient(world.adminUrl, text);
  expect(await refusal(reader.getVerification({ requestRef: id, showPhone: true }))).toBe(Code.PermissionDenied);
  expect(await refusal(reader.findVerifications({ phone, showPhones: true }))).toBe(Code.PermissionDenied);
  expect((await reader.getVerification({ requestRef: id })).verification?.phone).toBe(maskPhone(phone));
  expect((await admin.getVerification({ requestRef: id, showPhone: true })).verification?.phone).toBe(phone);
  expect((await admin.findVerifications({ showPhones: true })).verifications[0]?.phone).toBe(phone);
  expect(await audit(phone)).toEqual({ actions: ["phone.look", "phone.look"], has: false });
});

test("support cancels, resets and erases, each with its entry in the audit", async () => {
  const { phone, id } = await send();
  const canceled = await admin.cancelVerification({ requestRef: id.slice(0, 12) });
  expect(canceled.verification?.state).toBe(State.CANCELED);
  expect((await admin.cancelVerification({ requestRef: id })).verification?.state).toBe(State.CANCELED);
  await admin.resetPhone({ phone });
  const again = await send(phone);
  await rest.call(world.url, "VerifyOtp", { request_id: again.id, code: "000000" }, { key: world.key });
  expect(await admin.erasePhone({ phone })).toMatchObject({ verifications: 2, canceled: 1, entries: [] });
  expect(await refusal(admin.getVerification({ requestRef: again.id }))).toBe(Code.NotFound);
  expect(await audit(phone)).toEqual({
    actions: ["verification.cancel", "phone.reset", "phone.erase"],
    has: false,
  });
  const acts = (await admin.listAudit({ tenant: "" })).entries.filter(({ action }) => action.startsWith("phone."));
  expect(acts.map(({ change }) => change)).toEqual(["verifications: 2 → 0; pending: 1 → 0", "limits_in_use: 1 → 0"]);
  await admin.block({ prefix: phone });
  const blocked = await admin.listAudit({ action: "destination.block", pageSize: 1 });
  // One name for a number, by which all that was done to it is found.
  const { entries } = await admin.listAudit({ subject: blocked.entries[0]?.subject ?? "" });
  expect(entries.map(({ action }) => action)).toEqual(["destination.block", "phone.erase", "phone.reset"]);
});

test("an admin of one tenant finds nothing of another, nor does anything to it", async () => {
  const { phone, id } = await send();
  const made = { keep: { settings: "{}", disableMs: null }, result: undefined };
  await world.beside((store) => store.registry.changeTenant("acme", () => made));
  const { text } = await world.makeAdminKey({ name: "acme's", tenant: "acme" });
  const acme = adminClient(world.adminUrl, text);
  expect((await acme.findVerifications({ phone })).verifications).toEqual([]);
  expect((await acme.findVerifications({ requestRef: id })).verifications).toEqual([]);
  expect((await acme.findVerifications({})).verifications).toEqual([]);
  for (const asked of [
    acme.findVerifications({ tenant: "default" }),
    acme.getVerification({ requestRef: id }),
    acme.cancelVerification({ requestRef: id }),
    acme.resetPhone({ phone, tenant: "default" }),
    acme.erasePhone({ phone, tenant: "default" }),
  ].map(refusal)) {
    expect(await asked).toBe(Code.NotFound);
  }
  expect(await acme.erasePhone({ phone })).toMatchObject({ verifications: 0 });
  expect((await admin.getVerification({ requestRef: id })).verification?.state).toBe(State.PENDING);
});

test("a period that ends before it begins is refused in the same words, whatever is asked of it", async () => {
  const [from, to] = [timestampFromMs(2_000), timestampFromMs(1_000)];
  const said = [admin.getStats({ from, to }), admin.findVerifications({ from, to }), admin.listAudit({ from, to })].map(
    (asked) => asked.then(() => "").catch((fault: unknown) => ConnectError.from(fault).rawMessage),
  );
  const words = "to is refused: It must not be before `from`.";
  expect(await Promise.all(said)).toEqual([words, words, words]);
});

test("what cannot be looked for is refused", async () => {
  const page = await admin.findVerifications({ pageSize: 1 });
  const asked = [
    admin.findVerifications({ pageSize: 101 }),
    admin.findVerifications({ phone: "0612345678" }),
    admin.findVerifications({ prefix: "+31612" }),
    admin.findVerifications({ pageToken: "made up" }),
    admin.findVerifications({ state: 99 as State }),
  ].map(refusal);
  for (const each of asked) expect(await each).toBe(Code.InvalidArgument);
  expect(page.nextPageToken).toBe("");
});
