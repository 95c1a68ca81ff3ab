/**
 * The preset for Kannel against Kannel itself, of Debian's packages, with an SMS centre of ours behind it.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readHttpProviders } from "../../../src/delivery/providers/http/file.ts";
import { createHttpProvider } from "../../../src/delivery/providers/http/provider.ts";
import type { ReportReading } from "../../../src/delivery/provider.ts";
import { path } from "../../support/data/presets.ts";
import { startFarEnd, type Asked, type FarEnd } from "../../support/fakes/far-end.ts";
import { startSmsCentre, type SmsCentre } from "../../support/fakes/sms-centre.ts";
import { kannel, lacks } from "../../support/machine.ts";
import { freePort } from "../../support/network/ports.ts";
import { temporaryFolder } from "../../support/service/world.ts";
import { patience, sms } from "./setup.ts";

const configuration = (admin: number, boxes: number, centre: number, sendsms: number) => `
group = core
admin-port = ${admin}
admin-interface = 127.0.0.1
admin-password = bar
smsbox-port = ${boxes}
smsbox-interface = 127.0.0.1
box-allow-ip = 127.0.0.1
dlr-storage = internal

group = smsc
smsc = smpp
smsc-id = CENTRE
host = 127.0.0.1
port = ${centre}
transceiver-mode = true
smsc-username = otpd
smsc-password = pw
system-type = test
alt-charset = UTF-8

group = smsbox
bearerbox-host = 127.0.0.1
sendsms-port = ${sendsms}
sendsms-interface = 127.0.0.1

group = sendsms-user
username = otpd
password = pw
`;

describe.skipIf(lacks("the preset for Kannel against Kannel itself", "kannel"))("Kannel", () => {
  const folder = temporaryFolder();
  const running: { child: ChildProcess; heard: (pattern: RegExp) => Promise<string> }[] = [];
  const reports: Asked[] = [];
  let gateway: FarEnd;
  let centre: SmsCentre;
  let host: string;
  let onReport = () => {};

  /** Starts a program, and resolves with what waits for a line of its. */
  function start(file: string, ...args: string[]) {
    const child = spawn(file, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    let look = () => {};
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        said += chunk.toString("utf8");
        look();
      });
    }
    const heard = (pattern: RegExp) =>
      new Promise<string>((resolve, reject) => {
        look = () => {
          const [found] = pattern.exec(said) ?? [];
          if (found !== undefined) resolve(found);
        };
        child.once("close", () => reject(new Error(`${file} ended without ${pattern}:\n${said}`)));
        look();
      });
    running.push({ child, heard });
    return heard;
  }

  beforeAll(async () => {
    const [admin, boxes, sendsms] = [await freePort(), await freePort(), await freePort()];
    centre = await startSmsCentre();
    writeFileSync(join(folder, "kannel.conf"), configuration(admin, boxes, centre.port, sendsms));
    host = `127.0.0.1:${sendsms}`;
    gateway = await startFarEnd((response, asked) => {
      response.end();
      reports.push(asked);
      onReport();
    });
    const bearerbox = start(kannel.bearerbox, "-v", "0", "kannel.conf");
    await bearerbox(/Start-up done/);
    await start(kannel.smsbox, "-v", "0", "kannel.conf")(/Connected to bearerbox/);
  });
  afterAll(async () => {
    for (const { child } of running.toReversed()) {
      const gone = child.exitCode === null && child.signalCode === null ? once(child, "close") : undefined;
      child.kill("SIGKILL");
      await gone;
    }
    await Promise.all([gateway.stop(), centre.stop()]);
    rmSync(folder, { recursive: true, force: true });
  });

  function provider(secret = "pw", changes: object = {}) {
    const entry = { preset: "kannel", from: "Acme", vars: { host, username: "otpd" }, ...changes };
    const { declarations, faults } = readHttpProviders(JSON.stringify({ providers: [entry] }), []);
    const [declaration] = declarations;
    if (declaration === undefined) throw new Error(faults.join("\n"));
    const rest = { reportSecret: path, publicUrl: gateway.url, originators: new Map<string, string>(), now: Date.now };
    return createHttpProvider({ declaration, secret, ...rest });
  }

  test("takes a message, hands on its text, and reports that it was delivered", async () => {
    const kept = provider();
    const done = Promise.withResolvers<ReportReading>();
    onReport = () => {
      const { method, path: target, headers, body } = reports.at(-1) as Asked;
      void kept.readReport?.({ method, target, headers, body: Buffer.from(body) }).then((reading) => {
        if (reading.kind !== "genuine" || reading.reports[0]?.delivery === "DELIVERED") done.resolve(reading);
      });
    };
    expect(await kept.send({ ...sms, text: "123456 is your café & it's 50% off" }, patience())).toEqual({
      kind: "accepted",
    });
    const { from, to, text } = await centre.next();
    expect([from, to, text.toString("utf8")]).toEqual(["Acme", "31612345678", "123456 is your café & it's 50% off"]);
    expect(await done.promise).toEqual({
      kind: "genuine",
      reports: [{ reference: sms.reference, providerMessageId: undefined, delivery: "DELIVERED", detail: undefined }],
    });
    for (const { path: target } of reports)
      expect(target).toContain(`/webhooks/kannel/${path}?reference=${sms.reference}`);
  });

  test("says that it does not know us", async () => {
    expect(await provider("wrong").send(sms, patience())).toEqual({
      kind: "refused",
      cause: "credentials",
      detail: "HTTP 403",
    });
  });

  test("says that a receiver is none", async () => {
    const none = { body: { username: "otpd", to: "", text: "{text}{to}" } };
    expect(await provider("pw", none).send(sms, patience())).toMatchObject({ kind: "refused", cause: "recipient" });
  });
});
