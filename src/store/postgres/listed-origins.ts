/**
 * Whether keys list origins. Anybody may ask, since a preflight comes without a key. If each of them had a connection,
 * calls would have none left: so all who ask while a read is under way share the next one.
 */
import type { Instant } from "../../system.ts";
import type { Connections } from "./connections.ts";
import { SharedReads } from "./shared-reads.ts";
import { statements as sql } from "./statements.ts";

export class ListedOrigins {
  readonly #connections: Pick<Connections, "query">;
  readonly #reads = new SharedReads();
  /** What the next read is to ask for. */
  #origins: string[] = [];
  #times: Instant[] = [];

  constructor(connections: Pick<Connections, "query">) {
    this.#connections = connections;
  }

  /** Whether any key lists an origin at a time. */
  async has(origin: string, now: Instant): Promise<boolean> {
    this.#times.push(now);
    const place = this.#origins.push(origin);
    const places = await this.#reads.read("origins", () => this.#read());
    return places.has(place);
  }

  /** Reads for all who have asked, and gives the places of those origins that are listed, from 1 on. */
  async #read(): Promise<ReadonlySet<number>> {
    const asked = [this.#origins, this.#times];
    this.#origins = [];
    this.#times = [];
    const rows = await this.#connections.query<{ place: number }>(sql.listedOrigins, asked);
    return new Set(rows.map(({ place }) => place));
  }
}
