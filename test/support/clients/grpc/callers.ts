/**
 * gRPC clients that share no code with ours, each a program of its own that makes calls by its language's library and
 * leaves retries to a service config: grpcio, and grpc-go from Debian's packages.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { create, toBinary, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { goCompiler, gopath, lacks, python, type ToolName } from "../../machine.ts";

export interface Report {
  /** The gRPC code's number; 0 for a success. */
  readonly code: number;
  readonly message: string;
  /** How long it took, with all its retries. */
  readonly ms: number;
  /** The trailing metadata as text. */
  readonly trailing: Readonly<Record<string, string>>;
  /** The answer, in hex. */
  readonly body: string;
}

export interface Caller {
  call<Desc extends DescMessage>(
    rpc: string,
    desc: Desc,
    message: MessageInitShape<Desc>,
    options: { readonly metadata: Readonly<Record<string, string>>; readonly seconds: number },
  ): Promise<Report>;
  /** Waits for what is under way, and ends the program. */
  end(): Promise<void>;
}

export interface Library {
  readonly name: string;
  readonly needs: readonly ToolName[];
  /** Makes its program, once for all. It takes a minute where nothing of it is compiled yet. */
  prepare(): Promise<void>;
  /** Starts its program. `hosts` are `127.0.0.1:PORT`, taken in turns where the service config says so. */
  start(hosts: readonly string[], serviceConfig: string): Caller;
}

const here = import.meta.dirname;
const cache = join(here, "../../../../node_modules/.cache/otpd-grpc");

function run(command: string, args: readonly string[], more: Record<string, string> = {}): Caller {
  const child = spawn(command, args, {
    env: { PATH: process.env["PATH"], ...more },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const waiting = new Map<number, { resolve: (report: Report) => void; reject: (error: Error) => void }>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, ...report } = JSON.parse(line) as Report & { id: number };
    waiting.get(id)?.resolve(report);
    waiting.delete(id);
  });
  const gone = once(child, "close").then(() => {
    for (const { reject } of waiting.values()) reject(new Error(`${command} ended before its calls did`));
  });
  let calls = 0;
  return {
    call(rpc, desc, message, { metadata, seconds }) {
      const id = (calls += 1);
      const body = Buffer.from(toBinary(desc, create(desc, message))).toString("hex");
      child.stdin.write(`${JSON.stringify({ id, rpc, body, seconds, metadata })}\n`);
      return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
    },
    async end() {
      child.stdin.end();
      await gone;
    },
  };
}

const listOf = (hosts: readonly string[]) => `ipv4:${hosts.join(",")}`;

const grpcio: Library = {
  name: "grpcio",
  needs: ["Python's grpcio"],
  prepare: () => Promise.resolve(),
  start: (hosts, config) => run(python, [join(here, "caller.py"), listOf(hosts), config]),
};

const program = join(cache, "caller");
const goEnvironment = {
  PATH: `${process.env["PATH"]}`,
  ...goCompiler,
  GOPATH: gopath,
  GO111MODULE: "off",
};

const grpcGo: Library = {
  name: "grpc-go",
  needs: ["go", "grpc-go", "Go's protobuf"],
  async prepare() {
    mkdirSync(cache, { recursive: true });
    // Another test may be running it, or making it too.
    const made = `${program}-${process.pid}`;
    await promisify(execFile)("go", ["build", "-o", made, join(here, "caller.go")], { env: goEnvironment });
    renameSync(made, program);
  },
  start: (hosts, config) => run(program, [listOf(hosts), config], { GRPC_GO_RETRY: "on" }),
};

/** Those that this machine can run. */
export const libraries: readonly Library[] = [grpcio, grpcGo].filter(({ name, needs }) => !lacks(name, ...needs));
