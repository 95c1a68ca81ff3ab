/**
 * What a page of the console is, and what it is given while it is shown.
 */
import type { GetSessionResponse } from "../../gen/otp/admin/v1/admin_service_pb.ts";
import type { AdminClient } from "./api.ts";

export interface PageContext {
  readonly client: AdminClient;
  readonly session: GetSessionResponse;
  /** What the address says after the page's name. It never holds a whole number. */
  readonly query: URLSearchParams;
  /** The server's clock, in milliseconds since the epoch. */
  readonly now: () => number;
  /** Ends when the page is left. */
  readonly left: AbortSignal;
  /** Shows a page, such as `fraud?tenant=acme`. */
  readonly go: (link: string) => void;
  /** Says something to whoever listens to the page, and shows it for a while. */
  readonly say: (sentence: string) => void;
  /** Ends the page with a failure that is not its own: the session has ended. */
  readonly fail: (failure: unknown) => void;
}

export interface Page {
  /** As the address has it. */
  readonly name: string;
  readonly title: string;
  /** True for what admins of one tenant are not shown. */
  readonly isForOperators?: true;
  /** Fills the page's place. */
  show(into: HTMLElement, context: PageContext): void;
}

export type AdminScope = "admin.read" | "admin.write" | "admin.phones";

export function may({ session }: Pick<PageContext, "session">, scope: AdminScope): boolean {
  return session.scopes.includes(scope);
}
