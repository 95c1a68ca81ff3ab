/**
 * Server reflection: what this server speaks, told to grpcurl, buf curl and their like, in both versions that they ask
 * for. A file is sent with all that it imports, so that a client needs one question.
 */
import {
  create,
  fromBinary,
  toBinary,
  type DescEnum,
  type DescFile,
  type DescMessage,
  type DescService,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type ConnectRouter } from "@connectrpc/connect";
import { file_google_rpc_error_details as errorDetails } from "../../../gen/google/rpc/error_details_pb.ts";
import { Health } from "../../../gen/grpc/health/v1/health_pb.ts";
import * as v1 from "../../../gen/grpc/reflection/v1/reflection_pb.ts";
import * as v1alpha from "../../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { OtpService } from "../../../gen/otp/v1/otp_service_pb.ts";

const services: readonly DescService[] = [OtpService, Health, v1.ServerReflection, v1alpha.ServerReflection];

/**
 * Questions answered at once, of all clients together: 1 to 3 ms. One piece of 16 KiB has 2,000 of them, and without a bound
 * a turn of the event loop answered all that there were. Then they rest, so that they take a sixth of the time.
 */
const questionsAtOnce = 16;
const restMs = 20;

/** Registers both versions. */
export function reflectionRoutes(router: ConnectRouter): void {
  const answer = createReflection();
  const itsTurn = createQueue();
  router.service(v1.ServerReflection, {
    async *serverReflectionInfo(requests) {
      for await (const request of requests) {
        await itsTurn();
        yield answer(request);
      }
    },
  });
  router.service(v1alpha.ServerReflection, {
    async *serverReflectionInfo(requests) {
      for await (const request of requests) {
        await itsTurn();
        // The two differ in name alone: the same bytes mean the same.
        const bytes = toBinary(v1alpha.ServerReflectionRequestSchema, request);
        const answered = create(
          v1.ServerReflectionResponseSchema,
          answer(fromBinary(v1.ServerReflectionRequestSchema, bytes)),
        );
        yield fromBinary(v1alpha.ServerReflectionResponseSchema, toBinary(v1.ServerReflectionResponseSchema, answered));
      }
    },
  });
}

/** Makes what a question waits for. A client has one that waits, so clients take turns. */
function createQueue(): () => Promise<void> | undefined {
  const waiting: (() => void)[] = [];
  let left = questionsAtOnce;
  let isResting = false;

  function rest(): void {
    if (isResting) return;
    isResting = true;
    // From the end of the turn on: a turn that was long has not rested.
    setImmediate(() => setTimeout(goOn, restMs).unref());
  }

  function goOn(): void {
    isResting = false;
    const next = waiting.splice(0, questionsAtOnce);
    left = questionsAtOnce - next.length;
    if (next.length > 0) rest();
    for (const ask of next) ask();
  }

  return () => {
    rest();
    if (waiting.length > 0 || left === 0) return new Promise((resolve) => waiting.push(resolve));
    left -= 1;
    return undefined;
  };
}

type Response = MessageInitShape<typeof v1.ServerReflectionResponseSchema>;
type MessageResponse = NonNullable<Response["messageResponse"]>;

/** Makes the function that answers one question. Pure. */
function createReflection(): (request: v1.ServerReflectionRequest) => Response {
  // What errors carry is imported by no service, and clients show it by asking for its type.
  const files = withImports([...services.map(({ file }) => file), errorDetails]);
  const byName = new Map(files.map((file) => [file.proto.name, file]));
  const bySymbol = new Map(files.flatMap((file) => symbolsOf(file).map((symbol) => [symbol, file] as const)));
  const messages = new Set(files.flatMap((file) => allMessages(file.messages)).map(({ typeName }) => typeName));

  /** What is said of each file that was asked for: to make it costs many times the rest of an answer. */
  const said = new Map<DescFile, MessageResponse>();

  function fileResponse(file: DescFile | undefined): MessageResponse {
    if (file === undefined) return notFound;
    const known = said.get(file);
    if (known !== undefined) return known;
    const fileDescriptorProto = withImports([file]).map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
    const made: MessageResponse = { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
    said.set(file, made);
    return made;
  }

  function responseTo({ messageRequest: asked }: v1.ServerReflectionRequest): MessageResponse {
    switch (asked.case) {
      case "listServices":
        return { case: "listServicesResponse", value: { service: services.map(({ typeName: name }) => ({ name })) } };
      case "fileByFilename":
        return fileResponse(byName.get(asked.value));
      case "fileContainingSymbol":
        return fileResponse(bySymbol.get(asked.value));
      case "allExtensionNumbersOfType":
        // Nothing here is extended.
        return messages.has(asked.value)
          ? { case: "allExtensionNumbersResponse", value: { baseTypeName: asked.value } }
          : notFound;
      case "fileContainingExtension":
        return notFound;
      case undefined:
      default:
        return errorOf(Code.InvalidArgument, "nothing that is known here was asked");
    }
  }

  return (request) => ({
    validHost: request.host,
    originalRequest: request,
    messageResponse: responseTo(request),
  });
}

function errorOf(errorCode: Code, errorMessage: string): MessageResponse {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}

const notFound = errorOf(Code.NotFound, "there is no such thing here");

/** Files and all that they import, each once, in that order. */
function withImports(files: readonly DescFile[]): DescFile[] {
  const all = new Set(files);
  // A set is gone through to its end, with what is added on the way.
  for (const file of all) for (const imported of file.dependencies) all.add(imported);
  return [...all];
}

function allMessages(messages: readonly DescMessage[]): DescMessage[] {
  return messages.flatMap((message) => [message, ...allMessages(message.nestedMessages)]);
}

/** The full names of all that a file declares, down to fields, methods and values. */
function symbolsOf(file: DescFile): string[] {
  const messages = allMessages(file.messages);
  const enums = [...file.enums, ...messages.flatMap(({ nestedEnums }) => nestedEnums)];
  return [
    ...messages.flatMap(({ typeName, fields, oneofs }) => [typeName, ...namesWithin(typeName, [...fields, ...oneofs])]),
    ...enums.flatMap((desc) => [desc.typeName, ...valueNames(desc)]),
    ...file.services.flatMap(({ typeName, methods }) => [typeName, ...namesWithin(typeName, methods)]),
  ];
}

function namesWithin(scope: string, things: readonly { readonly name: string }[]): string[] {
  return things.map(({ name }) => `${scope}.${name}`);
}

/** An enum's values are named beside it, not within it. */
function valueNames({ typeName, values }: DescEnum): string[] {
  return namesWithin(typeName.slice(0, typeName.lastIndexOf(".")), values);
}
