/**
 * Secrets that cannot be printed. A code or a key travels inside a Secret, whose every text form is `[secret]`; only
 * `reveal()` opens it, and a reader can search for that one word.
 */
import { inspect } from "node:util";

export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The text itself. Call it where the secret is used, never to pass it on. */
  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return "[secret]";
  }

  toJSON(): string {
    return "[secret]";
  }

  [inspect.custom](): string {
    return "[secret]";
  }
}
