/**
 * An overlay of docs/operate/kustomize as `kubectl apply -k` sends it, as far as those files use Kustomize: resources, and
 * JSON patches (RFC 6902) that add and replace. Anything else is refused, so that nothing is passed over.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";

const folder = join(import.meta.dirname, "../../../docs/operate/kustomize");

export interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: Record<string, unknown>;
}
interface Patch {
  readonly target: { readonly kind: string; readonly name: string };
  readonly patch: string;
}
interface Operation {
  readonly op: string;
  readonly path: string;
  readonly value: unknown;
}

/** The resources of an overlay, such as `sqlite`. Throws where a file is not understood. */
export function readOverlay(name: string): Resource[] {
  const path = join(folder, name);
  const {
    apiVersion,
    kind,
    resources,
    patches = [],
    ...rest
  } = parse(readFileSync(join(path, "kustomization.yaml"), "utf8")) as {
    apiVersion: string;
    kind: string;
    resources: string[];
    patches?: Patch[];
  };
  if (`${apiVersion} ${kind}` !== "kustomize.config.k8s.io/v1beta1 Kustomization" || Object.keys(rest).length > 0) {
    throw new Error(`${name} is not understood`);
  }
  const read = resources.flatMap((each) =>
    each.endsWith(".yaml") ? readFile(path, each) : readOverlay(join(name, each)),
  );
  for (const { target, patch } of patches) {
    const [patched, ...more] = read.filter((each) => each.kind === target.kind && each.metadata.name === target.name);
    if (patched === undefined || more.length > 0) throw new Error(`${name} patches what there is not once`);
    for (const operation of parse(patch) as Operation[]) apply(patched, operation);
  }
  return read;
}

function readFile(path: string, name: string): Resource[] {
  const documents = parseAllDocuments(readFileSync(join(path, name), "utf8"));
  const faults = documents.flatMap(({ errors, warnings }) => [...errors, ...warnings]);
  if (faults.length > 0) throw new Error(`${name}: ${faults.join("; ")}`);
  return documents.map((document) => document.toJS() as Resource);
}

function apply(resource: Resource, { op, path, value }: Operation): void {
  const names = path.split("/").slice(1);
  const last = names.pop() ?? "";
  let place = resource as unknown as Record<string, unknown>;
  for (const name of names) {
    const next = place[name];
    if (typeof next !== "object" || next === null) throw new Error(`there is no ${path}`);
    place = next as Record<string, unknown>;
  }
  if (op === "add" && last === "-" && Array.isArray(place)) place.push(value);
  else if ((op === "add" && !(last in place)) || (op === "replace" && last in place)) place[last] = value;
  else throw new Error(`${op} ${path} is not understood`);
}
