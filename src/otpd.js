#!/usr/bin/env node
// Plain JavaScript that any Node can read: older ones fail on .ts files, or crash inside the database driver.

// Not by import where it can be had without: that reads all of a module's properties, and behind some is more to load.
const fs = process.getBuiltinModule?.("node:fs") ?? (await import("node:fs"));
// A clone has its sources. A package holds only what was built from them.
const isClone = fs.existsSync(new URL("cli.ts", import.meta.url));
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  const help = isClone
    ? 'On Linux, npm ci brings a newer one (with npm 10, run "npm rebuild" after it): start it as "npm start" or "npx --no-install otpd".'
    : "Install a newer one, from https://nodejs.org or by your version manager, and otpd with its npm again.";
  console.error(`otpd needs Node 22.18 or newer; this is ${process.versions.node}. ${help}`);
  process.exit(1);
}
// What was built starts faster. In a clone it may be older than the sources, and then these run.
const isSource = isClone && !(await import("./built.js")).isBuilt(`${import.meta.dirname}/..`);
// The compiled code is kept beside the code, which halves the CPU of later starts of sources, and takes a seventh off those of what
// was built. Who may write there may change the code as well, and for who may not nothing is kept.
if (process.env.NODE_COMPILE_CACHE === undefined) {
  const folder = isClone ? "../node_modules/.cache/otpd" : "../dist/.cache";
  process.getBuiltinModule("node:module").enableCompileCache(`${import.meta.dirname}/${folder}`);
}
// The reader has left, as `head` does, or the terminal is gone: no reason to end, or to print a stack.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error) => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  });
}
const { run } = await import(isSource ? "./cli.ts" : "../dist/src/cli.js");
process.exitCode = await run(process.argv.slice(2));
