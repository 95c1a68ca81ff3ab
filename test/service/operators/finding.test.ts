/**
 * Searches of operators and the story of one verification, on either database.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { maskPhone } from "../../../src/otp/phone-number.ts";
import { readReference } from "../../../src/otp/message/provider-text.ts";
import { findVerifications, tellStory, type Search } from "../../../src/service/operators/finding.ts";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import type { Store } from "../../../src/store/store.ts";
import { ann, ben, createActs, ringOf } from "../../store/acts.ts";
import { openOnPostgres } from "../../support/databases/opening.ts";
import { startPostgres, type PostgresServer } from "../../support/databases/postgres.ts";
import { createManualSystem } from "../../support/service/system.ts";
import { temporaryFolder } from "../../support/service/world.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const folder = temporaryFolder();
let made = 0;
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(["SQLite", "PostgreSQL"])("on %s", (kind) => {
  async function world(run: (world: Awaited<ReturnType<typeof make>>) => Promise<void>) {
    const fresh = await make();
    try {
      await run(fresh);
    } finally {
      await fresh.store.close();
    }
  }

  async function make() {
    const system = createManualSystem();
    made += 1;
    const path = join(folder, `${made}.db`);
    const store: Store =
      kind === "SQLite"
        ? await openSqlite({ path, system, exclusive: false })
        : await openOnPostgres({ url: await server.createDatabase(), system });
    await store.registry.changeTenant("other", () => ({ keep: { settings: "{}", disableMs: null }, result: 0 }));
    const old = createActs(store, system, ringOf(1));
    const acts = createActs(store, system, ringOf(2, 1));
    const options = { store, keys: acts.keys, system };
    const find = (search: Partial<Search>) => findVerifications(options, { max: 20, token: "", ...search });
    const ids = async (search: Partial<Search>) => {
      const result = await find(search);
      return result.ok ? result.value.found.map(({ verification }) => verification.id) : result.refusal;
    };
    return { system, store, old, acts, options, find, ids };
  }

  test("a phone is found at all tenants and their sandboxes, or at one, under each master key", () =>
    world(async ({ old, acts, ids, system }) => {
      const sent: string[] = [];
      for (const [by, tenant] of [
        [old, "default"],
        [old, "other"],
        [acts, "other+test"],
        [acts, "default"],
      ] as const) {
        system.advance(1);
        sent.unshift((await by.send(ann, { tenant })).verification.id);
        await by.send(ben, { tenant });
      }
      expect(await ids({ phone: ann })).toEqual(sent);
      expect(await ids({ phone: ann, tenant: "other" })).toEqual(sent.slice(1, 3));
      expect(await ids({ phone: ann, tenant: "nobody" })).toEqual([]);
    }));

  test("pages go through all, and their tokens are of one search alone", () =>
    world(async ({ acts, find, ids }) => {
      const sent = new Set<string>();
      for (let i = 0; i < 7; i++) sent.add((await acts.send(i % 2 === 0 ? ann : ben)).verification.id);
      const found: string[] = [];
      let token = "";
      do {
        const page = await find({ max: 3, token });
        if (!page.ok) throw new Error(page.refusal.reason);
        found.push(...page.value.found.map(({ verification }) => verification.id));
        token = page.value.nextToken;
      } while (token !== "");
      expect(new Set(found)).toEqual(sent);
      expect(found).toHaveLength(7);
      const first = await find({ max: 3 });
      const next = first.ok ? first.value.nextToken : "";
      const refusal = { reason: "INVALID_REQUEST", field: "page_token" };
      expect(await ids({ token: next, tenant: "default" })).toMatchObject(refusal);
      expect(await ids({ token: `A${next.slice(1)}` })).toMatchObject(refusal);
      expect(await ids({ token: "made up" })).toMatchObject(refusal);
    }));

  test("a prefix is looked for at one tenant in a day, page by page", () =>
    world(async ({ acts, ids, find, system }) => {
      const sent: string[] = [];
      for (let i = 0; i < 130; i++) {
        system.advance(1);
        const { id } = (await acts.send(i % 60 === 0 ? ben : ann)).verification;
        if (i % 60 === 0) sent.unshift(id);
      }
      const prefix = ben.slice(0, 7);
      expect(await ids({ prefix, tenant: "default" })).toEqual(sent);
      const page = await find({ prefix, tenant: "default", max: 2 });
      expect(page.ok && page.value.found.map(({ phone }) => phone)).toEqual([ben, ben]);
      const token = page.ok ? page.value.nextToken : "";
      expect(await ids({ prefix, tenant: "default", max: 2, token })).toEqual(sent.slice(2));
      const refused = { reason: "INVALID_REQUEST" };
      expect(await ids({ prefix })).toMatchObject({ ...refused, field: "tenant" });
      expect(await ids({ prefix: "+3", tenant: "default" })).toMatchObject({ ...refused, field: "prefix" });
      const now = system.now();
      const long = { fromMs: now - 86_400_001, toMs: now };
      expect(await ids({ prefix, tenant: "default", ...long })).toMatchObject({ ...refused, field: "from" });
      expect(await ids({ prefix, phone: ann, tenant: "default" })).toMatchObject(refused);
    }));

  test("a reference finds one, and tells its story", () =>
    world(async ({ acts, ids, options, store, system }) => {
      const { verification } = await acts.send(ann);
      await acts.send(ben);
      const ref = verification.id.slice(0, 12);
      expect(await ids({ ref })).toEqual([verification.id]);
      expect(await ids({ ref: verification.id })).toEqual([verification.id]);
      expect(await ids({ ref: ref.slice(1) })).toEqual([]);
      expect(await ids({ ref, state: "VERIFIED" })).toEqual([]);
      expect(await tellStory(options, ref, "other")).toBeUndefined();
      system.advance(3_000);
      await acts.guess(verification, acts.wrongCode(verification));
      const story = await tellStory(options, ref);
      expect(story).toMatchObject({ state: "PENDING", phone: ann });
      expect(story?.verification.log.entries.map((entry) => entry.kind)).toEqual(["send", "guess"]);
      expect(story?.diagnosis).not.toContain(maskPhone(ann).slice(-2));
      const [message] = story?.messages ?? [];
      expect(readReference(options.keys, message?.reference ?? "")).toContainEqual({ id: verification.id, copy: 0 });
      expect(await store.readMessages(verification.id)).toEqual([message?.message]);
    }));
});
