/**
 * Who is let in to what operators ask, by the connection's other end. On real sockets a test is always this machine, so
 * the other end is told to the visit here.
 */
import { expect, test } from "vitest";
import { createOperations } from "../../src/server/operations.ts";

let rendered = 0;
let nowMs = 0;
const visitFor = (access: "loopback" | "on") => {
  const render = async () => ({ type: "text/plain", body: `${(rendered += 1)}` });
  const visit = createOperations({ metrics: { access, render }, judge: async () => ({}), now: () => nowMs })(
    "/metrics",
  );
  if (visit === undefined) throw new Error("there are no metrics");
  return async (peer: string | undefined, headers: Record<string, string> = {}) => {
    const answer = await visit.answer({ method: "GET", target: "/metrics", headers, body: new Uint8Array(), peer });
    return answer.ok ? Number(answer.value.body) : answer.refusal.reason;
  };
};

const others = ["192.0.2.7", "10.0.0.1", "::ffff:192.0.2.7", "2001:db8::1", "::", "128.0.0.1", undefined];
const own = ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"];

test.each(others)("on loopback, %s finds nothing there, whatever it says", async (peer) => {
  const read = visitFor("loopback");
  expect(await read(peer)).toBe("ROUTE_NOT_FOUND");
  for (const name of ["x-forwarded-for", "x-real-ip", "forwarded"]) {
    expect(await read(peer, { [name]: name === "forwarded" ? "for=127.0.0.1" : "127.0.0.1" })).toBe("ROUTE_NOT_FOUND");
  }
});

test.each(own)("on loopback, %s reads them", async (peer) => {
  expect(await visitFor("loopback")(peer)).toBeTypeOf("number");
});

test("when they are on, everybody reads them; strangers get what is up to a second old", async () => {
  const read = visitFor("on");
  rendered = 0;
  nowMs = 10_000;
  expect(await Promise.all(Array.from({ length: 100 }, () => read("192.0.2.7")))).toEqual(Array(100).fill(1));
  nowMs += 999;
  expect(await read("2001:db8::1")).toBe(1);
  expect(await read("127.0.0.1")).toBe(2);
  expect(await read("127.0.0.1")).toBe(3);
  nowMs += 1;
  expect(await read("192.0.2.7")).toBe(4);
});

test("without metrics there is no such path", () => {
  expect(createOperations({ metrics: undefined, judge: async () => ({}), now: () => 0 })("/metrics")).toBeUndefined();
});
