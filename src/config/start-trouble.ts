/**
 * Names the variable that a failed start is about: its reader knows the variables and not the code.
 */
import { fileTrouble } from "../store/file-trouble.ts";
import { StoreUnavailable } from "../store/store.ts";

/** Runs a part of the start that one variable decides. Its error begins with the variable. */
export async function naming<T>(variable: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const trouble = fileTrouble(error);
    if (trouble !== undefined) {
      const { path = "a file" } = error as NodeJS.ErrnoException;
      throw new Error(`${variable}: ${path} ${trouble}`, { cause: error });
    }
    // About the database, whatever was to be done in it.
    if (error instanceof StoreUnavailable) throw error;
    // The same error, for those who look at its class.
    if (!error.message.includes("OTP_")) error.message = `${variable}: ${error.message}`;
    throw error;
  }
}
