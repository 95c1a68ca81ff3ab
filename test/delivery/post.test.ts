/** What a receiver can do to whoever posts to it. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { createPost, createResolve } from "../../src/delivery/post.ts";
import { stopwatchMs } from "../../src/system.ts";

test("an answer that begins and does not end keeps no connection open", async () => {
  const closed = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("close", closed.resolve);
    socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx"));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const post = createPost({ isAllowed: () => true });
  // Once there is an answer the worker aborts no more.
  expect(await post(url, {}, "{}", new AbortController().signal)).toEqual({ kind: "answered", status: 200 });
  await closed.promise;
  server.close();
});

test("a name whose servers say nothing is given up, and holds up no other", async () => {
  const silent = createSocket("udp4").bind(0, "127.0.0.1");
  await once(silent, "listening");
  const resolve = createResolve([`127.0.0.1:${silent.address().port}`]);
  const beganMs = stopwatchMs();
  const post = createPost({ isAllowed: () => true, resolve });
  const posts = Array.from({ length: 8 }, (_, i) =>
    post(new URL(`https://hook${i}.example/`), {}, "{}", AbortSignal.timeout(1_500)),
  );
  expect((await resolve("localhost")).length).toBeGreaterThan(0);
  expect(stopwatchMs() - beganMs).toBeLessThan(1_000);
  expect(new Set((await Promise.all(posts)).map((posted) => JSON.stringify(posted)))).toEqual(
    new Set([JSON.stringify({ kind: "unanswered", why: "it did not answer in time" })]),
  );
  expect(stopwatchMs() - beganMs).toBeLessThan(3_000);
  silent.close();
});
