/**
 * Why a start failed, with the variable that mends it: whoever reads it knows the variables and not the code.
 */
import { fileTrouble } from "../store/file-trouble.ts";
import { StoreUnavailable } from "../store/store.ts";

/** Does a part of the start that one variable decides. What it rejects with begins with the variable, in plain words. */
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
    // Of the database, whatever was to be done in it.
    if (error instanceof StoreUnavailable) throw error;
    // The same error, since its class may be told apart.
    if (!error.message.includes("OTP_")) error.message = `${variable}: ${error.message}`;
    throw error;
  }
}
