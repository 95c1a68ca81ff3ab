/**
 * Where attacker and owner meet: the real acts of the service on a clock that stands still until the next of them has
 * something to do, and the book of what was sent and guessed. Every SMS is held against its limits as it is spent.
 */
import { claimFallbacks, type FallbackTools } from "../../../src/delivery/fallbacks.ts";
import type { Channel } from "../../../src/otp/channel.ts";
import { deriveCode } from "../../../src/otp/message/code.ts";
import type { FallbackPlan } from "../../../src/otp/message/fallback.ts";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";
import type { Policy } from "../../../src/otp/verification/policy.ts";
import type { Reason } from "../../../src/otp/reason.ts";
import { Secret } from "../../../src/otp/keys/secret.ts";
import type { Verification } from "../../../src/otp/verification/verification.ts";
import type { Caller } from "../../../src/service/calls.ts";
import { phoneRefs } from "../../../src/service/phone-refs.ts";
import { createVerifications, type Verifications } from "../../../src/service/verifications.ts";
import type { Store } from "../../../src/store/store.ts";
import { masterKeyA } from "../../support/data/examples.ts";
import { wrongCode } from "../../support/data/phones.ts";
import { createManualSystem, type ManualSystem } from "../../support/service/system.ts";
import { ofOneMind } from "../../support/service/tenants.ts";
import { hold } from "../violation.ts";
import { Ledger } from "./ledger.ts";
import { createMemoryStore } from "./memory-store.ts";
import { History } from "./history.ts";

/** Midnight, so that a day of the simulation is a day of the rules. */
export const startMs = Date.UTC(2026, 0, 1);

/** A request that somebody may guess at. */
export interface Opened {
  readonly id: string;
  readonly tenant: string;
  readonly digits: number;
  /** What the SMS says: only its reader may look. */
  readonly code: string;
}

export interface Refused {
  readonly reason: Reason;
  readonly retryAfterMs: number;
}

/** What an attacker made of one request on one day. */
export interface Guessed {
  readonly day: number;
  readonly digits: number;
  guesses: number;
}

export interface WorldOptions {
  /** False where the length of codes follows from more than the phone's own past. */
  readonly isTargeted?: boolean;
  readonly system?: ManualSystem;
  /** On the clock of `system`; one in memory unless given. */
  readonly store?: Store;
  /** The operator's order of channels; none unless given. */
  readonly fallback?: FallbackPlan | undefined;
}

/** Rounds of the worker's: with a fallback due, it takes all there are. */
const fallbacksMax = 100;

export class World {
  readonly policy: Policy;
  /** SMS by who had them sent. */
  readonly sends = { attacker: 0, owner: 0 };
  /** Messages that went out by the next channel. */
  fallbacks = 0;
  readonly guessed = new Map<string, Guessed>();
  readonly ledger = new Ledger();
  readonly isTargeted: boolean;
  readonly #history = new History();
  readonly system: ManualSystem;
  readonly #service: Verifications;
  readonly #sms = new Map<string, Verification>();
  /** By request: the lane that pays for its messages, and how many there were. */
  readonly #paid = new Map<string, { readonly lane: string; messages: number }>();
  readonly #keys = createKeyRing([masterKeyA]);
  readonly #worker: FallbackTools;
  readonly #nextDue: () => Promise<number | undefined>;

  constructor(
    policy: Policy,
    {
      isTargeted = true,
      system = createManualSystem(1, startMs),
      store = createMemoryStore(system),
      fallback,
    }: WorldOptions = {},
  ) {
    this.policy = policy;
    this.isTargeted = isTargeted;
    this.system = system;
    const channelsOn: Channel[] = fallback === undefined ? ["sms"] : [...fallback.channels];
    const tenantOf = ofOneMind(policy);
    this.#nextDue = fallback === undefined ? async () => undefined : () => store.nextDue();
    this.#worker = { store, keys: this.#keys, tenantOf, phoneOf: phoneRefs(this.#keys, tenantOf), channelsOn };
    this.#service = createVerifications({
      store,
      system,
      keys: this.#keys,
      tenantOf,
      // The phone network: what it is handed arrives.
      deliver: async ({ verification }) => void this.#sms.set(verification.id, verification),
      sendWaitMs: 0,
      channelsOn,
      fallbackOrder: fallback,
      issuer: "otpd",
      onSpendWarnings: () => {},
    });
  }

  now(): number {
    return this.system.now();
  }

  /** The day of the simulation, from 0 on. */
  day(): number {
    return Math.floor((this.now() - startMs) / 86_400_000);
  }

  async send(by: "attacker" | "owner", tenant: string, phone: string, knownUser: boolean): Promise<Opened | Refused> {
    const { policy } = this;
    const rest = { channel: "", locale: "", purpose: "", bind: {}, webOrigin: undefined, appHash: undefined };
    const challengeToken = new Secret("");
    const { result } = await this.#service.send(callerAt(tenant), { phone, knownUser, challengeToken, ...rest });
    if (!result.ok) return { reason: result.refusal.reason, retryAfterMs: result.refusal.retryAfterMs ?? 0 };
    this.sends[by] += 1;
    const lane = laneOf(tenant, phone, knownUser);
    this.ledger.note(lane, this.now(), 1);
    this.#paid.set(result.value.id, { lane, messages: 1 });
    const verification = this.#sms.get(result.value.id);
    const code = verification === undefined ? undefined : deriveCode(this.#keys, verification)?.reveal();
    if (code === undefined) throw new Error("no SMS came");
    const expected = this.#history.digitsDue(`${tenant} ${phone}`, policy, this.now());
    if (this.isTargeted)
      hold(result.value.digits === expected, "length", `${result.value.digits} digits, not ${expected}`);
    this.#history.opened(result.value.id, `${tenant} ${phone}`, this.now());
    return { id: result.value.id, tenant, digits: result.value.digits, code };
  }

  /** Lets time pass until `ms`; whatever is due by fallback on the way goes out when it is due. */
  async until(ms: number): Promise<void> {
    for (;;) {
      const dueMs = await this.#nextDue();
      if (dueMs === undefined || dueMs >= ms) break;
      this.system.advance(Math.max(0, dueMs - this.now()));
      for (const { verification } of await claimFallbacks(this.#worker, fallbacksMax)) this.#fellBack(verification.id);
    }
    this.system.advance(Math.max(0, ms - this.now()));
  }

  #fellBack(id: string): void {
    const paid = this.#paid.get(id);
    if (paid === undefined) throw new Error("a message went out that nobody asked for");
    paid.messages += 1;
    this.fallbacks += 1;
    this.ledger.note(paid.lane, this.now(), 1);
  }

  /** Asks for the same code again; what it comes to. */
  async resend({ id, tenant }: Opened, phone: string, knownUser: boolean): Promise<"resent" | Reason> {
    const { result } = await this.#service.resend(callerAt(tenant), { id, channel: "" });
    if (!result.ok) return result.refusal.reason;
    this.sends.attacker += 1;
    this.ledger.note(laneOf(tenant, phone, knownUser), this.now(), 1);
    return "resent";
  }

  async cancel({ id, tenant }: Opened): Promise<void> {
    await this.#service.cancel(callerAt(tenant), id);
    this.#history.ended(id, false);
  }

  /** What typing a code comes to. */
  async type({ id, tenant }: Opened, code: string): Promise<"verified" | Reason> {
    const { result } = await this.#service.verify(callerAt(tenant), {
      id,
      code: new Secret(code),
      purpose: "",
      bind: {},
    });
    if (result.ok) this.#history.ended(id, true);
    else if (result.refusal.reason === "CODE_MISMATCH") this.#history.wrong(id, this.now());
    return result.ok ? "verified" : result.refusal.reason;
  }

  /** Types the code that the SMS says. A success gives the request's messages back to its lane. */
  async typeRight(opened: Opened): Promise<"verified" | Reason> {
    const result = await this.type(opened, opened.code);
    if (result !== "verified") return result;
    const { lane = "", messages = 0 } = this.#paid.get(opened.id) ?? {};
    for (let i = 0; i < messages; i++) this.ledger.note(lane, this.now(), -1);
    return result;
  }

  /**
   * Guesses `count` times, each time another code and each time a wrong one: what luck would have done is computed from
   * the book, not drawn. Returns how many were compared.
   */
  async guess(opened: Opened, count: number, from = 1): Promise<number> {
    const day = this.day();
    const name = `${opened.id} ${day}`;
    for (let i = 0; i < count; i++) {
      if ((await this.type(opened, wrongCode(opened.code, from + i))) !== "CODE_MISMATCH") return i;
      const entry = this.guessed.get(name) ?? { day, digits: opened.digits, guesses: 0 };
      entry.guesses += 1;
      this.guessed.set(name, entry);
    }
    return count;
  }
}

export function isOpened(answer: Opened | Refused): answer is Opened {
  return "id" in answer;
}

/** One phone has limits of its own at each tenant and in each lane. */
function laneOf(tenant: string, phone: string, knownUser: boolean): string {
  return `${tenant} ${phone} ${knownUser ? "known" : "stranger"}`;
}

function callerAt(tenant: string): Caller {
  return { tenant, keyId: "key", idempotencyKey: undefined, isPublishable: false };
}

/** Somebody who does something now and then. `act` returns when he has something to do again; Infinity for never. */
export interface Actor {
  act(): Promise<number>;
}

/** Lets actors act in the order of their times until `days` are over. */
export async function play(world: World, actors: readonly Actor[], days: number): Promise<void> {
  const endMs = startMs + days * 86_400_000;
  const times = actors.map(() => world.now());
  for (;;) {
    const next = Math.min(...times);
    if (next >= endMs) return;
    await world.until(next);
    const who = times.indexOf(next);
    times[who] = (await actors[who]?.act()) ?? Number.POSITIVE_INFINITY;
  }
}
