/**
 * The service as a newcomer starts it, with the console provider and so with the demo page: real SQLite, a real port, a
 * manual clock.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { startService } from "../../../src/main.ts";
import { makeDatabase } from "../databases/empty-database.ts";
import { createManualSystem, type ManualSystem } from "./system.ts";
import { configOf, createTestTelemetry, temporaryFolder } from "./world.ts";

export interface DemoServer {
  readonly url: string;
  readonly system: ManualSystem;
  readonly folder: string;
  /** What was printed on standard output. */
  readonly printed: string[];
  /** The page's URL, as it was printed. */
  readonly page: string;
  /** The token in that URL. */
  readonly token: string;
  /** The key that the page was given. */
  pageKey(): Promise<string>;
  /** Calls an RPC over Connect as the page does, with its key; the answer's JSON, or the error's. */
  call(rpc: string, message: Record<string, unknown>): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

let started = 0;

export async function startDemo(env: Record<string, string> = {}): Promise<DemoServer> {
  const folder = temporaryFolder();
  // Its own chance, so that no two servers make the same keys.
  started += 1;
  const system = createManualSystem(started);
  const printed: string[] = [];
  const databasePath = join(folder, "otp.db");
  await makeDatabase(databasePath);
  const config = configOf({
    OTP_PORT: "0",
    OTP_DATABASE_URL: `file:${databasePath}`,
    OTP_MASTER_KEY: Buffer.alloc(32, 7).toString("base64url"),
    ...env,
  });
  const print = (text: string) => void printed.push(text);
  const service = await startService(config, { system, telemetry: createTestTelemetry([]), print });
  const url = `http://127.0.0.1:${service.port}`;
  const [, page = "", token = ""] = /(http:\S+\/demo\?token=([\w-]{22,}))\n/.exec(printed.join("")) ?? [];

  async function pageKey(): Promise<string> {
    const text = await (await fetch(page)).text();
    return /<otp-form [^>]*key="([^"]*)"/.exec(text)?.[1] ?? "";
  }

  return {
    url,
    page,
    token,
    system,
    folder,
    printed,
    pageKey,
    async call(rpc, message) {
      const answer = await fetch(`${url}/otp.v1.OtpService/${rpc}`, {
        method: "POST",
        headers: { authorization: `Bearer ${await pageKey()}`, "content-type": "application/json", origin: url },
        body: JSON.stringify(message),
      });
      return (await answer.json()) as Record<string, unknown>;
    },
    async stop() {
      await service.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
