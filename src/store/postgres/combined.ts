/**
 * Several statements as one. Beside its rows a statement costs a message each way and a turn of either process. A batch
 * has a dozen statements, and pays that once for all of them.
 */
import type { Statement, Value } from "./connections.ts";

/** The values of some of the parts. The others have nothing to do. */
type Values<Name extends string> = Partial<Readonly<Record<Name, readonly Value[]>>>;

/** Several statements as one, by their names. */
export interface Combined<Name extends string> {
  readonly statement: Statement;
  /** The values of all of them, in the order of the combined statement. */
  values(values: Values<Name>): Value[];
}

type Parts<Name extends string> = Readonly<Record<Name, Statement>>;

/** Reads of which the one row has the rows of each as JSON, null for none. So bytes have to be told by their place. */
export function readTogether<Name extends string>(name: string, parts: Parts<Name>): Combined<Name> {
  return combine(name, parts, (texts) => {
    const columns = texts.map(([part, text]) => `(SELECT json_agg(r) FROM (${text}) AS r) AS "${part}"`);
    return `SELECT ${columns.join(",\n")}`;
  });
}

/** A read by one text, as one of many texts at once: its rows have the place of theirs, from 1 on. */
export function readForEach({ name, text }: Statement): Statement {
  return {
    name: `${name}-for-each`,
    text: `SELECT u.place, its.* FROM unnest($1::text[]) WITH ORDINALITY AS u (asked, place)
      CROSS JOIN LATERAL (${text.replaceAll("$1", "u.asked")}) AS its`,
  };
}

/** Writes, each of another table. They are made in no order, and none sees what another has written. */
export function writeTogether<Name extends string>(name: string, parts: Parts<Name>): Combined<Name> {
  return combine(name, parts, (texts) => {
    const steps = texts.map(([part, text]) => `"${part}" AS (${text})`);
    return `WITH ${steps.join(",\n")} SELECT`;
  });
}

function combine<Name extends string>(
  name: string,
  parts: Parts<Name>,
  join: (texts: readonly (readonly [Name, string])[]) => string,
): Combined<Name> {
  let before = 0;
  const nothing: (readonly [Name, readonly Value[]])[] = [];
  const texts = (Object.keys(parts) as Name[]).map((part) => {
    const { text } = parts[part];
    const empty = nothingFor(text);
    const first = before;
    before += empty.length;
    nothing.push([part, empty]);
    return [part, text.replaceAll(/\$(\d+)/g, (_, at: string) => `$${first + Number(at)}`)] as const;
  });
  return {
    statement: { name, text: join(texts) },
    values: (values) => nothing.flatMap(([part, empty]) => values[part] ?? empty),
  };
}

/** What a statement is given where it has nothing to do: no rows. */
function nothingFor(text: string): Value[] {
  const isArray = new Map<number, boolean>();
  for (const [, at, array] of text.matchAll(/\$(\d+)(::\w+\[\])?/g)) {
    isArray.set(Number(at), isArray.get(Number(at)) === true || array !== undefined);
  }
  return Array.from({ length: isArray.size }, (_, i) => (isArray.get(i + 1) === true ? [] : 0));
}
