#!/usr/bin/env node
// Plain JavaScript that any Node can read: older ones fail on .ts files, or crash inside the database driver.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(
    `otpd needs Node 22.18 or newer; this is ${process.versions.node}. On Linux, npm ci brings a newer one: start it as "npm start" or "npx otpd".`,
  );
  process.exit(1);
}
const { run } = await import("./cli.ts");
process.exitCode = await run(process.argv.slice(2));
