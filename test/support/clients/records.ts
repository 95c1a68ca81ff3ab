/**
 * TLS whose records a test decides: a byte in each, where any other client puts in as much as fits.
 */
import { once } from "node:events";
import { Duplex } from "node:stream";
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from "node:tls";
import { openRaw, type RawConnection } from "./raw.ts";

export interface RecordConnection {
  /** What comes from the server, decrypted. */
  readonly raw: RawConnection;
  /** Sends these bytes in a record each, all of them at once. */
  send(bytes: string | Uint8Array): Promise<void>;
  /** Makes the same records, and returns what sends them. */
  prepare(bytes: string | Uint8Array): Promise<() => void>;
}

/** Opens a connection by TLS to 127.0.0.1, from any address of this machine's own. */
export async function openRecords(port: number, options: ConnectionOptions, from?: string): Promise<RecordConnection> {
  const { socket: below } = await openRaw(port, undefined, from);
  let held: Buffer[] | undefined;
  // What TLS writes goes by way of here, where it can be kept until there is all of it.
  const wire = new Duplex({
    read() {},
    write(chunk: Buffer, _, done) {
      if (held === undefined) below.write(chunk, () => done());
      else {
        held.push(chunk);
        done();
      }
    },
    destroy(_, done) {
      below.destroy();
      done(null);
    },
  });
  below.on("data", (chunk: Buffer) => wire.push(chunk));
  below.on("close", () => wire.destroy());
  const socket: TLSSocket = connectTls({ socket: wire, rejectUnauthorized: false, ...options });
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  async function prepare(bytes: string | Uint8Array): Promise<() => void> {
    const records: Buffer[] = (held = []);
    // A write that has to wait for another shares its record.
    for (const byte of Buffer.from(bytes as string, "latin1"))
      await new Promise<void>((done) => socket.write(Buffer.of(byte), () => done()));
    held = undefined;
    return () => {
      if (!below.destroyed) below.write(Buffer.concat(records));
    };
  }
  return {
    raw: await openRaw(port, socket),
    prepare,
    send: async (bytes) => (await prepare(bytes))(),
  };
}
