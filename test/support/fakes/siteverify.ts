/**
 * The far end of a bot check as seen from outside, in a process of its own: "siteverify" over HTTP. What is brought says
 * what becomes of it: "good…" is a yes once, "hold…" is a yes when it is let go, "status 500" is that status, and so on;
 * anything else is a no. Tells what it was asked by GET /asked, waits there for a count, and lets go by GET /release.
 */
import { fork } from "node:child_process";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

/** One request, as it came. */
export interface Asked {
  readonly method: string;
  readonly type: string;
  readonly form: Readonly<Record<string, string>>;
}

export interface Siteverify {
  readonly url: string;
  /** All that was asked so far, once it is so many. */
  asked(count?: number): Promise<readonly Asked[]>;
  /** Answers what is held, with a yes. */
  release(): Promise<void>;
  stop(): void;
}

/** The secret that it knows. */
export const secretText = "0x4AAA-s3cr3t-of-the-site";

const program = fileURLToPath(import.meta.url);

export function startSiteverify(): Promise<Siteverify> {
  const child = fork(program, ["serve"], { stdio: "ignore" });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("message", (port) => {
      const origin = `http://127.0.0.1:${String(port)}`;
      resolve({
        url: `${origin}/siteverify`,
        asked: async (count = 0) => (await (await fetch(`${origin}/asked?${count}`)).json()) as Asked[],
        release: async () => void (await fetch(`${origin}/release`)),
        stop: () => void child.kill("SIGKILL"),
      });
    });
  });
}

function serve(): void {
  const asked: Asked[] = [];
  const used = new Set<string>();
  const held: (() => void)[] = [];
  const waiting: { count: number; tell: () => void }[] = [];

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = "", query = ""] = (request.url ?? "").split("?");
    const form = Object.fromEntries(new URLSearchParams(await text(request)));
    const json = (body: unknown, status = 200, headers: Record<string, string> = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(JSON.stringify(body));
    };
    if (path === "/asked") {
      waiting.push({ count: Number(query), tell: () => json(asked) });
      return tell();
    }
    if (path === "/release") {
      for (const letGo of held.splice(0)) letGo();
      return json({});
    }
    asked.push({ method: request.method ?? "", type: request.headers["content-type"] ?? "", form });
    tell();
    const { response: brought = "", secret } = form;
    if (path !== "/siteverify") return json({ success: true });
    if (secret !== secretText) return json({ success: false, "error-codes": ["invalid-input-secret"] });
    const no = (code: string, status = 200) => json({ success: false, "error-codes": [code] }, status);
    const status = Number(/^status (\d{3})$/.exec(brought)?.[1]);
    if (status === 302) return json({ success: true }, 302, { location: "/elsewhere" });
    if (status > 0) return json({ success: true }, status);
    if (brought.startsWith("good")) {
      if (used.has(brought)) return no("timeout-or-duplicate");
      used.add(brought);
      return json({ success: true, "error-codes": [], challenge_ts: "2026-01-01T12:00:00Z", hostname: "shop.example" });
    }
    if (brought.startsWith("hold")) return void held.push(() => json({ success: true }));
    if (brought.startsWith("no by ")) return no("invalid-input-response", Number(brought.slice(6)));
    if (brought === "silence") return;
    if (brought === "reset") return void response.socket?.destroy();
    if (brought === "drip") {
      response.writeHead(200);
      const timer = setInterval(() => response.write(" "), 20);
      return void response.once("close", () => clearInterval(timer));
    }
    if (brought === "huge") return void response.end(`{"success":true,"pad":"${"x".repeat(1_000_000)}"}`);
    if (brought === "not JSON") return void response.end(`<html>success: true ${brought} ${secret}</html>`);
    if (brought === "a word") return json({ success: "true" });
    if (brought === "a list") return json([true]);
    if (brought === "null") return json(null);
    if (brought === "nothing") return json({});
    return no("invalid-input-response");
  }

  function tell(): void {
    for (const { tell: say } of waiting.filter(({ count }) => count <= asked.length)) say();
    waiting.splice(0, waiting.length, ...waiting.filter(({ count }) => count > asked.length));
  }

  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
  process.on("disconnect", () => process.exit());
}

if (process.argv[2] === "serve" && process.argv[1] === program) serve();
