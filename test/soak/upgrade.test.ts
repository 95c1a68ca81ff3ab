/**
 * From the first package that could be installed to this one, and back as far as docs/operate.md says that one can: on SQLite
 * by a restart, on PostgreSQL with both alive. Users prove their numbers all the while, and what was begun in one version
 * is ended in the other.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../support/databases/postgres.ts";
import { wrongCode, newPhone } from "../support/data/phones.ts";
import { freePort } from "../support/network/ports.ts";
import { firstPackage, installEarlier, installPackage, lacksCommit } from "../support/processes/earlier.ts";
import { packServer } from "../support/processes/packages.ts";
import { cleanEnv, firstKey, startOtpd, type Otpd } from "../support/processes/process.ts";
import {
  call,
  callForGood,
  startGateway,
  startTraffic,
  type Caller,
  type Gateway,
} from "../support/service/proving.ts";

const scratch = mkdtempSync(join(tmpdir(), "otpd-upgrade-"));
const users = 8;

describe.skipIf(lacksCommit(firstPackage, "the upgrade from the first package"))(
  "from the first package to this one",
  () => {
    /** The commands of both versions. */
    let earlier: string;
    let latest: string;
    let gateway: Gateway;
    beforeAll(async () => {
      earlier = await installEarlier(firstPackage, join(scratch, "earlier"));
      latest = await installPackage((await packServer(scratch)).path, join(scratch, "latest"));
      gateway = await startGateway();
    }, 600_000);
    afterAll(() => {
      gateway.stop();
      rmSync(scratch, { recursive: true });
    });

    async function settingsOf(databaseUrl: string) {
      return {
        OTP_DATABASE_URL: databaseUrl,
        OTP_MASTER_KEY: Buffer.alloc(32, 7).toString("base64url"),
        OTP_PROVIDERS: "webhook",
        OTP_WEBHOOK_URL: gateway.url,
        OTP_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 9).toString("base64")}`,
        OTP_ALLOWED_COUNTRIES: "*",
        OTP_DAILY_MESSAGE_CAP: "100000",
        OTP_KEY_LIMIT: "none",
        OTP_PORT: `${await freePort()}`,
      };
    }
    type Settings = Awaited<ReturnType<typeof settingsOf>>;

    /** Starts a version; the earlier one knows no operators' listener. */
    async function start(folder: string, file: string, settings: Settings): Promise<Otpd> {
      const admin = file === earlier ? { OTP_ADMIN_PORT: undefined } : {};
      const otpd = await startOtpd(folder, { ...settings, ...admin }, ["serve"], { file });
      onTestFinished(async () => {
        await otpd.end("SIGKILL");
      });
      return otpd;
    }

    function command(folder: string, file: string, settings: Settings, ...args: string[]) {
      const { OTP_PORT: _, ...env } = settings;
      const { status, stdout, stderr } = spawnSync(file, args, { cwd: folder, env: cleanEnv(env), encoding: "utf8" });
      return { status, output: stdout, errors: stderr };
    }

    async function begin(caller: Caller) {
      const phone = newPhone();
      const { body } = await callForGood(caller, "send", { phone });
      return { request_id: body["request_id"], code: await gateway.codeFor(phone), phone };
    }

    function expectAllProven(counts: Readonly<Record<string, number>>): void {
      expect(counts).toEqual({
        "send 200": expect.any(Number) as number,
        "verify 200": counts["send 200"],
        "again OTP_ALREADY_VERIFIED": counts["send 200"],
      });
    }

    test("on SQLite, by a restart; and back by the backup", async () => {
      const folder = join(scratch, "sqlite");
      mkdirSync(folder);
      const settings = await settingsOf("file:otp.db");
      const url = `http://127.0.0.1:${settings.OTP_PORT}`;
      const first = await start(folder, earlier, settings);
      const caller = { key: await firstKey(first), url: () => url };
      const made = command(folder, earlier, settings, "keys", "create", "--name", "old", "--scopes", "send,verify");
      const [leaked = ""] = /otp_live_\w+/.exec(made.output) ?? [];
      const revoked = command(folder, earlier, settings, "keys", "revoke", leaked.split("_")[2]?.slice(0, 10) ?? "");
      expect([made.status, revoked.status]).toEqual([0, 0]);

      const traffic = startTraffic(caller, gateway, users);
      await traffic.proven(50);
      const pending = await Promise.all(Array.from({ length: 5 }, () => begin(caller)));
      const guessed = await begin(caller);
      const wrong = { request_id: guessed.request_id, code: wrongCode(guessed.code) };
      expect((await call(caller, "verify", wrong)).body).toMatchObject({ attempts_remaining: 4 });
      const once = { phone: newPhone() };
      const answered = await call(caller, "send", once, "kept");
      const { phone, ...proof } = await begin(caller);
      expect((await call(caller, "verify", proof, "done")).body).toMatchObject({ state: "STATE_VERIFIED", phone });
      expect(command(folder, earlier, settings, "backup", "before.db")).toMatchObject({ status: 0 });

      expect(await first.end()).toBe(0);
      const second = await start(folder, latest, settings);
      await traffic.proven(50);
      for (const { request_id, code, phone: sent } of pending) {
        const { body } = await call(caller, "verify", { request_id, code });
        expect(body).toMatchObject({ state: "STATE_VERIFIED", phone: sent });
      }
      expect((await call(caller, "verify", wrong)).body).toMatchObject({ attempts_remaining: 3 });
      const again = await call(caller, "send", once, "kept");
      expect(again).toMatchObject({ isReplayed: true, body: { request_id: answered.body["request_id"] } });
      const proven = await call(caller, "verify", proof, "done");
      expect(proven).toMatchObject({ isReplayed: true, body: { state: "STATE_VERIFIED", phone } });
      expect((await call(caller, "", { request_id: proof.request_id })).body).toMatchObject({
        state: "STATE_VERIFIED",
      });
      const refused = await call({ ...caller, key: leaked }, "send", { phone: newPhone() });
      expect(refused.body["reason"]).toBe("API_KEY_REVOKED");
      expectAllProven(await traffic.stop());

      const late = await begin(caller);
      expect(await second.end()).toBe(0);
      const back = command(folder, earlier, settings, "serve");
      expect(back.status).not.toBe(0);
      expect(back.output + back.errors).toContain("newer version of otpd");
      expect(command(folder, earlier, settings, "restore", "before.db")).toMatchObject({ status: 0 });
      const third = await start(folder, earlier, settings);
      const reasonOf = async ({ request_id, code }: { request_id: unknown; code: string }) =>
        (await call(caller, "verify", { request_id, code })).body["reason"];
      expect(await Promise.all(pending.map(reasonOf))).toEqual(pending.map(() => "OTP_EXPIRED"));
      expect(await reasonOf(late)).toBe("REQUEST_NOT_FOUND");
      expect(await reasonOf(proof)).toBe("OTP_ALREADY_VERIFIED");
      const after = startTraffic(caller, gateway, users);
      await after.proven(20);
      expectAllProven(await after.stop());
      expect(await third.end()).toBe(0);
    });

    test("on PostgreSQL, with both alive; and back by a start", async () => {
      const postgres = await startPostgres();
      onTestFinished(() => postgres.stop());
      const folder = join(scratch, "postgres");
      mkdirSync(folder);
      const databaseUrl = await postgres.createDatabase();
      const [one, other] = [await settingsOf(databaseUrl), await settingsOf(databaseUrl)];
      const urls = [one, other].map(({ OTP_PORT }) => `http://127.0.0.1:${OTP_PORT}`);
      const first = await start(folder, earlier, one);
      const key = await firstKey(first);
      /** Where calls go, in turn, and so a send and its verify to different ones. */
      let serving = [urls[0] ?? ""];
      let turn = 0;
      const caller = { key, url: () => serving[(turn += 1) % serving.length] ?? "" };
      const old = { key, url: () => urls[0] ?? "" };
      const fresh = { key, url: () => urls[1] ?? "" };
      const traffic = startTraffic(caller, gateway, users);
      await traffic.proven(50);
      const pending = await Promise.all(Array.from({ length: 5 }, () => begin(old)));

      const second = await start(folder, latest, other);
      serving = urls;
      await traffic.proven(100);
      for (const { request_id, code } of pending) {
        expect((await call(fresh, "verify", { request_id, code })).body).toMatchObject({ state: "STATE_VERIFIED" });
      }
      // One right code at both at once, and more wrong ones than there are attempts.
      for (let round = 0; round < 10; round += 1) {
        const { request_id, code } = await begin(round % 2 === 0 ? old : fresh);
        const both = await Promise.all([old, fresh].map((each) => call(each, "verify", { request_id, code })));
        const reasons = both.map(({ status, body }) => (status === 200 ? "verified" : String(body["reason"])));
        expect(reasons.toSorted()).toEqual(["OTP_ALREADY_VERIFIED", "verified"]);
        const guessed = await begin(round % 2 === 0 ? fresh : old);
        const wrong = { request_id: guessed.request_id, code: wrongCode(guessed.code) };
        const guesses = Array.from({ length: 12 }, (_, at) => call(at % 2 === 0 ? old : fresh, "verify", wrong));
        const told = (await Promise.all(guesses)).map(({ body }) => String(body["reason"]));
        expect(told.toSorted()).toEqual([
          ...Array<string>(5).fill("CODE_MISMATCH"),
          ...Array<string>(7).fill("OTP_LOCKED"),
        ]);
      }

      // The old one goes, comes back beside the new one, and stays when that goes: "just start the old version".
      serving = [urls[1] ?? ""];
      expect(await first.end()).toBe(0);
      await traffic.proven(50);
      const third = await start(folder, earlier, one);
      serving = urls;
      await traffic.proven(50);
      const late = await begin(fresh);
      serving = [urls[0] ?? ""];
      expect(await second.end()).toBe(0);
      const { request_id, code } = late;
      expect((await call(old, "verify", { request_id, code })).body).toMatchObject({ state: "STATE_VERIFIED" });
      await traffic.proven(50);
      expectAllProven(await traffic.stop());
      expect(await third.end()).toBe(0);
    });
  },
);
