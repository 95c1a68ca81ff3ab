/**
 * The acts on phones, and the guesses at each tenant's.
 */
import { auditEntry, type Story } from "../../otp/operators/audit.ts";
import { wrongCodesOf } from "../../otp/verification/policy.ts";
import { oldestMinute, type Guesses } from "../../otp/verification/spraying.ts";
import type { Engine } from "../engine.ts";
import { resetPhone, viewPhone } from "../apply.ts";
import { toVerification, verificationColumns, type VerificationRow } from "../rows/verification.ts";
import { list } from "../statement.ts";
import type { PhoneRef, Store } from "../store.ts";
import type { UnitOfWork } from "../unit-of-work.ts";

const sql = {
  verificationsOfPhone: {
    name: "verifications-of-phone",
    text: `SELECT ${list(verificationColumns)} FROM verifications WHERE phone_index = $1 ORDER BY create_ms DESC LIMIT $2`,
  },
  guesses: {
    name: "guesses-of-all",
    text: `SELECT tenant, CAST(sum(wrong_codes) AS bigint) AS wrong, CAST(sum(right_codes) AS bigint) AS right
      FROM guesses WHERE minute >= $1 GROUP BY tenant`,
  },
} as const;

export function phoneActs(engine: Engine) {
  return {
    resetPhone(phone, noted) {
      return engine.perform({
        phone: () => phone,
        run(unit) {
          const before = noted && countsOf(unit, phone);
          resetPhone(unit, phone);
          if (noted === undefined) return;
          const counted = { ...noted.audited, before, after: { wrong_codes: 0, limits_in_use: 0 } };
          unit.note(auditEntry(noted.note, counted, unit.now));
        },
      });
    },

    readPhone: (phone) => engine.readPhone(phone),
    async listVerifications(indexes, max) {
      const found = indexes.map((index) => engine.query<VerificationRow>(sql.verificationsOfPhone, [index, max]));
      const rows = (await Promise.all(found)).flat().toSorted((a, b) => b.create_ms - a.create_ms);
      return rows.slice(0, max).map(toVerification);
    },
    async readGuesses() {
      const rows = await engine.query<Guesses & { tenant: string }>(sql.guesses, [oldestMinute(engine.now())]);
      return new Map(rows.map(({ tenant, wrong, right }) => [tenant, { wrong, right }]));
    },
  } satisfies Partial<Store>;
}

/** What a fresh start takes from a phone, as the audit tells it: wrong codes of 90 days, and limits that are not full. */
function countsOf(unit: UnitOfWork, phone: PhoneRef): Story {
  const views = [false, true].map((knownUser) => viewPhone(unit, { ...phone, knownUser }));
  const tats = views.flatMap((view) => view.tats);
  return {
    wrong_codes: wrongCodesOf(viewPhone(unit, phone).history, unit.now),
    limits_in_use: tats.filter((tatMs) => tatMs > unit.now).length,
  };
}
