/**
 * The protoc plugin that generates `gen/openapi.json`, the REST paths as OpenAPI 3.1. `npm run generate` has buf run it
 * (buf.gen.yaml). What the document says of a path, a field or a reason is what the proto's comment says of it; what a
 * comment cannot say, since it is HTTP's, is in frame.ts.
 */
import { createEcmaScriptPlugin, runNodeJs } from "@bufbuild/protoplugin";
import { readFileSync } from "node:fs";
import { documentOf } from "./document.ts";

const manifest = readFileSync(new URL("../../../package.json", import.meta.url), "utf8");
const { version } = JSON.parse(manifest) as { version: string };

runNodeJs(
  createEcmaScriptPlugin({
    name: "protoc-gen-openapi",
    version,
    generateTs({ files, generateFile }) {
      const file = files.find(({ services }) => services.some(({ typeName }) => typeName === "otp.v1.OtpService"));
      if (file === undefined) return;
      generateFile("openapi.json").print(JSON.stringify(documentOf(file, version), undefined, 2));
    },
  }),
);
