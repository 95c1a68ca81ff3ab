/**
 * Has a bundle take Node's own modules as objects, and not by `import`: that reads every property of a module once, also those
 * behind which Node loads more. `import "node:http"` loads Node's whole `fetch` for `http.WebSocket`, which is some 30 ms of
 * a start and 3 MB for nothing.
 */
import type { Plugin } from "esbuild";
import { isBuiltin } from "node:module";

const namespace = "node";

/** Whether a path among a bundle's inputs is one of Node's own modules, as made here. */
export function isNodeModule(input: string): boolean {
  return input.startsWith(`${namespace}:`);
}

export const nodeModulesAsObjects: Plugin = {
  name: "node-modules-as-objects",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[\w:/]+$/ }, ({ path, kind }) => {
      if (kind !== "import-statement" || !isBuiltin(path)) return undefined;
      return { path: path.replace(/^node:/, ""), namespace, sideEffects: false };
    });
    onLoad({ filter: /^/, namespace }, ({ path }) => ({ contents: moduleText(`node:${path}`) }));
  },
};

/** A module with the exports of one of Node's. What nobody imports of them is left out of the bundle. */
function moduleText(name: string): string {
  const names = Object.keys(process.getBuiltinModule(name) ?? {}).filter((each) => /^[A-Za-z_$][\w$]*$/.test(each));
  return [
    `const all = /* @__PURE__ */ process.getBuiltinModule(${JSON.stringify(name)});`,
    "export default all;",
    ...names.map((each) => `const $${each} = /* @__PURE__ */ (() => all.${each})();`),
    `export { ${names.map((each) => `$${each} as ${each}`).join(", ")} };`,
  ].join("\n");
}
