/** Whoever has a connection open is answered soon beside connections that are kept full of requests, without waiting for answers. */
import { connect } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { Page } from "../../src/server/pages/pages.ts";
import { callText, openRaw } from "../support/clients/raw.ts";
import { hold, whenAnswered } from "../support/clients/strangers.ts";
import { startListener } from "../support/service/listener.ts";

const page: Page = {
  methods: ["GET"],
  answer: async () => ({ ok: true, value: { type: "text/plain", body: "page" } }),
};
/** A network that many share. */
const shared = [{ address: "127.0.1.0", bits: 24 }];
const get = "GET /page HTTP/1.1\r\nhost: otpd\r\n\r\n";
const bytewise = "1\r\n \r\n".repeat(50);
const chunked = callText("wrong key", "").replace("content-length: 0", "transfer-encoding: chunked");

test.each([
  ["an address", ["127.0.0.2"], "127.0.0.3", get, 0],
  ["two", ["127.0.0.2", "127.0.0.4"], "127.0.0.3", get, 0],
  ["its own address", ["127.0.0.2"], "127.0.0.2", get, 0],
  ["its own address, while others wait,", ["127.0.0.2"], "127.0.0.2", get, 40],
  ["an address, beside others who share theirs,", ["127.0.0.2"], "127.0.1.3", get, 300],
  ["its own address, in chunks of a byte,", ["127.0.0.2"], "127.0.0.2", `${chunked}${bytewise}0\r\n\r\n`, 0],
])("an open connection is read from beside a crowd of %s that pipelines", async (_, crowd, own, text, idle) => {
  const listener = await startListener({ pageOf: (path) => (path === "/page" ? page : undefined), shared });
  onTestFinished(() => listener.stop(0));
  const others = await hold(listener.port, "127.0.1.5", idle, get);
  await whenAnswered(others);
  onTestFinished(() => {
    for (const each of others) each.destroy();
  });
  const open = await openRaw(listener.port, undefined, own);
  const answers = (count: number) =>
    open.until(() => (open.text().split("HTTP/1.1 200").length > count ? true : undefined));
  open.write(get);
  await answers(1);
  const sockets = Array.from({ length: 30 }, () =>
    crowd.map((localAddress) => connect({ port: listener.port, host: "127.0.0.1", localAddress }).resume()),
  ).flat();
  onTestFinished(() => {
    for (const each of [open.socket, ...sockets]) each.destroy();
  });
  for (const socket of sockets) socket.on("error", () => {}).write(text.repeat(2_000));
  await listener.came(1_000);
  const before = listener.asked;
  for (let i = 0; i < 5; i += 1) {
    open.write(get);
    await answers(i + 2);
  }
  // Up to 625 for each: a few turns, of which one may have what is read in it, what was read before, and what those of one connection
  // bring on top. As many again where it is not there yet when its turn comes.
  expect(listener.asked - before).toBeLessThan(7_000);
});
