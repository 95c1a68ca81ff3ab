/**
 * What tests ask of the machine beyond Node, in one place: each tool with Debian's packages for it, and how it is looked
 * for. A test that lacks one says so and is skipped. As a program it prints the packages that would bring what is not here,
 * one a line, which is what `.ci/run` installs.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The one without windows draws a page for half the CPU. */
const chromiums = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
export const chromiumPath = process.env["CHROMIUM_PATH"] ?? chromiums.find(existsSync) ?? "";
export const python = existsSync("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
/** Where Debian puts the sources of Go's packages. */
export const gopath = "/usr/share/gocode";

const goCache = join(import.meta.dirname, "../../node_modules/.cache/otpd-grpc");
/** With which Go compiles: all tests share what is compiled already, since gRPC takes half a minute of CPU. */
export const goCompiler = { HOME: goCache, GOCACHE: join(goCache, "go-build"), GOFLAGS: "", CGO_ENABLED: "0" };

/** Where Debian puts the SMS gateway. */
export const kannel = {
  bearerbox: "/usr/sbin/bearerbox",
  smsbox: "/usr/sbin/smsbox",
};

/** Where Debian puts a PostgreSQL server's programs, the newest there is; empty without one. */
export const postgresPrograms = newestServer();

interface Tool {
  /** None where no package alone brings it: it takes rights, or is more than a test of its size is worth. */
  readonly packages: readonly string[];
  isHere(): boolean;
}

const command = (packages: readonly string[], name: string, ...args: string[]): Tool => ({
  packages,
  isHere: () => works(name, ...args),
});
const goPackage = (packages: readonly string[], name: string): Tool => ({
  packages,
  isHere: () => existsSync(join(gopath, "src", name)),
});

export const tools = {
  chromium: { packages: ["chromium-headless-shell"], isHere: () => existsSync(chromiumPath) },
  curl: command(["curl"], "curl", "--version"),
  jq: command(["jq"], "jq", "--version"),
  openssl: command(["openssl"], "openssl", "version"),
  "Python's grpcio": command(["python3-grpcio"], python, "-c", "import grpc"),
  "Python's PyJWT": command(
    ["python3-jwt", "python3-cryptography"],
    python,
    "-c",
    "import jwt, cryptography; jwt.PyJWKClient",
  ),
  protoc: command(["protobuf-compiler"], "protoc", "--version"),
  // Debian recommends them with protoc, so an installation without what is recommended lacks them.
  "protobuf's own .proto files": {
    packages: ["libprotobuf-dev"],
    isHere: () => works("protoc", "--descriptor_set_out=/dev/null", "google/protobuf/duration.proto"),
  },
  grpc_python_plugin: command(["protobuf-compiler-grpc"], "bash", "-c", "command -v grpc_python_plugin"),
  grpc_ruby_plugin: command(["protobuf-compiler-grpc"], "bash", "-c", "command -v grpc_ruby_plugin"),
  grpc_cpp_plugin: command(["protobuf-compiler-grpc"], "bash", "-c", "command -v grpc_cpp_plugin"),
  "g++": command(["g++"], "g++", "--version"),
  "gRPC of C++": command(["libgrpc++-dev", "pkg-config"], "pkg-config", "--exists", "grpc++", "protobuf"),
  "Ruby's grpc": command(
    ["ruby", "ruby-grpc", "ruby-google-protobuf"],
    "ruby",
    "-e",
    "require 'grpc'; require 'google/protobuf'",
  ),
  php: command(["php-cli"], "php", "--version"),
  go: command(["golang-go"], "go", "version"),
  "grpc-go": goPackage(["golang-google-grpc-dev"], "google.golang.org/grpc"),
  // grpc-go by itself comes with a protobuf that is too old for it.
  "Go's protobuf": goPackage(["golang-github-golang-protobuf-1-5-dev"], "google.golang.org/protobuf"),
  "PostgreSQL's pg_basebackup": {
    packages: ["postgresql"],
    isHere: () => existsSync(join(postgresPrograms, "pg_basebackup")),
  },
  "Go's plugins of protoc": command(
    ["protoc-gen-go", "protoc-gen-go-grpc"],
    "bash",
    "-c",
    "command -v protoc-gen-go && command -v protoc-gen-go-grpc",
  ),
  "Java's compiler": command(["default-jdk-headless"], "javac", "--version"),
  "Java's gRPC": {
    packages: [
      "libgrpc-java",
      "libnetty-java",
      "libprotobuf-java",
      "libgoogle-gson-java",
      "libguava-java",
      "libperfmark-java",
      "libgeronimo-annotation-1.3-spec-java",
      "liberror-prone-java",
    ],
    isHere: () =>
      [
        "grpc-core",
        "netty-handler",
        "protobuf-util",
        "gson",
        "guava",
        "perfmark-api",
        "geronimo-annotation-1.3-spec",
      ].every((name) => existsSync(`/usr/share/java/${name}.jar`)),
  },
  "Netty's OpenSSL": {
    packages: ["libnetty-tcnative-java"],
    isHere: () => existsSync("/usr/share/java/netty-tcnative.jar"),
  },
  grpc_java_plugin: command(["protobuf-compiler-grpc-java-plugin"], "bash", "-c", "command -v grpc_java_plugin"),
  kannel: { packages: ["kannel"], isHere: () => Object.values(kannel).every(existsSync) },
  kubectl: command([], "kubectl", "version", "--client"),
  promtool: command([], "promtool", "--version"),
  script: command([], "script", "--version"),
  prlimit: command([], "prlimit", "--version"),
  strace: command([], "strace", "-f", "-o", "/dev/null", "true"),
  "the system's table of connections": { packages: [], isHere: () => existsSync("/proc/self/net/tcp") },
  "a tmpfs that may be mounted": { packages: [], isHere: canMount },
} satisfies Record<string, Tool>;

export type ToolName = keyof typeof tools;

const found = new Map<ToolName, boolean>();

/** Whether a test has to be skipped for want of a tool; prints why. */
export function lacks(tested: string, ...wanted: ToolName[]): boolean {
  const missing = wanted.filter((name) => !isHere(name));
  if (missing.length === 0) return false;
  const packages = missing.flatMap((name) => tools[name].packages);
  const hint = packages.length === 0 ? "" : `: apt-get install ${packages.join(" ")}`;
  console.warn(`skipped: ${tested}: this machine lacks ${missing.join(", ")}${hint}`);
  return true;
}

function isHere(name: ToolName): boolean {
  const known = found.get(name) ?? tools[name].isHere();
  found.set(name, known);
  return known;
}

function works(name: string, ...args: string[]): boolean {
  try {
    execFileSync(name, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

function newestServer(): string {
  const folder = "/usr/lib/postgresql";
  const versions = existsSync(folder) ? readdirSync(folder).toSorted((a, b) => Number(b) - Number(a)) : [];
  return versions[0] === undefined ? "" : join(folder, versions[0], "bin");
}

/** Found by trying: root may not everywhere. */
function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "otpd-test-mount-"));
  try {
    return works("mount", "-t", "tmpfs", "-o", "size=64k", "otpd-test", folder) && works("umount", folder);
  } finally {
    rmdirSync(folder);
  }
}

if (import.meta.main) {
  const missing = (Object.keys(tools) as ToolName[]).filter((name) => !isHere(name));
  for (const name of missing.flatMap((one) => tools[one].packages)) console.log(name);
}
