/**
 * What `otpd doctor` finds in files: certificates, secrets, authorities.
 */
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { fileFindings } from "../../src/commands/doctor-files.ts";
import { makeDatabase } from "../support/databases/empty-database.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { findingsIn } from "../support/processes/doctor.ts";
import { runOtpd } from "../support/processes/process.ts";
import { keyText } from "../support/service/environment.ts";
import { configOf, temporaryFolder } from "../support/service/world.ts";

let folder: string;
beforeEach(async () => {
  folder = temporaryFolder();
  await makeDatabase(join(folder, "data/otp.db"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const findings = (env: Record<string, string>) => findingsIn(folder, env);

describe.skipIf(lacks("doctor of files", "openssl"))("files", () => {
  const place = (days: number) => {
    const { cert, key } = makeCertificate("otpd", days);
    const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, key, { mode: 0o600 });
    return { OTP_MASTER_KEY: keyText, OTP_TLS_CERT_FILE: certFile, OTP_TLS_KEY_FILE: keyFile };
  };

  test.each<[number, string, RegExp]>([
    [0, "ok", /^The TLS certificate lasts until \S+Z\.$/],
    [20, "warning", /^OTP_TLS_CERT_FILE expires in 19 days, at \S+Z\.$/],
    [41, "fault", /^OTP_TLS_CERT_FILE has expired, at \S+Z\.$/],
  ])("a certificate of 40 days, after %i days, is told of: %s", (days, level, says) => {
    const found = fileFindings(configOf(place(40)), Date.now() + days * 86_400_000);
    expect(found.map(({ sentence }) => sentence)).toEqual([
      "The TLS certificate and its key belong together.",
      expect.stringMatching(says),
    ]);
    expect(found[1]).toMatchObject(level === "ok" ? { ok: true } : { ok: false });
    expect(found[1]?.isWarning ?? false).toBe(level === "warning");
  });

  test("a certificate that does not count yet is a fault", () => {
    const sentences = fileFindings(configOf(place(40)), Date.now() - 86_400_000).map(({ sentence }) => sentence);
    expect(sentences).toContainEqual(expect.stringMatching(/^OTP_TLS_CERT_FILE counts from \S+Z on\.$/));
  });

  test("a certificate that is near its end is a warning, which leaves the exit code at 0", async () => {
    const env = place(2);
    expect((await findings(env)).bad).toEqual([expect.stringMatching(/expires in 1 days/) as string]);
    const { code, output } = await runOtpd(folder, ["doctor"], env);
    expect({ code, lines: output.match(/^warn /gm)?.length }).toEqual({ code: 0, lines: 1 });
  });

  test("a key of another certificate, and one that is not there, are faults", async () => {
    const env = place(400);
    writeFileSync(env.OTP_TLS_KEY_FILE, makeCertificate("other").key);
    expect((await findings(env)).bad).toEqual([
      expect.stringMatching(/^OTP_TLS_CERT_FILE and OTP_TLS_KEY_FILE do not belong together/) as string,
    ]);
    rmSync(env.OTP_TLS_KEY_FILE);
    expect((await findings(env)).bad).toEqual([`OTP_TLS_KEY_FILE: ${env.OTP_TLS_KEY_FILE} is not there.`]);
  });

  test("the key of TLS, the database and the master key beside it are warned of like other secrets", async () => {
    const { OTP_TLS_CERT_FILE, OTP_TLS_KEY_FILE } = place(400);
    const own = [join(folder, "data/otp.db"), join(folder, "data/master.key")] as const;
    writeFileSync(own[1], keyText);
    chmodSync(folder, 0o755);
    chmodSync(join(folder, "data"), 0o755);
    for (const path of [OTP_TLS_KEY_FILE, ...own]) chmodSync(path, 0o644);
    const { bad } = await findings({ OTP_TLS_CERT_FILE, OTP_TLS_KEY_FILE });
    const who = "can be read by everybody on this machine: chmod 600";
    expect(bad).toEqual([
      `OTP_TLS_KEY_FILE ${who} ${OTP_TLS_KEY_FILE}.`,
      expect.stringMatching(`^The database ${who} \\S*data/otp\\.db\\.$`),
      expect.stringMatching(`^The master key ${who} \\S*data/master\\.key\\.$`),
    ]);
  });

  test("a missing file of authorities of the database's address is a fault", () => {
    const OTP_DATABASE_URL = "postgres://otpd@127.0.0.1/otp?sslmode=verify-full&sslrootcert=/no/ca";
    expect(fileFindings(configOf({ OTP_MASTER_KEY: keyText, OTP_DATABASE_URL }), 0)).toMatchObject([
      {
        ok: false,
        sentence: "The file of authorities that sslrootcert in OTP_DATABASE_URL names, /no/ca, is not there.",
      },
    ]);
  });

  test("secrets that others can read are warned of, and a missing file of authorities is a fault", async () => {
    const file = join(folder, "secret");
    writeFileSync(file, keyText);
    chmodSync(file, 0o640);
    chmodSync(folder, 0o755);
    expect((await findings({ OTP_MASTER_KEY_FILE: file })).bad).toEqual([
      `OTP_MASTER_KEY_FILE can be read by its group: chmod 600 ${file}.`,
    ]);
    chmodSync(file, 0o644);
    expect((await findings({ OTP_MASTER_KEY_FILE: file })).bad).toEqual([
      `OTP_MASTER_KEY_FILE can be read by everybody on this machine: chmod 600 ${file}.`,
    ]);
    // Whoever may not enter its folder cannot read it.
    chmodSync(folder, 0o710);
    expect((await findings({ OTP_MASTER_KEY_FILE: file })).bad).toEqual([
      `OTP_MASTER_KEY_FILE can be read by its group: chmod 600 ${file}.`,
    ]);
    chmodSync(folder, 0o700);
    expect((await findings({ OTP_MASTER_KEY_FILE: file })).bad).toEqual([]);
    const { output, errors } = await runOtpd(folder, ["doctor"], {
      OTP_MASTER_KEY: keyText,
      NODE_EXTRA_CA_CERTS: "/no/ca",
    });
    expect(output).toContain("BAD  The file of authorities that NODE_EXTRA_CA_CERTS names, /no/ca, is not there.");
    expect(errors).toContain("1 of ");
  });
});
