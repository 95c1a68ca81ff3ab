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

test("names that DNS does not know hold one of the system's look-ups at a time, and each name one in all", async () => {
  const unknowing = createSocket("udp4").bind(0, "127.0.0.1");
  await once(unknowing, "listening");
  unknowing.on("message", (query, from) => {
    // An answer to it: no such name.
    query[2] = (query[2] ?? 0) | 0x80;
    query[3] = 0x83;
    unknowing.send(query, from.port, from.address);
  });
  const asked: string[] = [];
  let [underWay, most] = [0, 0];
  const resolve = createResolve([`127.0.0.1:${unknowing.address().port}`], async (host) => {
    asked.push(host);
    most = Math.max(most, (underWay += 1));
    await new Promise((goOn) => setTimeout(goOn, 50));
    underWay -= 1;
    throw new Error("no such name");
  });
  const hosts = ["one.example", "two.example", "three.example"];
  const ends = await Promise.allSettled(Array.from({ length: 12 }, (_, i) => resolve(hosts[i % 3] ?? "")));
  expect(new Set(ends.map(({ status }) => status))).toEqual(new Set(["rejected"]));
  expect(most).toBe(1);
  expect(asked.length).toBeLessThan(12);
  expect(new Set(asked)).toEqual(new Set(hosts));
  unknowing.close();
});
