/**
 * `gen/openapi.json` as a judge: whether an answer of a REST path is one that the document has, down to the last field.
 * The document lets callers expect further fields some day; here a field that it does not name is a fault.
 */
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { readOwnFile } from "../../../src/own-files.ts";

export const documentText = readOwnFile("gen/openapi.json").toString("utf8");

interface Content {
  readonly "application/json": {
    readonly schema: Reference | Union;
    readonly example?: unknown;
    readonly examples?: Record<string, Reference>;
  };
}
interface Refused {
  readonly reason: string;
  readonly message: string;
}
interface Reference {
  readonly $ref: string;
}
/** Bodies that are told apart by a field. */
interface Union {
  readonly oneOf: readonly Reference[];
}
export interface Response {
  readonly headers?: Readonly<Record<string, Reference>>;
  readonly content?: Content;
}
export interface Operation {
  readonly operationId: string;
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, Response | Reference>>;
}
export interface OpenApi {
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, object>>>>;
}

export interface Asked {
  readonly method: string;
  readonly path: string;
  /** The body's JSON, where there is one. */
  readonly body?: unknown;
}
export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

export interface Judge {
  /** What is wrong with an answer, or undefined. A request that was answered 200 must be in the document too. */
  faultOf(asked: Asked, answered: Answered): string | undefined;
  /** What is wrong with a value by a schema of the document, such as "SendOtpRequest", or undefined. */
  misfitOf(schema: string, value: unknown): string | undefined;
  /** What a part of the document stands for. */
  resolve<T extends object>(part: T | Reference): T;
}

/** Makes a judge from the text of a document. Throws for a schema that is not one. */
export function createJudge(text: string): Judge {
  const openApi = JSON.parse(text) as OpenApi;
  const strict = structuredClone(openApi);
  for (const schema of Object.values(strict.components["schemas"] ?? {})) close(schema);
  const ajv = new Ajv2020({ strict: true, allErrors: true, allowUnionTypes: true });
  addFormats.default(ajv);
  ajv.addVocabulary(["components", "discriminator"]);
  ajv.addSchema({ $id: "otpd", components: { schemas: strict.components["schemas"] } });

  function resolve<T extends object>(part: T | Reference): T {
    if (!("$ref" in part)) return part;
    let found: unknown = openApi;
    for (const name of part.$ref.split("/").slice(1)) found = (found as Record<string, unknown>)[name];
    if (typeof found !== "object" || found === null) throw new Error(`there is no ${part.$ref}`);
    return found as T;
  }

  function misfitOf(schema: string, value: unknown): string | undefined {
    const fits = ajv.getSchema(`otpd#/components/schemas/${schema}`);
    if (fits === undefined) throw new Error(`there is no schema ${schema}`);
    return fits(value) === true ? undefined : `${schema}: ${ajv.errorsText(fits.errors)}`;
  }

  function misfitOfBody(schema: Reference | Union, value: unknown): string | undefined {
    if ("$ref" in schema) return misfitOf(nameOf(schema), value);
    const misfits = schema.oneOf.map((one) => misfitOf(nameOf(one), value));
    return misfits.filter((misfit) => misfit === undefined).length === 1 ? undefined : misfits.join("; ");
  }

  const operations = Object.entries(openApi.paths).flatMap(([template, byMethod]) =>
    Object.entries(byMethod).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path: new RegExp(`^${template.replace(/\{\w+\}/g, "[^/]+")}$`),
      isPlain: !template.includes("{"),
      operation,
    })),
  );

  /** A refusal has one of the examples' reasons; where it says an example's sentence, it has the example's fields too. */
  function faultOfRefusal(examples: Record<string, Reference>, body: Refused): string | undefined {
    const example = examples[body.reason];
    if (example === undefined) return `no reason ${body.reason}`;
    const { value } = resolve<{ value: Refused }>(example);
    const more = value.message === body.message ? Object.keys(value).filter((name) => !(name in body)) : [];
    return more.length > 0 ? `${body.reason} without ${more.join(", ")}` : undefined;
  }

  function faultsOfHeaders(headers: Headers, known: Readonly<Record<string, Reference>>): string[] {
    const unknown = Object.keys(openApi.components["headers"] ?? {}).filter(
      (name) => headers.has(name) && !(name in known),
    );
    const missing = Object.entries(known).filter(
      ([name, header]) => !headers.has(name) && resolve<{ required?: boolean }>(header).required === true,
    );
    return [...unknown.map((name) => `no header ${name}`), ...missing.map(([name]) => `${name} is missing`)];
  }

  function faultWithin(
    { operation }: (typeof operations)[number],
    asked: Asked,
    answered: Answered,
  ): string | undefined {
    const { status, headers, body } = answered;
    const listed = operation.responses[status];
    if (listed === undefined) return `no status ${status}`;
    const { content, headers: known = {} } = resolve(listed);
    const faults = faultsOfHeaders(headers, known);
    const type = headers.get("content-type");
    if (content === undefined || type === null || !(type in content)) return `no content of type ${type}`;
    const { schema, examples } = content["application/json"];
    const misfit = misfitOfBody(schema, body);
    if (misfit !== undefined) faults.push(misfit);
    const fault = examples === undefined ? undefined : faultOfRefusal(examples, body as Refused);
    if (fault !== undefined) faults.push(`${fault} under ${status}`);
    if (faults.length > 0) return faults.join("; ");
    const { requestBody } = operation;
    if (status !== 200 || requestBody === undefined) return undefined;
    return misfitOfBody(requestBody.content["application/json"].schema, asked.body);
  }

  return {
    resolve,
    misfitOf,
    faultOf(asked, answered) {
      const found = operations.filter(({ method, path }) => method === asked.method && path.test(asked.path));
      const operation = found.find(({ isPlain }) => isPlain) ?? found[0];
      const fault = operation === undefined ? "no such path and method" : faultWithin(operation, asked, answered);
      return fault === undefined
        ? undefined
        : `${asked.method} ${asked.path}, ${answered.status} is not in gen/openapi.json: ${fault}`;
    },
  };
}

/** Closes an object's schema to what it does not name, and those within it. */
function close(schema: object): void {
  for (const part of Object.values(schema) as unknown[]) if (typeof part === "object" && part !== null) close(part);
  if ("properties" in schema && !("additionalProperties" in schema))
    Object.assign(schema, { additionalProperties: false });
}

/** The name of the schema that a body has by reference. */
export function nameOf(schema: Reference | Union): string {
  if (!("$ref" in schema)) throw new Error("a union has no name");
  return schema.$ref.replace(/^.*\//, "");
}

const judge = createJudge(documentText);

/** Throws for an event that the document does not have. */
export function expectDocumentedEvent(event: unknown): void {
  const fault = judge.misfitOf("OtpEvent", event);
  if (fault !== undefined) throw new Error(`${JSON.stringify(event)} is not in gen/openapi.json: ${fault}`);
}

/** Throws for an answer that the document does not have. */
export function expectDocumented(asked: Asked, answered: Answered): void {
  const fault = judge.faultOf(asked, answered);
  if (fault !== undefined) throw new Error(fault);
}
