/**
 * The name under which a message is known to its provider. It leads back to the verification without a column or an
 * index, and does not tell the provider the request_id: the 16 random bytes of the id, encrypted as one AES-256 block,
 * and the copy's number. A single block of random input needs no mode and no nonce.
 */
import { createCipheriv, createDecipheriv } from "node:crypto";
import type { KeyRing, MasterKey } from "./key-ring.ts";

/** The reference of a message: 22 characters of base64url, a dot and the copy. Pure. */
export function referenceOf(key: MasterKey, id: string, copy: number): string {
  const cipher = createCipheriv("aes-256-ecb", key.reference, null).setAutoPadding(false);
  const block = Buffer.concat([cipher.update(Buffer.from(id, "base64url")), cipher.final()]);
  return `${block.toString("base64url")}.${copy}`;
}

/** What a reference may stand for: one candidate per configured key, of which at most one exists. Pure. */
export function readReference(keys: KeyRing, reference: string): { readonly id: string; readonly copy: number }[] {
  const [, text = "", copy = ""] = /^([A-Za-z0-9_-]{22})\.(\d{1,2})$/.exec(reference) ?? [];
  const block = Buffer.from(text, "base64url");
  if (block.length !== 16) return [];
  return keys.all.map((key) => {
    const decipher = createDecipheriv("aes-256-ecb", key.reference, null).setAutoPadding(false);
    const id = Buffer.concat([decipher.update(block), decipher.final()]).toString("base64url");
    return { id, copy: Number(copy) };
  });
}
