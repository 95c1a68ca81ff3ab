/**
 * Whose message it was: remembered for a while, read where it is not, and never at the cost of much memory or many reads.
 */
import { expect, test } from "vitest";
import { createConversions } from "../../src/observe/conversions.ts";
import { newMessage, type Message } from "../../src/otp/message/message.ts";

const message = (provider: string | null): Message => ({
  ...newMessage({ verificationId: "id", copy: 0, channel: "sms", now: 0, deadlineMs: 1, countedDay: null }),
  provider,
});

function ask(conversions: ReturnType<typeof createConversions>, id: string): Promise<string | undefined> {
  return new Promise((resolve) => conversions.holderOf(id, (holder) => resolve(holder?.provider)));
}

test("what was handed over here is known without a read, the latest provider first", async () => {
  let reads = 0;
  const conversions = createConversions(async () => {
    reads += 1;
    return [];
  });
  conversions.handedOver("a", { provider: "one", channel: "sms" });
  conversions.handedOver("a", { provider: "two", channel: "sms" });
  expect(await ask(conversions, "a")).toBe("two");
  expect(reads).toBe(0);
});

test("it is forgotten once it was told, since a verification is verified once", async () => {
  const conversions = createConversions(async () => [message("read")]);
  conversions.handedOver("a", { provider: "one", channel: "sms" });
  expect([await ask(conversions, "a"), await ask(conversions, "a")]).toEqual(["one", "read"]);
});

test("how it went is known with it, remembered or read", async () => {
  const conversions = createConversions(async () => [{ ...message("one"), channel: "whatsapp" }]);
  conversions.handedOver("a", { provider: "one", channel: "voice" });
  const channelOf = (id: string) =>
    new Promise((resolve) => conversions.holderOf(id, (holder) => resolve(holder?.channel)));
  expect([await channelOf("a"), await channelOf("b")]).toEqual(["voice", "whatsapp"]);
});

test("what another process handed over is read: the last message that a provider had", async () => {
  const conversions = createConversions(async () => [message("one"), message("two"), message(null)]);
  expect(await ask(conversions, "b")).toBe("two");
});

test.each<[string, () => Promise<Message[]>]>([
  ["no provider had it", async () => [message(null)]],
  ["it is gone", async () => []],
  ["the database does not answer", () => Promise.reject(new Error("down"))],
])("nobody's when %s", async (_, read) => {
  expect(await ask(createConversions(read), "c")).toBeUndefined();
});

test("at most 4 reads are under way; the rest is nobody's at once", async () => {
  const answer = Promise.withResolvers<Message[]>();
  let reads = 0;
  const conversions = createConversions(() => {
    reads += 1;
    return answer.promise;
  });
  const asked = Array.from({ length: 10 }, (_, i) => ask(conversions, `${i}`));
  expect(await Promise.all(asked.slice(4))).toEqual(Array(6).fill(undefined));
  expect(reads).toBe(4);
  answer.resolve([message("one")]);
  expect(await Promise.all(asked.slice(0, 4))).toEqual(Array(4).fill("one"));
});

test("at least the latest 16,384 are remembered, and no more than twice as many", async () => {
  const conversions = createConversions(async () => []);
  for (let i = 0; i < 100_000; i += 1) conversions.handedOver(`${i}`, { provider: "one", channel: "sms" });
  const known = await Promise.all(Array.from({ length: 100_000 }, (_, i) => ask(conversions, `${i}`)));
  const count = known.filter((provider) => provider === "one").length;
  expect(count).toBeGreaterThanOrEqual(16_384);
  expect(count).toBeLessThanOrEqual(32_768);
  expect(known.slice(-16_384).every((provider) => provider === "one")).toBe(true);
});
