/**
 * Tenants by the operators' service on PostgreSQL: a write and its entry of the audit are one, and other instances know it.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminClient } from "../support/clients/admin.ts";
import { select } from "../support/databases/rows.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => (world = await startWorld({ OTP_ADMIN: "loopback", OTP_ADMIN_PORT: "0" })));
afterAll(() => world.stop());

test("of ten who make a tenant at once one does, and ten changes at once have an entry of the audit each", async () => {
  const operator = adminClient(world.adminUrl, (await world.makeAdminKey()).text);
  const ten = Array.from({ length: 10 }, (_, i) => i + 1);
  const made = await Promise.allSettled(ten.map(() => operator.createTenant({ id: "acme" })));
  expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  await Promise.all(ten.map((cap) => operator.updateTenant({ id: "acme", settings: { daily_cap: `${cap}` } })));
  const { entries } = await operator.listAudit({ tenant: "acme" });
  expect(entries.map(({ action }) => action)).toEqual([...ten.map(() => "tenant.update"), "tenant.create"]);
  // Each begins where the one before ended: none was lost, and none is told of a change that was not made.
  const stories = entries.toReversed().map(({ before, after }) => ({ before, after }));
  expect(stories.slice(1).map(({ before }) => before)).toEqual(stories.slice(0, -1).map(({ after }) => after));
  const [row] = await select(world.database, "SELECT settings FROM tenants WHERE id = 'acme'");
  expect(JSON.parse(stories.at(-1)?.after ?? "")).toMatchObject({
    settings: JSON.parse((row as { settings: string }).settings) as unknown,
  });
});
