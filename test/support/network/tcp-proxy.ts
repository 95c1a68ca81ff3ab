/**
 * A TCP proxy on 127.0.0.1 for the ways in which a network fails: connections that are cut, and a black hole that
 * swallows what is sent and closes nothing.
 */
import { once } from "node:events";
import { createServer, connect, type AddressInfo, type Socket } from "node:net";

export interface TcpProxy {
  readonly port: number;
  /** How many connections are open. */
  connections(): number;
  /** How many were open at most. */
  mostConnections(): number;
  /**
   * When nothing at all, or nothing on a connection that had asked, came back for three quarters of a second or more, be it that
   * the connection ended without an answer, by `performance.now()`.
   */
  readonly pauses: readonly { readonly fromMs: number; readonly toMs: number }[];
  /** Ends every connection at once, with a reset. New ones get through. */
  cut(): void;
  /** From now on nothing gets through in either direction, on old connections and new ones, not even their end. */
  swallow(): void;
  /**
   * Lets new connections through again. Of those that lived through the silence, `arrivesLate` tells which get all that
   * was held back, as packets that are sent again do; the others stay silent for good.
   */
  restore(arrivesLate: () => boolean): void;
  /** New connections get through this much later from now on. */
  delay(ms: number): void;
  /**
   * Cuts the connection on which a text is seen next, on its way there or back, and keeps the text. Resolves then. With
   * `after`, of connections on which that went there before: others may say the same of something else.
   */
  cutAt(direction: Direction, text: string, after?: RegExp): Promise<void>;
  /** Puts another text of the same length in the place of the next one seen. Resolves then. */
  replace(direction: Direction, text: string, by: string): Promise<void>;
  stop(): Promise<void>;
}

export type Direction = "there" | "back";

/** The URL of a database as it is reached through a proxy. */
export function through({ port }: TcpProxy, databaseUrl: string): string {
  const url = new URL(databaseUrl);
  url.port = `${port}`;
  return url.href.replaceAll("+", "%20");
}

/** One connection: two sockets, and what each direction still has to be told while nothing gets through. */
interface Link {
  readonly near: Socket;
  far: Socket | undefined;
  held: (() => void)[] | undefined;
  isSilenced: boolean;
  /** When it first asked for what has not come back yet. */
  askedMs: number | undefined;
  /** True once the trap's `after` went there. */
  isMeant: boolean;
}

/** What happens to the next text of its kind: its connection is cut, or another text takes its place. */
interface Trap {
  readonly direction: Direction;
  readonly text: string;
  readonly after: RegExp | undefined;
  readonly by: string | undefined;
  readonly spring: () => void;
}

/** Idle instances have an answer twice a second, and take the database for gone after a second without one. */
const pauseMinMs = 750;

/** Starts a proxy before a port of this machine, or before the one that is told for each new connection. */
export async function startTcpProxy(target: number | (() => number)): Promise<TcpProxy> {
  const portNow = typeof target === "number" ? () => target : target;
  const links = new Set<Link>();
  let most = 0;
  let swallowing = false;
  let delayMs = 0;
  const pauses: { fromMs: number; toMs: number }[] = [];
  let lastBackMs = performance.now();
  const noteWait = (link: Link, sinceMs: number) => {
    const nowMs = performance.now();
    const fromMs = Math.min(sinceMs, link.askedMs ?? nowMs);
    if (nowMs - fromMs >= pauseMinMs) pauses.push({ fromMs, toMs: nowMs });
    link.askedMs = undefined;
    return nowMs;
  };
  let trap: Trap | undefined;

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    const link: Link = {
      near,
      far: undefined,
      held: swallowing ? [] : undefined,
      isSilenced: false,
      askedMs: undefined,
      isMeant: false,
    };
    links.add(link);
    most = Math.max(most, links.size);
    const pass = (step: () => void) => {
      if (link.held !== undefined) link.held.push(step);
      else if (!link.isSilenced) step();
    };
    // What arrives before the far side is there is kept by the socket.
    const open = () => {
      const far = connect({ port: portNow(), host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
      link.far = far;
      join("there", near, far);
      join("back", far, near);
    };
    const join = (direction: Direction, from: Socket, to: Socket) => {
      from.on("data", (chunk: Buffer) => {
        if (direction === "back") lastBackMs = noteWait(link, lastBackMs);
        else link.askedMs ??= performance.now();
        if (direction === "there" && trap?.after?.test(chunk.toString("latin1")) === true) link.isMeant = true;
        const isSprung =
          trap?.direction === direction && chunk.includes(trap.text) && (trap.after === undefined || link.isMeant);
        if (trap === undefined || !isSprung) return pass(() => to.write(chunk));
        const { text, by, spring } = trap;
        trap = undefined;
        spring();
        if (by === undefined) return reset(link);
        chunk.write(by, chunk.indexOf(text));
        pass(() => to.write(chunk));
      });
      from.on("end", () => pass(() => to.end()));
      from.on("error", () => {});
      from.on("close", () => {
        noteWait(link, Number.POSITIVE_INFINITY);
        pass(() => end(link));
      });
    };
    near.on("error", () => {});
    setTimeout(() => pass(open), delayMs);
  });

  function reset(link: Link): void {
    links.delete(link);
    link.near.resetAndDestroy();
    link.far?.resetAndDestroy();
  }

  function end(link: Link): void {
    links.delete(link);
    link.near.destroy();
    link.far?.destroy();
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => links.size,
    mostConnections: () => most,
    pauses,
    cut() {
      for (const link of links) reset(link);
    },
    swallow() {
      swallowing = true;
      for (const link of links) link.held ??= [];
    },
    restore(arrivesLate) {
      swallowing = false;
      for (const link of links) {
        const held = link.held ?? [];
        link.held = undefined;
        link.isSilenced ||= !arrivesLate();
        if (!link.isSilenced) for (const step of held) step();
      }
    },
    delay(ms) {
      delayMs = ms;
    },
    cutAt: (direction, text, after) =>
      new Promise((resolve) => {
        for (const link of links) link.isMeant = false;
        trap = { direction, text, after, by: undefined, spring: resolve };
      }),
    replace: (direction, text, by) =>
      new Promise((resolve) => {
        trap = { direction, text, after: undefined, by, spring: resolve };
      }),
    async stop() {
      const closed = once(server, "close");
      server.close();
      for (const link of links) end(link);
      await closed;
    },
  };
}
