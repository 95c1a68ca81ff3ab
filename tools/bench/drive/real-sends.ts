/**
 * Databases of pending verifications that real calls have made: what preload.ts multiplies.
 */
import type { Effort } from "../effort.ts";
import { openClient } from "./load.ts";
import { pendingPhone } from "./phones.ts";
import { postpone } from "./preload.ts";
import { prepareSqlite, type Place, type Prepared } from "./prepared.ts";
import { sendOver, startService } from "./targets.ts";

/** A database with so many pending verifications. */
export interface Preloaded extends Prepared {
  readonly path: string;
  readonly count: number;
}

type Sends = Pick<Effort, "connections" | "realSends">;

/** Makes one. Tells one of the verifications' ids. */
export async function makeReal(place: Place, effort: Sends): Promise<{ real: Preloaded; id: string }> {
  const prepared = await prepareSqlite(place, "real");
  const id = await sendReal(place, prepared, effort);
  const path = prepared.url.slice("file:".length);
  postpone(path);
  return { real: { ...prepared, path, count: effort.realSends }, id };
}

/** Makes the sends on a database, each with an Idempotency-Key. Tells one of their ids. */
export async function sendReal(place: Place, prepared: Prepared, { connections, realSends }: Sends): Promise<string> {
  const server = await startService(place, prepared);
  let sent = 0;
  let id = "";
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const client = openClient(server.port, prepared.key);
      while (sent < realSends) {
        sent += 1;
        id = await sendOver(client, pendingPhone(sent), `idempotency-key: send-${sent}\r\n`);
      }
      client.close();
    }),
  );
  await server.stop();
  return id;
}
