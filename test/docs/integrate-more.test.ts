/** docs/integrate-more.md is true: its programs in Ruby and PHP are made and run as they stand. That in C++ is in the soak. */
import { describe, test } from "vitest";
import { lacks } from "../support/machine.ts";
import { expectProven } from "./more-clients.ts";

const forRuby = ["Ruby's grpc", "grpc_ruby_plugin", "protoc", "protobuf's own .proto files"] as const;

describe.concurrent("the clients", () => {
  test.skipIf(lacks("the client of docs/integrate-more.md in Ruby", ...forRuby))("Ruby", (context) =>
    expectProven(
      { file: "client.rb", plugin: "grpc_ruby_plugin", command: "ruby", args: ["-I", ".", "client.rb"] },
      context,
    ),
  );

  test.skipIf(lacks("the client of docs/integrate-more.md in PHP", "php"))("PHP", (context) =>
    expectProven({ file: "client.php", command: "php", args: ["client.php"] }, context),
  );
});
