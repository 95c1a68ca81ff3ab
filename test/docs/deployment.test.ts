/**
 * The files of docs/operate that people deploy with fit the service: every variable they set is one, ports and paths are
 * those it has, and nobody who stops it is more impatient than it is. That the image's steps work is run by test:soak.
 */
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { defaults, secretNames } from "../../src/config/variables.ts";
import { lacks } from "../support/machine.ts";
import { readOverlay, type Resource } from "../support/readers/kustomize.ts";
import { commandOf, environmentOf, readDockerfile } from "../support/readers/dockerfile.ts";
import { makeDatabase } from "../support/databases/empty-database.ts";
import { cleanEnv, launcher } from "../support/processes/process.ts";
import { readDocument } from "../support/readers/document.ts";
import { faultsOf, keyText, webhookSecret } from "../support/service/environment.ts";
import { startWorld, type World } from "../support/service/world.ts";

/** What operate.md has the operator put into otpd.env. */
const unitEnvironment =
  /cat > \/etc\/otpd\/otpd\.env <<'END'\n([^]*?)END\n/.exec(readDocument("docs/operate.md").text)?.[1] ?? "";

const read = (name: string) => readFileSync(join(import.meta.dirname, "../../docs/operate", name), "utf8");
/** What a stop takes at most: docs/probes.md. */
const stopSeconds = 10;

/** glibc's own, which bound the memory that it keeps. */
const ofGlibc = new Set(["MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_"]);
/** What is no variable, or not one that may come as a file. */
const strange = (names: readonly string[]) =>
  names.filter((name) => !(name in defaults()) && !ofGlibc.has(name) && !secretNames.has(name.replace(/_FILE$/, "")));

/** The files of secrets, by their names, as they are made. */
const secrets: Readonly<Record<string, string>> = {
  "master-key": keyText,
  "webhook-secret": webhookSecret,
  "database-url": "postgres://otpd:pw@db/otp",
};
const readSecret = (path: string) => secrets[path.split("/").at(-1) ?? ""] ?? "";

interface Container {
  readonly env: { name: string; value: string }[];
  readonly ports: { name: string; containerPort: number }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly lifecycle: { preStop: { sleep: { seconds: number } } };
  readonly securityContext: Record<string, unknown>;
  readonly volumeMounts: { name: string; mountPath: string }[];
}
interface Probe {
  readonly httpGet: { path: string; port: string };
}
interface Pod {
  readonly enableServiceLinks: boolean;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: Record<string, unknown>;
  readonly containers: Container[];
  readonly volumes: { name: string }[];
}

describe.each(["sqlite", "postgres"])("Kustomize's overlay %s", (overlay) => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld();
  });
  afterAll(() => world.stop());

  const resources = readOverlay(overlay);
  const specOf = (kind: string) => resources.find((resource) => resource.kind === kind)?.spec ?? {};
  const pod = (specOf("Deployment")["template"] as { spec: Pod }).spec;
  const container = pod.containers[0] as Container;
  const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value]));

  test("has resources about one set of pods", () => {
    const volume = overlay === "sqlite" ? ["PersistentVolumeClaim"] : [];
    expect(resources.map(({ kind }) => kind)).toEqual(["Deployment", "Service", "PodDisruptionBudget", ...volume]);
    const labels = { "app.kubernetes.io/name": "otpd" };
    expect(specOf("Deployment")).toMatchObject({
      selector: { matchLabels: labels },
      template: { metadata: { labels } },
    });
    expect(specOf("Service")).toMatchObject({ selector: labels, clusterIP: "None" });
    expect(specOf("PodDisruptionBudget")).toEqual({ maxUnavailable: 1, selector: { matchLabels: labels } });
  });

  test("sets variables that there are, to a configuration without faults", () => {
    expect(strange(Object.keys(env))).toEqual([]);
    expect(faultsOf(env, readSecret)).toEqual([]);
    expect(pod.enableServiceLinks).toBe(false);
    // The pod has the image's variables too.
    expect(faultsOf({ ...environmentOf(readDockerfile()), ...env }, readSecret)).toEqual([]);
  });

  test("brings secrets as files only, from a volume that is there", () => {
    expect(Object.keys(env).filter((name) => secretNames.has(name))).toEqual([]);
    const files = Object.entries(env).flatMap(([name, value]) => (name.endsWith("_FILE") ? [value] : []));
    expect(files).toHaveLength(overlay === "sqlite" ? 2 : 3);
    const [mount] = container.volumeMounts;
    expect(files.filter((path) => !path.startsWith(`${mount?.mountPath}/`))).toEqual([]);
    const volumes = pod.volumes.map(({ name }) => name);
    expect(container.volumeMounts.map(({ name }) => name)).toEqual(volumes);
  });

  test("asks the port and the paths that the service answers", async () => {
    expect(container.ports).toEqual([{ name: "otp", containerPort: Number(env["OTP_PORT"]) }]);
    expect(specOf("Service")["ports"]).toMatchObject([{ port: Number(env["OTP_PORT"]), targetPort: "otp" }]);
    // A Service sends nobody anywhere while no pod is ready.
    expect(container.readinessProbe.httpGet.path).toBe("/readyz?exclude=provider");
    const probes = [container.startupProbe, container.livenessProbe, container.readinessProbe];
    for (const { httpGet } of probes) {
      expect(httpGet.port).toBe("otp");
      expect((await fetch(world.url + httpGet.path)).status).toBe(200);
    }
  });

  test("leaves a stop the time it takes, and the container no rights", () => {
    const preStopSeconds = container.lifecycle.preStop.sleep.seconds;
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(preStopSeconds + stopSeconds);
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  });

  test.skipIf(lacks("Kustomize's overlays as kubectl reads them", "kubectl"))(
    "is what kubectl makes of the files",
    () => {
      const folder = join(import.meta.dirname, "../../docs/operate/kustomize", overlay);
      const rendered = parseAllDocuments(execFileSync("kubectl", ["kustomize", folder], { encoding: "utf8" }));
      const byKind = (list: Resource[]) => Object.fromEntries(list.map((each) => [each.kind, each]));
      const made = rendered.map((document) => document.toJS() as Resource);
      expect(byKind(made)).toEqual(byKind(resources));
      expect(made).toHaveLength(resources.length);
    },
  );
});

test("one process owns the SQLite file, and pods on PostgreSQL are many and replaced one by one", () => {
  const of = (overlay: string) => readOverlay(overlay).find(({ kind }) => kind === "Deployment")?.spec ?? {};
  expect(of("sqlite")).toMatchObject({ replicas: 1, strategy: { type: "Recreate" } });
  const pod = (of("sqlite")["template"] as { spec: Pod }).spec;
  const volume = readDockerfile().findLast(({ instruction }) => instruction === "VOLUME")?.text;
  expect(pod.containers[0]?.volumeMounts).toContainEqual({ name: "data", mountPath: volume });
  expect(of("postgres")).toMatchObject({
    replicas: 2,
    strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
  });
});

test("otpd.service sets variables that there are, and leaves a stop the time it takes", () => {
  const unit = read("otpd.service");
  const settings = [...unit.matchAll(/^Environment=(\w+)=(.*)$/gm)].map(([, name = "", value = ""]) => [name, value]);
  const env = Object.fromEntries(settings) as Record<string, string>;
  expect(strange(Object.keys(env))).toEqual([]);
  const rest = { OTP_PROVIDERS: "webhook", OTP_WEBHOOK_URL: "https://sms.example.com/" };
  const given = { ...env, ...rest, OTP_ALLOWED_COUNTRIES: "NL", OTP_DAILY_MESSAGE_CAP: "9" };
  expect(faultsOf(given, readSecret)).toEqual([]);
  const credentials = [...unit.matchAll(/^LoadCredential=([\w-]+):/gm)].map(([, name]) => `%d/${name}`);
  const files = Object.entries(env).flatMap(([name, value]) => (name.endsWith("_FILE") ? [value] : []));
  expect(files).toEqual(credentials);
  expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(stopSeconds);
});

test("otpd.sh gives commands what the unit gives the server", async () => {
  const place = mkdtempSync(join(tmpdir(), "otpd-unit-"));
  try {
    const [etc, state, bin, unit] = ["etc", "state", "bin", "otpd.service"].map((name) => join(place, name));
    for (const folder of [etc, state, bin]) mkdirSync(folder as string, { mode: 0o700 });
    writeFileSync(`${etc}/otpd.env`, unitEnvironment);
    writeFileSync(`${etc}/master-key`, `${keyText}\n`);
    writeFileSync(`${etc}/webhook-secret`, `${webhookSecret}\n`);
    // What the machine's own user database and root would be needed for.
    const become = '#!/bin/sh\nwhile case $1 in --*) true ;; *) false ;; esac; do echo "$1"; shift; done\nexec "$@"\n';
    writeFileSync(`${bin}/setpriv`, become, { mode: 0o755 });
    const start = `#!/bin/sh\nexec "${process.execPath}" "${launcher}" "$@"\n`;
    writeFileSync(`${bin}/otpd`, start, { mode: 0o755 });
    const moved = (text: string) =>
      text
        .replaceAll("/etc/systemd/system/otpd.service", unit as string)
        .replaceAll("/etc/otpd", etc as string)
        .replaceAll("/var/lib/otpd", state as string)
        .replaceAll("/opt/otpd/bin", bin as string);
    writeFileSync(unit as string, moved(read("otpd.service")));
    writeFileSync(`${bin}/wrapper`, moved(read("otpd.sh")), { mode: 0o755 });
    const env = cleanEnv({ PATH: `${bin}${delimiter}${process.env["PATH"]}` });
    const wrapped = async (...args: string[]) => {
      const { stdout } = await promisify(execFile)(`${bin}/wrapper`, args, { env, cwd: "/" });
      const [reuid, regid, groups, ...rest] = stdout.split("\n");
      expect([reuid, regid, groups]).toEqual(["--reuid=otpd", "--regid=otpd", "--init-groups"]);
      return rest.join("\n");
    };
    await makeDatabase(`${state}/otp.db`);
    const found = JSON.parse(await wrapped("doctor", "--json")) as { ok: boolean; sentence: string }[];
    expect(found.map(({ sentence }) => sentence).join("\n")).toContain("The master key is the one");
    expect(JSON.parse(await wrapped("keys", "create", "--name", "shop", "--json"))).toMatchObject({ name: "shop" });
    expect(await wrapped("phones", "show", "+31612345678")).toContain("Sends:");
    // What stands in the file is no program, whatever a shell would make of it.
    const print = "#!/bin/sh\nexec printenv OTP_FALLBACK OTP_BRAND OTP_ORIGINATORS OTP_LOG_LEVEL\n";
    writeFileSync(`${bin}/otpd`, print, { mode: 0o755 });
    const odd = [
      "# a comment",
      "OTP_FALLBACK=whatsapp>sms@30s",
      "OTP_BRAND='A & B; `id` $HOME \\ # \"C\"'",
      '  OTP_ORIGINATORS="NL=Acme Shop"  ',
      "; another",
      "OTP_LOG_LEVEL=a b&c",
    ];
    writeFileSync(`${etc}/otpd.env`, odd.join("\n"));
    expect((await wrapped("doctor")).split("\n")).toEqual([
      "whatsapp>sms@30s",
      'A & B; `id` $HOME \\ # "C"',
      "NL=Acme Shop",
      "a b&c",
      "",
    ]);
    for (const line of ["OTP_BRAND=\\x", `OTP_BRAND="a'b"c"`, "OTP_BRAND='x", "OTP BRAND=x", "OTP_BRAND"]) {
      writeFileSync(`${etc}/otpd.env`, line);
      await expect(wrapped("doctor")).rejects.toMatchObject({
        stderr: expect.stringContaining("otpd.env: ") as string,
      });
    }
    rmSync(`${etc}/master-key`);
    await expect(wrapped("doctor")).rejects.toMatchObject({ stderr: expect.stringContaining("master-key") as string });
  } finally {
    rmSync(place, { recursive: true });
  }
});

test("the image, the unit and npm start bound the heap's young part alike", () => {
  const bound = /--max-semi-space-size=\d+/g;
  const unit = /^ExecStart=.*$/m.exec(read("otpd.service"))?.[0] ?? "";
  const { scripts } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8")) as {
    scripts: { start: string };
  };
  const starts = [commandOf(readDockerfile(), "ENTRYPOINT").join(" "), unit, scripts.start];
  expect(starts.map((command) => command.match(bound))).toEqual(starts.map(() => ["--max-semi-space-size=8"]));
});

test("the Dockerfile sets variables that there are, ends by SIGTERM, and runs as nobody in particular", () => {
  const steps = readDockerfile();
  const textOf = (instruction: string) => steps.findLast((step) => step.instruction === instruction)?.text;
  const env = environmentOf(steps);
  expect(strange(Object.keys(env))).toEqual([]);
  expect(textOf("EXPOSE")).toBe(env["OTP_PORT"]);
  expect(textOf("STOPSIGNAL")).toBe("SIGTERM");
  expect(textOf("USER")).toBe("node");
  // Where nobody says anything else, the database is in the volume.
  const volume = textOf("VOLUME");
  expect(steps).toContainEqual({ stage: "build", instruction: "RUN", text: `ln -s ${volume} data` });
  expect(defaults()["OTP_DATABASE_URL"]).toBe("file:./data/otp.db");
  expect([...commandOf(steps, "ENTRYPOINT"), ...commandOf(steps, "CMD")]).toEqual([
    "node",
    "--max-semi-space-size=8",
    "src/otpd.js",
    "serve",
  ]);
  expect(steps.filter(({ text }) => text.startsWith("node:")).map(({ text }) => text.split(" ")[0])).toEqual([
    "node:24",
    "node:24-slim",
  ]);
});
