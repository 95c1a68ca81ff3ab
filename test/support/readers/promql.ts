/**
 * What a PromQL expression looks at: the metrics it names, the labels it tells them apart by, and the values it asks for.
 * Enough of the language for queries that people write; an expression with anything else in it is a fault of the test's.
 */

export interface Selector {
  readonly metric: string;
  /** The values that each label is to have: one, or those of an alternation; none where any will do. */
  readonly values: Readonly<Record<string, readonly string[]>>;
}

export interface Query {
  readonly selectors: readonly Selector[];
  /** The labels of `by (…)` and its like. */
  readonly groups: readonly string[];
  readonly aggregates: boolean;
}

const identifier = "[a-zA-Z_:][\\w:]*";
const words = new Set(["and", "or", "unless", "offset", "bool"]);

export function readQuery(expression: string): Query {
  const selectors: Selector[] = [];
  const groups: string[] = [];
  let rest = expression.replace(
    new RegExp(`(${identifier})\\s*\\{([^}]*)\\}`, "g"),
    (_, metric: string, inside: string) => {
      const values: Record<string, string[]> = {};
      const unread = inside.replace(
        /\s*(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"\s*,?/g,
        (__, label: string, sign: string, value: string) => {
          const isAny = value.startsWith("$") || !sign.startsWith("=");
          values[label] = isAny ? [] : value.split(sign === "=~" ? "|" : "\n");
          return "";
        },
      );
      if (unread.trim() !== "") throw new Error(`cannot read the selector {${inside}}`);
      selectors.push({ metric, values });
      return " 0 ";
    },
  );
  rest = rest.replace(/\[[\w$]+\]/g, " ").replace(/\boffset\s+\d+[smhdw]/g, " ");
  rest = rest.replace(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g, (_, labels: string) => {
    groups.push(
      ...labels
        .split(",")
        .map((label) => label.trim())
        .filter(Boolean),
    );
    return " ";
  });
  if (/["{}]/.test(rest)) throw new Error(`cannot read ${rest}`);
  for (const [name] of rest.matchAll(new RegExp(`(?<![\\w.])${identifier}(?!\\s*\\(|[\\w:])`, "g"))) {
    // A function's name has had its grouping taken away from between it and its bracket.
    if (!words.has(name)) selectors.push({ metric: name, values: {} });
  }
  return { selectors, groups, aggregates: /\b(sum|min|max|avg|count)\b/.test(expression) };
}
