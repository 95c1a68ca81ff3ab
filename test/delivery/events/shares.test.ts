/** Endpoints that do not answer hold up no other, however many of them a stranger finds. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { postsPerEndpointMax } from "../../../src/delivery/event-worker.ts";
import type { Posted } from "../../../src/delivery/post.ts";
import { ann } from "../../store/acts.ts";
import { endpointOf } from "../../store/endpoints.ts";
import { createWorkshop, type Workshop } from "./setup.ts";

const taken: Posted = { kind: "answered", status: 204 };

let shop: Workshop;
/** Where all POSTs so far went, and the answers that those under way wait for. */
let paths: string[];
let underWay: ((posted: Posted) => void)[];
beforeEach(async () => {
  shop = await createWorkshop();
  paths = [];
  underWay = [];
});
afterEach(async () => {
  for (const answer of underWay) answer(taken);
  await shop.end();
  if (shop.faults.length > 0) throw new Error("the worker had faults", { cause: shop.faults });
});

async function add(...names: string[]): Promise<void> {
  for (const name of names) {
    const endpoint = endpointOf(`we_${name}`, { url: `https://shop.example/${name}` });
    await shop.store.events.addEndpoint(endpoint, 1_000);
  }
}

/** Each send owes one event to each endpoint. */
async function send(times: number): Promise<void> {
  for (let i = 0; i < times; i++) await shop.acts.send(ann);
}

function work(): void {
  shop.work(({ pathname }) => {
    paths.push(pathname.slice(1));
    return new Promise((answer) => underWay.push(answer));
  });
}

const silent = (count: number) => Array.from({ length: count }, (_, i) => `silent${i}`);

test.each([
  [1, { 16: 1 }],
  [20, { 16: 8, 4: 12 }],
  [60, { 16: 8, 4: 16, 1: 36 }],
])("events of others are posted beside %i endpoints that do not answer", async (count, shares) => {
  await add(...silent(count));
  await send(2 * postsPerEndpointMax);
  work();
  const inAll = Object.entries(shares).reduce((sum, [posts, endpoints]) => sum + Number(posts) * endpoints, 0);
  await expect.poll(() => paths.length).toBeGreaterThanOrEqual(inAll);
  const counts = [...Map.groupBy(paths, (path) => path).values()].map(({ length }) => length);
  expect(Object.fromEntries([...Map.groupBy(counts, (n) => n)].map(([n, all]) => [n, all.length]))).toEqual(shares);

  await add("quick");
  await send(1);
  await expect.poll(() => paths).toContain("quick");
});
