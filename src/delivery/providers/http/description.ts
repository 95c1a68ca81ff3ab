/**
 * How a declared provider describes itself: its variables are those of the secrets that its declaration names, and no others.
 * A file that could name any variable could post the master key.
 */
import * as v from "valibot";
import type { Description, ProviderDependencies, Variable } from "../description.ts";
import { publicKeyOf } from "./public-key.ts";
import type { Declaration } from "./shape.ts";
import { privateKeyOf } from "./token.ts";

/** The variable of a secret that a declaration calls `name`. */
function secretVariable(name: string): `OTP_${string}` {
  return `OTP_HTTP_${name}`;
}

/** Describes a provider of the file. What sends and reads reports is loaded once it is made. */
export function describeDeclared(declaration: Declaration): Description {
  const { name, channel, auth, reports, from, speech } = declaration;
  const [secret, reportSecret] = [auth?.secret, reports?.signature.secret];
  const handshakeSecret = reports?.handshake?.secret;
  const variables = Object.fromEntries(
    [...new Set([secret, reportSecret, handshakeSecret])]
      .filter((each) => each !== undefined)
      .map((each) => [secretVariable(each), variableOf(declaration, each)]),
  );
  return {
    name,
    channels: [channel],
    ...(channel === "voice" && speech === undefined ? { speaksUnasked: true } : {}),
    variables,
    ...(from === undefined ? {} : { senderText: from }),
    ...(reportSecret === undefined ? {} : { reportSecret: secretVariable(reportSecret) }),
    async create(values, { publicUrl, originators, now }: ProviderDependencies) {
      const valueOf = (each: string | undefined) => each && (values[secretVariable(each)] as string | undefined);
      const { createHttpProvider } = await import("./provider.ts");
      const secrets = {
        secret: valueOf(secret),
        reportSecret: valueOf(reportSecret),
        handshakeSecret: valueOf(handshakeSecret),
      };
      return createHttpProvider({ declaration, ...secrets, publicUrl, originators, now });
    },
  };
}

function variableOf({ name, auth, reports }: Declaration, secret: string): Variable<string> {
  if (auth?.secret === secret && auth.kind === "jwt-rs256") {
    const shape = v.pipe(
      v.string(),
      v.check((text) => privateKeyOf(text) !== undefined, "must be an RSA private key in PEM, of 2048 bits or more"),
    );
    return { shape, sentence: `the private key of \`${name}\``, isSecret: true, isRequired: true };
  }
  const isInHeader = auth?.secret === secret && (auth.kind === "bearer" || auth.kind === "header");
  const kind = reports?.signature.secret === secret ? reports.signature.kind : undefined;
  const shape = v.pipe(
    v.string(),
    v.regex(/^\P{Cc}{1,4096}$/u, "must be one line of at most 4096 characters"),
    v.check((text) => !isInHeader || /^[\x20-\x7e]+$/.test(text), "must be visible ASCII: it stands in a header"),
    v.check(
      (text) => kind !== "path" || isLongPath(text),
      "must be at least 128 bits at random for a path: 22 to 128 letters, digits, - and _, or 32 hex digits",
    ),
    v.check(
      (text) => kind !== "ed25519" || publicKeyOf(text) !== undefined,
      "must be an Ed25519 public key in base64 or hex",
    ),
  );
  return { shape, sentence: `a secret of \`${name}\``, isSecret: true, isRequired: true };
}

/** At least 128 bits, if they were drawn at random. In logs a path of small letters alone would not be masked. */
function isLongPath(text: string): boolean {
  if (!/^[A-Za-z0-9_-]{22,128}$/.test(text) || !/[A-Z0-9]/.test(text) || new Set(text).size < 8) return false;
  return text.length >= 32 || !/^[0-9a-f]+$/i.test(text);
}
