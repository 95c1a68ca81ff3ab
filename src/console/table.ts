/**
 * Tables. One whose columns say what they are sorted by is sorted at the press of a head, and stays so while the console is open.
 */
import { make, type Child } from "./dom.ts";

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => Child;
  /** Numbers stand to the right; words that may be many are broken into lines. Neither unless given. */
  readonly kind?: "number" | "words";
  /** Makes the head a button that sorts by this; numbers and times begin with the largest. Rows without one come last. */
  readonly sortBy?: (row: Row) => string | number | undefined;
}

interface Order {
  readonly head: string;
  readonly isDown: boolean;
}

/** By the table's caption. */
const orders = new Map<string, Order>();

/**
 * A table, or a sentence where there is nothing in it. It scrolls in itself where the screen is narrow, as a landmark whose name
 * is not that of the part around it.
 */
export function table<Row>(
  caption: string,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  whenEmpty: string,
): HTMLElement {
  if (rows.length === 0) return make("p", { class: "empty" }, whenEmpty);
  const shown = rows.map((row) => ({ row, line: lineOf(row, columns) }));
  const body = make("tbody", {});
  const heads = columns.map((column) => make("th", { class: column.kind, attributes: { scope: "col" } }));
  const arrange = () => {
    const order = orders.get(caption);
    const by = columns.find(({ head, sortBy }) => head === order?.head && sortBy !== undefined);
    const sorted = by?.sortBy === undefined ? shown : shown.toSorted(comparing(by.sortBy, order?.isDown === true));
    body.append(...sorted.map(({ line }) => line));
    for (const [i, head] of heads.entries()) {
      const isBy = by !== undefined && columns[i] === by;
      if (isBy) head.setAttribute("aria-sort", order?.isDown === true ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  };
  for (const [i, { head, sortBy }] of columns.entries()) {
    const press = () => {
      const first = rows.map((row) => sortBy?.(row)).find((value) => value !== undefined);
      const order = orders.get(caption);
      const isDown = order?.head === head ? !order.isDown : typeof first === "number";
      orders.set(caption, { head, isDown });
      arrange();
    };
    const sorter = () => make("button", { class: "sort", attributes: { type: "button" }, on: { click: press } }, head);
    heads[i]?.append(sortBy === undefined || rows.length === 1 ? head : sorter());
  }
  arrange();
  return make(
    "div",
    { class: "scroll", attributes: { tabindex: 0, role: "region", "aria-label": `Table: ${caption}` } },
    make("table", {}, make("caption", { class: "unseen" }, caption), make("thead", {}, make("tr", {}, heads)), body),
  );
}

function lineOf<Row>(row: Row, columns: readonly Column<Row>[]): HTMLTableRowElement {
  const cells = columns.map((column) => make("td", { class: column.kind }, column.cell(row)));
  return withNamedButtons(make("tr", {}, cells));
}

function comparing<Row>(sortBy: (row: Row) => string | number | undefined, isDown: boolean) {
  return ({ row: one }: { readonly row: Row }, { row: other }: { readonly row: Row }): number => {
    const [a, b] = [sortBy(one), sortBy(other)];
    if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
    const ascending =
      typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, natural);
    return isDown ? -ascending : ascending;
  };
}

const natural = { numeric: true };

const nameCharsMax = 100;

/** Each row has the same buttons: read out, they say which row's they are, by the first words in it. */
function withNamedButtons(row: HTMLTableRowElement): HTMLTableRowElement {
  const words = [...(row.cells[0]?.childNodes ?? [])].map(({ textContent }) => (textContent ?? "").trim());
  const name = (words.find((each) => each !== "") ?? "").slice(0, nameCharsMax);
  for (const each of row.querySelectorAll("button:not([aria-label])")) {
    each.setAttribute("aria-label", `${each.textContent} ${name}`);
  }
  return row;
}
