/**
 * What went wrong between us and PostgreSQL, told as the port tells it.
 */
import { DatabaseError } from "pg";
import { StoreUnavailable } from "../store.ts";

/** The database took a transaction back for another's sake: run again, it may do. */
export const deadlock = new Set(["40001", "40P01"]);
/** What is sent behind a statement that failed is answered with this. */
export const alreadyFailed = "25P02";

export function silence(): StoreUnavailable {
  return new StoreUnavailable("the database does not answer");
}

/** What came instead of a commit's answer. */
export function inDoubt(error: unknown): StoreUnavailable {
  return new StoreUnavailable(messageOf(error), { cause: error, mayBeDone: true });
}

/** StoreUnavailable for a fault that the database did not report itself: there is no connection, or it was lost. */
export function lost(error: unknown): unknown {
  if (error instanceof DatabaseError || error instanceof StoreUnavailable) return error;
  return new StoreUnavailable(messageOf(error), { cause: error });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : "the connection is lost";
}

/**
 * The SQLSTATE of an error that leaves the connection as good as it was. Not so a database that is going (57P) or gone
 * (08), one that ends what lasted too long (25P03, 25P04), or one that only reads (25006): behind the same name there may be another by now.
 */
export function sqlStateOf(error: unknown): string | undefined {
  if (!(error instanceof DatabaseError) || error.code === undefined) return undefined;
  return /^(57P|08|25P03|25P04|25006)/.test(error.code) ? undefined : error.code;
}

/** True for an error of the data itself (a value out of range, an id taken twice): a bug of ours, not an outage. */
function isFaultOfData(error: unknown): boolean {
  return error instanceof DatabaseError && /^2[23]/.test(error.code ?? "");
}

/** True where a lot (lots.ts) was used of which too little was left: another has taken it back. */
export function isLotTaken(error: unknown): boolean {
  return error instanceof DatabaseError && error.constraint === "counter_lots_units";
}

/** An error as the port tells it. A bug of ours stays what it is. */
export function unavailable(error: unknown): unknown {
  if (!(error instanceof DatabaseError) || isFaultOfData(error)) return error;
  return new StoreUnavailable(`PostgreSQL answers ${error.code}: ${error.message}`, { cause: error });
}
