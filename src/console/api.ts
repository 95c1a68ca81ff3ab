/**
 * The admin service as the console calls it: connect-web with the session's cookie, and with the session's token in a header,
 * which no other site can send. Every failure becomes a sentence that says what to do.
 */
import { Code, ConnectError, createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AdminService } from "../../gen/otp/admin/v1/admin_service_pb.ts";

export type AdminClient = Client<typeof AdminService>;

/** The server's own deadline is 15 s: after this there is no answer. */
const timeoutMs = 20_000;
const sessionPath = "/console/session";

/** Thrown to whoever asked when there is no session any more. */
export class SignedOut extends Error {
  override readonly name = "SignedOut";
}

/** A client of the server that this page came from. `csrf` is the session's token. */
export function createAdminClient(csrf: string): AdminClient {
  const withToken: Interceptor = (next) => (request) => {
    request.header.set("X-CSRF-Token", csrf);
    return next(request);
  };
  const transport = createConnectTransport({
    baseUrl: location.origin,
    // An overview of 400 days has 680 KB of JSON, and 62 KB so.
    useBinaryFormat: true,
    interceptors: [withToken],
    fetch: (input, init) => fetch(input, { ...init, credentials: "same-origin", redirect: "error" }),
  });
  return createClient(AdminService, transport);
}

/** For calls that are no stream. */
export function calling(signal: AbortSignal): { signal: AbortSignal; timeoutMs: number } {
  return { signal, timeoutMs };
}

/** Who is here: the token of the session, or else the user whom a proxy names, if one does. */
export interface Standing {
  readonly csrf?: string | undefined;
  readonly user?: string | undefined;
}

export async function findSession(): Promise<Standing> {
  const answer = await fetch(sessionPath, { credentials: "same-origin", redirect: "error" });
  if (answer.status !== 401) return { csrf: await tokenOf(answer) };
  const { user } = (await answer.json()) as { user?: string };
  return { user };
}

/** Begins a session for the user whom a proxy names; undefined where it names none any more. */
export function signInByProxy(): Promise<string | undefined> {
  return signIn("");
}

/** Spends the token of a link. The session's token, or undefined where the link is spent or too old. */
export async function signIn(link: string): Promise<string | undefined> {
  return tokenOf(await post(sessionPath, { token: link }));
}

/** Ends this session, or all of the same user. */
export async function signOut(csrf: string, which: "this" | "all"): Promise<void> {
  await post(which === "all" ? `${sessionPath}/end-all` : `${sessionPath}/end`, {}, csrf);
}

async function tokenOf(answer: Response): Promise<string | undefined> {
  if (answer.status === 401 || answer.status === 403) return undefined;
  if (!answer.ok) throw new Error("the server did not answer as it should");
  const { csrf_token: token } = (await answer.json()) as { csrf_token: string };
  return token;
}

function post(path: string, body: unknown, csrf?: string): Promise<Response> {
  return fetch(path, {
    method: "POST",
    credentials: "same-origin",
    redirect: "error",
    headers: { "content-type": "application/json", ...(csrf === undefined ? {} : { "x-csrf-token": csrf }) },
    body: JSON.stringify(body),
  });
}

/** Whether a failure is the question's, so that asking again is of no use. */
export function isBadQuestion(failure: unknown): boolean {
  const { code } = ConnectError.from(failure);
  return code === Code.InvalidArgument || code === Code.NotFound;
}

/** A failure as a sentence. Throws SignedOut where there is no session any more. */
export function sentenceOf(failure: unknown): string {
  const error = ConnectError.from(failure);
  if (error.code === Code.Unauthenticated) throw new SignedOut();
  if (error.cause instanceof TypeError) return "The server cannot be reached. Is it running?";
  if (error.code === Code.DeadlineExceeded) return "The server did not answer in time. Try a shorter period.";
  if (error.code === Code.Unavailable) return "The server could not do it now. Try again, or ask for a shorter period.";
  if (error.code === Code.PermissionDenied) return `You may not do this. ${error.rawMessage}`;
  return error.rawMessage === "" ? "The server could not do it. Its log says why." : error.rawMessage;
}

/** True for a call that was given up because nobody waits for it any more. */
export function isGivenUp(failure: unknown): boolean {
  return (
    (failure instanceof DOMException && failure.name === "AbortError") ||
    (failure instanceof ConnectError && failure.code === Code.Canceled)
  );
}
