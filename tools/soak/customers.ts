/**
 * Customers that come at a fixed rate: each is sent a code and has it verified, checks the receipt, and makes a call again,
 * with the same Idempotency-Key, for as long as it is not answered.
 */
import { createPublicKey, verify, type KeyObject } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { driveOpen, openClient, type Client, type CodeBox, type Driven, type Lane } from "../bench/drive/load.ts";
import { randomPhone } from "../bench/drive/phones.ts";

export interface CustomersOptions {
  readonly key: string;
  readonly codes: CodeBox;
  /** Where the service listens now. */
  readonly port: () => number;
  /** Customers at once. */
  readonly lanes: number;
}

export interface Customers {
  /** Runs so many cycles a second. `faults` are sentences. */
  run(
    perSecond: number,
    ms: number,
  ): Promise<Driven & { readonly retries: number; readonly faults: readonly string[] }>;
  /** `sendMs` holds what the sends took since this was last asked. */
  soFar(): {
    readonly done: number;
    readonly retries: number;
    readonly faults: readonly string[];
    readonly sendMs: readonly number[];
  };
  /** Asks for each verification that was answered as verified; resolves with how many are not. */
  countLost(): Promise<number>;
}

/** A call is made again after this. */
const retryMs = 100;
/** A call that is refused so often is a fault. */
const triesMax = 300;
/** A code that comes later than this is none. */
const codeMaxMs = 60_000;

export function openCustomers({ key, codes, port, lanes: count }: CustomersOptions): Customers {
  const ids: string[] = [];
  const faults: string[] = [];
  const untold: number[] = [];
  let retries = 0;
  let turn = 0;
  let signers: Promise<ReadonlyMap<string, KeyObject>> | undefined;

  /** A connection that is opened anew when it is lost. */
  function connection() {
    let client: Client | undefined;
    return {
      async ask(act: (given: Client) => Promise<{ status: number; body: string }>): Promise<string> {
        for (let tries = 0; tries < triesMax; tries += 1) {
          try {
            client ??= openClient(port(), key);
            const { status, body } = await act(client);
            if (status === 200) return body;
            if (status !== 409 && status !== 503) throw new Refused(`a call was answered ${status} ${body}`);
          } catch (error) {
            if (error instanceof Refused) throw error;
            client?.close();
            client = undefined;
          }
          retries += 1;
          await new Promise((resolve) => setTimeout(resolve, retryMs));
        }
        throw new Refused("a call was not answered");
      },
      close: () => client?.close(),
    };
  }

  function openLane(): Lane {
    const { ask, close } = connection();
    const post = (path: string, body: string) => {
      turn += 1;
      const once = `idempotency-key: soak-${turn}\r\n`;
      return ask((client) => client.post(path, body, once));
    };
    return {
      async cycle(fromMs) {
        const phone = randomPhone();
        const sent = JSON.parse(await post("/v1/otp/send", `{"phone":"${phone}"}`)) as { request_id: string };
        const sendMs = performance.now() - fromMs;
        untold.push(sendMs);
        const code = await Promise.race([codes.codeFor(phone), noCode()]);
        const verifyFromMs = performance.now();
        const body = JSON.stringify({ request_id: sent.request_id, code });
        const verified = JSON.parse(await post("/v1/otp/verify", body)) as { phone: string; receipt: string };
        const verifyMs = performance.now() - verifyFromMs;
        ids.push(sent.request_id);
        signers ??= readSigners(ask);
        if (!isGenuine(verified.receipt, await signers, { sub: sent.request_id, phone }))
          faults.push(`the receipt of ${phone}`);
        return { sendMs, verifyMs };
      },
      close,
    };
  }

  return {
    async run(perSecond, ms) {
      const lanes = Array.from({ length: count }, openLane).map((lane) => ({
        ...lane,
        cycle: (fromMs: number) =>
          lane.cycle(fromMs).catch((error: unknown) => {
            faults.push(String(error));
            return { sendMs: Number.POSITIVE_INFINITY, verifyMs: Number.POSITIVE_INFINITY };
          }),
      }));
      const driven = await driveOpen(lanes, perSecond, ms);
      for (const lane of lanes) lane.close();
      return { ...driven, retries, faults };
    },
    soFar: () => ({ done: ids.length, retries, faults, sendMs: untold.splice(0) }),
    async countLost() {
      const waiting = [...ids];
      let lost = 0;
      const askAll = async () => {
        const { ask, close } = connection();
        for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
          const path = `/v1/otp/${id}`;
          const state = await ask((client) => client.get(path)).catch(String);
          if (!state.includes("STATE_VERIFIED")) lost += 1;
        }
        close();
      };
      await Promise.all(Array.from({ length: 8 }, askAll));
      return lost;
    },
  };
}

/** Rejects once a customer has waited for long enough: the answer may come before a provider fails. */
async function noCode(): Promise<never> {
  await sleep(codeMaxMs, undefined, { ref: false });
  throw new Refused("no code came");
}

/** An answer that making the call again does not change. */
class Refused extends Error {}

async function readSigners(
  ask: (act: (client: Client) => ReturnType<Client["get"]>) => Promise<string>,
): Promise<ReadonlyMap<string, KeyObject>> {
  const { keys } = JSON.parse(await ask((client) => client.get("/.well-known/jwks.json"))) as {
    keys: { kid: string }[];
  };
  return new Map(keys.map((jwk) => [jwk.kid, createPublicKey({ key: jwk, format: "jwk" })]));
}

/** Whether a receipt is signed by one of the signers, and says what it should. */
function isGenuine(
  receipt: string,
  signers: ReadonlyMap<string, KeyObject>,
  claims: Readonly<Record<string, string>>,
): boolean {
  const [head = "", body = "", signature = ""] = receipt.split(".");
  const read = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, unknown>;
  const signer = signers.get(String(read(head)["kid"]));
  if (
    signer === undefined ||
    !verify(null, Buffer.from(`${head}.${body}`), signer, Buffer.from(signature, "base64url"))
  )
    return false;
  const said = read(body);
  return Object.entries(claims).every(([name, value]) => said[name] === value);
}
