/**
 * What is driven: each target is one or more server processes, and lanes that run a cycle (a send and its verify, or two
 * calls that do nothing) on them.
 */
import { join } from "node:path";
import { startPostgres, type PostgresServer } from "../../../test/support/databases/postgres.ts";
import type { BetterAuthOptions } from "../servers/better-auth-server.ts";
import { openGrpcCalls } from "./grpc.ts";
import { fromClone } from "./installed.ts";
import { openClient, type Client, type CodeBox, type Lane } from "./load.ts";
import { randomPhone, userPhone } from "./phones.ts";
import { type Place, type Prepared, productionEnv } from "./prepared.ts";
import { pinServer, startServer, type Begun, type Server } from "./processes.ts";
import type { ServiceOptions } from "../servers/service.ts";

export interface Target {
  readonly name: string;
  /** What an answer that was given survives. */
  readonly durability: string;
  /** The processes that are billed, by what they are. */
  readonly bill: Readonly<Record<string, readonly number[]>>;
  /** Opens so many lanes, evenly over its servers. */
  open(count: number): Lane[];
  close(): Promise<void>;
}

/** Starts the service on a database, with what `npm start` gives Node. */
export function startService(
  { folder, codes }: Place,
  { url }: Prepared,
  options: Omit<ServiceOptions, "codes"> = {},
  env: Readonly<Record<string, string>> = {},
  { nodeArgs = [], prefix = [] }: Begun = {},
): Promise<Server> {
  const given: ServiceOptions = { codes: codes.path, ...options };
  const all = [...fromClone().nodeArgs, ...nodeArgs];
  return startServer(
    folder,
    "service.ts",
    [JSON.stringify(given)],
    { ...productionEnv(url), ...env },
    { nodeArgs: all, prefix },
  );
}

/** The send of a cycle over REST; resolves with the request_id. */
export async function sendOver(client: Client, phone: string, headers = ""): Promise<string> {
  const sent = await client.post("/v1/otp/send", `{"phone":"${phone}"}`, headers);
  const id = /"request_id":"([^"]+)"/.exec(sent.body)?.[1];
  if (sent.status !== 200 || id === undefined) throw new Error(`send answered ${sent.status} ${sent.body}`);
  return id;
}

/** A lane of the service over REST. */
export function restLane({ port }: Pick<Server, "port">, key: string, codes: CodeBox): Lane {
  const client = openClient(port, key);
  return {
    async cycle(fromMs) {
      const phone = randomPhone();
      const id = await sendOver(client, phone);
      const sendMs = performance.now() - fromMs;
      const code = await codes.codeFor(phone);
      const verifyFromMs = performance.now();
      const { status, body } = await client.post("/v1/otp/verify", `{"request_id":"${id}","code":"${code}"}`);
      if (status !== 200) throw new Error(`verify answered ${status} ${body}`);
      return { sendMs, verifyMs: performance.now() - verifyFromMs };
    },
    close: client.close,
  };
}

/** The service on SQLite. */
export async function sqliteTarget(
  place: Place,
  name: string,
  prepared: Prepared,
  options: Omit<ServiceOptions, "codes"> = {},
  begun: Begun = {},
): Promise<Target & { readonly server: Server }> {
  const server = await startService(place, prepared, options, {}, begun);
  return {
    server,
    name,
    durability: "power loss",
    bill: { service: [server.pid] },
    open: (count) => lanes(count, () => restLane(server, prepared.key, place.codes)),
    close: () => server.stop(),
  };
}

/** The same server's lanes over gRPC. Billed with `target`. */
export async function grpcTarget(place: Place, name: string, prepared: Prepared): Promise<Target> {
  const server = await startService(place, prepared);
  return {
    name,
    durability: "power loss",
    bill: { service: [server.pid] },
    open: (count) =>
      openGrpcCalls(server.port, prepared.key, count).map((calls) => ({
        async cycle(fromMs) {
          const phone = randomPhone();
          const id = await calls.send(phone);
          const sendMs = performance.now() - fromMs;
          const code = await place.codes.codeFor(phone);
          const verifyFromMs = performance.now();
          await calls.verify(id, code);
          return { sendMs, verifyMs: performance.now() - verifyFromMs };
        },
        close: calls.close,
      })),
    close: () => server.stop(),
  };
}

/** Two calls of a connect-node handler that does nothing. */
export function noopTarget(place: Place): Promise<Target> {
  return nothingTarget(place, "noop.ts", "connect-node no-op, two calls");
}

/** Two calls of Node's own HTTP server. */
export function rawTarget(place: Place): Promise<Target> {
  return nothingTarget(place, "raw.ts", "node:http alone, two calls");
}

async function nothingTarget({ folder }: Place, script: string, name: string): Promise<Target> {
  const server = await startServer(folder, script, []);
  return twoCallsTarget(name, server, (count) =>
    Array.from({ length: count }, () => {
      const client = openClient(server.port, "none");
      const call = async (method: string, body: string) => {
        const { status } = await client.post(`/otp.v1.OtpService/${method}`, body);
        if (status !== 200) throw new Error(`the no-op answered ${status}`);
      };
      return {
        send: () => call("SendOtp", `{"phone":"${randomPhone()}"}`),
        verify: () => call("VerifyOtp", `{"requestId":"${anyId}","code":"123456"}`),
        close: client.close,
      };
    }),
  );
}

/** The same over gRPC. */
export async function grpcNoopTarget({ folder }: Place): Promise<Target> {
  const server = await startServer(folder, "noop.ts", ["http2"]);
  return grpcTwoCallsTarget("connect-node no-op over gRPC, two calls", server, "none");
}

/** What a server is asked for that knows no verification. */
export const anyId = "A".repeat(22);

/** One caller of a server that answers a send and a verify with what it always answers. */
interface TwoCalls {
  send(): Promise<unknown>;
  verify(): Promise<unknown>;
  close(): void;
}

/** A target whose two calls change nothing, so that neither needs anything of the other's. */
export function twoCallsTarget(name: string, server: Server, open: (count: number) => TwoCalls[]): Target {
  return {
    name,
    durability: "–",
    bill: { service: [server.pid] },
    open: (count) =>
      open(count).map(({ send, verify, close }) => ({
        async cycle(fromMs) {
          await send();
          const verifyFromMs = performance.now();
          await verify();
          return { sendMs: verifyFromMs - fromMs, verifyMs: performance.now() - verifyFromMs };
        },
        close,
      })),
    close: () => server.stop("SIGKILL"),
  };
}

/** The same over gRPC, with `key`. */
export function grpcTwoCallsTarget(name: string, server: Server, key: string): Target {
  return twoCallsTarget(name, server, (count) =>
    openGrpcCalls(server.port, key, count).map(({ send, verify, close }) => ({
      send: () => send(randomPhone()),
      verify: () => verify(anyId, "123456"),
      close,
    })),
  );
}

/** A PostgreSQL on the servers' core that flushes every commit; all else as it comes. */
export async function startDatabase(): Promise<PostgresServer> {
  const postgres = await startPostgres(["-c", "fsync=on"]);
  pinServer(postgres.pid);
  return postgres;
}

/** The service on PostgreSQL: `servers` are the instances that share the load. */
export function postgresTarget(
  { codes }: Place,
  name: string,
  postgres: PostgresServer,
  { key }: Prepared,
  servers: readonly Server[],
): Target {
  return {
    name,
    durability: "power loss",
    bill: { service: servers.map(({ pid }) => pid), PostgreSQL: [postgres.pid] },
    open: (count) => lanes(count, (i) => restLane(servers[i % servers.length] as Server, key, codes)),
    // The instances are shared by several targets, and end with the database.
    close: () => Promise.resolve(),
  };
}

export interface Peer {
  readonly server: Server;
  /** Its target with or without the session that a verify opens unless told not to. */
  target(name: string, durability: string, hasSession: boolean): Target;
}

/** Sends to its users in turn, so that no two lanes text one number at a time. */
const peerUsers = 20_000;

/** better-auth on SQLite, with what SQLite is told at its start. */
export async function startPeer(
  { folder, codes }: Place,
  entry: string,
  name: string,
  pragmas: readonly string[],
): Promise<Peer> {
  const database = join(folder, `${name}.db`);
  const options: BetterAuthOptions = { entry, database, codes: codes.path, users: peerUsers, pragmas };
  const env = { NODE_ENV: "production", BETTER_AUTH_TELEMETRY: "0" };
  const server = await startServer(folder, "better-auth-server.ts", [JSON.stringify(options)], env);
  let turn = 0;
  const cycle = async (client: Client, fromMs: number, rest: string) => {
    turn += 1;
    const phone = userPhone(turn % peerUsers);
    const sent = await client.post("/api/auth/phone-number/send-otp", `{"phoneNumber":"${phone}"}`);
    const sendMs = performance.now() - fromMs;
    if (sent.status !== 200) throw new Error(`better-auth's send answered ${sent.status} ${sent.body}`);
    const code = await codes.codeFor(phone);
    const verifyFromMs = performance.now();
    const body = `{"phoneNumber":"${phone}","code":"${code}"${rest}}`;
    const verified = await client.post("/api/auth/phone-number/verify", body);
    if (verified.status !== 200) throw new Error(`better-auth's verify answered ${verified.status} ${verified.body}`);
    return { sendMs, verifyMs: performance.now() - verifyFromMs };
  };
  return {
    server,
    target: (targetName, durability, hasSession) => ({
      name: targetName,
      durability,
      bill: { service: [server.pid] },
      open: (count) =>
        lanes(count, () => {
          const client = openClient(server.port, "none");
          const rest = hasSession ? "" : `,"disableSession":true`;
          return { cycle: (fromMs) => cycle(client, fromMs, rest), close: client.close };
        }),
      close: () => server.stop("SIGKILL"),
    }),
  };
}

function lanes(count: number, open: (i: number) => Lane): Lane[] {
  return Array.from({ length: count }, (_, i) => open(i));
}
