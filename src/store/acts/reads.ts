/**
 * Reads of what is committed, outside of any act.
 */
import { decisionsMax, newPrefix } from "../../otp/pumping-guard.ts";
import { oldestMinute, type Guesses } from "../../otp/spray.ts";
import type { Engine } from "../engine.ts";
import { idBytes } from "../rows/id.ts";
import { messageColumns, toMessage, toOutbox, type MessageRow, type OutboxRow } from "../rows/message.ts";
import {
  decisionColumns,
  prefixColumns,
  toDecision,
  toPrefix,
  type DecisionRow,
  type PrefixRow,
} from "../rows/prefix.ts";
import { toVerification, verificationColumns, type VerificationRow } from "../rows/verification.ts";
import { list } from "../statement.ts";
import { outboxCountMax, type Store } from "../store.ts";

const sql = {
  verification: {
    name: "verification",
    text: `SELECT ${list(verificationColumns)} FROM verifications WHERE id = $1`,
  },
  verificationsOfPhone: {
    name: "verifications-of-phone",
    text: `SELECT ${list(verificationColumns)} FROM verifications WHERE phone_index = $1 ORDER BY create_ms DESC LIMIT $2`,
  },
  messages: {
    name: "messages-of",
    text: `SELECT ${list(messageColumns)} FROM messages WHERE verification_id = $1 ORDER BY copy`,
  },
  prefix: {
    name: "prefix",
    text: `SELECT ${list(prefixColumns)} FROM prefixes WHERE tenant = $1 AND prefix = $2`,
  },
  prefixDecisions: {
    name: "prefix-decisions",
    text: `SELECT ${list(decisionColumns)} FROM prefix_decisions WHERE tenant = $1 AND prefix = $2
      ORDER BY id DESC LIMIT $3`,
  },
  guesses: {
    name: "guesses-of-all",
    text: `SELECT tenant, CAST(sum(wrong_codes) AS bigint) AS wrong, CAST(sum(right_codes) AS bigint) AS right
      FROM guesses WHERE minute >= $1 GROUP BY tenant`,
  },
  nextDue: { name: "next-due", text: `SELECT min(due_ms) AS due FROM messages WHERE due_ms IS NOT NULL` },
  /** What only waits for its provider's report is due at its deadline. */
  outbox: {
    name: "outbox",
    text: `SELECT (SELECT min(due_ms) FROM messages WHERE due_ms IS NOT NULL) AS due, (SELECT count(*) FROM (
        SELECT 1 FROM messages WHERE due_ms IS NOT NULL AND due_ms < deadline_ms LIMIT $1
      ) AS owed) AS depth`,
  },
} as const;

export function readActs(engine: Engine) {
  return {
    async readVerification(tenant, id) {
      const bytes = idBytes(id);
      if (bytes === undefined) return undefined;
      const [row] = await engine.query<VerificationRow>(sql.verification, [bytes]);
      return row?.tenant === tenant ? toVerification(row) : undefined;
    },
    readPhone: (phone) => engine.readPhone(phone),
    async listVerifications(indexes, max) {
      const found = indexes.map((index) => engine.query<VerificationRow>(sql.verificationsOfPhone, [index, max]));
      const rows = (await Promise.all(found)).flat().toSorted((a, b) => b.create_ms - a.create_ms);
      return rows.slice(0, max).map(toVerification);
    },
    async readMessages(id) {
      const bytes = idBytes(id);
      return bytes === undefined ? [] : (await engine.query<MessageRow>(sql.messages, [bytes])).map(toMessage);
    },
    async readPrefix({ tenant, prefix }) {
      const [row] = await engine.query<PrefixRow>(sql.prefix, [tenant, prefix]);
      const found = await engine.query<DecisionRow>(sql.prefixDecisions, [tenant, prefix, decisionsMax]);
      if (row === undefined && found.length === 0) return undefined;
      return { record: row === undefined ? newPrefix : toPrefix(row), decisions: found.map(toDecision) };
    },
    async readGuesses() {
      const rows = await engine.query<Guesses & { tenant: string }>(sql.guesses, [oldestMinute(engine.now())]);
      return new Map(rows.map(({ tenant, wrong, right }) => [tenant, { wrong, right }]));
    },
    async nextDue() {
      const [row] = await engine.query<{ due: number | null }>(sql.nextDue, []);
      return row?.due ?? undefined;
    },
    async readOutbox() {
      const [row] = await engine.query<OutboxRow>(sql.outbox, [outboxCountMax]);
      return toOutbox(row, engine.now());
    },
  } satisfies Partial<Store>;
}
