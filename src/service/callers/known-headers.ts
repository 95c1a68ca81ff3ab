/**
 * The keys that were read out of `Authorization` headers, each by its header as it came: to read one again would take a
 * twentieth of a call. A secret key is remembered however its header is spelt. A page's key is everybody's, and one of
 * them could spell it in more ways than there is room for. So it is remembered in one spelling, and apart: no stranger
 * drives out what callers have brought.
 */
export interface KnownHeaders<Key> {
  /** What a header was found to bring; undefined where that is not remembered. */
  get(header: string): Key | undefined;
  /** Remembers a header whose key is valid. `isReadable` is true for a key that everybody can read. */
  remember(header: string, key: Key, isReadable: boolean): void;
}

/** A key has 68 characters at most, with its scheme. */
const headerCharsMax = 128;
const usualSpelling = /^Bearer \S+$/;

/** Remembers at most `headersMax` headers of secret keys, and as many of pages' keys. */
export function createKnownHeaders<Key>(headersMax = 4_096): KnownHeaders<Key> {
  const secret = new Map<string, Key>();
  const readable = new Map<string, Key>();
  return {
    get: (header) => secret.get(header) ?? readable.get(header),
    remember(header, key, isReadable) {
      if (header.length > headerCharsMax || (isReadable && !usualSpelling.test(header))) return;
      const known = isReadable ? readable : secret;
      const [oldest] = known.keys();
      if (known.size >= headersMax && oldest !== undefined) known.delete(oldest);
      known.set(header, key);
    },
  };
}
