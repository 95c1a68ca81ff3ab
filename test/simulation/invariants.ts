/**
 * What must hold after every step of a simulation, whatever went wrong before. The numbers are those of the table in
 * simulation.test.ts.
 *
 * Three sources are compared: what callers were told, what the store did (heard at the moment of its commit), and what
 * the database holds when it is read from outside. None of the product's own judgements is asked, save for the code that
 * a salt stands for.
 */
import { deriveCode } from "../../src/otp/message/code.ts";
import type { OutgoingMessage } from "../../src/delivery/provider.ts";
import { type Message, type SendOutcome } from "../../src/otp/message/message.ts";
import { openPhone } from "../../src/otp/phone-number.ts";
import { latestCopy, messagesSpent, stateAt, type Verification } from "../../src/otp/verification/verification.ts";
import { toMessage, type MessageRow } from "../../src/store/rows/message.ts";
import { list } from "../../src/store/statement.ts";
import { toVerification, verificationColumns, type VerificationRow } from "../../src/store/rows/verification.ts";
import { idBytes } from "../../src/store/rows/values.ts";
import type { Store } from "../../src/store/store.ts";
import { Bill } from "./bill.ts";
import { Budget } from "./budget.ts";
import type { Known } from "./known.ts";
import { histories, tatSum } from "./phones.ts";
import { inspectPrefixes } from "./prefixes.ts";
import { hold, Violation } from "./violation.ts";
import type { World } from "./world.ts";

/** A message is carried to its end within its deadline, the lease of a dead worker and a look or two. */
const settleSlackMs = 30_000 + 6_000;
const saltSlackMs = 60_000;
const sendLifeMinMs = 60_000;
const dayMs = 86_400_000;

export class Invariants {
  readonly known = new Map<string, Known>();
  readonly budget: Budget;
  readonly bill: Bill;
  readonly #world: World;
  readonly #byCode = new Map<string, Set<string>>();
  readonly #messages = new Map<string, Message>();
  /** Verifications that had come to their end at the last look. */
  readonly #over = new Set<string>();
  /** Since when nothing has disturbed the worker and the upkeep. */
  #healthySinceMs = 0;
  #disturbances = 0;
  #smsCount = 0;
  /** Messages owed by fallback. */
  fallbacks = 0;
  #violation: Violation | undefined;

  constructor(world: World) {
    this.#world = world;
    this.budget = new Budget(() => world.policy.phoneLimits);
    this.bill = new Bill(world.policy.dailyMessagesMax);
  }

  get smsCount(): number {
    return this.#smsCount;
  }

  /** Hears what the store did, once it is durable. */
  onDone(act: keyof Store, result: unknown, now: number): void {
    this.#catching(() => {
      const done = result as { kind?: string; verification?: Verification; message?: Message } | undefined;
      if (done?.verification === undefined) return;
      const { kind, verification: v, message } = done;
      if (kind === "opened") this.#open(v, now);
      if (message !== undefined && (kind === "opened" || kind === "resent" || kind === "fell back")) {
        const known = this.#knownOf(v.id);
        // What was given up for the next channel, and had never left, has paid for it.
        for (const copy of kind === "fell back" ? (v.fallback?.unsent ?? []) : []) {
          if (known.copies.get(copy) !== "unsent") this.budget.unsent(known.lane, now);
          known.copies.set(copy, "unsent");
        }
        if (kind === "fell back") this.fallbacks += 1;
        known.messages += 1;
        hold(known.copies.get(message.copy) !== "owed", "I7", "a message that may be under way is replaced");
        known.copies.set(message.copy, "owed");
        this.budget.spend(known.phone, known.lane, now);
      }
      if (kind === "verified") {
        const known = this.#knownOf(v.id);
        const { phone, lane } = known;
        known.isVerified = true;
        this.budget.verified(phone, lane, now, messagesSpent(v));
      }
      if (act === "settleMessage" && message !== undefined) this.#settled(v, message, now);
    });
  }

  #settled(v: Verification, message: Message, now: number): void {
    const known = this.#knownOf(v.id);
    const isUnsent = message.dueMs === null && !message.maybeSent && ["REJECTED", "EXPIRED"].includes(message.delivery);
    // A worker that was not heard may tell twice; what it tells counts once.
    if (!isUnsent || known.copies.get(message.copy) === "unsent") return;
    known.copies.set(message.copy, "unsent");
    // Past its time it has ended, whether a sweep has noted it or not.
    const state = stateAt(v, now);
    const isWithdrawn = message.copy === latestCopy(v) + 1;
    if (isWithdrawn) known.withdrawn += 1;
    const isBack = v.state === "PENDING" && v.fallback?.unsent.includes(message.copy) === true;
    // What the verification still counts comes back with its success, and no earlier.
    if (isWithdrawn || isBack || (state !== "PENDING" && state !== "VERIFIED")) this.budget.unsent(known.lane, now);
  }

  #open(v: Verification, now: number): void {
    const { policy, keys } = this.#world;
    const phone = openPhone(keys, v.kid, v.id, v.phoneBox);
    const code = deriveCode(keys, v)?.reveal();
    hold(code !== undefined, "I4", "a new verification has a code");
    hold(v.createMs === now && v.expireMs === now + policy.ttlMs, "I3", "the lifetime is the configured one");
    const lane = `${phone}${v.knownUser ? " known" : ""}`;
    const known: Known = {
      phone,
      lane,
      code,
      first: v,
      last: v,
      sure: 0,
      maybe: 0,
      successes: 0,
      isVerified: false,
      leftSeen: new Set(),
      messages: 0,
      copies: new Map(),
      withdrawn: 0,
      calls: 0,
      disturbancesBefore: this.#world.disturbances,
      inFlight: [],
    };
    this.known.set(v.id, known);
    const name = `${phone} ${code}`;
    this.#byCode.set(name, (this.#byCode.get(name) ?? new Set()).add(v.id));
  }

  /** Hears of a provider call as it begins; returns what is to be told of its end. */
  onProviderCall(sms: OutgoingMessage, provider: string): (outcome?: SendOutcome) => void {
    this.#smsCount += 1;
    this.#world.note("sms", sms.to, provider);
    let over = (_outcome?: SendOutcome) => {};
    this.#catching(() => {
      const unsent = this.bill.called(this.#world.now());
      const { code } = sms;
      // A call speaks it digit by digit.
      hold(sms.channel === "voice" || sms.text.startsWith(code), "I8", "a message says its code");
      const ids = [...(this.#byCode.get(`${sms.to} ${code}`) ?? [])];
      hold(ids.length > 0, "I8", "every SMS carries the code of a verification of its phone");
      // Two live verifications of one phone may share a code; then any of them may be the one.
      const faults = ids.map((id) => this.#callFault(id));
      hold(faults.includes(undefined), "I9", faults.find((fault) => fault !== undefined) ?? "");
      const known = this.#knownOf(ids[faults.indexOf(undefined)] ?? "");
      const { disturbances } = this.#world;
      const together = known.inFlight.filter((before) => before === disturbances).length + 1;
      // A resend may be asked for while a call is under way; a channel takes its turn once the one before is over.
      const callsAtOnce = known.messages - (this.#read(ids[faults.indexOf(undefined)] ?? "")?.fallback?.owed ?? 0);
      hold(together <= callsAtOnce, "I8", `${together} calls at once, of ${known.messages} messages`);
      known.calls += 1;
      const callsMax = 2 * known.messages + 3 * (disturbances - known.disturbancesBefore);
      hold(known.calls <= callsMax, "I8", `${known.calls} calls for ${known.messages} messages`);
      known.inFlight.push(disturbances);
      over = (outcome) => {
        const at = known.inFlight.indexOf(disturbances);
        if (at >= 0) known.inFlight.splice(at, 1);
        // What it says after the worker's patience has ended is heard by nobody.
        over = () => {};
        if (["refused", "throttled", "unavailable"].includes(outcome?.kind ?? "")) unsent();
        // A provider that asks for patience has not been called, as far as it is counted.
        if (outcome?.kind === "throttled") known.calls -= 1;
      };
    });
    return (outcome) => over(outcome);
  }

  #callFault(id: string): string | undefined {
    const now = this.#world.now();
    const v = this.#read(id);
    if (v === undefined) return "an SMS goes out for a verification that is not in the database";
    // A call that began in the instant of the end was on its way already.
    if (v.state !== "PENDING" && (v.endMs ?? 0) < now)
      return `an SMS goes out ${now - (v.endMs ?? 0)} ms after ${v.state}`;
    if (v.expireMs - now < sendLifeMinMs) return `an SMS goes out with ${v.expireMs - now} ms of life`;
    return undefined;
  }

  onCrash(): void {
    for (const known of this.known.values()) known.inFlight = [];
  }

  /** Notes that a guess is on its way. */
  guessing(id: string): void {
    const known = this.known.get(id);
    if (known !== undefined) known.maybe += 1;
  }

  /** Notes what a guess came to: it was compared (with so many attempts left), or not, or nobody knows. */
  guessed(id: string, outcome: "right" | "wrong" | "not compared", left = 0, at = 0): void {
    const known = this.known.get(id);
    if (known === undefined) return;
    known.maybe -= 1;
    if (outcome === "not compared") return;
    known.sure += 1;
    hold(at < known.first.expireMs, "I3", "nothing is compared from the expiry on");
    hold(known.sure <= known.first.attemptsMax, "I1", `${known.sure} guesses compared`);
    if (outcome === "right") {
      known.successes += 1;
      hold(known.successes === 1, "I2", "a verification succeeds once");
    } else {
      hold(!known.leftSeen.has(left), "I1", `two wrong codes were told that ${left} attempts are left`);
      known.leftSeen.add(left);
    }
  }

  /** Looks at everything in the database, and throws the first violation found since the last look. */
  inspect(): void {
    if (this.#violation !== undefined) throw this.#violation;
    const world = this.#world;
    const now = world.now();
    if (this.#disturbances !== world.disturbances) {
      this.#disturbances = world.disturbances;
      this.#healthySinceMs = now;
    }
    const inDatabase = new Map(this.allVerifications().map((v) => [v.id, v]));
    for (const id of inDatabase.keys())
      hold(this.known.has(id), "I7", "nothing is in the database that was not committed");
    for (const [id, known] of this.known) {
      const v = inDatabase.get(id);
      if (v === undefined) {
        const sinceMs = now - (known.last.endMs ?? known.last.createMs);
        hold(sinceMs >= world.policy.retentionMs, "I7", "what was committed stays for its retention");
      } else {
        this.#inspectVerification(known, v, now);
        known.last = v;
      }
    }
    this.#inspectMessages(inDatabase, now);
    this.#inspectPhones(now);
    inspectPrefixes(world, inDatabase.values(), (id) => this.#knownOf(id).phone);
    this.bill.inspect(world.db, now, world.disturbances > 0);
    for (const v of inDatabase.values()) if (v.state !== "PENDING") this.#over.add(v.id);
  }

  #inspectVerification(known: Known, v: Verification, now: number): void {
    const { first, last } = known;
    const policyOf = (x: Verification) => [
      x.tenant,
      x.createMs,
      x.expireMs,
      x.attemptsMax,
      x.digits,
      x.purpose,
      x.bind,
    ];
    hold(String(policyOf(v)) === String(policyOf(first)), "I3", "what a verification began with never changes");
    hold(v.attempts >= last.attempts, "I1", `attempts went from ${last.attempts} to ${v.attempts}`);
    hold(v.attempts <= v.attemptsMax, "I1", `${v.attempts} attempts of ${v.attemptsMax}`);
    hold(v.attempts >= known.sure, "I1", `${known.sure} guesses were compared, ${v.attempts} counted`);
    hold(v.attempts <= known.sure + known.maybe, "I1", `${v.attempts} attempts counted, ${known.sure} told of`);
    const isSame = v.state === last.state && v.endMs === last.endMs && v.attempts === last.attempts;
    hold(last.state === "PENDING" || isSame, "I5", `${last.state} became ${v.state} with ${v.attempts} attempts`);
    hold((v.state === "PENDING") === (v.endMs === null), "I5", `${v.state} ended at ${v.endMs}`);
    hold(v.state !== "VERIFIED" || known.successes + known.maybe > 0, "I2", "VERIFIED by a guess that somebody made");
    const isFailed = [...known.copies.values()].every((copy) => copy === "unsent");
    hold(v.state !== "FAILED" || isFailed, "I5", "FAILED only when nothing of it can have left");
    const isSpent = v.attempts === v.attemptsMax && v.state !== "VERIFIED";
    hold(isSpent === (v.state === "LOCKED"), "I1", `${v.state} with ${v.attempts} of ${v.attemptsMax} attempts`);
    hold(v.state === "PENDING" || v.salt === null, "I6", `the salt outlives the end as ${v.state}`);
    const sweptBy = Math.max(v.expireMs, this.#healthySinceMs) + saltSlackMs;
    hold(v.state !== "PENDING" || now <= sweptBy, "I6", `the salt is there ${now - v.expireMs} ms after the expiry`);
    if (v.salt !== null) {
      hold(deriveCode(this.#world.keys, v)?.reveal() === known.code, "I8", "the code of a verification never changes");
    }
  }

  #inspectMessages(verifications: ReadonlyMap<string, Verification>, now: number): void {
    const found = this.#world.db.prepare<unknown[], MessageRow>("SELECT * FROM messages").all().map(toMessage);
    const copies = new Map<string, number>();
    for (const message of found) {
      const { verificationId: id, delivery, dueMs, deadlineMs, calls } = message;
      copies.set(id, (copies.get(id) ?? 0) + 1);
      const v = verifications.get(id);
      hold(v !== undefined, "I7", "a message goes with its verification");
      const last = this.#messages.get(`${id} ${message.copy}`);
      this.#messages.set(`${id} ${message.copy}`, message);
      hold(last?.delivery !== "ACCEPTED" || delivery === "ACCEPTED", "I8", `an accepted message became ${delivery}`);
      const claims = calls - (last?.calls ?? 0);
      hold(!this.#over.has(id) || claims <= 0, "I9", `a message was claimed after ${v.state}`);
      const doneBy = Math.max(deadlineMs, this.#healthySinceMs) + settleSlackMs;
      hold(dueMs === null || now <= doneBy, "I7", `a message is ${delivery} ${now - deadlineMs} ms after its deadline`);
      hold(dueMs !== null || delivery !== "QUEUED", "I7", "a message that is not due is not waiting");
    }
    for (const [id, v] of verifications) {
      const known = this.#knownOf(id);
      hold(copies.get(id) === known.copies.size, "I7", "every committed message is in the outbox");
      const resends = known.messages - 1 - known.withdrawn - (v.fallback?.owed ?? 0);
      hold(v.resends === resends, "I7", `${v.resends} resends are counted of ${resends}`);
    }
  }

  #inspectPhones(now: number): void {
    let wrong = 0;
    // What was guessed at, ended and swept away between two looks was last seen with fewer attempts than it had.
    let unseen = 0;
    const ids = new Set(this.allVerifications().map(({ id }) => id));
    for (const [id, { last, isVerified, sure, maybe }] of this.known) {
      if (isVerified) continue;
      wrong += last.attempts;
      if (!ids.has(id)) unseen += Math.max(0, sure + maybe - last.attempts);
    }
    let remembered = 0;
    for (const { wrongCodes, refunds } of histories(this.#world.db)) {
      for (const [, count] of wrongCodes) remembered += count;
      hold(refunds.filter((at) => at > now - dayMs).length <= 10, "I10", "at most ten sends a day are given back");
    }
    const isExact = remembered >= wrong && remembered <= wrong + unseen;
    hold(isExact, "I1", `${remembered} wrong codes are remembered of ${wrong}`);
  }

  /** Wrong codes of a phone that count, and attempts open on it: what the length of its next code follows from. */
  guessesOf(phone: string, now: number): number {
    const inDatabase = new Map(this.allVerifications().map((v) => [v.id, v]));
    let guesses = 0;
    for (const [id, { phone: of, last, isVerified }] of this.known) {
      if (of !== phone || isVerified) continue;
      const { state, attempts, attemptsMax, expireMs } = inDatabase.get(id) ?? last;
      guesses += attempts;
      if (state === "PENDING" && expireMs > now) guesses += attemptsMax - attempts;
    }
    return guesses;
  }

  allVerifications(): Verification[] {
    return this.#world.db.prepare<unknown[], VerificationRow>("SELECT * FROM verifications").all().map(toVerification);
  }

  /** All that a denied or repeated call must leave as it was, the buckets apart. */
  everything(): string {
    const tables = [`${list(verificationColumns)} FROM verifications`, "* FROM messages", "* FROM idempotency"];
    const all = tables.map((table) => this.#world.db.prepare(`SELECT ${table}`).raw().all());
    return JSON.stringify([...all, histories(this.#world.db)], (_key, value: unknown) =>
      value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value,
    );
  }

  /** The sum of the moments at which the buckets are full again: every spending adds to it. */
  buckets(): number {
    return tatSum(this.#world.db);
  }

  /** Looks for codes and numbers in every text that the database keeps. */
  inspectTexts(): void {
    const texts = this.#world.db
      .prepare(
        "SELECT detail AS text FROM messages UNION ALL SELECT answer FROM idempotency UNION ALL SELECT purpose FROM verifications",
      )
      .pluck()
      .all()
      // Moments in milliseconds hold any six digits sooner or later.
      .map((text) => String(text).replaceAll(/\d{13}/g, ""));
    for (const { phone, code } of this.known.values()) {
      hold(!texts.some((text) => text.includes(code) || text.includes(phone)), "I13", "a code or a number is at rest");
    }
  }

  #knownOf(id: string): Known {
    const known = this.known.get(id);
    hold(known !== undefined, "I7", "the store speaks of a verification that was opened");
    return known;
  }

  #read(id: string): Verification | undefined {
    const row = this.#world.db
      .prepare<unknown[], VerificationRow>("SELECT * FROM verifications WHERE id = ?")
      .get(idBytes(id));
    return row === undefined ? undefined : toVerification(row);
  }

  /** Keeps a violation for the next look: where it is found, the product would catch it. */
  #catching(check: () => void): void {
    try {
      check();
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      this.#violation ??= error;
    }
  }
}
