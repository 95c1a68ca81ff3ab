/**
 * Who asks what a call says, and is signed as its provider, is told the code of that call while it is good.
 */
import { expect, test } from "vitest";
import { createSpeak } from "../../src/delivery/speak.ts";
import type { Channel } from "../../src/otp/channel.ts";
import { referenceOf } from "../../src/otp/message/provider-text.ts";
import type { SettleView } from "../../src/otp/decisions/settlement.ts";
import type { Store } from "../../src/store/store.ts";
import { freshPhone, keys, messageOf, policy, verificationOf } from "../support/data/examples.ts";
import { ofOneMind } from "../support/service/tenants.ts";

const pending = verificationOf({ channel: "voice" });
const reference = referenceOf(keys.current, pending.id, 0);

/** Asks at a moment about a message of a channel, as the store holds it then. */
async function said(now: number, channel: Channel = "voice", name = reference): Promise<string | undefined> {
  const view: SettleView = { now, message: messageOf({ channel }), verification: pending, phone: freshPhone };
  const settleMessage = (async ({ verificationId }, _, decide) =>
    verificationId === pending.id ? decide(view).result : undefined) as Store["settleMessage"];
  const phoneOf = () => {
    throw new Error("nothing is asked of the phone");
  };
  const speak = createSpeak({ store: { settleMessage }, keys, tenantOf: ofOneMind(policy), phoneOf });
  return (await speak(name))?.text;
}

test("the code is told until its life is over, whether a sweep has noted that or not", async () => {
  expect(await said(pending.createMs)).toMatch(/Acme/);
  expect(await said(pending.expireMs - 1)).toMatch(/Acme/);
  expect(await said(pending.expireMs)).toBeUndefined();
});

test("what went by another channel is not told", async () => {
  expect(await said(pending.createMs, "sms")).toBeUndefined();
  expect(await said(pending.createMs, "whatsapp")).toBeUndefined();
});

test("a reference that is none, or of no message, has nothing to say", async () => {
  expect(await said(pending.createMs, "voice", "x")).toBeUndefined();
  expect(await said(pending.createMs, "voice", "AAAAAAAAAAAAAAAAAAAAAA.0")).toBeUndefined();
});
