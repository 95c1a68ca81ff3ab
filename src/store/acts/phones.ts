/**
 * The acts on phones, and the guesses at each tenant's.
 */
import { auditEntry } from "../../otp/operators/audit.ts";
import { oldestMinute, type Guesses } from "../../otp/verification/spraying.ts";
import type { Engine } from "../engine.ts";
import { resetPhone } from "../apply.ts";
import { toVerification, verificationColumns, type VerificationRow } from "../rows/verification.ts";
import { list } from "../statement.ts";
import type { Store } from "../store.ts";

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
          resetPhone(unit, phone);
          if (noted !== undefined) unit.note(auditEntry(noted.note, noted.audited, unit.now));
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
