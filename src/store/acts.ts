/**
 * The acts of the store, written once for every database: each declares what it touches, and is a synchronous function of
 * what was loaded.
 */
import { dailyOf, hasPlace, hasPlaceToGiveBack, takePlace, type Place } from "../otp/daily-cap.ts";
import type { CallView } from "../otp/decisions.ts";
import { isBare, keyed, latestOf } from "../otp/idempotency.ts";
import { claim, giveUp, isInHand, unclaim, type Message } from "../otp/message.ts";
import type { SettleView } from "../otp/settlement.ts";
import { stateAt, type Decided, type Verification } from "../otp/verification.ts";
import { apiKeyActs } from "./acts/api-keys.ts";
import { destinationActs } from "./acts/destinations.ts";
import { endpointActs } from "./acts/endpoints.ts";
import { eventActs } from "./acts/events.ts";
import { masterKeyActs } from "./acts/master-keys.ts";
import { tenantActs } from "./acts/tenants.ts";
import { readActs } from "./acts/reads.ts";
import { apply, changePrefix, countedPrefixOf, putDay } from "./apply.ts";
import type { Engine } from "./engine.ts";
import { idText } from "./rows/id.ts";
import type { MessageRow } from "./rows/message.ts";
import type { Job, OpenScope, PhoneOf, PhoneRef, Store } from "./store.ts";
import { createSweep } from "./sweep.ts";
import type { ListedNumber, UnitOfWork } from "./unit-of-work.ts";

/** Looks at the outbox for one claim. */
const claimLooksMax = 32;
type DueMessage = Pick<MessageRow, "verification_id" | "copy">;
const recordNames = {
  name: "record-names",
  text: `SELECT slot FROM idempotency WHERE slot > $1 ORDER BY slot LIMIT $2`,
};
const atDailyCap = "the daily cap on messages was reached";

/** Makes the store on a database. */
export function createStore(engine: Engine): Store {
  /** Claims one message, or ends it if it is late or has no place; undefined unless it is claimed. */
  function claimMessage(
    verificationId: string,
    copy: number,
    phoneOf: PhoneOf,
    decideLate: (view: SettleView) => Decided<unknown>,
    dailyMaxOf: (tenant: string) => number | undefined,
  ): Promise<Job | undefined> {
    return engine.perform<Job | undefined>({
      ...ofMessages(verificationId, phoneOf),
      dayOf: (unit) => unit.verification(verificationId)?.tenant,
      run(unit) {
        const { now } = unit;
        const message = unit.message(verificationId, copy);
        const verification = unit.verification(verificationId);
        // Another worker may have had it in hand while this one waited for it.
        if (message === undefined || message.dueMs === null || message.dueMs > now) return undefined;
        if (verification === undefined) {
          unit.putMessage(giveUp(message));
          return undefined;
        }
        let late = message;
        if (stateAt(verification, now) === "PENDING" && now < message.deadlineMs) {
          const { tenant } = verification;
          const cap = dailyMaxOf(tenant);
          const place = placeFor(unit, message, tenant, cap);
          putDay(unit, tenant, dailyOf(place, cap));
          if (place.taken) {
            const claimed = { ...claim(message, now), placeDay: place.day };
            unit.putMessage(claimed);
            return { message: claimed, verification, now, share: place.share };
          }
          late = { ...message, detail: atDailyCap };
        }
        settle(unit, late, verification, phoneOf, decideLate);
        return undefined;
      },
    });
  }

  return {
    registry: {
      ...apiKeyActs(engine),
      ...tenantActs(engine),
      ...destinationActs(engine),
      ...masterKeyActs(engine),
    },
    events: { ...endpointActs(engine), ...eventActs(engine) },
    now: () => engine.now(),

    openVerification(scope, decide) {
      const { tenant, slot, phone } = scope;
      return engine.perform({
        slot,
        guessesOf: phone === undefined ? undefined : tenant,
        phoneOf: () => phone,
        prefixOf: () => phone?.prefix?.name(),
        numberOf: () => listed(tenant, scope.number),
        dayOf: () => (scope.isCapped === true ? tenant : undefined),
        run(unit) {
          const view = viewOf(unit, scope, phone, phone?.prefix?.name(), scope.number);
          const recorded = view.record && unit.verification(view.record.verificationId);
          const guesses = view.phone && unit.guesses(tenant);
          return apply(unit, tenant, phone, {}, decide({ ...view, recorded, guesses }));
        },
      });
    },

    updateVerification(scope, decide) {
      const { tenant, id, slot, phoneOf } = scope;
      const find = (unit: UnitOfWork) => {
        const found = unit.verification(id);
        return found?.tenant === tenant ? found : undefined;
      };
      const numberOf = (found: Verification | undefined) => found && scope.numberOf?.(found);
      return engine.perform({
        slot,
        verificationId: id,
        phoneOf: (unit) => refOf(find(unit), phoneOf),
        prefixOf: (unit) => countedPrefixOf(unit.verification(id), phoneOf),
        numberOf: (unit) => listed(tenant, numberOf(find(unit))),
        dayOf: () => (scope.isCapped === true ? tenant : undefined),
        run(unit) {
          const verification = find(unit);
          const ref = refOf(verification, phoneOf);
          const isCounted = scope.withPrefix === true && verification?.tally !== "none";
          const name = isCounted ? ref?.prefix?.name() : undefined;
          const view = viewOf(unit, scope, ref, name, numberOf(verification));
          return apply(unit, tenant, ref, { verification }, decide({ ...view, verification }));
        },
      });
    },

    ...readActs(engine),

    resetPhone(phone) {
      return engine.perform({ phoneOf: () => phone, run: (unit) => unit.resetPhone(phone) });
    },

    changePrefix(name, change) {
      return engine.perform({
        prefixOf: () => name,
        run(unit) {
          const changed = change(unit.prefix(name), unit.now);
          if (changed !== undefined) changePrefix(unit, name, changed);
          return changed !== undefined;
        },
      });
    },

    noteAnswer(slot, verificationId, answer) {
      return engine.perform({
        slot,
        run(unit) {
          const record = latestOf(unit.records(slot));
          if (record?.verificationId !== verificationId) return;
          if (answer === null) unit.deleteRecord(record.slot);
          else unit.putRecord({ ...record, answer });
        },
      });
    },

    async claimMessages(max, phoneOf, decideLate, dailyMaxOf) {
      const jobs: Job[] = [];
      // Other workers look at the same messages at the same moment, and one of them is first with each.
      for (let looks = 0; looks < claimLooksMax && jobs.length < max; looks++) {
        const due = await engine.query<DueMessage>(engine.dueMessages, [engine.now(), max - jobs.length]);
        if (due.length === 0) break;
        const claims = due.map((row) =>
          claimMessage(idText(row.verification_id), row.copy, phoneOf, decideLate, dailyMaxOf),
        );
        const claimed = await Promise.all(claims);
        jobs.push(...claimed.filter((job) => job !== undefined));
      }
      return jobs;
    },

    async releaseMessages(jobs) {
      const released = jobs.map(({ message }) =>
        engine.perform({
          verificationId: message.verificationId,
          withMessages: true,
          run(unit) {
            const stored = unit.message(message.verificationId, message.copy);
            // Its lease may have ended, and another worker may have sent it.
            if (stored !== undefined && isInHand(message, stored)) unit.putMessage(unclaim(stored, unit.now));
          },
        }),
      );
      await Promise.all(released);
      await engine.announceMessages();
    },

    settleMessage({ verificationId, copy }, phoneOf, decide) {
      return engine.perform({
        ...ofMessages(verificationId, phoneOf),
        dayOf(unit) {
          // Its place may come back.
          const placeDay = unit.message(verificationId, copy)?.placeDay ?? null;
          return placeDay === null ? undefined : unit.verification(verificationId)?.tenant;
        },
        run(unit) {
          const message = unit.message(verificationId, copy);
          const verification = unit.verification(verificationId);
          if (message === undefined || verification === undefined) return undefined;
          return settle(unit, message, verification, phoneOf, decide);
        },
      });
    },

    sweep: createSweep(engine),

    async keySlots(from, max, slotOf) {
      const page = (await engine.query<{ slot: Uint8Array }>(recordNames, [from, max])).map((row) => row.slot);
      const renamed = page.filter(isBare).map((digest) => {
        const slot = slotOf(digest);
        return engine.perform({
          slot,
          run(unit) {
            const found = unit.records(slot);
            const record = keyed(slot, found, unit.now);
            if (record === undefined) return;
            for (const { slot: name } of found) unit.deleteRecord(name);
            unit.putRecord(record);
          },
        });
      });
      await Promise.all(renamed);
      return page.length < max ? undefined : page.at(-1);
    },

    ping: () => engine.ping(),
    close: () => engine.close(),
  };
}

/** What an act on messages of a verification locks and loads. */
function ofMessages(verificationId: string, phoneOf: PhoneOf) {
  return {
    verificationId,
    withMessages: true,
    phoneOf: (unit: UnitOfWork) => refOf(unit.verification(verificationId), phoneOf),
    prefixOf: (unit: UnitOfWork) => countedPrefixOf(unit.verification(verificationId), phoneOf),
  };
}

/** Decides what has become of a message. */
function settle<R>(
  unit: UnitOfWork,
  message: Message,
  verification: Verification,
  phoneOf: PhoneOf,
  decide: (view: SettleView) => Decided<R>,
): R {
  const { now } = unit;
  const ref = phoneOf(verification);
  const daily = hasPlaceToGiveBack(message, now) ? unit.day(verification.tenant) : undefined;
  const decided = decide({ now, message, verification, phone: unit.phone(ref), daily });
  return apply(unit, verification.tenant, ref, { verification, message }, decided);
}

/** The place under the daily cap for a message's next call: the one it has, or a new one. */
function placeFor(unit: UnitOfWork, message: Message, tenant: string, cap: number | undefined): Place {
  if (hasPlace(message, unit.now)) return { taken: true, day: message.placeDay };
  return takePlace(cap === undefined ? undefined : unit.day(tenant), cap, unit.now);
}

/** What the decision of any call sees, of what its scope asks for. */
function viewOf(
  unit: UnitOfWork,
  { tenant, slot, isCapped }: Pick<OpenScope, "tenant" | "slot" | "isCapped">,
  ref: PhoneRef | undefined,
  prefix: { readonly tenant: string; readonly prefix: string } | undefined,
  number: string | undefined,
): CallView {
  return {
    now: unit.now,
    record: slot && latestOf(unit.records(slot)),
    phone: ref && unit.phone(ref),
    prefix: prefix && unit.prefix(prefix),
    verdict: number === undefined ? undefined : unit.verdict(tenant, number),
    daily: isCapped === true ? unit.day(tenant) : undefined,
  };
}

function refOf(verification: Verification | undefined, phoneOf: PhoneOf): PhoneRef | undefined {
  return verification && phoneOf(verification);
}

function listed(tenant: string, number: string | undefined): ListedNumber | undefined {
  return number === undefined ? undefined : { tenant, number };
}
