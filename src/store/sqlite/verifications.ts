/**
 * Verifications and their messages, on SQLite. All of it runs within an act.
 */
import type { Message } from "../../otp/message.ts";
import type { Verification } from "../../otp/verification.ts";
import { Recent } from "./recent.ts";
import { idBytes } from "../rows/id.ts";
import { toVerification, verificationChanges, verificationValues } from "../rows/verification.ts";
import { messageValues, toMessage } from "../rows/message.ts";
import type { prepare } from "./statements.ts";

/** Some 2 KB each, with a message: a second's worth at the fullest. */
const recentMax = 2_048;

export function createWork(sql: ReturnType<typeof prepare>) {
  /** Those that are pending. What has ended is hardly asked for again, and its salt is to be gone. */
  const verifications = new Recent<Verification>(recentMax);
  const messages = new Recent<Message>(recentMax);
  const nameOf = (id: string, copy: number) => `${id}/${copy}`;

  function keep(verification: Verification): void {
    if (verification.state === "PENDING") verifications.set(verification.id, verification);
    else verifications.delete(verification.id);
  }

  return {
    verification(id: string): Verification | undefined {
      const recent = verifications.get(id);
      if (recent !== undefined) return recent;
      const bytes = idBytes(id);
      const row = bytes === undefined ? undefined : sql.verification.get(bytes);
      if (row === undefined) return undefined;
      const verification = toVerification(row);
      keep(verification);
      return verification;
    },

    insert(verification: Verification): void {
      sql.insertVerification.run(...verificationValues(verification));
      keep(verification);
    },

    update(verification: Verification): void {
      sql.updateVerification.run(...verificationChanges(verification));
      keep(verification);
    },

    /** Deletes a verification with its messages. */
    delete(id: Uint8Array): void {
      sql.deleteMessages.run(id);
      sql.deleteVerification.run(id);
      // It ended long ago, so it is not among the recent ones.
    },

    message(id: string, copy: number): Message | undefined {
      const recent = messages.get(nameOf(id, copy));
      if (recent !== undefined) return recent;
      const bytes = idBytes(id);
      const row = bytes === undefined ? undefined : sql.message.get(bytes, copy);
      return row === undefined ? undefined : toMessage(row);
    },

    putMessage(message: Message): void {
      sql.putMessage.run(...messageValues(message));
      const name = nameOf(message.verificationId, message.copy);
      // What is due to nobody is settled but for its provider's report.
      if (message.dueMs === null) messages.delete(name);
      else messages.set(name, message);
    },

    forget(): void {
      verifications.clear();
      messages.clear();
    },
  };
}
