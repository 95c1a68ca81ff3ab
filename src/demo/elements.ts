/**
 * The page's elements by their ids. One that is missing, or is another kind of element, is a bug and says so at once.
 */

export function element<Kind extends HTMLElement>(id: string, kind: new () => Kind): Kind {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} with the id ${id}`);
  return found;
}
