/**
 * An SMS centre that speaks SMPP 3.4 as far as a gateway needs it: it takes every message, and reports at once that it was
 * delivered. It checks no password.
 */
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";

export interface SmsCentre {
  readonly port: number;
  /** Resolves with the next message that is taken. */
  next(): Promise<CentreMessage>;
  stop(): Promise<void>;
}

export interface CentreMessage {
  readonly from: string;
  readonly to: string;
  /** As the gateway has encoded it. */
  readonly text: Buffer;
}

const headBytes = 16;
const commands = { submit: 0x4, deliver: 0x5, unbind: 0x6, bindTransceiver: 0x9, enquireLink: 0x15 } as const;
const response = 0x8000_0000;
/** A delivery receipt, in a short message's class. */
const receiptClass = 0x04;

export async function startSmsCentre(): Promise<SmsCentre> {
  const sockets = new Set<Socket>();
  const taken: CentreMessage[] = [];
  let wake = () => {};
  const server = createServer((socket) => {
    sockets.add(socket);
    let kept: Buffer = Buffer.alloc(0);
    let messages = 0;
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      kept = Buffer.concat([kept, chunk]);
      while (kept.length >= headBytes && kept.length >= kept.readUInt32BE(0)) {
        const length = kept.readUInt32BE(0);
        answer(kept.readUInt32BE(4), kept.readUInt32BE(12), kept.subarray(headBytes, length));
        kept = kept.subarray(length);
      }
    });

    function answer(command: number, sequence: number, body: Buffer): void {
      if (command === commands.bindTransceiver) socket.write(pdu(command + response, sequence, text("centre")));
      if (command === commands.enquireLink || command === commands.unbind)
        socket.write(pdu(command + response, sequence));
      if (command !== commands.submit) return;
      const message = messageOf(body);
      const id = `${++messages}`;
      socket.write(pdu(command + response, sequence, text(id)));
      socket.write(pdu(commands.deliver, messages, receiptOf(message, id)));
      taken.push(message);
      wake();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async next() {
      while (taken.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return taken.shift() as CentreMessage;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}

const text = (value: string) => Buffer.from(`${value}\0`, "latin1");

function pdu(command: number, sequence: number, body: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(headBytes);
  for (const [i, field] of [headBytes + body.length, command, 0, sequence].entries()) head.writeUInt32BE(field, 4 * i);
  return Buffer.concat([head, body]);
}

/** The fields of a submit: texts end with a zero, and all else is a byte. */
function messageOf(body: Buffer): CentreMessage {
  let at = 0;
  const readText = () => {
    const end = body.indexOf(0, at);
    const value = body.toString("latin1", at, end);
    at = end + 1;
    return value;
  };
  readText();
  at += 2;
  const from = readText();
  at += 2;
  const to = readText();
  at += 3;
  readText();
  readText();
  at += 4;
  const length = body[at++] as number;
  return { from, to, text: body.subarray(at, at + length) };
}

function receiptOf({ from, to }: CentreMessage, id: string): Buffer {
  const words = Buffer.from(
    `id:${id} sub:001 dlvrd:001 submit date:2601011200 done date:2601011200 stat:DELIVRD err:000 text:`,
    "latin1",
  );
  const international = Buffer.from([1, 1]);
  return Buffer.concat([
    text(""),
    international,
    text(to),
    international,
    text(from),
    Buffer.from([receiptClass, 0, 0]),
    text(""),
    text(""),
    Buffer.from([0, 0, 0, 0, words.length]),
    words,
  ]);
}
