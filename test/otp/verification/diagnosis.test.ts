/** What the user's problem is, case by case. */
import { expect, test } from "vitest";
import { diagnose } from "../../../src/otp/verification/diagnosis.ts";
import {
  emptyLog,
  withNote,
  type ProviderCallOutcome,
  type Verification,
} from "../../../src/otp/verification/verification.ts";
import { newMessage, type Message } from "../../../src/otp/message/message.ts";

const opened = {
  id: "AAECAwQFBgcICQoLDA0ODw",
  state: "PENDING",
  createMs: 0,
  expireMs: 600_000,
  endMs: null,
  attempts: 0,
  resends: 0,
  fallback: null,
  log: emptyLog,
} as unknown as Verification;
const given: Partial<Message> = { dueMs: null, provider: "one" };
const message = (change: Partial<Message>): Message => ({
  ...newMessage({ verificationId: opened.id, copy: 0, channel: "sms", deadlineMs: 540_000, countedDay: null, now: 0 }),
  ...given,
  ...change,
});
const taken = message({ delivery: "ACCEPTED", maybeSent: true });
const lost = message({ delivery: "UNDELIVERED", maybeSent: true, detail: "absent subscriber" });
const arrived = message({ delivery: "DELIVERED", maybeSent: true });
const refused = (outcome: ProviderCallOutcome, change: Partial<Message> = {}) => ({
  verification: withNote(opened, { kind: "call", outcome, provider: "one", copy: 0 }, 5),
  messages: [message({ delivery: "REJECTED", ...change })],
});

test.each<[string, Partial<Verification>, Message[]]>([
  [
    "Two texts were accepted, none delivered; the carrier says absent subscriber; no code was typed so far.",
    {},
    [lost, lost],
  ],
  [
    "Two texts were accepted; one was not delivered, and of the other no report has come; the carrier says absent subscriber; no code was typed so far.",
    {},
    [lost, { ...taken, copy: 1 }],
  ],
  [
    "Three texts were accepted; one was not delivered, and of the others no report has come; without a word on why; no code was typed so far.",
    {},
    [taken, { ...lost, detail: null }, taken],
  ],
  [
    "One text was accepted, and was not delivered; the carrier says absent subscriber; no code was typed so far.",
    {},
    [lost],
  ],
  [
    "One text was accepted, and was not delivered; without a word on why; no code was typed before its time was over.",
    { state: "EXPIRED" },
    [{ ...lost, detail: null }],
  ],
  ["One text was accepted, and no report of its delivery has come; no code was typed so far.", {}, [taken]],
  ["One text was delivered; no code was typed so far.", {}, [arrived]],
  ["One text was delivered; two wrong codes were typed so far.", { attempts: 2 }, [arrived, lost]],
  [
    "One text was delivered; one wrong code was typed before its time was over.",
    { attempts: 1, expireMs: 1 },
    [arrived],
  ],
  [
    "One text was delivered, and five wrong codes were typed, which locked it.",
    { state: "LOCKED", attempts: 5 },
    [arrived],
  ],
  ["Two messages were delivered; no code was typed so far.", {}, [arrived, { ...arrived, channel: "voice" }]],
  ["Two calls were delivered; no code was typed so far.", {}, [1, 2].map(() => ({ ...arrived, channel: "voice" }))],
  ["The right code was typed 34 s after it was asked for.", { state: "VERIFIED", endMs: 34_200 }, [arrived]],
  ["It was canceled before the right code was typed; one text was delivered.", { state: "CANCELED" }, [arrived]],
  ["A text waits for a provider; no code was typed so far.", {}, [message({ delivery: "QUEUED", dueMs: 3 })]],
  [
    "It is not known whether a text left: the provider gave no answer that tells; no code was typed before its time was over.",
    { state: "EXPIRED" },
    [message({ delivery: "EXPIRED", maybeSent: true })],
  ],
  ["Nothing is known of a message; no code was typed so far.", {}, []],
])("%s", (sentence, change, messages) => {
  expect(diagnose({ ...opened, ...change }, messages, 10)).toBe(sentence);
});

test.each<[ProviderCallOutcome, string]>([
  ["recipient", "No message left: one refuses this number (why), so it failed."],
  ["credentials", "No message left: one refuses our credentials (why), so it failed."],
  ["balance", "No message left: our balance with one is used up (why), so it failed."],
  ["content", "No message left: one refuses the text (why), so it failed."],
  ["throttled", "No message left: one asks us to wait (why), so it failed."],
  ["unavailable", "No message left: one could not be reached (why), so it failed."],
  ["given-up", "No message left: it was given up before any provider was asked (why), so it failed."],
])("a message whose last call came to %s", (outcome, sentence) => {
  const { verification, messages } = refused(outcome, { detail: "why" });
  expect(diagnose({ ...verification, state: "FAILED" }, messages, 10)).toBe(sentence);
});

/** What came of calls, one after the other: of which message, by whom, and what. */
const after = (...calls: [copy: number, provider: string, outcome: ProviderCallOutcome][]): Verification =>
  calls.reduce((of, [copy, provider, outcome]) => withNote(of, { kind: "call", outcome, provider, copy }, 5), opened);
const unknown = message({ delivery: "EXPIRED", maybeSent: true, provider: "two", detail: "bad request" });
const onWhatsApp = message({ copy: 1, channel: "whatsapp", delivery: "REJECTED", provider: "wa", detail: "not there" });

test.each<[string, Verification, Message[]]>([
  [
    "It is not known whether a text left: one gave no answer that tells; no code was typed so far.",
    after([0, "one", "ambiguous"], [0, "two", "content"]),
    [unknown],
  ],
  [
    "It is not known whether a text left: one gave no answer that tells; no code was typed so far.",
    after([0, "one", "ambiguous"], [0, "two", "content"], [1, "wa", "recipient"]),
    [unknown, onWhatsApp],
  ],
  [
    "A text waits for a provider; no code was typed so far.",
    after([0, "one", "throttled"], [1, "wa", "recipient"]),
    [message({ delivery: "QUEUED", dueMs: 3 }), onWhatsApp],
  ],
  [
    "No message left: two asks us to wait (HTTP 429); no code was typed so far.",
    after([0, "one", "throttled"], [1, "wa", "recipient"], [0, "two", "throttled"]),
    [message({ delivery: "EXPIRED", provider: "two", detail: "HTTP 429" }), onWhatsApp],
  ],
  [
    "No message left: wa refuses this number (not there); no code was typed so far.",
    after([0, "two", "throttled"], [1, "wa", "recipient"]),
    [message({ delivery: "EXPIRED", provider: "two", detail: "HTTP 429" }), onWhatsApp],
  ],
  [
    "No message left: one could not be reached; no code was typed so far.",
    after([0, "two", "throttled"], [0, "one", "unavailable"]),
    [message({ delivery: "EXPIRED", provider: "two", detail: "HTTP 429" })],
  ],
])("of several calls: %s", (sentence, verification, messages) => {
  expect(diagnose(verification, messages, 10)).toBe(sentence);
});
