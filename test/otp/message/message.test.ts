import { describe, expect, test } from "vitest";
import {
  claim,
  failuresMax,
  forward,
  giveUp,
  isDone,
  isProvenUnsent,
  report,
  retryDelayMs,
  settle,
  type Delivery,
  type Message,
  type SendOutcome,
} from "../../../src/otp/message/message.ts";
import { messageOf, minuteMs, secondMs } from "../../support/data/examples.ts";
import { testEpochMs as now } from "../../support/service/system.ts";

const outcomes = {
  accepted: { kind: "accepted", providerMessageId: "id-1" },
  recipient: { kind: "refused", cause: "recipient", detail: "no such number" },
  credentials: { kind: "refused", cause: "credentials", detail: "wrong key" },
  balance: { kind: "refused", cause: "balance", detail: "no money" },
  content: { kind: "refused", cause: "content", detail: "bad text" },
  throttled: { kind: "throttled", detail: "slow down" },
  throttledFor2s: { kind: "throttled", retryAfterMs: 2 * secondMs, detail: "slow down" },
  throttledFor1ms: { kind: "throttled", retryAfterMs: 1, detail: "slow down" },
  unavailable: { kind: "unavailable", detail: "no route" },
  ambiguous: { kind: "ambiguous", detail: "timeout" },
} as const satisfies Record<string, SendOutcome>;

/** A message whose first call failed, in its worker's hand again. */
function afterFailure(outcome: SendOutcome, providers: number): Message {
  return claim(settle(messageOf(), { outcome, provider: "one", providers }, now), now);
}

/** The end of a message in a word, or where and when it goes on. */
function fateOf(message: Message): string {
  if (message.delivery === "QUEUED") return `provider ${message.providerIndex} in ${(message.dueMs ?? 0) - now} ms`;
  if (message.dueMs !== null) return `${message.delivery} until its deadline, perhaps sent`;
  return isProvenUnsent(message) ? `${message.delivery}, proven unsent` : message.delivery;
}

const waits = "SENDING until its deadline, perhaps sent";
const unsent = "REJECTED, proven unsent";

describe("after a provider's answer to the first call", () => {
  test.each<[outcome: keyof typeof outcomes, asOnly: string, withAnother: string]>([
    ["accepted", "ACCEPTED", "ACCEPTED"],
    ["recipient", unsent, "provider 1 in 0 ms"],
    ["credentials", unsent, "provider 1 in 0 ms"],
    ["balance", unsent, "provider 1 in 0 ms"],
    ["content", unsent, "provider 1 in 0 ms"],
    ["throttled", "provider 0 in 1000 ms", "provider 1 in 0 ms"],
    ["throttledFor2s", "provider 0 in 2000 ms", "provider 1 in 0 ms"],
    ["throttledFor1ms", "provider 0 in 1000 ms", "provider 1 in 0 ms"],
    ["unavailable", "provider 0 in 500 ms", "provider 1 in 0 ms"],
    ["ambiguous", "provider 0 in 500 ms", "provider 1 in 0 ms"],
  ])("%s: %s; with another provider: %s", (outcome, asOnly, withAnother) => {
    expect(fateOf(settle(messageOf(), { outcome: outcomes[outcome], provider: "one", providers: 1 }, now))).toBe(
      asOnly,
    );
    expect(fateOf(settle(messageOf(), { outcome: outcomes[outcome], provider: "one", providers: 2 }, now))).toBe(
      withAnother,
    );
  });
});

describe("after a provider's answer to the second call", () => {
  const proven = ["recipient", "credentials", "balance", "content", "unavailable"] as const;
  const cases = [1, 2].flatMap((providers) => [
    ...proven.map((second) => ({ providers, first: "unavailable" as const, second, fate: unsent })),
    ...proven.map((second) => ({ providers, first: "ambiguous" as const, second, fate: waits })),
    { providers, first: "unavailable" as const, second: "ambiguous" as const, fate: waits },
    { providers, first: "ambiguous" as const, second: "ambiguous" as const, fate: waits },
    ...(["unavailable", "ambiguous"] as const).map((first) => {
      return { providers, first, second: "throttledFor2s" as const, fate: `provider ${providers - 1} in 2000 ms` };
    }),
    { providers, first: "unavailable" as const, second: "accepted" as const, fate: "ACCEPTED" },
    { providers, first: "ambiguous" as const, second: "accepted" as const, fate: "ACCEPTED" },
  ]);

  test.each(cases)("$first, then $second, with $providers: $fate", ({ providers, first, second, fate }) => {
    const message = afterFailure(outcomes[first], providers);
    expect(fateOf(settle(message, { outcome: outcomes[second], provider: "two", providers }, now))).toBe(fate);
  });

  test("there is no third call", () => {
    const message = settle(
      afterFailure(outcomes.unavailable, 2),
      { outcome: outcomes.unavailable, provider: "two", providers: 2 },
      now,
    );
    expect(message).toMatchObject({ calls: 2, failures: failuresMax, dueMs: null });
  });
});

describe("after a provider's answer about a message that the first one took and reported undelivered", () => {
  const taken = settle(messageOf(), { outcome: outcomes.accepted, provider: "one", providers: 2 }, now);
  const undelivered = report(taken, { delivery: "UNDELIVERED", detail: "1", isFromHolder: true, providers: 2 }, now);

  test.each<[outcome: keyof typeof outcomes, fate: string, afterCrash: string]>([
    ["accepted", "ACCEPTED", "ACCEPTED"],
    ["recipient", "UNDELIVERED", waits],
    ["credentials", "UNDELIVERED", waits],
    ["balance", "UNDELIVERED", waits],
    ["content", "UNDELIVERED", waits],
    ["throttled", "provider 1 in 1000 ms", "provider 1 in 1000 ms"],
    ["throttledFor2s", "provider 1 in 2000 ms", "provider 1 in 2000 ms"],
    ["throttledFor1ms", "provider 1 in 1000 ms", "provider 1 in 1000 ms"],
    ["unavailable", "UNDELIVERED", waits],
    ["ambiguous", waits, waits],
  ])("%s: %s; with a call in between that a crash cut short: %s", (outcome, fate, afterCrash) => {
    expect(fateOf(undelivered)).toBe("provider 1 in 0 ms");
    const inHand = claim(undelivered, now);
    expect(fateOf(settle(inHand, { outcome: outcomes[outcome], provider: "two", providers: 2 }, now))).toBe(fate);
    expect(fateOf(settle(claim(inHand, now), { outcome: outcomes[outcome], provider: "two", providers: 2 }, now))).toBe(
      afterCrash,
    );
  });

  test("what it tells late still counts", () => {
    const ended = settle(claim(undelivered, now), { outcome: outcomes.recipient, provider: "two", providers: 2 }, now);
    expect(
      fateOf(report(ended, { delivery: "DELIVERED", detail: undefined, isFromHolder: false, providers: 2 }, now)),
    ).toBe("DELIVERED");
  });
});

describe("a provider that asks for patience", () => {
  const patience = { kind: "throttled", retryAfterMs: 30 * secondMs, detail: "slow down" } as const;
  const pause = { kind: "throttled", retryAfterMs: 2 * secondMs, detail: "paused", isUnasked: true } as const;
  const settledTimes = (times: number, outcome: SendOutcome, providers: number) => {
    let message = messageOf();
    for (let i = 0; i < times; i++) {
      if (i > 0) message = claim(message, now);
      message = settle(message, { outcome, provider: "one", providers }, now);
    }
    return message;
  };

  test.each([1, 2, 3, 10])("has not failed: after %i such answers it is waited for", (times) => {
    const message = settledTimes(times, patience, 1);
    expect(fateOf(message)).toBe("provider 0 in 30000 ms");
    expect(message).toMatchObject({ calls: 0, failures: 0, maybeSent: false });
    expect(
      fateOf(settle(claim(message, now), { outcome: outcomes.accepted, provider: "one", providers: 1 }, now)),
    ).toBe("ACCEPTED");
  });

  test("is not called meanwhile, which is no failure either", () => {
    expect(fateOf(settledTimes(7, pause, 1))).toBe("provider 0 in 2000 ms");
  });

  test("gives way to the next at once; when all ask, the round begins again, soon enough for whoever is ready first", () => {
    expect(fateOf(settledTimes(1, patience, 2))).toBe("provider 1 in 0 ms");
    expect(fateOf(settledTimes(2, patience, 2))).toBe("provider 0 in 15000 ms");
    expect(fateOf(settledTimes(2, pause, 2))).toBe("provider 0 in 2000 ms");
  });

  test.each([
    ["recipient", "provider 0 in 500 ms"],
    ["credentials", "provider 0 in 500 ms"],
    ["balance", "provider 0 in 500 ms"],
    ["content", "provider 0 in 500 ms"],
    ["unavailable", "provider 0 in 500 ms"],
    ["ambiguous", "provider 1 in 500 ms"],
  ] as const)("is waited for where the last one fails (%s): %s", (outcome, fate) => {
    const offered = claim(settledTimes(1, patience, 2), now);
    const failed = settle(offered, { outcome: outcomes[outcome], provider: "two", providers: 2 }, now);
    expect(fateOf(failed)).toBe(fate);
    expect(failed).toMatchObject({ recipientRefused: false });
  });

  test("is not left for the one that has failed", () => {
    const offered = claim(settledTimes(1, patience, 2), now);
    let message = settle(offered, { outcome: outcomes.unavailable, provider: "two", providers: 2 }, now);
    for (const outcome of [pause, patience]) {
      message = settle(claim(message, now), { outcome, provider: "one", providers: 2 }, now);
      expect(fateOf(message)).toBe(`provider 0 in ${outcome.retryAfterMs} ms`);
    }
    const late = settle(claim(message, now), { outcome: outcomes.unavailable, provider: "one", providers: 2 }, now);
    expect(fateOf(late)).toBe(unsent);
  });

  test("is not gone back to where no provider is left to go to, or the last one is the only one", () => {
    const offered = claim(settledTimes(1, patience, 2), now);
    const end = (providers: number) =>
      fateOf(settle(offered, { outcome: outcomes.content, provider: "two", providers }, now));
    expect([end(0), end(1)]).toEqual([unsent, unsent]);
  });

  test("gives way to the next also where a provider that is gone had the message in vain", () => {
    const taken = settle(messageOf(), { outcome: outcomes.accepted, provider: "gone", providers: 2 }, now);
    const said = { delivery: "UNDELIVERED", detail: "1", isFromHolder: true, providers: 2, next: 0 } as const;
    const first = claim(report(taken, said, now), now);
    expect(fateOf(settle(first, { outcome: patience, provider: "one", providers: 2 }, now))).toBe("provider 1 in 0 ms");
  });

  test("is waited for at its place after another has failed", () => {
    const failed = afterFailure(outcomes.credentials, 2);
    const message = settle(failed, { outcome: patience, provider: "two", providers: 2 }, now);
    expect(fateOf(message)).toBe("provider 1 in 30000 ms");
    expect(
      fateOf(settle(claim(message, now), { outcome: outcomes.unavailable, provider: "two", providers: 2 }, now)),
    ).toBe(unsent);
  });

  test("leaves known who had it in vain", () => {
    const taken = settle(messageOf(), { outcome: outcomes.accepted, provider: "one", providers: 2 }, now);
    const undelivered = report(taken, { delivery: "UNDELIVERED", detail: "1", isFromHolder: true, providers: 2 }, now);
    const waiting = settle(claim(undelivered, now), { outcome: patience, provider: "two", providers: 2 }, now);
    expect(fateOf(waiting)).toBe("provider 1 in 30000 ms");
    expect(
      fateOf(settle(claim(waiting, now), { outcome: outcomes.recipient, provider: "two", providers: 2 }, now)),
    ).toBe("UNDELIVERED");
  });

  test("does not hide that an earlier call may have sent it", () => {
    const message = settle(
      afterFailure(outcomes.ambiguous, 1),
      { outcome: patience, provider: "one", providers: 1 },
      now,
    );
    expect(fateOf(message)).toBe("provider 0 in 30000 ms");
    expect(message).toMatchObject({ calls: 1, failures: 1, maybeSent: true });
  });
});

describe("a deadline", () => {
  const at = (leftMs: number) => messageOf({ deadlineMs: now + leftMs });

  test.each([
    [retryDelayMs + 1, "provider 0 in 500 ms"],
    [retryDelayMs, unsent],
    [1, unsent],
  ])("%i ms away: a second call to the same provider is %s", (leftMs, fate) => {
    expect(fateOf(settle(at(leftMs), { outcome: outcomes.unavailable, provider: "one", providers: 1 }, now))).toBe(
      fate,
    );
  });

  test("that a provider's wait goes past is not waited for", () => {
    const asked: SendOutcome = { kind: "throttled", retryAfterMs: 10 * minuteMs, detail: "slow down" };
    expect(fateOf(settle(messageOf(), { outcome: asked, provider: "one", providers: 1 }, now))).toBe(unsent);
  });

  test("ends the wait for a report of what may have been sent", () => {
    const message = settle(at(100), { outcome: outcomes.ambiguous, provider: "one", providers: 1 }, now);
    expect(message).toMatchObject({ delivery: "SENDING", dueMs: message.deadlineMs });
    expect(isDone(message)).toBe(true);
    expect(isProvenUnsent(giveUp(message))).toBe(false);
  });
});

describe("what is noted of an answer", () => {
  test("on acceptance, the provider and its id for the message", () => {
    expect(settle(messageOf(), { outcome: outcomes.accepted, provider: "one", providers: 2 }, now)).toMatchObject({
      provider: "one",
      providerMessageId: "id-1",
      dueMs: null,
      failures: 0,
    });
  });

  test("on acceptance, nothing of what an earlier provider said", () => {
    const taken = settle(
      afterFailure(outcomes.recipient, 2),
      { outcome: outcomes.accepted, provider: "two", providers: 2 },
      now,
    );
    expect(taken).toMatchObject({ provider: "two", detail: null });
  });

  test("on acceptance, what was reported before it", () => {
    const said = { delivery: "UNDELIVERED", detail: "absent", isFromHolder: true, providers: 1 } as const;
    const reported = report(messageOf(), said, now);
    const taken = settle(reported, { outcome: outcomes.accepted, provider: "one", providers: 1 }, now);
    expect(taken).toMatchObject({ delivery: "UNDELIVERED", detail: "absent" });
  });

  test("on delivery, nothing of why it had not come before", () => {
    const holder = { isFromHolder: true, providers: 1 } as const;
    const failed = settle(messageOf(), { outcome: outcomes.ambiguous, provider: "one", providers: 1 }, now);
    const arrived = report(failed, { delivery: "DELIVERED", detail: undefined, ...holder }, now);
    expect([failed.detail, arrived.detail]).toEqual(["timeout", null]);
    const told = report(failed, { delivery: "DELIVERED", detail: "to a landline", ...holder }, now);
    expect(told.detail).toBe("to a landline");
  });

  test("on failure, the provider's words, cut to 200 characters", () => {
    const wordy: SendOutcome = { kind: "unavailable", detail: "x".repeat(5_000) };
    expect(settle(messageOf(), { outcome: wordy, provider: "one", providers: 1 }, now)).toMatchObject({
      provider: "one",
      detail: "x".repeat(200),
    });
  });

  test("the recipient counts as refused only if every answer refused the recipient", () => {
    const both = settle(
      afterFailure(outcomes.recipient, 2),
      { outcome: outcomes.recipient, provider: "two", providers: 2 },
      now,
    );
    const one = settle(
      afterFailure(outcomes.recipient, 2),
      { outcome: outcomes.unavailable, provider: "two", providers: 2 },
      now,
    );
    const other = settle(
      afterFailure(outcomes.balance, 2),
      { outcome: outcomes.recipient, provider: "two", providers: 2 },
      now,
    );
    expect([both, one, other].map(({ recipientRefused }) => recipientRefused)).toEqual([true, false, false]);
  });

  test("the message that was given is not changed", () => {
    const message = Object.freeze(messageOf());
    for (const outcome of Object.values(outcomes)) settle(message, { outcome, provider: "one", providers: 2 }, now);
    expect(message).toEqual(messageOf());
  });
});

describe("delivery only moves forward", () => {
  const rank: Record<Delivery, number> = {
    QUEUED: 0,
    SENDING: 1,
    ACCEPTED: 2,
    EXPIRED: 3,
    REJECTED: 3,
    UNDELIVERED: 3,
    DELIVERED: 4,
  };
  const all = Object.keys(rank) as Delivery[];

  test.each(all.flatMap((from) => all.map((to) => [from, to] as const)))("from %s to %s", (from, to) => {
    expect(forward(from, to)).toBe(rank[to] < rank[from] ? from : to);
  });

  test.each(["ambiguous", "unavailable", "recipient"] as const)(
    "so a call that ended as %s is not made again once the provider has reported the message as accepted",
    (outcome) => {
      const reported = report(
        messageOf(),
        { delivery: "ACCEPTED", detail: undefined, isFromHolder: true, providers: 2 },
        now,
      );
      expect(fateOf(settle(reported, { outcome: outcomes[outcome], provider: "one", providers: 2 }, now))).toBe(
        "ACCEPTED",
      );
    },
  );

  test("so an acceptance that comes after the report of delivery leaves it delivered", () => {
    expect(
      settle(messageOf({ delivery: "DELIVERED" }), { outcome: outcomes.accepted, provider: "one", providers: 2 }, now)
        .delivery,
    ).toBe("DELIVERED");
  });
});
