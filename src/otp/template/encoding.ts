/**
 * How long a text is on the air. A text whose every character is in the GSM 7-bit default alphabet (3GPP TS 23.038) or its
 * extension travels as GSM-7, 160 septets in one segment; one single other character makes the whole text UCS-2, 70
 * units. A longer text is cut into segments that each give up room for a header, and each segment is paid for.
 *
 * National language shift tables are left out: few providers and not every handset know them.
 */

/** One septet each. The accented capitals and small letters that are not here, such as `á` or `ç`, are not in GSM-7. */
const basic = new Set(
  "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà",
);

/** Two septets each: an escape and a character. */
const extension = new Set("\f^{}\\[~]|€");

const limits = {
  "GSM-7": { single: 160, joined: 153 },
  "UCS-2": { single: 70, joined: 67 },
} as const;

export interface Measure {
  readonly encoding: keyof typeof limits;
  /** Septets of GSM-7, or 16-bit units of UCS-2. */
  readonly units: number;
  readonly segments: number;
}

/** Measures a text as it travels. No character is split across two segments. Pure. */
export function measure(text: string): Measure {
  const characters = [...text];
  const isGsm7 = characters.every((character) => basic.has(character) || extension.has(character));
  const encoding = isGsm7 ? "GSM-7" : "UCS-2";
  const widths = characters.map((character) => (isGsm7 ? (extension.has(character) ? 2 : 1) : character.length));
  const units = widths.reduce((sum, width) => sum + width, 0);
  const { single, joined } = limits[encoding];
  if (units <= single) return { encoding, units, segments: 1 };
  let segments = 1;
  let filled = 0;
  for (const width of widths) {
    if (filled + width > joined) {
      segments += 1;
      filled = 0;
    }
    filled += width;
  }
  return { encoding, units, segments };
}

/** The characters that keep a text out of GSM-7, each once, in the order of the text. Pure. */
export function outsideGsm7(text: string): string[] {
  return [...new Set(text)].filter((character) => !basic.has(character) && !extension.has(character));
}

/**
 * The bytes of a text in the stricter of the two ways of counting that Android's documentation leaves open: UTF-8, and
 * for a text outside GSM-7 also the 16-bit units it travels in. Pure.
 */
export function bytesForAndroid(text: string): number {
  const { encoding, units } = measure(text);
  return Math.max(Buffer.byteLength(text, "utf8"), encoding === "UCS-2" ? 2 * units : 0);
}
