/** The program of docs/integrate-more.md in C++, which takes 18 s of CPU to compile. */
import { test } from "vitest";
import { expectProven } from "../docs/more-clients.ts";
import { lacks } from "../support/machine.ts";

const needed = ["g++", "gRPC of C++", "grpc_cpp_plugin", "protoc", "protobuf's own .proto files"] as const;

test.skipIf(lacks("the client of docs/integrate-more.md in C++", ...needed))("C++", (context) =>
  expectProven({ file: "client.cc", plugin: "grpc_cpp_plugin", command: "./client", args: [] }, context),
);
