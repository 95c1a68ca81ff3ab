/**
 * What is kept of a phone, in the row of its latest verification.
 */
import type { Migration } from "../migrate.ts";

export const ofPhone: Migration = {
  name: "0017-of-phone",
  sqlite: `
      -- What is kept of the phone (rows/phone.ts), in its latest verification's row. NULL in all others, and in those that
      -- were there before: there it is in rows of buckets and phones until the phone's next send.
      ALTER TABLE verifications ADD COLUMN of_phone BLOB;
    `,
};
