/**
 * The files of docs/operate that people deploy with fit the service: every variable they set is one, ports and paths are
 * those it has, and nobody who stops it is more impatient than it is. That the image's steps work is run by test:soak.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { defaults, secretNames } from "../../src/config/variables.ts";
import { commandOf, environmentOf, readDockerfile } from "../support/readers/dockerfile.ts";
import { faultsOf, keyText, webhookSecret } from "../support/service/environment.ts";
import { startWorld, type World } from "../support/service/world.ts";

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
interface Resource {
  readonly kind: string;
  readonly spec: Record<string, unknown>;
}
interface Pod {
  readonly enableServiceLinks: boolean;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: Record<string, unknown>;
  readonly containers: Container[];
  readonly volumes: { name: string }[];
}

describe("kubernetes.yaml", () => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld();
  });
  afterAll(() => world.stop());

  const documents = parseAllDocuments(read("kubernetes.yaml"));
  const resources = documents.map((document) => document.toJS() as Resource);
  const specOf = (kind: string) => resources.find((resource) => resource.kind === kind)?.spec ?? {};
  const pod = (specOf("Deployment")["template"] as { spec: Pod }).spec;
  const container = pod.containers[0] as Container;
  const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value]));

  test("is YAML of three resources about one set of pods", () => {
    expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
    expect(resources.map(({ kind }) => kind)).toEqual(["Deployment", "Service", "PodDisruptionBudget"]);
    const labels = { "app.kubernetes.io/name": "otpd" };
    expect(specOf("Deployment")).toMatchObject({
      selector: { matchLabels: labels },
      template: { metadata: { labels } },
    });
    expect(specOf("Service")).toMatchObject({ selector: labels, clusterIP: "None" });
    expect(specOf("PodDisruptionBudget")).toMatchObject({ selector: { matchLabels: labels } });
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
    expect(files).toHaveLength(3);
    const [mount] = container.volumeMounts;
    expect(files.filter((path) => !path.startsWith(`${mount?.mountPath}/`))).toEqual([]);
    expect(pod.volumes.map(({ name }) => name)).toContain(mount?.name);
  });

  test("asks the port and the paths that the service answers", async () => {
    expect(container.ports).toEqual([{ name: "otp", containerPort: Number(env["OTP_PORT"]) }]);
    expect(specOf("Service")["ports"]).toMatchObject([{ port: Number(env["OTP_PORT"]), targetPort: "otp" }]);
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
