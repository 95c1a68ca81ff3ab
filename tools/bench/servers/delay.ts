/**
 * A TCP proxy that holds back what comes from the other side, so that a round trip takes so much longer.
 *
 *   delay.ts '{"port":5432,"ms":5}'
 */
import { connect, createServer, type AddressInfo } from "node:net";

export interface DelayOptions {
  /** Of this machine. */
  readonly port: number;
  readonly ms: number;
}

const { port, ms } = JSON.parse(process.argv[2] ?? "{}") as DelayOptions;

const server = createServer({ noDelay: true }, (near) => {
  const far = connect({ port, host: "127.0.0.1", noDelay: true });
  near.pipe(far);
  far.on("data", (chunk: Buffer) => setTimeout(() => near.write(chunk), ms));
  for (const [from, to] of [
    [near, far],
    [far, near],
  ] as const) {
    from.on("error", () => to.destroy());
    from.on("close", () => to.destroy());
  }
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`port ${(server.address() as AddressInfo).port}\n`);
});
process.on("SIGTERM", () => process.exit(0));
