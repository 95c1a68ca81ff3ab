/**
 * `otpd destinations explain` and `unblock`, as an operator runs them beside the service: every decision with its
 * numbers, in words and in JSON, and never more of a number than its prefix.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { select } from "../support/databases/rows.ts";
import { keyText } from "../support/service/environment.ts";
import { surfaces, type Message, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { createManualSystem } from "../support/service/system.ts";
import { startWorld, type World } from "../support/service/world.ts";
import { runIn } from "../support/service/command-line.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];
const phone = "+31612345678";

let world: World;
let env: Record<string, string>;
beforeAll(async () => {
  const settings = { OTP_MASTER_KEY: keyText, OTP_PHONE_LIMITS: "1000@1s", OTP_FRAUD_GUARD: "enforce" };
  // The command has the machine's clock; the service's ends where the command's begins.
  world = await startWorld(settings, createManualSystem(1, Date.now() - 30 * 60_000));
  env = { ...settings, OTP_DATABASE_URL: `file:${world.databasePath}` };
  for (let i = 0; i < 30; i++) {
    const { value } = await call("SendOtp", { phone: `+3161234${String(i).padStart(4, "0")}` });
    const request_id = String(value?.["request_id"]);
    const code = world.network.received.at(-1)?.text.slice(0, 6) ?? "";
    await (i === 0 ? call("VerifyOtp", { request_id, code }) : call("CancelOtp", { request_id }));
    world.system.advance(60_000);
  }
  await call("SendOtp", { phone });
});
afterAll(() => world.stop());

const call = (rpc: Rpc, message: Message): Promise<Outcome> => rest.call(world.url, rpc, message, { key: world.key });
const otpd = (...args: string[]) => runIn(world.folder, args, env);

describe("destinations explain", () => {
  test("tells why a number is blocked, with the numbers that decided, and no more of it than its prefix", async () => {
    const { code, output, errors } = await otpd("destinations", "explain", phone);
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(output).toMatch(
      /^\+3161234••••, tenant default: the guard blocks it until \S+Z, the first time in a row\.\n/,
    );
    expect(output).toMatch(/\nRefused 1 message, from \S+Z to \S+Z, by the minute\.\n/);
    expect(output).toMatch(
      /\nTIME +DECISION +VERIFIED +OF +REFUSED +UNTIL +ENFORCED\n\S+Z +blocked +1 +30 +0 +\S+Z +yes\n$/,
    );
    expect(output).not.toContain(phone);
  });

  test("takes the prefix itself, and tells all of it as JSON", async () => {
    const { output } = await otpd("destinations", "explain", "+31 61 234", "--json");
    expect(JSON.parse(output)).toMatchObject({
      known: true,
      tenant: "default",
      prefix: "+3161234",
      mode: "enforce",
      state: "tripped",
      trips_in_a_row: 1,
      refused: 1,
      decisions: [{ decision: "tripped", ended: 30, verified: 1, refused: 0, enforced: true }],
    });
  });

  test("tells of the entry of the lists that speaks for a number or a prefix, beside what the guard knows", async () => {
    await otpd("destinations", "block", "+31655", "--note", "roaming test");
    for (const asked of ["+31655512345", "+31655", "+316551"]) {
      const { code, output } = await otpd("destinations", "explain", asked);
      expect(code).toBe(0);
      expect(output).toMatch(
        /^The entry \+31655 \(roaming test\) of the lists blocks it since \S+Z: nothing is sent\.\n\nNothing is known/,
      );
      const json = await otpd("destinations", "explain", asked, "--json");
      expect(JSON.parse(json.output)).toMatchObject({
        known: false,
        destination: { prefix: "+31655", verdict: "block", note: "roaming test" },
      });
    }
    await otpd("destinations", "allow", "+31655598765");
    await otpd("destinations", "allow", "+316551", "--note", "pilot");
    const above = await otpd("destinations", "explain", "+31655");
    expect(above.output).toMatch(/^The entry \+31655 /);
    expect(above.output).toMatch(
      /\n\nLonger entries speak for some of its numbers:\nPREFIX +VERDICT +NOTE +SINCE\n\+316551 +allow +pilot +\S+Z\n\+31•+65 +allow +- +\S+Z\n\nNothing/,
    );
    const unlisted = await otpd("destinations", "explain", "+3165", "--json");
    expect(JSON.parse(unlisted.output)).toMatchObject({
      destination: null,
      longer: [{ prefix: "+31655", verdict: "block" }, { prefix: "+316551" }, { prefix: "+31•••••••65" }],
    });
    const whole = await otpd("destinations", "explain", "+31655598765");
    expect(whole.output).toMatch(/^The entry \+31•+65 of the lists allows it since \S+Z: the guard is not asked\.\n/);
  });

  test("says so where nothing is known, or where there is no such tenant, and does not repeat what it was given", async () => {
    const elsewhere = await otpd("destinations", "explain", "+31687654321");
    expect(elsewhere).toEqual({
      code: 0,
      output: expect.stringMatching(/^Nothing is known of this prefix/) as string,
      errors: "",
    });
    const other = await otpd("destinations", "explain", phone, "--tenant", "other");
    expect(other).toMatchObject({
      code: 1,
      output: "",
      errors: expect.stringMatching(/^There is no tenant/) as string,
    });
    const wrong = await otpd("destinations", "explain", "+31099912345678");
    expect(wrong).toEqual({ code: 1, output: "", errors: expect.stringMatching(/^Nothing is known/) as string });
    expect(wrong.errors).not.toContain("99912345678");
    expect((await otpd("destinations", "explain")).code).toBe(2);
  });
});

test("destinations unblock lifts a block at once, is kept as a decision, and is refused where there is none", async () => {
  expect((await call("SendOtp", { phone })).reason).toBe("DESTINATION_BLOCKED");
  expect(await otpd("destinations", "unblock", phone)).toEqual({
    code: 0,
    output: "+3161234•••• is not blocked any more.\n",
    errors: "",
  });
  expect((await call("SendOtp", { phone })).value).toMatchObject({ state: "STATE_PENDING" });
  expect(await otpd("destinations", "unblock", phone)).toEqual({
    code: 1,
    output: "",
    errors: "The guard does not block this prefix.\n",
  });
  const { output } = await otpd("destinations", "explain", phone);
  expect(output).toMatch(/: the guard lets its sends through\.\n/);
  expect(output).toMatch(/\n\S+Z +unblocked by an operator +0 +0 +2 +- +yes\n/);
  expect(output).toMatch(/The block under way: 1 of 30 sends; 0 of them have ended, 0 verified\./);
  const entries = await select(
    world.database,
    "SELECT actor, action, tenant, subject FROM audit WHERE action = 'guard.lift'",
  );
  expect(entries).toEqual([{ actor: "cli", action: "guard.lift", tenant: "default", subject: "+3161234" }]);
});

test("destinations unblock takes its own entry off the block list, and tells of a shorter one that stays", async () => {
  for (const prefix of ["+31687", "+316871234"]) await otpd("destinations", "block", prefix);
  const stays = /The entry \+31687 of the lists blocks it since \S+Z: nothing is sent\.\n$/;
  const lifted = await otpd("destinations", "unblock", "+316871234");
  expect(lifted).toMatchObject({ code: 0, errors: "" });
  expect(lifted.output).toMatch(/^Its entry is off the block list\.\nThe entry/);
  expect(lifted.output).toMatch(stays);
  const again = await otpd("destinations", "unblock", "+316871234");
  expect(again).toMatchObject({ code: 1, output: "" });
  expect(again.errors).toMatch(stays);
  expect((await call("SendOtp", { phone: "+31687123456" })).reason).toBe("DESTINATION_BLOCKED");
  expect((await otpd("destinations", "unblock", "+31687")).output).toBe("Its entry is off the block list.\n");
  expect((await call("SendOtp", { phone: "+31687123456" })).value).toMatchObject({ state: "STATE_PENDING" });
});
