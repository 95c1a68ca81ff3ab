/**
 * The program of docs/migrate.md is run as it stands: what a service has sent is checked by that service, whatever the share is
 * by then. Every reason that its tables name is one.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { reasons } from "../../src/otp/reason.ts";
import { readDocument } from "../support/readers/document.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { startWorld, temporaryFolder, type World } from "../support/service/world.ts";

interface Kept {
  readonly by: string;
  readonly id: string;
  readonly reason?: string;
}
interface Checked {
  readonly proven: boolean;
  readonly askAgain: boolean;
}
interface Program {
  both(before: { send(phone: string): Promise<string>; verify(id: string, code: string): Promise<boolean> }): {
    send(phone: string): Promise<Kept>;
    verify(kept: Kept, code: string): Promise<Checked>;
  };
}

const document = readDocument("docs/migrate.md");
const before = {
  send: (phone: string) => Promise.resolve(`old ${phone}`),
  verify: (id: string, code: string) => Promise.resolve(id.startsWith("old ") && code === "0000"),
};

let world: World;
let folder: string;
beforeAll(async () => {
  world = await startWorld();
  folder = temporaryFolder();
  writeFileSync(join(folder, "both.mjs"), document.only("js"));
});
afterAll(async () => {
  await world.stop();
  rmSync(folder, { recursive: true });
  for (const name of ["OTPD_URL", "OTPD_API_KEY", "OTPD_SHARE"]) delete process.env[name];
});

/** The program as it is after a start with this share. */
async function startWith(share: string) {
  Object.assign(process.env, { OTPD_URL: world.url, OTPD_API_KEY: world.key, OTPD_SHARE: share });
  const { both } = (await import(`${pathToFileURL(join(folder, "both.mjs")).href}?${share}`)) as Program;
  return both(before);
}

test("what a service has sent is checked by it, though all new sends are the other's", async () => {
  const [old, otpd] = [await startWith("0"), await startWith("1")];
  const phone = newPhone();
  const [byOld, byOtpd] = [await old.send(phone), await otpd.send(phone)];
  expect([byOld.by, byOtpd.by]).toEqual(["before", "otpd"]);
  expect(await otpd.verify(byOld, "0000")).toMatchObject({ proven: true });
  expect(await old.verify(byOtpd, world.network.codeFor(phone))).toEqual({ proven: true, askAgain: false });
});

test("a code is asked for again until there are no attempts left", async () => {
  const otpd = await startWith("1");
  const phone = newPhone();
  const kept = await otpd.send(phone);
  for (const code of ["", "12 34"]) expect(await otpd.verify(kept, code)).toEqual({ proven: false, askAgain: true });
  const wrong = wrongCode(world.network.codeFor(phone));
  for (const askAgain of [true, true, true, true, false, false]) {
    expect(await otpd.verify(kept, wrong)).toEqual({ proven: false, askAgain });
  }
  expect((await otpd.send("+310")).reason).toBe("PHONE_INVALID");
});

test("the tables have no reason that there is not", () => {
  const theirs = new Set(["INVALID_OTP", "OTP_NOT_FOUND", "TOO_MANY_ATTEMPTS", "INVALID_PHONE_NUMBER"]);
  const cells = document.text.split("\n").filter((line) => line.startsWith("| "));
  const named = cells.join("\n").match(/(?<![`\w])(?!STATE_)[A-Z]+(?:_[A-Z]+)+(?!\w)/g) ?? [];
  expect(named.length).toBeGreaterThan(50);
  expect(named.filter((name) => !(name in reasons) && !theirs.has(name))).toEqual([]);
});
