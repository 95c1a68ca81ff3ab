/**
 * What tests of the real ways out stand on: a certificate that this process trusts, fakes in processes of their own, and
 * the whole service with the real adapters.
 */
import { fork, type ChildProcess } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import https from "node:https";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { SignJWT } from "jose";
import { createHash } from "node:crypto";
import { startService, type RunningService } from "../../../src/main.ts";
import { scopes } from "../../../src/otp/keys/api-key.ts";
import { issueKey } from "../../../src/service/callers/api-keys.ts";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import { createSystem } from "../../../src/system.ts";
import { makeDatabase } from "../../support/databases/empty-database.ts";
import { configOf, createTestTelemetry, type Observation } from "../../support/service/world.ts";
import { acme } from "../../support/data/http-providers.ts";
import type { Behaviour, Word } from "../../support/fakes/provider.ts";

export type FakeRequest = Extract<Word, { kind: "request" }>;

export interface Fake {
  readonly port: number;
  /** Every request so far; what was answered before the call is in it. */
  seen(): Promise<readonly FakeRequest[]>;
  /** Resolves with the next request, before it is answered. */
  next(): Promise<FakeRequest>;
  /** What the next requests get, in order; afterwards `standing` again. */
  script(...behaviours: Behaviour[]): Promise<void>;
  /** What every request gets from now on; a script that is left is forgotten. */
  standing(behaviour: Behaviour): Promise<void>;
  stop(): void;
}

/** Has this process trust a certificate from now on, and it alone. */
export function trust({ cert }: { cert: string }): void {
  https.globalAgent.options.ca = readFileSync(cert, "utf8");
}

const program = fileURLToPath(new URL("../../support/fakes/provider.ts", import.meta.url));

export function startFake(
  kind: "messagebird" | "declared" | "webhook",
  certificate?: { cert: string; key: string },
): Promise<Fake> {
  const args = certificate === undefined ? [kind] : [kind, certificate.cert, certificate.key];
  const child: ChildProcess = fork(program, args, { stdio: "ignore" });
  const requests: FakeRequest[] = [];
  let awaiting: ((request: FakeRequest) => void)[] = [];
  // An order and a request travel by different ways: only one that was heard is sure to come first.
  const heard: (() => void)[] = [];
  const order = (words: object) =>
    new Promise<void>((resolve) => {
      heard.push(resolve);
      child.send(words);
    });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.on("message", (word: Word) => {
      if (word.kind === "request") {
        requests.push(word);
        for (const hear of awaiting) hear(word);
        awaiting = [];
      } else if (word.kind === "ordered") heard.shift()?.();
      else
        resolve({
          port: word.port,
          seen: async () => {
            await order({});
            return requests;
          },
          next: () => new Promise((hear) => awaiting.push(hear)),
          script: (...behaviours) => order({ script: behaviours }),
          standing: (standing) => order({ standing }),
          stop: () => void child.kill("SIGKILL"),
        });
    });
  });
}

export const signingKey = "the signing key of the account";
export const publicUrl = "https://otp.example.com";

/** The header of a genuine report: MessageBird's signature over the public URL and the body. */
export function signReport(
  target: string,
  body = "",
  { key = signingKey, issuer = "MessageBird", expires = true, now = Date.now(), jti = "j1" } = {},
): Promise<string> {
  const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
  const jwt = new SignJWT({
    url_hash: sha256(publicUrl + target),
    ...(body === "" ? {} : { payload_hash: sha256(body) }),
  })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setIssuer(issuer)
    .setNotBefore(Math.floor(now / 1000))
    .setJti(jti);
  if (expires) jwt.setExpirationTime(Math.floor(now / 1000) + 60);
  return jwt.sign(Buffer.from(key, "utf8"));
}

export interface Station {
  readonly url: string;
  readonly key: string;
  readonly observed: Observation[];
  call(path: string, body?: Record<string, unknown>): Promise<{ status: number; body: Record<string, unknown> }>;
  stop(): Promise<void>;
}

/** What has a station go by a declared gateway first, whose file is written into the folder; its fake is `declared`. */
export function declaredFirst(folder: string, { port }: Fake, more: object = {}): Record<string, string> {
  const [provider] = acme.providers;
  const own = {
    url: `https://127.0.0.1:${port}/send`,
    body: { to: "{to_digits}", msg: "{text}", reference: "{reference}" },
    accepted: { status: [200, 201], pointer: "/result", equals: ["queued"] },
    refused: [
      { status: [401, 403], cause: "credentials" },
      { status: [402], cause: "balance" },
      { status: [422], pointer: "/error", equals: ["bad_number"], cause: "recipient" },
      { status: [422], pointer: "/error", equals: ["bad_sender"], cause: "content" },
      { status: [429], cause: "throttled" },
    ],
  };
  const path = join(folder, "providers.json");
  writeFileSync(path, JSON.stringify({ providers: [{ ...provider, ...own, ...more }] }));
  return {
    OTP_PROVIDERS: "acme,webhook",
    OTP_HTTP_PROVIDERS_FILE: path,
    OTP_HTTP_ACME_KEY: "live-key",
    OTP_HTTP_ACME_REPORT_KEY: signingKey,
  };
}

/** The whole service on a real clock, with the real adapters in front of the fakes: MessageBird first, unless `env` says else. */
export async function startStation(
  folder: string,
  first: Fake,
  webhook: Fake | undefined,
  env: Record<string, string> = {},
): Promise<Station> {
  const databasePath = join(folder, `otp-${first.port}-${Math.floor(performance.now())}.db`);
  const observed: Observation[] = [];
  await makeDatabase(databasePath);
  const config = configOf({
    OTP_PORT: "0",
    OTP_DATABASE_URL: `file:${databasePath}`,
    OTP_MASTER_KEY: Buffer.alloc(32, 7).toString("base64url"),
    OTP_PHONE_LIMITS: "1000@1s",
    OTP_KEY_LIMIT: "none",
    // An answer tells what came of the message, however slow the machine is.
    OTP_SEND_WAIT_MS: "10000",
    OTP_ALLOWED_COUNTRIES: "*",
    OTP_PROVIDERS: webhook === undefined ? "messagebird" : "messagebird,webhook",
    OTP_MESSAGEBIRD_ACCESS_KEY: "live-key",
    OTP_MESSAGEBIRD_ORIGINATOR: "Acme",
    OTP_MESSAGEBIRD_SIGNING_KEY: signingKey,
    OTP_MESSAGEBIRD_BASE_URL: `https://127.0.0.1:${first.port}`,
    OTP_PUBLIC_URL: publicUrl,
    ...(webhook === undefined
      ? {}
      : {
          OTP_WEBHOOK_URL: `http://127.0.0.1:${webhook.port}/sms`,
          OTP_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 5).toString("base64")}`,
        }),
    ...env,
  });
  const system = createSystem();
  const service: RunningService = await startService(config, {
    system,
    telemetry: createTestTelemetry(observed),
    print: () => {},
  });
  const store = await openSqlite({ path: databasePath, system, exclusive: false });
  const options = { kind: "live", tenant: "default", name: "test", scopes, expireMs: null } as const;
  const { text } = await issueKey(store, system, options);
  await store.close();
  const url = `http://127.0.0.1:${service.port}`;
  return {
    url,
    key: text.reveal(),
    observed,
    async call(path, body) {
      const headers = { authorization: `Bearer ${text.reveal()}`, "content-type": "application/json" };
      const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
      const response = await fetch(url + path, init);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    },
    stop: () => service.stop(),
  };
}
