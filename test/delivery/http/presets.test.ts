/**
 * Each preset against a gateway that answers in that provider's own documented words, in a process of its own, over HTTPS:
 * what it is asked, its success, each refusal, its throttling, and a report with its signature. None was tried live.
 */
import { fork, type ChildProcess } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readHttpProviders } from "../../../src/delivery/providers/http/file.ts";
import { presetNames } from "../../../src/delivery/providers/http/preset.ts";
import { createHttpProvider } from "../../../src/delivery/providers/http/provider.ts";
import type { Provider } from "../../../src/delivery/provider.ts";
import type { SendOutcome } from "../../../src/otp/message/message.ts";
import { jsonType, type SentReport } from "../../support/data/channel-presets.ts";
import { manuals, path } from "../../support/data/presets.ts";
import type { GatewayWord, ScriptedReply } from "../../support/fakes/scripted-gateway.ts";
import { lacks } from "../../support/machine.ts";
import { temporaryFolder } from "../../support/service/world.ts";
import { certificateIn } from "../../support/network/certificate.ts";
import { trust } from "../provider/setup.ts";
import { patience, publicUrl, sms } from "./setup.ts";

type Asked = Extract<GatewayWord, { kind: "asked" }>;
describe.skipIf(lacks("presets over HTTPS", "openssl")).each(presetNames)("the preset %s", (name) => {
  const {
    entry,
    message = sms,
    secret,
    reportSecret,
    asked,
    taken,
    id,
    refusals,
    throttled,
    report,
    statuses,
  } = manuals[name];
  const { reference } = sms;
  const folder = temporaryFolder();
  const nowMs = Date.now();
  let child: ChildProcess;
  let provider: Provider;
  const heard: Asked[] = [];

  const tell = (reply: ScriptedReply) =>
    new Promise<void>((resolve) => {
      const listen = (word: GatewayWord) => {
        if (word.kind !== "told") return;
        child.off("message", listen);
        resolve();
      };
      child.on("message", listen);
      child.send(reply);
    });
  async function outcomeOf(reply: ScriptedReply): Promise<SendOutcome> {
    await tell(reply);
    return provider.send(message, patience());
  }

  beforeAll(async () => {
    const certificate = certificateIn(folder);
    trust(certificate);
    const file = fileURLToPath(new URL("../../support/fakes/scripted-gateway.ts", import.meta.url));
    child = fork(file, [certificate.cert, certificate.key], { stdio: "ignore" });
    const [first] = (await once(child, "message")) as [Extract<GatewayWord, { kind: "port" }>];
    child.on("message", (word: GatewayWord) => {
      if (word.kind === "asked") heard.push(word);
    });
    const { declarations, faults } = readHttpProviders(JSON.stringify({ providers: [{ preset: name, ...entry }] }), []);
    const [declared] = declarations;
    if (declared === undefined) throw new Error(faults.join("\n"));
    const url = declared.url.replace(/^https?:\/\/[^/]+/, `https://127.0.0.1:${first.port}`);
    provider = createHttpProvider({
      declaration: { ...declared, url },
      secret,
      reportSecret,
      publicUrl,
      originators: new Map(),
      now: () => nowMs,
    });
  });
  afterAll(() => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  test("asks what the manual says, and takes its success", async () => {
    const outcome = await outcomeOf(taken);
    expect(outcome).toEqual({ kind: "accepted", ...(id === undefined ? {} : { providerMessageId: id }) });
    // What the gateway tells of a request comes before what it tells of a later order.
    await tell(taken);
    const [{ method, path: target, headers, body } = {} as Asked] = heard;
    const { pathname, searchParams } = new URL(target, "https://gateway");
    const by = {
      query: () => Object.fromEntries(searchParams),
      form: () => Object.fromEntries(new URLSearchParams(body)),
    };
    const isForm = String(headers["content-type"]).startsWith("application/x-www");
    const fields = body === "" ? by.query() : isForm ? by.form() : (JSON.parse(body) as unknown);
    expect({ method, path: pathname, headers, body: fields }).toMatchObject(asked);
  });

  test.each(refusals)("knows the refusal %j as one for its %s", async (reply, cause) => {
    expect(await outcomeOf(reply)).toMatchObject({ kind: "refused", cause });
  });

  test.each(throttled)("waits after %j", async (reply) => {
    expect(await outcomeOf(reply)).toMatchObject({ kind: "throttled", retryAfterMs: 5_000 });
    const waiting = { ...reply, headers: { ...reply.headers, "retry-after": "30" } };
    expect(await outcomeOf(waiting)).toMatchObject({ kind: "throttled", retryAfterMs: 30_000 });
  });

  test("leaves open what its manual does not say", async () => {
    for (const status of [200, 204, 302, 500, 503]) {
      expect(await outcomeOf({ status, body: "<html>" })).toMatchObject({ kind: "ambiguous" });
    }
  });

  async function read(status: string, change: (sent: SentReport) => SentReport = (sent) => sent) {
    const { target, headers, body } = change(await report(status, nowMs));
    const method = body === "" ? "GET" : "POST";
    return provider.readReport?.({ method, target, headers, body: Buffer.from(body) });
  }

  test.each(Object.entries(statuses))("reads the report %s as %s", async (status, delivery) => {
    expect(await read(status)).toMatchObject({ kind: "genuine", reports: [{ reference, delivery }] });
  });

  test("takes no report of another kind, and none that it did not sign", async () => {
    const [status = ""] = Object.keys(statuses);
    expect(await read("999")).toEqual({ kind: "irrelevant" });
    const isByPath = (await report(status, nowMs)).target.includes(path);
    const forged = await read(status, (sent) =>
      isByPath
        ? { ...sent, target: sent.target.replace(path, "another") }
        : { ...sent, body: sent.body.replace(status, "x") },
    );
    expect(forged).toEqual({ kind: "forged", cause: "signature" });
  });
});

function readerOf(preset: "infobip" | "meta-whatsapp", reportSecret: string): Provider {
  const { declarations } = readHttpProviders(JSON.stringify({ providers: [{ preset, ...manuals[preset].entry }] }), []);
  const [declaration] = declarations;
  if (declaration === undefined) throw new Error("there is no declaration");
  const rest = { secret: "k", reportSecret, publicUrl, originators: new Map<string, string>(), now: () => 0 };
  return createHttpProvider({ declaration, ...rest });
}

test("several reports that come together are all read", async () => {
  const provider = readerOf("infobip", path);
  const result = (callbackData: string, groupName: string) => ({
    callbackData,
    status: { groupName, name: groupName },
  });
  const results = [result("a.0", "DELIVERED"), result("b.0", "NEWS"), result("c.0", "EXPIRED")];
  const body = Buffer.from(JSON.stringify({ results }));
  const target = `/webhooks/infobip/${path}`;
  expect(await provider.readReport?.({ method: "POST", target, headers: jsonType, body })).toMatchObject({
    reports: [
      { reference: "a.0", delivery: "DELIVERED" },
      { reference: "c.0", delivery: "UNDELIVERED" },
    ],
  });
});

test("Meta's reports are read of each change in each entry, and what else is among them is passed over", async () => {
  const statuses = (...references: string[]) => ({
    statuses: references.map((reference) => ({ biz_opaque_callback_data: reference, status: "delivered" })),
  });
  const entry = [
    {
      changes: [
        { value: statuses("a.0", "b.0") },
        { value: { messages: [{ text: "hello" }] } },
        { value: statuses("c.0") },
      ],
    },
    { changes: {} },
    {},
    null,
    { changes: [{ value: { statuses: "none" } }, { value: statuses("d.0") }] },
  ];
  const body = JSON.stringify({ object: "whatsapp_business_account", entry });
  const signature = createHmac("sha256", "app-secret").update(body).digest("hex");
  const reading = await readerOf("meta-whatsapp", "app-secret").readReport?.({
    method: "POST",
    target: "/webhooks/meta-whatsapp",
    headers: { ...jsonType, "x-hub-signature-256": `sha256=${signature}` },
    body: Buffer.from(body),
  });
  const reports = ["a.0", "b.0", "c.0", "d.0"].map((reference) => ({ reference, delivery: "DELIVERED" }));
  expect(reading).toMatchObject({ kind: "genuine", reports });
});

describe("a preset in a file", () => {
  const faultsOf = (entry: object) => readHttpProviders(JSON.stringify({ providers: [entry] }), []).faults;

  test("is told of what it needs, and nothing that follows from that", () => {
    expect(faultsOf({ preset: "twilio" })).toEqual([
      "/providers/0/vars/account_sid is missing: the preset twilio needs it",
      "/providers/0/from is missing, and {from} stands for it",
    ]);
    expect(faultsOf({ preset: "twilio", from: "Acme", vars: { account_sid: "AC/../x" } })).toEqual([
      "/providers/0/vars/account_sid must be a word without spaces",
    ]);
    expect(faultsOf({ preset: "constructor" })).toEqual([
      `/providers/0/preset must be one of ${presetNames.join(", ")}`,
    ]);
    expect(faultsOf({ preset: "telnyx", from: "Acme", colour: "red" })).toEqual([
      "/providers/0/colour is not known here",
    ]);
    expect(faultsOf({ preset: "kannel", from: "Acme", vars: { host: "kannel.example.com", username: "u" } })).toEqual([
      expect.stringMatching(/^\/providers\/0\/url must be https/),
    ]);
  });

  test("has its own name unless the entry says one, and what the entry says of it otherwise", () => {
    const read = (entry: object) => readHttpProviders(JSON.stringify({ providers: [entry] }), []).declarations[0];
    const twilio = { preset: "twilio", from: "Acme", vars: { account_sid: "AC42" } };
    expect(read(twilio)).toMatchObject({ name: "twilio", auth: { user: "AC42" } });
    expect(read({ ...twilio, name: "second", url: "https://proxy.example/" })).toMatchObject({
      name: "second",
      url: "https://proxy.example/",
      content: "form",
    });
    const silent = read({ ...twilio, reports: null });
    expect(silent?.reports).toBeUndefined();
    expect(Object.keys(silent?.body ?? {})).toEqual(["To", "From", "Body", "ValidityPeriod"]);
  });
});
