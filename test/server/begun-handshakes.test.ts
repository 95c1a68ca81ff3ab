/** Handshakes of TLS that are begun and not gone on with: an address that has hundreds loses its oldest, and nobody else any. */
import { once } from "node:events";
import { connect as connectTcp } from "node:net";
import { connect } from "node:tls";
import { afterEach, expect, test } from "vitest";
import { hold } from "../support/clients/strangers.ts";
import type { RawConnection } from "../support/clients/raw.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { startListener, type Listener } from "../support/service/listener.ts";

let listener: Listener;
const held: RawConnection[] = [];
afterEach(async () => {
  for (const connection of held.splice(0)) connection.destroy();
  await listener.stop(0);
});

const beginning = Buffer.from([22, 3, 1, 2, 0]);
const begin = async (from: string, count: number) => {
  const more = await hold(listener.port, from, count, beginning);
  held.push(...more);
  return more;
};

test.skipIf(lacks("handshakes that are not gone on with", "openssl"))(
  "of 600 handshakes that one address begins, the oldest go, and those of another and done ones stay",
  async () => {
    const certificate = makeCertificate("begun");
    listener = await startListener({ readCertificate: () => certificate });
    const gone: string[] = [];
    const socket = connectTcp({ port: listener.port, host: "127.0.0.1", localAddress: "127.0.0.2" });
    const secured = connect({ socket, ca: certificate.cert, servername: "begun" });
    await once(secured, "secureConnect");
    secured.on("close", () => gone.push("secured"));
    for (const each of await begin("127.0.0.3", 5)) void each.closed.then(() => gone.push("other"));
    const first = await begin("127.0.0.2", 50);
    await begin("127.0.0.2", 550);
    await Promise.all(first.map(({ closed }) => closed));
    expect(gone).toEqual([]);
    // At a time an eighth goes.
    expect(listener.connections.count).toBeGreaterThan(400);
    secured.destroy();
  },
);
