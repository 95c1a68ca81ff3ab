/** What a receiver can do to whoever posts to it. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { createPost, createResolve } from "../../src/delivery/post.ts";

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
  const post = createPost({ isAllowed: () => true, resolve });
  const deadline = new AbortController();
  const ended: string[] = [];
  const posts = Array.from({ length: 8 }, async (_, i) => {
    ended.push(JSON.stringify(await post(new URL(`https://hook${i}.example/`), {}, "{}", deadline.signal)));
  });
  expect((await resolve("localhost")).length).toBeGreaterThan(0);
  expect(ended).toEqual([]);
  deadline.abort();
  await Promise.all(posts);
  expect(ended).toEqual(Array(8).fill(JSON.stringify({ kind: "unanswered", why: "it did not answer in time" })));
  silent.close();
});
