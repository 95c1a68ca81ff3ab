/**
 * Words that are stored by their position in a list.
 */
export function at<T>(list: readonly T[], position: number): T {
  const value = list[position];
  if (value === undefined) throw new Error(`the database holds a value from a newer version: ${position}`);
  return value;
}
