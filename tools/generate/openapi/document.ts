/**
 * The whole document: each row of the server's route table with what the proto says of its RPC, within the frame.
 */
import type { DescFile, DescMessage, DescMethod } from "@bufbuild/protobuf";
import { getPackageComments } from "@bufbuild/protoplugin";
import { isDeepStrictEqual } from "node:util";
import { rpcRows } from "../../../src/server/rpc/rpcs.ts";
import { examples } from "./examples.ts";
import { callHeaders, frame, idempotencyKey, keySetOperation, keySetSchema, replayed } from "./frame.ts";
import { errorExamples, reasonRows, refusals, refusalSchemas, type ReasonRow } from "./refusals.ts";
import { commentOf, enumSchema, fieldSchema, flowed, messageSchema, refTo, type JsonObject } from "./schemas.ts";
import { eventSchemas, webhooks } from "./webhooks.ts";

/** Makes the document of the service in a file. Throws where the proto says too little of something. */
export function documentOf(file: DescFile, version: string): JsonObject {
  const service = named(file.services, "OtpService");
  const reasonEnum = named(file.enums, "Reason");
  const rows = reasonRows(reasonEnum);
  const [summary = "", ...about] = flowed(getPackageComments(file).leading ?? "").split("\n\n");
  const aboutService = commentOf(service);
  const common = refusals(rows.filter(({ name }) => mentions(aboutService, name)));
  const shared = Object.fromEntries(Object.entries(common).map(([status, one]) => [`Refused${status}`, one]));

  /** The responses of a call that can be refused for these reasons; those that most calls share by reference. */
  const refused = (reasons: readonly ReasonRow[]): JsonObject => {
    const own = refusals(reasons);
    const alike = Object.keys(own).filter((status) => isDeepStrictEqual(own[status], common[status]));
    const references = alike.map((status) => [status, { $ref: `#/components/responses/Refused${status}` }]);
    return { ...own, ...Object.fromEntries(references) };
  };

  const paths: Record<string, JsonObject> = {};
  const schemas: Record<string, JsonObject> = {};
  for (const { name: rpc, method: verb, path, idempotency } of rpcRows) {
    const method = named(service.methods, rpc);
    const isMutating = idempotency !== "safe";
    const hasBody = !path.includes("{");
    if (hasBody) schemas[method.input.name] = messageSchema(method.input, "request");
    for (const message of [method.output, ...messagesIn(method.output)]) {
      schemas[message.name] = messageSchema(message, "answer");
    }
    const reasons = rows.filter(({ name }) => {
      if (name.startsWith("IDEMPOTENCY_")) return isMutating;
      if (name === "BODY_TOO_LARGE" || name === "MEDIA_TYPE_UNSUPPORTED") return hasBody;
      // A segment that is too long for any id is no path.
      if (name === "ROUTE_NOT_FOUND") return !hasBody;
      return mentions(aboutService, name) || mentions(commentOf(method), name);
    });
    paths[path] = { ...paths[path], [verb.toLowerCase()]: operationOf(method, path, isMutating, refused(reasons)) };
  }
  for (const desc of file.enums) schemas[desc.name] = enumSchema(desc);
  const unready = rows.filter(({ name }) => ["SHUTTING_DOWN", "STORE_UNAVAILABLE", "INTERNAL"].includes(name));
  paths["/.well-known/jwks.json"] = { get: keySetOperation(content("KeySet"), refused(unready)) };

  const responses = usedIn([paths], "responses", shared);
  const { info, components, ...rest } = frame;
  const description = [...about, aboutService, info.description].join("\n\n");
  return {
    openapi: "3.1.0",
    info: { title: "otpd", version, summary, description, contact: info.contact, license: info.license },
    ...rest,
    paths,
    webhooks,
    components: {
      ...components,
      schemas: {
        ...schemas,
        ...refusalSchemas(named(file.messages, "OtpError"), reasonEnum, rows),
        KeySet: keySetSchema,
        ...eventSchemas,
      },
      responses,
      examples: usedIn([paths, responses], "examples", errorExamples(rows)),
    },
  };
}

function named<T extends { readonly name: string }>(all: readonly T[], name: string): T {
  const found = all.find((one) => one.name === name);
  if (found === undefined) throw new Error(`the proto has no ${name}`);
  return found;
}

/** The messages that a message has lists of. */
function messagesIn({ fields }: DescMessage): DescMessage[] {
  return fields.flatMap((field) => (field.fieldKind === "list" && field.listKind === "message" ? [field.message] : []));
}

/** Those of some components that other parts of the document refer to. */
function usedIn(parts: readonly JsonObject[], kind: string, all: JsonObject): JsonObject {
  const text = JSON.stringify(parts);
  return Object.fromEntries(Object.entries(all).filter(([name]) => text.includes(`"#/components/${kind}/${name}"`)));
}

function mentions(comment: string, reason: string): boolean {
  return comment.match(/\b[A-Z_]+\b/g)?.includes(reason) === true;
}

function operationOf(method: DescMethod, path: string, isMutating: boolean, refused: JsonObject): JsonObject {
  const [, summary = "", description = ""] = /^(.+?)\.(?:\s+(.*))?$/s.exec(commentOf(method)) ?? [];
  const inPath = method.input.fields.filter(({ name }) => path.includes(`{${name}}`));
  const parameters = inPath.map((field) => {
    const { description: about = "", ...schema } = fieldSchema(field);
    return { name: field.name, in: "path", required: true, description: about, schema };
  });
  return {
    operationId: method.name,
    tags: ["otp"],
    summary,
    description,
    parameters: [...parameters, ...(isMutating ? [idempotencyKey] : [])],
    ...(inPath.length > 0 ? {} : { requestBody: { required: true, content: content(method.input.name) } }),
    responses: {
      "200": {
        description: commentOf(method.output),
        headers: { ...callHeaders, ...(isMutating ? replayed : {}) },
        content: content(method.output.name),
      },
      ...refused,
    },
  };
}

function content(name: string): JsonObject {
  const example = examples[name];
  if (example === undefined) throw new Error(`there is no example of ${name}`);
  return { "application/json": { schema: refTo(name), example } };
}
