/**
 * Makes elements. Every word goes in as text, never as markup, whoever wrote it.
 */

export type Child = Node | string | number | null | undefined | false | readonly Child[];

type Events = { readonly [Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void };

export interface Properties {
  /** Names of classes, with spaces between. */
  readonly class?: string | undefined;
  /** Attributes by name; one that is undefined or false is left out, and one that is true is empty. */
  readonly attributes?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly on?: Events;
}

/** Makes an element with what belongs in it. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  { class: classes, attributes = {}, on = {} }: Properties = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  if (classes !== undefined) element.className = classes;
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [name, listener] of Object.entries(on)) element.addEventListener(name, listener as EventListener);
  append(element, children);
  return element;
}

/** Appends what there is of these. */
export function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node || typeof child === "string") element.append(child);
    else if (typeof child === "number") element.append(`${child}`);
    else append(element, child);
  }
}

/** A URL or a name with dots, which is broken at these where it has to be. */
export function breakable(text: string): Child {
  return text.split(/(?<=[/.,])(?=\w)/).flatMap((part, i) => (i === 0 ? [part] : [make("wbr"), part]));
}

let identifiers = 0;

/** An id that no other element has. */
export function uniqueId(stem: string): string {
  identifiers += 1;
  return `${stem}-${identifiers}`;
}
