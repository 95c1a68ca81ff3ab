/** Endpoints that do not answer hold up no other, however many of them a stranger finds. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { postsPerEndpointMax } from "../../../src/delivery/event-shares.ts";
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

test.each([1, 20, 60])("events of others are posted beside %i endpoints that do not answer", async (count) => {
  await add(...silent(count));
  await send(2 * postsPerEndpointMax);
  work();
  await expect.poll(() => paths.length).toBeGreaterThanOrEqual(Math.min(count * postsPerEndpointMax, 128));
  await add("quick");
  shop.system.advance(1);
  await send(1);
  await expect.poll(() => paths.includes("quick") || paths.length === 256).toBe(true);
  expect(paths).toContain("quick");
});

test("an endpoint that did not answer has one POST at a time, until it answers", async () => {
  await add("silent");
  await send(4 * postsPerEndpointMax);
  work();
  await expect.poll(() => paths).toHaveLength(postsPerEndpointMax);
  underWay = [];
  shop.losePatience();
  await expect.poll(() => shop.tried).toHaveLength(postsPerEndpointMax);
  await expect.poll(() => underWay.length).toBeGreaterThan(0);
  // What is claimed together is begun together.
  expect(underWay).toHaveLength(1);

  underWay.pop()?.(taken);
  await expect.poll(() => underWay).toHaveLength(postsPerEndpointMax);
});
