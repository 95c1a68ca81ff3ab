/**
 * Rows as columns, which is how a statement takes many of them: one array per parameter.
 */
export type Cell = string | number | Uint8Array | null;

export function columns(table: readonly (readonly Cell[])[]): Cell[][] {
  return (table[0] ?? []).map((_, column) => table.map((row) => row[column] ?? null));
}
