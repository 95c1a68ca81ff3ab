/**
 * The store's contract: the pass of a bot check, on two instances over one database. A yes is used up by one question, so
 * what is retried unchanged must not be asked again; and yet it is good for nothing but that.
 */
import { describe, expect, test } from "vitest";
import { refuse } from "../../src/otp/reason.ts";
import { Secret } from "../../src/otp/keys/secret.ts";
import { decideSettle } from "../../src/otp/decisions/settlement.ts";
import type { BotCheck } from "../../src/service/callers/bot-check.ts";
import { phoneRefs } from "../../src/service/phone-refs.ts";
import type { Caller } from "../../src/service/calls.ts";
import { createVerifications } from "../../src/service/verifications.ts";
import type { Store } from "../../src/store/store.ts";
import { ofOneMind } from "../support/service/tenants.ts";
import { ann, ben } from "./acts.ts";
import type { StoreFixture, WithStore } from "./contract.ts";

const minuteMs = 60_000;

/** Two instances that fail to deliver while `isDown`, the questions that were asked, and how many messages were taken. */
async function pairOf({ store, system, acts, beside }: StoreFixture) {
  const state = { isDown: true, asked: 0, texted: 0 };
  const used = new Set<string>();
  const policy = { ...acts.policy, phoneLimits: [{ burst: 1, intervalMs: minuteMs }] };
  const tenantOf = ofOneMind(policy);
  const phoneOf = phoneRefs(acts.keys, tenantOf);
  const botCheck: BotCheck = async (brought) => {
    state.asked += 1;
    const isYes = !used.has(brought.reveal());
    used.add(brought.reveal());
    return isYes ? undefined : refuse("CHALLENGE_FAILED", { field: "challenge_token" }).refusal;
  };
  const instance = (own: Store) =>
    createVerifications({
      store: own,
      system,
      keys: acts.keys,
      tenantOf,
      async deliver({ message }) {
        if (state.isDown) {
          return own.settleMessage(message, phoneOf, (view) =>
            decideSettle(
              view,
              {
                outcome: { kind: "refused", cause: "balance", detail: "" },
                provider: "test",
                providers: 1,
                claimed: message,
              },
              policy,
            ),
          );
        }
        state.texted += 1;
        return undefined;
      },
      sendWaitMs: 0,
      channelsOn: ["sms"],
      issuer: "otpd",
      onSpendWarnings: () => {},
      botCheck,
    });
  const instances = [instance(store), instance(await beside())] as const;

  const page: Caller = { tenant: "default", keyId: "page", idempotencyKey: "mine", isPublishable: true };
  /** What a send by one of them comes to, "ok" or a reason, and how many questions it took. */
  async function send(
    which: 0 | 1,
    options: Partial<Caller> & { readonly token?: string; readonly phone?: string } = {},
  ) {
    const { token = "mine", phone = ann, ...caller } = options;
    const before = state.asked;
    const shape = { channel: "", locale: "", purpose: "", bind: {}, knownUser: false };
    const command = { ...shape, phone, webOrigin: undefined, appHash: undefined, challengeToken: new Secret(token) };
    const { result, replayed } = await instances[which].send({ ...page, ...caller }, command);
    const came = result.ok ? (replayed ? "replayed" : "ok") : result.refusal.reason;
    return { came, asked: state.asked - before, says: result.ok ? undefined : result.refusal.message };
  }
  return { state, send };
}

const failed = { came: "DELIVERY_FAILED", asked: 0 };

export function botPassCases(withStore: WithStore): void {
  describe("a bot check's yes", () => {
    test(
      "lets the same send be retried unchanged on any instance, until it is accepted",
      withStore(async (fixture) => {
        const { state, send } = await pairOf(fixture);
        expect(await send(0)).toMatchObject({ ...failed, asked: 1 });
        expect(await send(1)).toMatchObject(failed);
        expect(await send(0)).toMatchObject(failed);
        state.isDown = false;
        expect(await send(1)).toMatchObject({ came: "ok", asked: 0 });
        expect(await send(0)).toMatchObject({ came: "replayed", asked: 0 });
        expect(state).toMatchObject({ asked: 1, texted: 1 });
      }),
    );

    test(
      "is good for no other number, Idempotency-Key, API key or tenant",
      withStore(async (fixture) => {
        const { state, send } = await pairOf(fixture);
        await send(0);
        state.isDown = false;
        const others = [{ phone: ben }, { idempotencyKey: "other" }, { keyId: "other" }, { tenant: "other" }];
        for (const other of others) {
          expect(await send(1, other)).toMatchObject({ came: "CHALLENGE_FAILED", asked: 1 });
        }
        expect(await send(1, { idempotencyKey: undefined })).toMatchObject({ came: "CHALLENGE_FAILED", asked: 1 });
        expect(state.texted).toBe(0);
        expect(await send(1)).toMatchObject({ came: "ok", asked: 0 });
      }),
    );

    test(
      "is good for ten minutes from the question on, however often it is given back",
      withStore(async (fixture) => {
        const { send } = await pairOf(fixture);
        await send(0);
        fixture.system.advance(10 * minuteMs - 1);
        expect(await send(1)).toMatchObject(failed);
        fixture.system.advance(1);
        expect(await send(1)).toMatchObject({ came: "CHALLENGE_FAILED", asked: 1 });
        expect(await send(1, { token: "fresh" })).toMatchObject({ ...failed, asked: 1 });
        expect(await send(0)).toMatchObject(failed);
      }),
    );

    test(
      "is good for one accepted send, though many come at once",
      withStore(async (fixture) => {
        const { state, send } = await pairOf(fixture);
        await send(0);
        state.isDown = false;
        const came = await Promise.all(Array.from({ length: 20 }, (_, i) => send(i % 2 === 0 ? 0 : 1)));
        expect(came.filter((one) => one.came === "ok")).toHaveLength(1);
        expect(came.every((one) => ["ok", "replayed", "IDEMPOTENCY_IN_PROGRESS"].includes(one.came))).toBe(true);
        expect(state).toMatchObject({ asked: 1, texted: 1 });
      }),
    );

    test(
      "outlives a refusal by the number's limits",
      withStore(async (fixture) => {
        const { state, send } = await pairOf(fixture);
        state.isDown = false;
        expect(await send(0, { idempotencyKey: "first", token: "first" })).toMatchObject({ came: "ok" });
        expect(await send(0)).toMatchObject({ came: "PHONE_RATE_LIMITED", asked: 1 });
        fixture.system.advance(minuteMs);
        expect(await send(1)).toMatchObject({ came: "ok", asked: 0 });
      }),
    );

    test(
      "is kept for nobody without an Idempotency-Key, and the answer says what to bring",
      withStore(async (fixture) => {
        const { send } = await pairOf(fixture);
        const without = { idempotencyKey: undefined };
        expect(await send(0, without)).toEqual({
          came: "DELIVERY_FAILED",
          asked: 1,
          says: "No provider could take the message. Try again with a new challenge_token.",
        });
        expect(await send(0, without)).toMatchObject({ came: "CHALLENGE_FAILED", asked: 1 });
        expect(await send(0, { token: "new" })).toEqual({ came: "DELIVERY_FAILED", asked: 1, says: undefined });
      }),
    );
  });
}
