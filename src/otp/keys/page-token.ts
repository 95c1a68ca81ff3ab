/**
 * The token of a page: where the next one begins, for the search that it belongs to and no other. It holds the id of a
 * verification, which whoever only reads must not learn whole, so it is encrypted.
 */
import { createCipheriv, createDecipheriv } from "node:crypto";
import { lengthPrefixed, type KeyRing, type MasterKey } from "./key-ring.ts";
import type { Instant } from "../../system.ts";

/** Behind which row a page begins. */
export interface PageKey {
  readonly createMs: Instant;
  readonly id: string;
}

export const pageNonceBytes = 12;
const tagBytes = 16;
const keyBytes = 8 + 16;
const textChars = Math.ceil(((pageNonceBytes + keyBytes + tagBytes) * 4) / 3);

/** Makes a token. `nonce` is random, of `pageNonceBytes`; `search` spells all that the search asks for. Pure. */
export function sealPage({ page }: MasterKey, search: string, { createMs, id }: PageKey, nonce: Uint8Array): string {
  const plain = Buffer.alloc(keyBytes);
  plain.writeBigUInt64BE(BigInt(createMs));
  Buffer.from(id, "base64url").copy(plain, 8);
  const cipher = createCipheriv("aes-256-gcm", page, nonce, { authTagLength: tagBytes }).setAAD(lengthPrefixed(search));
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]).toString("base64url");
}

/** Reads a token; undefined unless it was made for this very search, under any of the keys. Pure. */
export function openPage(keys: KeyRing, search: string, token: string): PageKey | undefined {
  const bytes = Buffer.from(token.slice(0, textChars), "base64url");
  if (token.length !== textChars || bytes.length !== pageNonceBytes + keyBytes + tagBytes) return undefined;
  for (const { page } of keys.all) {
    const decipher = createDecipheriv("aes-256-gcm", page, bytes.subarray(0, pageNonceBytes), {
      authTagLength: tagBytes,
    }).setAAD(lengthPrefixed(search));
    try {
      decipher.setAuthTag(bytes.subarray(-tagBytes));
      const plain = Buffer.concat([decipher.update(bytes.subarray(pageNonceBytes, -tagBytes)), decipher.final()]);
      return { createMs: Number(plain.readBigUInt64BE()), id: plain.subarray(8).toString("base64url") };
    } catch {
      // Made under another key, or by somebody else.
    }
  }
  return undefined;
}
