/**
 * Reads that many calls ask for at once. Whoever comes while a read is under way shares the next one with all others
 * who do. So each answer was read after its call had come: a key that was revoked before a call never lets it pass.
 */
export class SharedReads {
  readonly #shared = new Map<string, { readonly underWay: Promise<unknown>; next: Promise<unknown> | undefined }>();

  /** `name` stands for what is read. Rejects as the read does, for all who share it. */
  read<T>(name: string, read: () => Promise<T>): Promise<T> {
    const shared = this.#shared.get(name);
    if (shared === undefined) return this.#begin(name, read);
    const begin = () => this.#begin(name, read);
    shared.next ??= shared.underWay.then(begin, begin);
    return shared.next as Promise<T>;
  }

  #begin<T>(name: string, read: () => Promise<T>): Promise<T> {
    const underWay = read();
    const shared = { underWay, next: undefined };
    this.#shared.set(name, shared);
    const end = () => {
      if (shared.next === undefined) this.#shared.delete(name);
    };
    underWay.then(end, end);
    return underWay;
  }
}
