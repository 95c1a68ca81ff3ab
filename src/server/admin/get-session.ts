/**
 * GetSession: who asks, and what it may do.
 */
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ok } from "../../otp/reason.ts";
import type { Instant } from "../../system.ts";
import { timeField, type HandlersOf } from "./handlers.ts";

export interface SessionDependencies {
  readonly now: () => Instant;
  readonly version: string;
}

export function sessionHandlers({ now, version }: SessionDependencies): HandlersOf<"getSession"> {
  return {
    getSession: async (_, { name, scopes, tenant = "", expireMs }) =>
      ok({
        actor: name,
        scopes: [...scopes],
        tenant,
        ...timeField("expireTime", expireMs),
        now: timestampFromMs(now()),
        version,
      }),
  };
}
