/** Mistakes in what operators go back by: backups, and the rotation of keys. */
import type { Mutant } from "./mutant.ts";

const suites = ["test/commands/backup.test.ts"];

export const backupMutants: readonly Mutant[] = [
  {
    name: "restore without expiry",
    breaks: "a code that was used after the backup works a second time",
    place: "src/store/sqlite/backup.ts#expireIn",
    text: `return { expired: expirePending(db, Math.max(now, asOfMs)), asOfMs };`,
    replacement: `return { expired: { verifications: 0, messages: 0 * now }, asOfMs };`,
    suites,
  },
  {
    name: "restore without the lock",
    breaks: "the database is taken away under a running server, and what it answers from then on is lost",
    place: "src/store/sqlite/backup.ts#withoutServer",
    text: `    if (error instanceof LockHeld) throw new BackupTrouble(\`a server runs on \${path}: stop it first\`);
    throw error;`,
    replacement: `    if (error instanceof LockHeld) return { close: () => {} };
    throw error;`,
    suites,
  },
  {
    name: "backup of the file without its log",
    breaks: "what was acknowledged since the last checkpoint is not in the backup",
    place: "src/store/sqlite/backup.ts#copyDatabase",
    text: `    await db.backup(to, {`,
    replacement: `    (await import("node:fs")).copyFileSync(from, to);
    await (async (..._: unknown[]) => {})(to, {`,
    suites,
  },
  {
    name: "the old log left beside the restored database",
    breaks: "pages of the database that was replaced are read into the restored one",
    place: "src/store/sqlite/backup.ts#restore",
    text: `if (wasThere) keepAside(path, aside);`,
    replacement: `if (wasThere) linkSync(path, aside);`,
    suites,
  },
  {
    name: "leaked key published",
    breaks: "receipts by a thief of the master key are good for as long as anything needs the key",
    place: "src/otp/verification/receipt.ts#receiptKeys",
    text: `keys.all.filter(({ isLeaked }) => !isLeaked)`,
    replacement: `keys.all.filter(({ isLeaked }) => isLeaked !== undefined)`,
    suites: ["test/server/rotation.test.ts"],
  },
];
