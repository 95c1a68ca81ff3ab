/**
 * The disk fails under a running service, and gets well again. While it fails, what cannot be stored is refused as
 * STORE_UNAVAILABLE and has no effect; what was acknowledged is stored; reading goes on. Afterwards the same process
 * serves as before.
 */
import { copyFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { addEnded } from "../support/databases/backlog.ts";
import { dueIn, readBook } from "../support/databases/book.ts";
import {
  codeIn,
  createDeployment,
  startCrashable,
  type Answered,
  type Crashable,
  type Deployment,
} from "../support/processes/crashable.ts";
import { wrongCode } from "../support/data/phones.ts";
import { runOtpd } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { failingDisks, fillUp, mountTmpfs, remount, unmount } from "./failing-disk.ts";
import { lacks } from "../support/machine.ts";
import { sampled } from "../support/extent.ts";

const tmpfsKib = 4_096;
/** The log's last page and its unused part take a few more sends on a full disk. */
const sendsUntilFullMax = 500;

describe.each(sampled(failingDisks, 2))("$name", (disk) => {
  const lacksTool = lacks(disk.name, disk.needs);
  let folder: string;
  let deployment: Deployment;
  let service: Crashable;
  let phones = 0;
  /** Called again it does nothing. */
  let heal = async () => {};

  beforeEach(async () => {
    folder = temporaryFolder();
    if (disk.onTmpfs) mountTmpfs(folder, tmpfsKib);
    deployment = await createDeployment(folder);
    service = await startCrashable(deployment, { OTP_SEND_WAIT_MS: "200" });
  });
  afterEach(async () => {
    await heal();
    await service.killed();
    if (disk.onTmpfs) unmount(folder);
    rmSync(folder, { recursive: true });
  });

  async function fail(): Promise<void> {
    const healOnce = await disk.fail(service.process.pid ?? 0, folder);
    heal = async () => {
      heal = async () => {};
      await healOnce();
    };
  }

  const nextPhone = () => `+3161${String(++phones).padStart(7, "0")}`;
  const send = (phone: string) => service.call("/v1/otp/send", { phone }, `send-${phone}`);
  const verify = (request_id: string, code: string) => service.call("/v1/otp/verify", { request_id, code });
  const get = (id: string) => service.call(`/v1/otp/${id}`);
  const readiness = async () => (await service.call("/readyz"))?.body;

  async function open(): Promise<{ id: string; code: string }> {
    const phone = nextPhone();
    const sent = await send(phone);
    expect(sent?.status).toBe(200);
    await service.until(() => deployment.inbox.has(phone) && dueIn(deployment.databasePath) === 0);
    return { id: String(sent?.body["request_id"]), code: codeIn(deployment.inbox.get(phone)?.[0] ?? "") };
  }

  function expectUnavailable(answer: Answered | undefined): void {
    expect(answer).toMatchObject({ status: 503, body: { reason: "STORE_UNAVAILABLE" } });
    expect(Number(answer?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  }

  test.skipIf(lacksTool)("refuses what cannot be stored, and serves again once it is well", async () => {
    const [right, guessed] = [await open(), await open()];
    await fail();

    // Sends are taken for as long as they can be stored, and refused from then on.
    const sends: { phone: string; answer: Answered | undefined }[] = [];
    do {
      const phone = nextPhone();
      sends.push({ phone, answer: await send(phone) });
    } while (sends.at(-1)?.answer?.status === 200 && sends.length < sendsUntilFullMax);
    expectUnavailable(sends.at(-1)?.answer);
    expect(await readiness()).toMatchObject({ status: "not_ready", checks: { database: "failing" } });
    const together = Array.from({ length: 24 }, nextPhone);
    sends.push(...(await Promise.all(together.map(async (phone) => ({ phone, answer: await send(phone) })))));
    const accepted = sends.filter(({ answer }) => answer?.status === 200);
    const refused = sends.filter(({ answer }) => answer?.status !== 200);
    for (const { answer } of refused) expectUnavailable(answer);
    for (const { phone } of refused) expect(deployment.inbox.has(phone), phone).toBe(false);

    // No success that is not stored, no attempt either; what is stored can be read.
    expectUnavailable(await verify(right.id, right.code));
    expectUnavailable(await verify(guessed.id, wrongCode(guessed.code)));
    for (const { id } of [right, guessed]) {
      expect(await get(id)).toMatchObject({ status: 200, body: { state: "STATE_PENDING", attempts_remaining: 5 } });
    }

    await heal();
    expect(await verify(right.id, right.code)).toMatchObject({ status: 200 });
    expect(await verify(guessed.id, wrongCode(guessed.code))).toMatchObject({ body: { attempts_remaining: 4 } });
    const { id: afterwards } = await open();
    for (const { phone } of refused) expect(await send(phone), phone).toMatchObject({ status: 200, replayed: false });

    const well = { status: "ready", checks: { database: "ok" } };
    await expect.poll(readiness).toMatchObject(well);

    await service.killed();
    const book = readBook(deployment.databasePath);
    expect(book.integrity).toBe("ok");
    expect(book.entries.get(right.id)).toMatchObject({ state: "VERIFIED", attempts: 1, hasSalt: false });
    expect(book.entries.get(guessed.id)).toMatchObject({ state: "PENDING", attempts: 1 });
    expect(book.entries.has(afterwards)).toBe(true);
    for (const { answer } of accepted) expect(book.entries.has(String(answer?.body["request_id"]))).toBe(true);
    expect(book.entries.size).toBe(3 + sends.length);
  });

  test.skipIf(lacksTool)("serves from another disk with its files copied there, all that it acknowledged", async () => {
    const { id, code } = await open();
    await fail();
    await service.killed();
    const elsewhere = temporaryFolder();
    for (const name of readdirSync(folder).filter((file) => /^otp\.db(-wal)?$/.test(file))) {
      copyFileSync(join(folder, name), join(elsewhere, name));
    }
    service = await startCrashable({ ...deployment, databaseUrl: `file:${join(elsewhere, "otp.db")}` });
    expect(await verify(id, code)).toMatchObject({ status: 200 });
    await service.killed();
    rmSync(elsewhere, { recursive: true });
  });

  test.skipIf(lacksTool)("an answer of the provider is noted once it is well, and not asked for twice", async () => {
    const arrived = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<{ kind: "accepted" }>();
    deployment.respond = () => {
      arrived.resolve();
      return answered.promise;
    };
    const phone = nextPhone();
    const sending = service.call("/v1/otp/send", { phone });
    await arrived.promise;
    await fail();
    answered.resolve({ kind: "accepted" });
    const sent = await sending;
    const id = String(sent?.body["request_id"]);
    expect(sent).toMatchObject({ status: 200, body: { delivery: "DELIVERY_SENDING" } });
    await heal();
    await service.until(() => dueIn(deployment.databasePath) === 0);
    expect(await get(id)).toMatchObject({ body: { state: "STATE_PENDING", delivery: "DELIVERY_ACCEPTED" } });
    expect(deployment.inbox.get(phone)).toHaveLength(1);
    expect(await verify(id, codeIn(deployment.inbox.get(phone)?.[0] ?? ""))).toMatchObject({ status: 200 });
  });
});

describe("a disk that is full or read-only from the start", () => {
  const lacksTmpfs = lacks("starts on a full or read-only disk", "a tmpfs that may be mounted");
  let folder: string;
  let path: string;

  beforeEach(() => {
    folder = temporaryFolder();
    mountTmpfs(folder, 1_024);
    path = join(folder, "otp.db");
  });
  afterEach(() => {
    unmount(folder);
    rmSync(folder, { recursive: true });
  });

  const command = (...args: string[]) => runOtpd(folder, args, { OTP_DATABASE_URL: `file:${path}`, OTP_PORT: "0" });

  test.skipIf(lacksTmpfs)("stops a start with a sentence, and does no harm", async () => {
    await addEnded(path, 5, 100);
    const free = fillUp(folder);
    const full = await command("serve");
    expect(full.code).toBe(1);
    expect(full.errors).toBe(
      `OTP_DATABASE_URL: the database ${path} cannot be opened: the disk of ${folder} is full\n`,
    );
    const elsewhere = temporaryFolder();
    const backup = await command("backup", join(elsewhere, "copy.db"));
    rmSync(elsewhere, { recursive: true });
    expect(backup.code).toBe(1);
    expect(backup.errors).toBe(`Nothing was backed up: ${path} could not be copied: the disk of ${folder} is full.\n`);
    free();
    remount(folder, "ro");
    const readOnly = await command("serve");
    expect(readOnly.code).toBe(1);
    expect(readOnly.errors).toMatch(/^OTP_DATABASE_URL: .+\n$/);
    remount(folder, "rw");
    expect(await command("prune", "--json")).toMatchObject({ code: 0, output: '{"expired":0,"deleted":5}\n' });
    expect(readBook(path).integrity).toBe("ok");
  });

  test.skipIf(lacksTmpfs)("does not matter where only temporary files would be", async () => {
    const free = fillUp(folder);
    const elsewhere = temporaryFolder();
    const otherPath = join(elsewhere, "otp.db");
    await addEnded(otherPath, 1_000, 100);
    const env = { OTP_DATABASE_URL: `file:${otherPath}`, SQLITE_TMPDIR: folder };
    expect(await runOtpd(elsewhere, ["prune", "--json"], env)).toEqual({
      code: 0,
      output: '{"expired":0,"deleted":1000}\n',
      errors: "",
    });
    free();
    rmSync(elsewhere, { recursive: true });
  });
});
