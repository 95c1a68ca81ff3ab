/**
 * Elements made without markup: what is put into them is text, whoever wrote it.
 */

type Attributes = Readonly<{ [name: string]: string | boolean }>;

/** Makes an element. True is an attribute without a value, false none; a child that is a text becomes a text. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** A sentence with its placeholders filled in, by what they stand for. */
export function filled(sentence: string, parts: ReadonlyMap<string, Node | string>): (Node | string)[] {
  return sentence.split(/(\{\w+\})/).map((piece) => parts.get(piece) ?? piece);
}
