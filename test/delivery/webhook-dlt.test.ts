/**
 * What a registered text hands to the operator's own provider: the ids of its registration, and nothing where it has none.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text as readText } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createWebhookProvider } from "../../src/delivery/providers/webhook.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { sms } from "../support/data/messages.ts";
import { patience } from "./http/setup.ts";

test("the webhook gets the DLT ids of a registered text, and none with any other", async () => {
  const bodies: Record<string, unknown>[] = [];
  const server = createServer((request, response) => {
    void readText(request).then((body) => {
      bodies.push(JSON.parse(body) as Record<string, unknown>);
      response.writeHead(204).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const url = new URL(`http://127.0.0.1:${port}/`);
    const provider = createWebhookProvider({ url, secret: Buffer.alloc(32, 1), now: () => 0 });
    const toIndia = { ...sms, to: "+919812345678" as E164, region: "IN" };
    const ids = { dltTemplateId: "1107161234567890123", dltEntityId: "1101234567890123456" };
    expect(await provider.send({ ...toIndia, ...ids }, patience())).toMatchObject({
      kind: "accepted",
    });
    expect(await provider.send(toIndia, patience())).toMatchObject({ kind: "accepted" });
    expect(bodies[0]).toMatchObject({ dlt_template_id: ids.dltTemplateId, dlt_entity_id: ids.dltEntityId });
    expect(Object.keys(bodies[1] ?? {})).toEqual(["type", "to", "country", "text", "validity_seconds", "reference"]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
