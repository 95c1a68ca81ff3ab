/**
 * The acts of calls: each loads what its scope asks for, decides and writes.
 */
import type { CallView } from "../../otp/decisions/standing.ts";
import { latestOf } from "../../otp/verification/idempotency.ts";
import type { Cap } from "../../otp/decisions/spending.ts";
import type { Verification } from "../../otp/verification/verification.ts";
import { apply, countedPrefixOf, viewPhone } from "../apply.ts";
import type { Engine } from "../engine.ts";
import { idBytes } from "../rows/values.ts";
import { toVerification, verificationColumns, type VerificationRow } from "../rows/verification.ts";
import { list } from "../statement.ts";
import type { OpenScope, PhoneOf, PhoneRef, PrefixName, Store } from "../store.ts";
import type { DayUse, ListedNumber, UnitOfWork } from "../unit-of-work.ts";

const findById = {
  name: "find-verification",
  text: `SELECT ${list(verificationColumns)} FROM verifications WHERE id = $1`,
};

export function callActs(engine: Engine) {
  return {
    openVerification(scope, decide) {
      const { tenant, slot, phone } = scope;
      return engine.perform({
        slot,
        guessesOf: phone === undefined ? undefined : tenant,
        phone: () => phone,
        prefix: () => phone?.prefix?.name(),
        number: () => listed(tenant, scope.number),
        daily: () => usesOf(tenant, scope.caps),
        run(unit) {
          const view = viewOf(unit, scope, {
            ref: phone,
            prefix: phone?.prefix?.name(),
            number: scope.number,
            caps: scope.caps,
          });
          const recorded = view.record && unit.verification(view.record.verificationId);
          const guesses = view.phone && unit.guesses(tenant);
          return apply(unit, { tenant, phone }, decide({ ...view, recorded, guesses }));
        },
      });
    },

    updateVerification(scope, decide) {
      const { tenant, id, slot, phoneOf } = scope;
      const find = (unit: UnitOfWork) => {
        const found = unit.verification(id);
        return found?.tenant === tenant ? found : undefined;
      };
      const capsFor = (found: Verification | undefined) => found && scope.capsOf?.(found);
      const numberOf = (found: Verification | undefined) => found && scope.numberOf?.(found);
      return engine.perform({
        slot,
        verificationId: id,
        phone: (unit) => refOf(find(unit), phoneOf),
        prefix: (unit) => countedPrefixOf(unit.verification(id), phoneOf),
        number: (unit) => listed(tenant, numberOf(find(unit))),
        daily: (unit) => usesOf(tenant, capsFor(find(unit))),
        run(unit) {
          const verification = find(unit);
          const ref = refOf(verification, phoneOf);
          const isCounted = scope.withPrefix === true && verification?.tally !== "none";
          const name = isCounted ? ref?.prefix?.name() : undefined;
          const caps = capsFor(verification);
          const view = viewOf(unit, scope, { ref, prefix: name, number: numberOf(verification), caps });
          return apply(unit, { tenant, phone: ref, verification }, decide({ ...view, verification }));
        },
      });
    },

    async readVerification(tenant, id) {
      const bytes = idBytes(id);
      if (bytes === undefined) return undefined;
      const [row] = await engine.query<VerificationRow>(findById, [bytes]);
      return row?.tenant === tenant ? toVerification(row) : undefined;
    },
  } satisfies Partial<Store>;
}

/** What a call's view is to hold. */
interface CallNeeds {
  readonly ref: PhoneRef | undefined;
  readonly prefix: PrefixName | undefined;
  readonly number: string | undefined;
  readonly caps: readonly Cap[] | undefined;
}

function usesOf(tenant: string, caps: readonly Cap[] = []): DayUse[] {
  return caps.map(({ kind, max }) => ({ tenant, kind, max }));
}

/** What the decision of any call sees, of what its scope asks for. */
function viewOf(
  unit: UnitOfWork,
  { tenant, slot }: Pick<OpenScope, "tenant" | "slot">,
  { ref, prefix, number, caps }: CallNeeds,
): CallView {
  return {
    now: unit.now,
    record: slot && latestOf(unit.records(slot)),
    phone: ref && viewPhone(unit, ref),
    prefix: prefix && unit.prefix(prefix),
    verdict: number === undefined ? undefined : unit.verdict(tenant, number),
    days: caps && new Map(caps.map(({ kind }) => [kind, unit.day(tenant, kind)])),
  };
}

export function refOf(verification: Verification | undefined, phoneOf: PhoneOf): PhoneRef | undefined {
  return verification && phoneOf(verification);
}

export function listed(tenant: string, number: string | undefined): ListedNumber | undefined {
  return number === undefined ? undefined : { tenant, number };
}
