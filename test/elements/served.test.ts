/**
 * How the form to embed is served: to anybody, from any site, for ever under its hash, and small.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildsMax, keep, keptBuilds, writeElement } from "../../tools/generate/element.ts";
import { overHttp1, overHttp2 } from "../support/clients/wire.ts";
import { readDocument } from "../support/readers/document.ts";
import { production } from "../support/service/environment.ts";
import { startWorld, type World } from "../support/service/world.ts";

interface Integrity {
  readonly latest: string;
  readonly builds: Readonly<Record<string, string>>;
}

let world: World;
let integrity: Integrity;
beforeAll(async () => {
  world = await startWorld({ ...production, OTP_MASTER_KEY: Buffer.alloc(32, 7).toString("base64url") });
  integrity = (await (await fetch(`${world.url}/elements/integrity.json`)).json()) as Integrity;
});
afterAll(() => world.stop());

const sha384 = (bytes: Uint8Array) => `sha384-${createHash("sha384").update(bytes).digest("base64")}`;
const immutable = "public, max-age=31536000, immutable";

describe.each([
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
])("over %s", (_, wire) => {
  const get = (path: string, headers: Record<string, string> = {}) => wire(world.url, { method: "GET", path, headers });

  test("each build is for every site, for ever, and is what its hashes say", async () => {
    expect(Object.keys(integrity.builds).length).toBeGreaterThan(0);
    for (const [path, hash] of Object.entries(integrity.builds)) {
      const { status, headers, body } = await get(path);
      expect([status, Object.fromEntries(headers)]).toEqual([
        200,
        expect.objectContaining({
          "access-control-allow-origin": "*",
          "cache-control": immutable,
          "content-type": "text/javascript; charset=utf-8",
          "cross-origin-resource-policy": "cross-origin",
          "x-content-type-options": "nosniff",
        }),
      ]);
      expect(sha384(body)).toBe(hash);
      expect(path).toContain(createHash("sha256").update(body).digest("hex").slice(0, 16));
    }
  });

  test("the latest is also at a path that does not change, and is asked for again", async () => {
    const latest = await get("/elements/otp-form.js");
    expect(sha384(latest.body)).toBe(integrity.builds[integrity.latest]);
    expect(latest.headers.get("cache-control")).toBe("public, no-cache");
    const etag = latest.headers.get("etag") ?? "";
    const again = await get("/elements/otp-form.js", { "if-none-match": etag });
    expect([again.status, again.body.length, again.headers.get("access-control-allow-origin")]).toEqual([304, 0, "*"]);
    const listed = await get("/elements/integrity.json");
    expect([listed.headers.get("access-control-allow-origin"), listed.headers.get("cache-control")]).toEqual([
      "*",
      "public, no-cache",
    ]);
  });

  test("who takes gzip gets at most 20 KB", async () => {
    const plain = await get(integrity.latest);
    for (const accepted of ["gzip", "gzip, deflate, br, zstd", "br, gzip"]) {
      const zipped = await get(integrity.latest, { "accept-encoding": accepted });
      expect(zipped.headers.get("content-encoding")).toBe("gzip");
      expect(zipped.headers.get("vary")).toBe("Accept-Encoding");
      expect(zipped.body.length).toBeLessThanOrEqual(20_000);
      expect(gunzipSync(zipped.body).equals(plain.body)).toBe(true);
    }
    for (const refused of ["", "br", "gzip;q=0", "xgzip", "identity"]) {
      const answer = await get(integrity.latest, { "accept-encoding": refused });
      expect([refused, answer.headers.get("content-encoding"), answer.body.length]).toEqual([
        refused,
        null,
        plain.body.length,
      ]);
    }
  });

  test("what is no build is no page, and there is no other method", async () => {
    for (const path of [
      "/elements/",
      "/elements/otp-form.0000000000000000.js",
      "/elements/../elements/otp-form.js",
      `${integrity.latest}/`,
      "/elements/README.md",
    ]) {
      expect([path, (await get(path)).status]).toEqual([path, 404]);
    }
    const head = await wire(world.url, { method: "HEAD", path: integrity.latest });
    expect([head.status, head.text]).toEqual([200, ""]);
    const posted = await wire(world.url, { method: "POST", path: integrity.latest, body: "{}" });
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });
});

describe("builds", () => {
  test("five are served: the latest, and the four before it that were released", () => {
    const folder = mkdtempSync(join(tmpdir(), "otpd-elements-"));
    const build = (name: string) => Buffer.from(`export const name = "${name}";\n`);
    const kept = ["f", "e", "d", "c", "b", "a"].map(build);
    writeElement(folder, build("g"), kept);
    const said = JSON.parse(readFileSync(join(folder, "elements/integrity.json"), "utf8")) as Integrity;
    const paths = Object.keys(said.builds);
    expect(paths.map((path) => readFileSync(join(folder, path), "utf8"))).toEqual(
      ["g", "f", "e", "d", "c"].map((name) => build(name).toString()),
    );
    expect([said.latest, paths.length]).toEqual([paths[0], buildsMax]);
    // A release without a new build keeps one build fewer of no use.
    writeElement(folder, build("f"), kept);
    const again = JSON.parse(readFileSync(join(folder, "elements/integrity.json"), "utf8")) as Integrity;
    expect(Object.keys(again.builds)).toEqual([...paths.slice(1), expect.any(String)]);
    expect(readdirSync(join(folder, "elements"))).toHaveLength(buildsMax + 1);
    rmSync(folder, { recursive: true });
  });

  test("a release keeps its build once, and the five last ones stay", () => {
    const folder = mkdtempSync(join(tmpdir(), "otpd-kept-"));
    for (const name of ["a", "b", "b", "c", "d", "e", "f", "g"]) keep(folder, Buffer.from(name));
    expect(keptBuilds(folder).map(String)).toEqual(["g", "f", "e", "d", "c"]);
    expect(readdirSync(folder).toSorted().at(-1)).toBe("0007-otp-form.js");
    rmSync(folder, { recursive: true });
  });

  test("the latest has no markup to be written, no code to be made, and asks nobody but its server", () => {
    const text = readFileSync(new URL(`../../gen${integrity.latest}`, import.meta.url), "utf8");
    expect(gzipSync(text).length).toBeLessThanOrEqual(20_000);
    expect(text).not.toMatch(
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|localStorage/,
    );
    expect(text.match(/\bhttps?:\/\/[\w.]+/g)).toBeNull();
    expect(text).not.toMatch(/^import\b/m);
  });

  test("docs/browsers.md names the latest", () => {
    const { text } = readDocument("docs/browsers.md");
    expect(text).toContain(integrity.latest);
    expect(text).toContain(integrity.builds[integrity.latest]);
    expect(text.match(/sha384-/g)?.length).toBe(text.split(integrity.builds[integrity.latest] ?? "?").length - 1);
  });
});
