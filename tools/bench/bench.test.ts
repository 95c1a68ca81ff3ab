/**
 * The benchmark's pieces fit the service as it is: what they drive answers, what is multiplied is what sends write, and
 * what was found is held against what is asked. Nothing is measured here.
 */
import { once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import type { DelayOptions } from "./servers/delay.ts";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inDatabase } from "../../test/support/databases/rows.ts";
import { efforts } from "./effort.ts";
import { markdown, verdicts } from "./findings.ts";
import { driveClosed, driveOpen, openClient, openCodeBox } from "./drive/load.ts";
import { fromClone } from "./drive/installed.ts";
import { startServer, threadsOf } from "./drive/processes.ts";
import { counts } from "./sections/counts.ts";
import { confine } from "./drive/confined.ts";
import { operators } from "./sections/operators.ts";
import { look } from "./sections/rest.ts";
import { scarce } from "./sections/scarce.ts";
import { measureRound, ratioOf, type Round } from "./drive/measure.ts";
import { pendingPhone, userPhone } from "./drive/phones.ts";
import { multiplyInto } from "./drive/preload-postgres.ts";
import { census, multiply, postpone, trim } from "./drive/preload.ts";
import { sendReal } from "./drive/real-sends.ts";
import { prepare, prepareSqlite, type Place, type Prepared } from "./drive/prepared.ts";
import { grpcTarget, noopTarget, sendOver, startService } from "./drive/targets.ts";
import { startPostgres } from "../../test/support/databases/postgres.ts";

const folder = mkdtempSync(join(tmpdir(), "otpd-bench-test-"));
const file = (name: string) => join(folder, `${name}.db`);
const sends = 40;
let place: Place;
let prepared: Prepared;

beforeAll(async () => {
  place = { folder, codes: await openCodeBox(join(folder, "codes.sock")) };
  prepared = await prepareSqlite(place, "real");
  const server = await startService(place, prepared);
  const client = openClient(server.port, prepared.key);
  for (let i = 0; i < sends; i += 1) await sendOver(client, pendingPhone(i), `idempotency-key: send-${i}\r\n`);
  client.close();
  await server.stop();
  postpone(file("real"));
});
afterAll(() => {
  place.codes.close();
  rmSync(folder, { recursive: true });
});

describe("many pending verifications", () => {
  test("what is multiplied has the rows that sends write, and the service takes it for its own", async () => {
    multiply(file("real"), file("more"), sends, 10 * sends);
    const [real, more] = [census(file("real")), census(file("more"))];
    const tables = ["verifications", "messages", "idempotency"];
    for (const table of tables) {
      expect(real.rows.get(table), table).toBeGreaterThanOrEqual(sends);
      expect(more.rows.get(table), table).toBe(10 * (real.rows.get(table) ?? 0));
    }
    const ofTheirOwn = inDatabase(file("more"), (db) =>
      db.prepare("SELECT count(DISTINCT phone_index) FROM verifications WHERE of_phone IS NOT NULL").pluck().get(),
    );
    expect(ofTheirOwn).toBe(10 * sends);

    // Two protocols, both kinds of load; and what they added can be told from the rest.
    const target = await grpcTarget(place, "more", { ...prepared, url: `file:${file("more")}` });
    const closed = await measureRound(target, 2, (lanes) => driveClosed(lanes, 50));
    const open = await measureRound(target, 2, (lanes) => driveOpen(lanes, 100, 50));
    expect([closed.send.p50, open.send.p50, open.verify.p99].every((ms) => ms > 0)).toBe(true);
    await target.close();
    expect(census(file("more")).rows.get("verifications")).toBeGreaterThan(10 * sends);
    trim(file("more"));
    const trimmed = census(file("more"));
    for (const table of [...tables, "phones"]) expect(trimmed.rows.get(table), table).toBe(more.rows.get(table));
  });

  test("a table that grows with sends and is not multiplied is an error", () => {
    const grown = file("grown");
    copyFileSync(file("real"), grown);
    inDatabase(grown, (db) => db.exec("CREATE TABLE novelties AS SELECT id FROM verifications"));
    expect(() => multiply(grown, file("more-grown"), sends, 2 * sends)).toThrow("novelties grows with sends unseen");
  });
});

test("pending verifications on PostgreSQL are multiplied with all their rows, which still belong together", async () => {
  const postgres = await startPostgres();
  const [from, to] = [await postgres.createDatabase(), await postgres.createDatabase()];
  const real = await prepare(from);
  await prepare(to);
  await sendReal(place, real, { connections: 2, realSends: sends });
  expect(await multiplyInto(postgres, from, to, 3)).toBe(3 * sends);
  const [found] = await postgres.run(
    `SELECT count(DISTINCT v.id)::int AS ids, count(DISTINCT phone_index)::int AS phones, count(m.copy)::int AS messages,
       count(i.slot)::int AS records, count(*) FILTER (WHERE v.expire_ms < ${Date.now() + 80_000_000})::int AS ending,
       (SELECT count(*)::int FROM buckets WHERE substr(bucket, 1, 16) IN (SELECT phone_index FROM verifications)) AS buckets
     FROM verifications AS v JOIN messages AS m ON m.verification_id = v.id JOIN idempotency AS i ON i.verification_id = v.id`,
    to,
  );
  const all = 3 * sends;
  expect(found).toEqual({ ids: all, phones: all, messages: all, records: all, ending: 0, buckets: 2 * all });
  await postgres.stop();
});

describe("an open loop", () => {
  const lane = (takesMs: number) => ({
    async cycle(fromMs: number) {
      await new Promise((resolve) => setTimeout(resolve, takesMs));
      return { sendMs: performance.now() - fromMs, verifyMs: 0 };
    },
    close: () => {},
  });

  test("counts the wait for a free lane", async () => {
    // Five that are meant to start 10 ms apart, each of which takes the only lane for 15 ms.
    const { sendMs } = await driveOpen([lane(15)], 100, 50);
    expect(sendMs).toHaveLength(5);
    expect(Math.max(...sendMs)).toBeGreaterThanOrEqual(5 * 15 - 4 * 10 - 1);
  });

  test("ends though the server never catches up, and counts those that it leaves", async () => {
    const { done, sendMs } = await driveOpen([lane(40)], 200, 50);
    expect(sendMs).toHaveLength(10);
    expect(done).toBeLessThan(5);
    expect(Math.min(...sendMs)).toBeGreaterThanOrEqual(40 - 1);
  });
});

test("the no-op answers", async () => {
  const noop = await noopTarget(place);
  const round = await measureRound(noop, 2, (lanes) => driveClosed(lanes, 20));
  await noop.close();
  expect(round.perSecond).toBeGreaterThan(0);
});

test("what a cycle asks of its database is counted, in statements, commits and pages of the log", async () => {
  const { figures } = await counts(place, efforts.smoke, { peer: true, postgres: true });
  // A send, what its provider said, and a verify: more than one commit, each of some pages.
  const commits = Number(figures.commits);
  expect(commits).toBeGreaterThan(1);
  expect(figures.loneFrames).toBeGreaterThan(commits);
  expect(figures.loneStatements).toBeGreaterThan(2 * commits);
  expect(figures.statements).toBeGreaterThan(1);
});

test("an operator goes through every page of a console over months of rows, beside callers", async () => {
  const { tables, figures } = await operators(place, efforts.smoke, { postgres: true });
  const [pages, , rows] = tables;
  const failed = pages?.head.indexOf("failed") ?? -1;
  expect(pages?.rows.map((row) => [row[0], row[failed]])).toEqual(pages?.rows.map(([page]) => [page, "0"]));
  expect(pages?.rows.length).toBeGreaterThan(20);
  expect(rows?.rows.map(([, count]) => count)).not.toContain("0");
  expect(figures.page).toBeGreaterThan(0);
});

test("a file is measured beside less memory than it takes, where the system bounds a process", async () => {
  const trial = confine(2 ** 30);
  const isBounded = trial.prefix.length > 0;
  trial.end();
  const { tables, figures } = await scarce({ ...place, folder: mkdtempSync(join(folder, "scarce-")) }, efforts.smoke);
  expect(tables.map(({ rows }) => rows.length)).toEqual([isBounded ? 2 : 0]);
  expect(Object.keys(figures)).toEqual(isBounded ? ["scarce"] : []);
});

test("a server at rest is watched, before and after its load", async () => {
  const { fresh, after, loadedBytes } = await look(place, efforts.smoke, fromClone(), "rest");
  const bytes = [fresh.residentBytes, loadedBytes, after.residentBytes];
  expect(bytes.every((each) => each > 1e7)).toBe(true);
  // How long it slept at a time is the machine's, so this process answers for what can be said of it.
  const { cpuMs, wakes } = threadsOf(process.pid);
  expect(cpuMs).toBeGreaterThan(0);
  expect(wakes).toBeGreaterThan(0);
});

test("a ratio is of rounds of one turn, and of those that stood where there are any", () => {
  const round = (micros: number, stood: boolean): Round => ({
    perSecond: 1,
    cpuMicros: micros,
    parts: {},
    stood,
    send: { p50: 1, p99: 1 },
    verify: { p50: 1, p99: 1 },
  });
  const base = [round(100, true), round(200, true), round(400, false)];
  expect(ratioOf([round(200, true), round(600, true), round(4_000, true)], base)).toEqual({
    value: 3,
    least: 2,
    most: 3,
  });
  expect(ratioOf([round(500, false)], base)).toEqual({ value: 5, least: 5, most: 5 });
});

test("what passes through the delay comes as it was sent, and no sooner than it should", async () => {
  const echo = createServer((socket) => socket.pipe(socket)).listen(0, "127.0.0.1");
  await once(echo, "listening");
  const { port } = echo.address() as AddressInfo;
  const options: DelayOptions = { port, ms: 200 };
  const delay = await startServer(folder, "delay.ts", [JSON.stringify(options)]);
  const socket = connect(delay.port, "127.0.0.1");
  await once(socket, "connect");
  const fromMs = performance.now();
  socket.write("there and back");
  expect(String(await once(socket, "data"))).toBe("there and back");
  expect(performance.now() - fromMs).toBeGreaterThan(100);
  socket.destroy();
  await delay.stop();
  echo.close();
});

test("users of the peer and pending verifications have numbers of their own", () => {
  for (const phoneOf of [userPhone, pendingPhone]) {
    expect(new Set(Array.from({ length: 20_000 }, (_, i) => phoneOf(i))).size).toBe(20_000);
  }
});

test("a figure on the wrong side of what is asked says so, and one that is missing too", () => {
  const cycle = { value: 1.91, least: 1.8, most: 2.1 };
  const table = markdown(verdicts({ cycle, peer: 9.5, growth: 1.05 }));
  expect(table).toMatch(
    /^\| CPU of a durable .* 1\.91 \(1\.80–2\.10\) +\| +≤ 1\.8 \| +≤ 1\.5 \| \*\*not met\*\* +\|$/m,
  );
  expect(table).toMatch(/^\| better-auth .* 9\.5 +\|.*\| met +\|$/m);
  expect(table).toMatch(/^\| CPU per cycle at .* 1\.05 +\|.*\| met, aim too +\|$/m);
  expect(table).toMatch(/^\| heap .* not measured \|$/m);
});
