/** First messages of TLS: a real client's, and the same with more in it. */
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { connect as connectTls } from "node:tls";

/** A record's type and version, before its length. */
const recordHeadBytes = 5;
/** A message's type and length, a version and random bytes; then its parts, each behind its length. */
const sessionIdAt = 38;

/** The first message of a client, a record with its head. */
export async function firstMessage(): Promise<Buffer> {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const client = connectTls({ port: (listener.address() as AddressInfo).port, ALPNProtocols: ["h2", "http/1.1"] });
  client.on("error", () => {});
  const [socket] = await once(listener, "connection");
  const [bytes] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  listener.close();
  return bytes;
}

/** The message of a record, without its head. */
export const messageOf = (record: Buffer): Buffer => record.subarray(recordHeadBytes);

/** The same message with one extension more. */
export function withExtension(message: Buffer, type: number, content: Buffer): Buffer {
  const ciphersAt = sessionIdAt + 1 + message.readUInt8(sessionIdAt);
  const compressionsAt = ciphersAt + 2 + message.readUInt16BE(ciphersAt);
  const extensionsAt = compressionsAt + 1 + message.readUInt8(compressionsAt);
  const more = Buffer.concat([lengthOf(type, 2), lengthOf(content.length, 2), content]);
  const grown = Buffer.concat([message, more]);
  grown.writeUIntBE(grown.length - 4, 1, 3);
  grown.writeUInt16BE(grown.length - extensionsAt - 2, extensionsAt);
  return grown;
}

/** Messages in records of so many bytes. */
export function inRecords(messages: Buffer, bytes: number): Buffer {
  const records: Buffer[] = [];
  for (let at = 0; at < messages.length; at += bytes) {
    const content = messages.subarray(at, at + bytes);
    records.push(Buffer.from([22, 3, 1]), lengthOf(content.length, 2), content);
  }
  return Buffer.concat(records);
}

/** So many names of authorities as a server may be told of in extension 47, each the shortest there is. */
export const authorities = (count: number): Buffer => listOf(Buffer.from([0, 2, 0x30, 0]), count);

/** A request for a certificate's status (extension 5) by so many names. */
export const statusBy = (count: number): Buffer =>
  Buffer.concat([Buffer.from([1]), listOf(Buffer.from([0, 4, 0xa1, 2, 0x30, 0]), count), lengthOf(0, 2)]);

function listOf(name: Buffer, count: number): Buffer {
  return Buffer.concat([lengthOf(name.length * count, 2), ...Array.from({ length: count }, () => name)]);
}

function lengthOf(value: number, bytes: number): Buffer {
  const length = Buffer.alloc(bytes);
  length.writeUIntBE(value, 0, bytes);
  return length;
}
