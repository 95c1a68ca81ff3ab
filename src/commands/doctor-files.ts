/**
 * What `otpd doctor` finds in files: the certificate and how long it lasts, authorities to trust, and secrets that others
 * can read.
 */
import { X509Certificate } from "node:crypto";
import { readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Config } from "../config/config.ts";
import { readCertificate } from "../config/certificate.ts";
import { pricedCount } from "../config/prices-file.ts";
import { secretNames } from "../config/variables.ts";
import type { Finding } from "../delivery/provider.ts";
import { fileTrouble } from "../store/file-trouble.ts";
import { dayMs, timeOf, type Instant } from "../system.ts";
import { messageOf } from "./command.ts";

/** A certificate should be renewed so long before its end. */
const renewMs = 30 * dayMs;

/** Countries, channels and providers whose price is not known: their messages cost nothing in what is told of money. */
function priceFindings({ prices, providers, policy: { allowedCountries } }: Config): Finding[] {
  if (prices === undefined) return [];
  const { all, missing } = pricedCount(prices, allowedCountries, providers);
  if (missing.length === 0)
    return [{ ok: true, sentence: `OTP_PRICES_FILE has a price in ${prices.currency} for all that may be sent.` }];
  const first = missing.slice(0, 5).join(", ");
  const sentence = `OTP_PRICES_FILE lacks ${missing.length} of ${all} prices of what may be sent, such as ${first}.`;
  return [{ ok: false, isWarning: true, sentence }];
}

export function fileFindings(config: Config, now: Instant): Finding[] {
  return [
    ...priceFindings(config),
    ...certificateFindings(config, now),
    ...authorityFindings(config),
    ...modeFindings(config),
  ];
}

function certificateFindings({ tls }: Config, now: Instant): Finding[] {
  if (tls === undefined) return [];
  try {
    const { beginMs, endMs } = readCertificate(tls);
    const end = timeOf(endMs);
    const pair = { ok: true, sentence: "The TLS certificate and its key belong together." };
    if (now >= endMs) return [pair, { ok: false, sentence: `OTP_TLS_CERT_FILE has expired, at ${end}.` }];
    if (now < beginMs) return [pair, { ok: false, sentence: `OTP_TLS_CERT_FILE counts from ${timeOf(beginMs)} on.` }];
    if (endMs - now >= renewMs) return [pair, { ok: true, sentence: `The TLS certificate lasts until ${end}.` }];
    const days = Math.floor((endMs - now) / dayMs);
    return [pair, { ok: false, isWarning: true, sentence: `OTP_TLS_CERT_FILE expires in ${days} days, at ${end}.` }];
  } catch (error) {
    return [{ ok: false, sentence: `${messageOf(error)}.` }];
  }
}

/** Without a file of authorities that it cannot read, Node goes on, and trusts none of them. */
function authorityFindings({ database }: Config): Finding[] {
  const parameters = database.kind === "postgres" ? new URL(database.url).searchParams : new URLSearchParams();
  const named = [
    ["NODE_EXTRA_CA_CERTS", process.env["NODE_EXTRA_CA_CERTS"]],
    ["sslrootcert in OTP_DATABASE_URL", parameters.get("sslrootcert")],
  ] as const;
  return named.flatMap(([name, path]): Finding[] => {
    if (!path || path === "system") return [];
    try {
      void new X509Certificate(readFileSync(path, "utf8"));
      return [];
    } catch (error) {
      const why = fileTrouble(error) ?? "does not hold a certificate in PEM form";
      return [{ ok: false, sentence: `The file of authorities that ${name} names, ${path}, ${why}.` }];
    }
  });
}

/** Only their owner should be able to read files with secrets. */
function modeFindings({ tls, database, masterKeys, providerSettings: { declared } }: Config): Finding[] {
  const declaredSecrets = declared.flatMap(({ variables }) => Object.keys(variables));
  const files = [
    ...[...secretNames, ...declaredSecrets].map((name) => [`${name}_FILE`, process.env[`${name}_FILE`]] as const),
    ["OTP_TLS_KEY_FILE", tls?.keyFile] as const,
    ...(database.kind === "sqlite" ? [["The database", database.path] as const] : []),
    ...(database.kind === "sqlite" && masterKeys === undefined
      ? [["The master key", join(dirname(database.path), "master.key")] as const]
      : []),
  ];
  return files.flatMap(([name, path]) => {
    const found = path ? statSync(path, { throwIfNoEntry: false }) : undefined;
    const mode = found?.mode ?? 0;
    // A folder is no secret; a missing file has a finding of its own.
    if (!path || found?.isFile() !== true) return [];
    const folders = modesOfFolders(path);
    const isOpen = (mode & 0o004) !== 0 && folders.every((folder) => (folder & 0o001) !== 0);
    const isOpenToGroup = (mode & 0o040) !== 0 && folders.every((folder) => (folder & 0o011) !== 0);
    if (!isOpen && !isOpenToGroup) return [];
    const who = isOpen ? "everybody on this machine" : "its group";
    return [{ ok: false, isWarning: true, sentence: `${name} can be read by ${who}: chmod 600 ${path}.` }];
  });
}

/** The modes of the folders that lead to a file, from the root on. What stands in one that nobody may enter is not readable. */
function modesOfFolders(path: string): number[] {
  const folder = dirname(realpathSync(path));
  const parents = folder.split("/").map((_, depth, names) => names.slice(0, depth + 1).join("/") || "/");
  return parents.map((parent) => statSync(parent).mode);
}
