/**
 * The pending request over a reload of the web page: its id and its code's length, in the tab's own storage. The phone
 * is not kept. A tab without storage, or with a full one, forgets the request.
 */

export interface KeptRequest {
  readonly id: string;
  readonly codeLength: number;
}

export interface Keeper {
  get(): KeptRequest | undefined;
  set(request: KeptRequest): void;
  forget(): void;
}

/** Each form has its own, by these words. */
export function createKeeper(...words: readonly string[]): Keeper {
  const name = ["otp-form", ...words].join(" ");
  /** A web page in a sandbox may not even ask for its storage. */
  function attempt<Result>(act: (storage: Storage) => Result): Result | undefined {
    try {
      return act(sessionStorage);
    } catch {
      return undefined;
    }
  }
  return {
    get() {
      const text = attempt((storage) => storage.getItem(name)) ?? "";
      const [, id, digits] = /^([\w-]{22}) (\d{1,2})$/.exec(text) ?? [];
      return id === undefined ? undefined : { id, codeLength: Number(digits) };
    },
    set: ({ id, codeLength }) => attempt((storage) => storage.setItem(name, `${id} ${codeLength}`)),
    forget: () => attempt((storage) => storage.removeItem(name)),
  };
}
