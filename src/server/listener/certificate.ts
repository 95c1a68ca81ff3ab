/**
 * The certificate in use, and what a handshake costs by its key: one of RSA with 4,096 bits takes seven times as long to sign as
 * one with 2,048, and anybody can have it sign.
 */
import { constants, createPrivateKey } from "node:crypto";

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export interface CertificateInUse {
  /** Reads it anew, as TLS takes it. Throws, and keeps what it had, where there is none in it. */
  read(): Certificate & typeof protocol;
  /** For how many records the first of a handshake counts. */
  readonly handshakeRecords: number;
}

export function createCertificateInUse(readCertificate: () => Certificate): CertificateInUse {
  let handshakeRecords = handshakeRecordsOf(undefined);
  return {
    read() {
      const { cert, key } = readCertificate();
      // TLS would take an empty one, and then fail every handshake.
      if (!cert.includes("-----BEGIN ") || !key.includes("-----BEGIN ")) {
        throw Object.assign(new Error("the certificate or its key is not in PEM form"), { code: "ERR_NOT_PEM" });
      }
      handshakeRecords = handshakeRecordsOf(createPrivateKey(key).asymmetricKeyDetails?.modulusLength);
      return { cert, key, ...protocol };
    },
    get handshakeRecords() {
      return handshakeRecords;
    },
  };
}

/**
 * The groups that keys are agreed on in, of which a client chooses: TLS knows others, which take up to six times as long.
 * Every client has P-256, since TLS 1.3 demands it. What OpenSSL does not know it leaves out from 3.5 on.
 */
const groups = opensslIsFrom(3, 5) ? "?X25519MLKEM768:X25519:P-256" : "X25519:P-256";

/** What we speak. Nobody may begin another handshake within a connection: our key would have to work again, unseen (wire.ts). */
const protocol = {
  minVersion: "TLSv1.2",
  ecdhCurve: groups,
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
} as const;

function opensslIsFrom(major: number, minor: number): boolean {
  const [itsMajor = 0, itsMinor = 0] = process.versions.openssl.split(".").map(Number);
  return itsMajor > major || (itsMajor === major && itsMinor >= minor);
}

/** With a key of an elliptic curve it takes 1 ms, which is as much as so many records. */
export const recordsPerHandshake = 64;
/** To sign with RSA of so many bits takes as long again. */
const rsaBitsAsLong = 2_048;
/** As much as a turn has, so that each has one. What a connection may cost is twice that, and has to last for its first requests. */
const recordsMax = 512;

/** To sign with RSA takes as long as the cube of its bits. */
function handshakeRecordsOf(rsaBits = 0): number {
  const times = 1 + (rsaBits / rsaBitsAsLong) ** 3;
  return Math.min(recordsMax, Math.ceil(recordsPerHandshake * times));
}
