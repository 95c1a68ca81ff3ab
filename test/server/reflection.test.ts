/**
 * Server reflection as its clients use it: buf curl, which knows nothing of our protos here, in both versions; Connect's
 * client, question by question; and Python's where there is one.
 */
import { create, createFileRegistry, fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, type FileDescriptorProto } from "@bufbuild/protobuf/wkt";
import {
  Code,
  ConnectError,
  createClient,
  type ConnectRouter,
  type HandlerContext,
  type ServiceImpl,
  type Transport,
} from "@connectrpc/connect";
import { compressionGzip, createGrpcTransport } from "@connectrpc/connect-node";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { connect, constants, type ClientHttp2Session } from "node:http2";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ServerReflection, type ServerReflectionRequestSchema } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as V1Alpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { frameOf } from "../../src/server/rpc/frames.ts";
import { reflectionRoutes } from "../../src/server/rpc/reflection.ts";
import { runPython } from "../support/clients/grpc/python.ts";
import { lacks } from "../support/machine.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

const buf = join(import.meta.dirname, "../../node_modules/.bin/buf");
const services = [
  "grpc.health.v1.Health",
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
  "otp.v1.OtpService",
];

/** Runs buf curl, away from the repository's protos; resolves with what it printed. */
async function bufCurl(path: string, ...args: string[]): Promise<string> {
  const all = ["curl", "--protocol", "grpc", "--http2-prior-knowledge", ...args, `${world.url}${path}`];
  return (await promisify(execFile)(buf, all, { cwd: world.folder })).stdout;
}

describe.each(["grpc-v1", "grpc-v1alpha"])("buf curl by %s", (version) => {
  const by = ["--reflect-protocol", version];

  test("lists what there is", async () => {
    const methods = (await bufCurl("", ...by, "--list-methods")).trim().split("\n");
    expect(new Set(methods.map((method) => method.split("/")[0]))).toEqual(new Set(services));
    expect(methods).toEqual(expect.arrayContaining(["grpc.health.v1.Health/Check", "otp.v1.OtpService/VerifyOtp"]));
  });

  test("calls an RPC that it learned of just now", async () => {
    const key = ["-H", `Authorization: Bearer ${world.key}`];
    const sent = await bufCurl("/otp.v1.OtpService/SendOtp", ...by, ...key, "-d", '{"phone":"+31612345678"}');
    expect(JSON.parse(sent)).toMatchObject({ state: "STATE_PENDING", codeLength: 6 });
  });
});

type Question = MessageInitShape<typeof ServerReflectionRequestSchema>["messageRequest"];

describe.each([
  ["v1", ServerReflection],
  ["v1alpha", V1Alpha],
] as const)("by %s", (_, service) => {
  async function ask(...questions: NonNullable<Question>[]) {
    return askBy(createGrpcTransport({ baseUrl: world.url }), ...questions);
  }
  async function askBy(transport: Transport, ...questions: NonNullable<Question>[]) {
    const client = createClient(service, transport);
    async function* asked() {
      for (const messageRequest of questions) yield { host: "there", messageRequest };
    }
    const answers = [];
    for await (const answer of client.serverReflectionInfo(asked())) answers.push(answer);
    return answers;
  }
  async function filesOf(question: NonNullable<Question>): Promise<FileDescriptorProto[]> {
    const [answer] = await ask(question);
    const response = answer?.messageResponse;
    if (response?.case !== "fileDescriptorResponse") throw new Error(`no file came: ${JSON.stringify(response)}`);
    return response.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
  }

  test("a file comes with all that it imports, itself first, and is whole", async () => {
    const files = await filesOf({ case: "fileContainingSymbol", value: "otp.v1.OtpService" });
    expect(files[0]?.name).toBe("otp/v1/otp_service.proto");
    const names = files.map(({ name }) => name);
    expect(files.flatMap(({ dependency }) => dependency).filter((name) => !names.includes(name))).toEqual([]);
    expect(names).toContain("google/protobuf/timestamp.proto");
    const [root] = files;
    if (root === undefined) throw new Error("no file came");
    const registry = createFileRegistry(root, (name) => files.find((file) => file.name === name));
    const methods = registry.getService("otp.v1.OtpService")?.methods.map(({ name }) => name);
    expect(methods).toEqual(["SendOtp", "VerifyOtp", "ResendOtp", "CancelOtp", "GetOtp"]);
  });

  test.each([
    ["a service", "grpc.health.v1.Health", "grpc/health/v1/health.proto"],
    ["a method", "otp.v1.OtpService.SendOtp", "otp/v1/otp_service.proto"],
    ["a message", "otp.v1.SendOtpRequest", "otp/v1/otp_service.proto"],
    ["a field", "otp.v1.SendOtpRequest.phone", "otp/v1/otp_service.proto"],
    ["an enum", "otp.v1.State", "otp/v1/otp_service.proto"],
    ["a value, which is named beside its enum", "otp.v1.STATE_PENDING", "otp/v1/otp_service.proto"],
    ["a nested enum", "grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"],
    ["what an error carries", "google.rpc.ErrorInfo", "google/rpc/error_details.proto"],
    ["what is imported", "google.protobuf.Timestamp", "google/protobuf/timestamp.proto"],
  ])("%s leads to its file", async (_kind, value, name) => {
    expect((await filesOf({ case: "fileContainingSymbol", value }))[0]?.name).toBe(name);
    expect((await filesOf({ case: "fileByFilename", value: name }))[0]?.name).toBe(name);
  });

  test("a question may be in gzip", async () => {
    const gzipped = { baseUrl: world.url, sendCompression: compressionGzip, compressMinBytes: 0 };
    const [answer] = await askBy(createGrpcTransport(gzipped), { case: "listServices", value: "" });
    expect(answer?.messageResponse.case).toBe("listServicesResponse");
  });

  test("every question of a stream gets its answer, in order, and what is not there is told", async () => {
    const answers = await ask(
      { case: "listServices", value: "" },
      { case: "fileByFilename", value: "otp/v2/otp_service.proto" },
      { case: "fileContainingSymbol", value: "otp.v1.Nonsense" },
      { case: "fileContainingExtension", value: { containingType: "otp.v1.SendOtpRequest", extensionNumber: 1 } },
      { case: "allExtensionNumbersOfType", value: "otp.v1.SendOtpRequest" },
      { case: "allExtensionNumbersOfType", value: "otp.v1.Nonsense" },
    );
    const notFound = { case: "errorResponse", value: { errorCode: 5 } };
    expect(answers.map(({ messageResponse }) => messageResponse)).toMatchObject([
      {
        value: {
          service: expect.arrayContaining(
            services.map((name) => expect.objectContaining({ name }) as object),
          ) as object,
        },
      },
      notFound,
      notFound,
      notFound,
      { case: "allExtensionNumbersResponse", value: { baseTypeName: "otp.v1.SendOtpRequest", extensionNumber: [] } },
      notFound,
    ]);
    expect(answers[2]).toMatchObject({
      validHost: "there",
      originalRequest: { host: "there", messageRequest: { value: "otp.v1.Nonsense" } },
    });
  });

  test("a question that is none is told so", async () => {
    const [answer] = await ask({ case: undefined });
    expect(answer?.messageResponse).toMatchObject({ case: "errorResponse", value: { errorCode: 3 } });
  });
});

test.skipIf(lacks("reflection by Python's client", "Python's grpcio"))(
  "Python's client lists what there is, in both versions",
  async () => {
    const script = `
import grpc, sys
channel = grpc.insecure_channel(sys.argv[1])
for version in ("v1", "v1alpha"):
    path = "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo"
    call = channel.stream_stream(path, request_serializer=None, response_deserializer=None)
    answer = next(iter(call(iter([b"\\x3a\\x00"]), timeout=60)))
    print(answer.count(b"otp.v1.OtpService"), answer.count(b"grpc.health.v1.Health"))
`;
    expect(await runPython(script, [new URL(world.url).host])).toEqual(["1 1", "1 1"]);
  },
);

/** Begins to ask on a connection, by frames that the test makes. */
function askOn(
  client: ClientHttp2Session,
  path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  more = {},
) {
  return client.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    ...more,
  });
}

test("a client that leaves without its answers leaves nothing behind, and no further one is made", async () => {
  const warnings: string[] = [];
  const onWarning = ({ message }: Error) => void warnings.push(message);
  process.on("warning", onWarning);
  // It takes no answer: after the first the server waits for room.
  const client = connect(world.url, { settings: { initialWindowSize: 0 } });
  const asking = askOn(client);
  const file = Buffer.from("otp/v1/otp_service.proto");
  const question = frameOf(0, Buffer.concat([Buffer.from([0x1a, file.length]), file]));
  asking.write(Buffer.concat(Array<Uint8Array>(50).fill(question)));
  await once(asking, "response");
  asking.close(constants.NGHTTP2_CANCEL);
  const check = askOn(client, "/grpc.health.v1.Health/Check");
  check.end(frameOf(0, new Uint8Array()));
  await once(check, "response");
  const closed = once(client, "close");
  client.destroy();
  await closed;
  process.off("warning", onWarning);
  expect(warnings).toEqual([]);
});

test("16 questions are answered at once, then none for 20 ms, and no client's before all of another's", async () => {
  const clients: (() => AsyncIterable<unknown>)[] = [];
  const each = 100;
  const registry = {
    service({ method }: typeof ServerReflection, rpcs: ServiceImpl<typeof ServerReflection>) {
      const question = create(method.serverReflectionInfo.input, {
        messageRequest: { case: "listServices", value: "" },
      });
      async function* asked() {
        for (let i = 0; i < each; i += 1) yield question;
      }
      clients.push(() => rpcs.serverReflectionInfo(asked(), {} as HandlerContext));
    },
  };
  reflectionRoutes(registry as unknown as ConnectRouter);
  const answered = clients.map(() => 0);
  const inTurns: number[] = [];
  let inThisTurn = 0;
  let aheadMax = 0;
  let isOver = false;

  async function ask(client: () => AsyncIterable<unknown>, index: number) {
    for await (const _ of client()) {
      inThisTurn += 1;
      answered[index] = (answered[index] ?? 0) + 1;
      if (!answered.includes(each)) aheadMax = Math.max(aheadMax, Math.max(...answered) - Math.min(...answered));
    }
  }

  const beganMs = performance.now();
  const all = Promise.all(clients.map(ask)).finally(() => (isOver = true));
  while (!isOver) {
    await new Promise((resolve) => setImmediate(resolve));
    inTurns.push(inThisTurn);
    inThisTurn = 0;
  }
  await all;
  expect(answered).toEqual([each, each]);
  expect(Math.max(...inTurns)).toBeLessThanOrEqual(16);
  expect(aheadMax).toBeLessThanOrEqual(16);
  // A timer of Node's may be a millisecond early.
  expect(performance.now() - beganMs).toBeGreaterThan(19 * Math.floor((2 * each) / 16));
});

test("its answers are not compressed: the threads for that are everybody's, and nobody counts what waits for them", async () => {
  const client = connect(world.url);
  const asking = askOn(client, undefined, { "grpc-accept-encoding": "gzip", "accept-encoding": "gzip" });
  const file = Buffer.from("otp/v1/otp_service.proto");
  asking.end(frameOf(0, Buffer.concat([Buffer.from([0x1a, file.length]), file])));
  const [headers] = (await once(asking, "response")) as [Record<string, string>];
  const body = Buffer.concat(await asking.toArray());
  client.close();
  expect(headers["grpc-encoding"]).toBeUndefined();
  expect([body[0], body.length > 1_024]).toEqual([0, true]);
});

test("questions are answered before what comes behind them in the same frame is read", async () => {
  const client = connect(world.url);
  const asking = askOn(client);
  const listing = frameOf(0, Buffer.from([0x3a, 0]));
  const tooLong = Buffer.from([0, 0xff, 0xff, 0xff, 0xff]);
  asking.end(Buffer.concat([...Array<Uint8Array>(200).fill(listing), tooLong]));
  const trailed = once(asking, "trailers") as Promise<[Record<string, string>]>;
  const body = Buffer.concat(await asking.toArray());
  const [trailers] = await trailed;
  client.close();
  expect([body.length > 0, trailers["grpc-status"]]).toEqual([true, "8"]);
});

test("when it is off there is no such path, and health is still there", async () => {
  await world.restart({ OTP_REFLECTION: "off" });
  for (const service of [ServerReflection, V1Alpha]) {
    const client = createClient(service, createGrpcTransport({ baseUrl: world.url }));
    const asked = async function* () {
      yield { messageRequest: { case: "listServices", value: "" } as const };
    };
    const answers = client.serverReflectionInfo(asked())[Symbol.asyncIterator]();
    const error = await answers.next().catch((failure: unknown) => ConnectError.from(failure));
    expect(error).toMatchObject({ code: Code.Unimplemented });
  }
  const health = await fetch(`${world.url}/grpc.health.v1.Health/Check`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  expect(await health.json()).toEqual({ status: "SERVING" });
});
