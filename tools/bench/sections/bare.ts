/**
 * Section "bare": what a call costs on its way in and out, over REST and over gRPC, beside a connect-node handler that does
 * nothing either.
 */
import { apiKeyBytes, makeApiKey } from "../../../src/otp/keys/api-key.ts";
import type { Effort } from "../effort.ts";
import { amount, range, type Findings } from "../findings.ts";
import { driveClosed, openClient } from "../drive/load.ts";
import { measureRound, medianOf, takeTurns } from "../drive/measure.ts";
import { randomPhone } from "../drive/phones.ts";
import { startServer } from "../drive/processes.ts";
import type { Place } from "../drive/prepared.ts";
import {
  anyId,
  grpcNoopTarget,
  grpcTwoCallsTarget,
  noopTarget,
  twoCallsTarget,
  type Target,
} from "../drive/targets.ts";

/** The key that canned.ts knows. */
const key = makeApiKey("live", new Uint8Array(apiKeyBytes)).text.reveal();

export async function bare(place: Place, { connections, rounds, roundMs, warmUpMs }: Effort): Promise<Findings> {
  const noops = [await noopTarget(place), await grpcNoopTarget(place)];
  const targets = [...noops, await restTarget(place), await grpcTarget(place)];
  for (const target of targets) await measureRound(target, connections, (lanes) => driveClosed(lanes, warmUpMs));
  const taken = await takeTurns(targets, rounds, connections, (lanes) => driveClosed(lanes, roundMs));
  for (const target of targets) await target.close();
  const cpuOf = (i: number) => medianOf(taken[i] ?? [], ({ cpuMicros }) => cpuMicros);
  return {
    tables: [
      {
        title: "Two calls that do nothing, servers side by side",
        note: "Ours with the key looked at, in front of acts that answer at once; CPU is per two calls.",
        head: ["server", "CPU µs", "range", "÷ its no-op"],
        rows: targets.map(({ name }, i) => [
          name,
          amount(cpuOf(i)),
          range((taken[i] ?? []).map(({ cpuMicros }) => cpuMicros)),
          amount(cpuOf(i) / cpuOf(i % noops.length), 2),
        ]),
      },
    ],
    figures: {},
  };
}

async function restTarget({ folder }: Place): Promise<Target> {
  const server = await startServer(folder, "canned.ts", []);
  return twoCallsTarget("otpd's way in, REST", server, (count) =>
    Array.from({ length: count }, () => {
      const client = openClient(server.port, key);
      const call = async (path: string, body: string) => {
        const { status, body: said } = await client.post(path, body);
        if (status !== 200) throw new Error(`${path} answered ${status} ${said}`);
      };
      return {
        send: () => call("/v1/otp/send", `{"phone":"${randomPhone()}"}`),
        verify: () => call("/v1/otp/verify", `{"request_id":"${anyId}","code":"123456"}`),
        close: client.close,
      };
    }),
  );
}

async function grpcTarget({ folder }: Place): Promise<Target> {
  const server = await startServer(folder, "canned.ts", []);
  return grpcTwoCallsTarget("otpd's way in, gRPC", server, key);
}
