/**
 * WebOTP: a browser that can read the SMS offers its code to the page, if the SMS ends with the line for this origin.
 */

/** The origin for the last line of the SMS; "" for one that codes cannot be bound to. */
export function bindableOrigin({ protocol, hostname, origin }: Location): string {
  const isName = !/^[\d.]+$|^\[/.test(hostname);
  return isName && (protocol === "https:" || hostname === "localhost") ? origin : "";
}

/** Waits for a code until the signal aborts. A browser without WebOTP, or a person who says no, is no failure. */
export function awaitSms(onCode: (code: string) => void): () => void {
  const stop = new AbortController();
  if ("OTPCredential" in window) void readSms(onCode, stop.signal);
  return () => stop.abort();
}

async function readSms(onCode: (code: string) => void, signal: AbortSignal): Promise<void> {
  const options: CredentialRequestOptions & { otp: { transport: string[] } } = { otp: { transport: ["sms"] }, signal };
  const credential = (await navigator.credentials.get(options).catch(() => null)) as { code?: string } | null;
  if (credential?.code !== undefined && !signal.aborted) onCode(credential.code);
}
