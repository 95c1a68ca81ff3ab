/** The pumping guard's rules, one by one: blocks, trips, probes, the limit, and what it is that counts. */
import { describe, expect, test } from "vitest";
import type { E164 } from "../../../src/otp/phone-number.ts";
import {
  judgeFallback,
  judgeResend,
  judgeSend,
  allowance,
  decisionsMax,
  isPrefixForgettable,
  endsWithinMs,
  recordOutcome,
  newPrefix,
  prefixMemoryMs,
  prefixOf,
  recall,
  unblock,
  type Ended,
  type Judgment,
  type PrefixChange,
  type PrefixDecision,
  type PrefixRecord,
  type Tally,
} from "../../../src/otp/limits/pumping-guard.ts";
import type { State } from "../../../src/otp/state.ts";
import { testEpochMs } from "../../support/service/system.ts";

const minute = 60_000;
const hour = 60 * minute;

/** A prefix that can be sent to, and the sends whose outcome is to come. */
class Prefix {
  now = testEpochMs;
  record: PrefixRecord = newPrefix;
  readonly decisions: PrefixDecision[] = [];
  readonly waiting: { createMs: number; tally: Tally }[] = [];

  send(): Judgment["kind"] {
    const judgment = judgeSend(this.record, this.now, "enforce");
    this.#take(judgment.change);
    if (judgment.kind === "admitted") this.waiting.push({ createMs: this.now, tally: judgment.tally });
    return judgment.kind;
  }

  /** Ends the oldest send that waits. */
  end(state: State): void {
    const sent = this.waiting.shift();
    if (sent === undefined) throw new Error("nothing waits");
    const change = recordOutcome(this.record, { ...sent, state }, this.now, "enforce");
    if (change !== undefined) this.#take(change);
  }

  /** Sends 30 a minute apart, of which so many are verified, each as soon as it was sent. */
  block(verified: number): void {
    for (let i = 0; i < 30; i++) {
      this.now += minute;
      if (this.send() !== "admitted") throw new Error("a send of the block was refused");
      this.end(i < verified ? "VERIFIED" : "EXPIRED");
    }
  }

  kinds(): string[] {
    return this.decisions.map(({ kind }) => kind);
  }

  #take({ record, decisions }: Judgment["change"]): void {
    this.record = record;
    this.decisions.push(...decisions);
  }
}

test("a prefix is the number without its last four digits", () => {
  expect(prefixOf("+31612345678" as E164)).toBe("+3161234");
});

describe("a block", () => {
  test.each([
    [0, "tripped"],
    [3, "tripped"],
    [4, "passed"],
    [30, "passed"],
  ])("with %i of 30 verified %s, and keeps its numbers", (verified, kind) => {
    const prefix = new Prefix();
    prefix.block(verified);
    expect(prefix.decisions).toEqual([
      {
        kind,
        atMs: prefix.now,
        ended: 30,
        verified,
        refused: 0,
        untilMs: kind === "tripped" ? prefix.now + hour : null,
        enforced: true,
      },
    ]);
  });

  test("is of 30 sends in their order, however late the failures are: what comes after them is another's", () => {
    const prefix = new Prefix();
    prefix.record = { ...newPrefix, proven: true, lastMs: testEpochMs };
    for (let i = 0; i < 34; i++) expect(prefix.send()).toBe("admitted");
    expect(prefix.waiting.map(({ tally }) => tally).filter((tally) => tally === "beyond")).toHaveLength(4);
    const [first, rest] = [prefix.waiting.slice(0, 4), prefix.waiting.slice(4)];
    prefix.waiting.splice(0, 34, ...rest, ...first);
    for (let i = 0; i < 26; i++) prefix.end("EXPIRED");
    for (let i = 0; i < 4; i++) prefix.end("VERIFIED");
    expect(prefix.decisions).toEqual([]);
    for (let i = 0; i < 4; i++) prefix.end("VERIFIED");
    expect(prefix.decisions).toMatchObject([{ kind: "passed", verified: 4 }]);
    expect(prefix.record).toMatchObject({ sent: 0, ended: 0, beyondSent: 0 });
  });

  test("is disjoint from the next: good sends of the one do not save the other", () => {
    const prefix = new Prefix();
    prefix.block(30);
    prefix.block(3);
    expect(prefix.kinds()).toEqual(["passed", "tripped"]);
  });

  test.each<[State, number]>([
    ["VERIFIED", 1],
    ["EXPIRED", 0],
    ["LOCKED", 0],
    ["CANCELED", 0],
  ])("counts a send that ends as %s as ended", (state, verified) => {
    const prefix = new Prefix();
    prefix.send();
    prefix.end(state);
    expect(prefix.record).toMatchObject({ sent: 1, ended: 1, verified });
  });

  test("does not count a send that FAILED, and gives back what it cost", () => {
    const prefix = new Prefix();
    prefix.send();
    prefix.end("FAILED");
    expect(prefix.record).toMatchObject({ sent: 0, ended: 0, tatMs: prefix.now });
    prefix.block(0);
    expect(prefix.decisions).toMatchObject([{ kind: "tripped", ended: 30 }]);
  });

  test("does not wait for outcomes that have not come within their time", () => {
    const prefix = new Prefix();
    for (let i = 0; i < 10; i++) prefix.send();
    for (let i = 0; i < 4; i++) prefix.end("EXPIRED");
    prefix.now += endsWithinMs;
    expect(recall(prefix.record, prefix.now)).toMatchObject({ sent: 4, ended: 4 });
    prefix.send();
    prefix.end("VERIFIED");
    expect(prefix.record).toMatchObject({ sent: 5, ended: 4 });
  });
});

describe("a tripped prefix", () => {
  test("refuses to the last millisecond of its hour, counts what it refuses, and lets 3 probes through at its end", () => {
    const prefix = new Prefix();
    prefix.block(0);
    const trippedMs = prefix.now;
    prefix.now += hour - 1;
    expect([prefix.send(), prefix.send()]).toEqual(["blocked", "blocked"]);
    expect(prefix.record).toMatchObject({ refused: 2, refusedFirstMs: trippedMs + hour - minute });
    prefix.now += 1;
    expect(Array.from({ length: 8 }, () => prefix.send())).toEqual([
      "admitted",
      "admitted",
      "admitted",
      "blocked",
      "blocked",
      "blocked",
      "blocked",
      "blocked",
    ]);
    expect(prefix.decisions.at(-1)).toMatchObject({ kind: "half-opened", refused: 2, untilMs: null });
  });

  test("trips again, for twice as long each time, to a day at most, as long as no probe is verified", () => {
    const prefix = new Prefix();
    prefix.block(0);
    for (let trips = 2; trips <= 8; trips++) {
      prefix.now = prefix.record.untilMs;
      for (let i = 0; i < 3; i++) prefix.send();
      for (const state of ["EXPIRED", "LOCKED", "CANCELED"] as const) prefix.end(state);
    }
    const hours = prefix.decisions.flatMap(({ untilMs, atMs }) => (untilMs === null ? [] : [(untilMs - atMs) / hour]));
    expect(hours).toEqual([1, 2, 4, 8, 16, 24, 24, 24]);
    expect(prefix.kinds().slice(0, 3)).toEqual(["tripped", "half-opened", "tripped-again"]);
  });

  test("opens with a clean block as soon as one probe is verified, and still doubles until a block passes", () => {
    const prefix = new Prefix();
    prefix.block(0);
    const halfOpen = () => {
      prefix.now = prefix.record.untilMs;
      for (let i = 0; i < 3; i++) prefix.send();
      prefix.end("EXPIRED");
      prefix.end("VERIFIED");
    };
    halfOpen();
    expect(prefix.decisions.at(-1)).toMatchObject({ kind: "closed", ended: 2, verified: 1 });
    // The third probe is the first send of the clean block.
    expect(prefix.record).toMatchObject({ phase: "open", sent: 1, ended: 0, verified: 0, trips: 1 });
    prefix.end("EXPIRED");
    for (let i = 1; i < 30; i++) {
      prefix.now += minute;
      prefix.send();
      prefix.end("EXPIRED");
    }
    expect(prefix.decisions.at(-1)).toMatchObject({ kind: "tripped", untilMs: prefix.now + 2 * hour });
    halfOpen();
    prefix.end("VERIFIED");
    for (let i = 1; i < 30; i++) {
      prefix.now += minute;
      prefix.send();
      prefix.end("VERIFIED");
    }
    expect(prefix.record).toMatchObject({ phase: "open", trips: 0 });
  });

  test("lets another probe through for one that never left, and for one whose outcome never came", () => {
    const prefix = new Prefix();
    prefix.block(0);
    prefix.now = prefix.record.untilMs;
    for (let i = 0; i < 3; i++) prefix.send();
    prefix.end("FAILED");
    expect([prefix.send(), prefix.send()]).toEqual(["admitted", "blocked"]);
    prefix.end("EXPIRED");
    prefix.now += endsWithinMs;
    expect([prefix.send(), prefix.send(), prefix.send()]).toEqual(["admitted", "admitted", "blocked"]);
  });

  test("does not count the outcomes of sends from before the trip or of the round before", () => {
    const prefix = new Prefix();
    prefix.record = { ...newPrefix, proven: true, lastMs: testEpochMs };
    for (let i = 0; i < 35; i++) prefix.send();
    for (let i = 0; i < 30; i++) prefix.end("EXPIRED");
    expect(prefix.record.phase).toBe("tripped");
    prefix.end("VERIFIED");
    expect(prefix.record.phase).toBe("tripped");
    prefix.now = prefix.record.untilMs;
    prefix.send();
    const late = { createMs: prefix.now - hour, tally: "block", state: "VERIFIED" } as const;
    expect(recordOutcome(prefix.record, late, prefix.now, "enforce")).toBeUndefined();
  });

  test("is opened by an operator at once, with a clean block; one that is not tripped is left alone", () => {
    const prefix = new Prefix();
    expect(unblock(prefix.record, prefix.now, "enforce")).toBeUndefined();
    prefix.block(0);
    prefix.now += minute;
    prefix.send();
    const change = unblock(prefix.record, prefix.now, "observe");
    expect(change?.decisions).toMatchObject([{ kind: "unblocked", refused: 1, enforced: false }]);
    prefix.record = change?.record ?? newPrefix;
    expect(prefix.record).toMatchObject({ phase: "open", trips: 0, sent: 0 });
    expect(prefix.send()).toBe("admitted");
  });

  test("takes no resend, half-open or not", () => {
    const prefix = new Prefix();
    prefix.block(0);
    expect(judgeResend(prefix.record, prefix.now, "enforce").kind).toBe("blocked");
    prefix.now = prefix.record.untilMs;
    expect(judgeResend(prefix.record, prefix.now, "enforce").kind).toBe("blocked");
  });
});

describe("the limit of a prefix", () => {
  test("is ten at once and one more with every minute, until a block has proven it", () => {
    const prefix = new Prefix();
    prefix.now += 15_000;
    const kinds = Array.from({ length: 11 }, () => prefix.send());
    expect(kinds.filter((kind) => kind === "admitted")).toHaveLength(10);
    expect(judgeSend(prefix.record, prefix.now, "enforce")).toMatchObject({ kind: "limited", retryAfterMs: 45_000 });
    prefix.now += 45_000;
    expect([prefix.send(), prefix.send()]).toEqual(["admitted", "limited"]);
  });

  test("counts resends as sends", () => {
    const prefix = new Prefix();
    prefix.send();
    for (let i = 0; i < 9; i++) {
      const { kind, change } = judgeResend(prefix.record, prefix.now, "enforce");
      expect(kind).toBe("admitted");
      prefix.record = change.record;
    }
    expect(judgeResend(prefix.record, prefix.now, "enforce")).toMatchObject({ kind: "limited", retryAfterMs: minute });
    expect(prefix.send()).toBe("limited");
    expect(prefix.record).toMatchObject({ sent: 1, beyondSent: 9 });
  });

  test("counts fallbacks as sends, until a block has proven it", () => {
    const prefix = new Prefix();
    prefix.send();
    const goOn = () => {
      const { kind, change } = judgeFallback(prefix.record, prefix.now, "enforce");
      prefix.record = change.record;
      return kind;
    };
    expect(Array.from({ length: 10 }, goOn)).toEqual([...Array.from({ length: 9 }, () => "admitted"), "limited"]);
    prefix.record = { ...newPrefix, proven: true, sent: 1, lastMs: prefix.now };
    expect(Array.from({ length: 60 }, goOn)).toEqual(Array.from({ length: 60 }, () => "admitted"));
    expect(prefix.record).toMatchObject({ sent: 1, beyondSent: 0 });
    for (let i = 0; i < 34; i += 1) expect(prefix.send()).toBe("admitted");
    expect(prefix.send()).toBe("limited");
    prefix.record = { ...prefix.record, phase: "tripped", untilMs: prefix.now + hour };
    expect(goOn()).toBe("blocked");
  });

  test("is none to honest sends of which half are verified, though each goes on twice", () => {
    const prefix = new Prefix();
    prefix.record = { ...newPrefix, proven: true, lastMs: testEpochMs };
    const kinds = new Set<string>();
    const ends: { atMs: number; ended: Ended }[] = [];
    const record = (change: PrefixChange | undefined) => (prefix.record = change?.record ?? prefix.record);
    // One every five seconds for two hours: every other one is verified 40 s after it, and others never, ten minutes after.
    for (let i = 0; i < 1_440; i += 1) {
      prefix.now += 5_000;
      for (const { ended } of ends.filter(({ atMs }) => atMs === prefix.now))
        record(recordOutcome(prefix.record, ended, prefix.now, "enforce"));
      const judged = judgeSend(prefix.record, prefix.now, "enforce");
      record(judged.change);
      kinds.add(judged.kind);
      const isVerified = i % 2 === 0;
      const tally = judged.kind === "admitted" ? judged.tally : "none";
      const ended = { state: isVerified ? "VERIFIED" : "EXPIRED", tally, createMs: prefix.now } as const;
      ends.push({ atMs: prefix.now + (isVerified ? 40_000 : 600_000), ended });
      for (let step = 0; step < 2; step += 1) record(judgeFallback(prefix.record, prefix.now, "enforce").change);
    }
    expect(kinds).toEqual(new Set(["admitted"]));
  });

  test("is lifted by a block of 10 verified, not by 9; stays lifted with 6, and comes back with 5", () => {
    const prefix = new Prefix();
    const proven = [9, 10, 6, 5, 10, 0].map((verified) => {
      prefix.block(verified);
      return prefix.record.proven;
    });
    expect(proven).toEqual([false, true, true, false, true, false]);
  });

  test("is 35 sends a block while no more than 3 are verified, also for a proven prefix, and three more for each beyond", () => {
    expect([0, 3, 4, 10].map(allowance)).toEqual([35, 35, 38, 56]);
    const prefix = new Prefix();
    prefix.record = { ...newPrefix, proven: true, lastMs: testEpochMs };
    const kinds = Array.from({ length: 40 }, () => prefix.send());
    expect(kinds.filter((kind) => kind === "admitted")).toHaveLength(35);
    expect(judgeSend(prefix.record, prefix.now, "enforce")).toMatchObject({ retryAfterMs: endsWithinMs });
    for (let i = 0; i < 4; i++) prefix.end("VERIFIED");
    expect(Array.from({ length: 4 }, () => prefix.send())).toEqual(["admitted", "admitted", "admitted", "limited"]);
  });

  test("spends nothing on what it refuses", () => {
    const prefix = new Prefix();
    for (let i = 0; i < 50; i++) prefix.send();
    const { tatMs, sent, refused } = prefix.record;
    expect({ tatMs, sent, refused }).toEqual({ tatMs: testEpochMs + 10 * minute, sent: 10, refused: 40 });
  });
});

describe("what is kept", () => {
  test("is forgotten after 30 days without a send, but not while a trip lasts", () => {
    const prefix = new Prefix();
    prefix.block(0);
    const { record } = prefix;
    expect(isPrefixForgettable(record, record.lastMs + prefixMemoryMs - 1)).toBe(false);
    expect(isPrefixForgettable(record, record.lastMs + prefixMemoryMs)).toBe(true);
    const lasting = { ...record, untilMs: record.lastMs + prefixMemoryMs + 1 };
    expect(isPrefixForgettable(lasting, record.lastMs + prefixMemoryMs)).toBe(false);
    expect(recall(record, record.lastMs + prefixMemoryMs)).toEqual(newPrefix);
  });

  test("tells no millisecond: all in whole seconds, and sends in whole minutes", () => {
    const prefix = new Prefix();
    prefix.now += 61_234;
    prefix.block(0);
    const { untilMs, sinceMs, lastMs } = prefix.record;
    expect([untilMs % 1_000, sinceMs % 1_000, lastMs % minute]).toEqual([0, 0, 0]);
    expect(prefix.decisions.map(({ atMs }) => atMs % 1_000)).toEqual([0]);
    expect(decisionsMax).toBe(100);
  });

  test("goes on when the clock was set back: a probe is still one of its round", () => {
    const prefix = new Prefix();
    prefix.block(0);
    prefix.now = prefix.record.untilMs;
    prefix.send();
    prefix.now -= 20_000;
    prefix.send();
    prefix.waiting.shift();
    prefix.end("VERIFIED");
    expect(prefix.record.phase).toBe("open");
  });
});
