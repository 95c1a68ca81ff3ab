/** Keys that nobody made, by hand: what a stranger can write, who knows how a checksum is made. */
import { crc32 } from "node:zlib";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** A key's text with the checksum that belongs to it: CRC-32 in six digits of base 62. */
export function withChecksum(stem: string): string {
  let rest = crc32(stem);
  let text = "";
  for (let i = 0; i < 6; i++) {
    text = alphabet.charAt(rest % 62) + text;
    rest = Math.floor(rest / 62);
  }
  return stem + text;
}
