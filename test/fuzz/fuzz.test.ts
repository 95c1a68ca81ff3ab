/**
 * Spoilt requests of each protocol, at the real server in a process of its own. A failing input is printed with its seed and
 * number; `OTPD_FUZZ=<protocol>:<seed>:<number>` fires it alone. The soak fires 100,000 a protocol.
 */
import { describe, expect, test } from "vitest";
import { fire } from "./fire.ts";
import { makeInput, protocols, type Protocol } from "./inputs.ts";
import { extent } from "../support/extent.ts";

const [onlyProtocol, onlySeed, onlyNumber] = process.env["OTPD_FUZZ"]?.split(":") ?? [];
const inputs = extent(500, 2_000);

describe("a spoilt request", () => {
  test.runIf(onlyProtocol !== undefined)("given in OTPD_FUZZ does no harm", async () => {
    const fired = await fire(onlyProtocol as Protocol, Number(onlySeed), 1, Number(onlyNumber));
    expect(fired.exitCode).toBe(0);
  });

  test.runIf(onlyProtocol === undefined).each(protocols)(
    `over %s is refused without harm, ${inputs} times`,
    { timeout: 600_000 },
    async (protocol) => {
      const fired = await fire(protocol, 1, inputs);
      expect(fired.exitCode).toBe(0);
      // A probe before every 250 inputs, and one at the end.
      expect(fired.probes).toBe(inputs / 250 + 1);
      expect(fired.smsCount).toBeGreaterThanOrEqual(fired.acknowledged);
      expect(fired.smsCount).toBeLessThanOrEqual(fired.acknowledged + fired.unknown);
      // Spoilt, but not beyond recognition: some pass, most are refused, by every door there is.
      const count = (status: number) => fired.statuses.get(status) ?? 0;
      expect(fired.acknowledged).toBeGreaterThan(inputs / 100);
      expect(count(404) + count(400) + count(200)).toBeGreaterThan(inputs / 4);
      for (const status of [405, 415]) expect(count(status)).toBeGreaterThan(inputs / 200);
    },
  );

  test("is made again by its seed and number", () => {
    for (const protocol of protocols) {
      const made = Array.from({ length: 50 }, (_, number) => makeInput(protocol, 1, number, "key"));
      const again = Array.from({ length: 50 }, (_, number) => makeInput(protocol, 1, number, "key"));
      expect(again).toEqual(made);
      expect(new Set(made.map(({ bytes }) => bytes.toString("latin1"))).size).toBeGreaterThan(45);
    }
  });
});
