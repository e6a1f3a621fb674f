#!/usr/bin/env node
// Runs the program that npm installed for this machine: same arguments, streams, signals and exit code.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { optionalDependencies } = require("../package.json");

const platform = `${process.platform}-${process.arch}`;
const name = `@reseq/server-${platform}`;

/** Says what to do where there is no program to run. */
function refuse(problem) {
  let advice = `${problem}: install reseq-server again on this machine, without --omit=optional`;
  const platforms = Object.keys(optionalDependencies).map((each) => each.replace("@reseq/server-", ""));
  if (!platforms.includes(platform)) advice = `there is no program for ${platform}: use ${platforms.join(" or ")}`;
  else if (!process.report.getReport().header.glibcVersionRuntime)
    advice = "the program needs glibc, but this Linux has musl: use a Debian image, not Alpine";
  console.error(`reseq-server: ${advice}, or build Reseq from its source.`);
  process.exit(1);
}

let program, child;
try {
  program = require.resolve(`${name}/bin/reseq`);
} catch {
  refuse(`the package ${name} is missing`);
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) process.on(signal, () => child.kill(signal));
const parent = process.ppid;
child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => refuse(`${program} does not start (${error.code})`));
child.on("exit", (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[signal];
  if (signal === null) return process.exit();
  // Whoever waits for this process sees the same signal.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
// npx and npm run send SIGTERM only to their shell, the parent of this process: stop once the shell is gone.
if (process.env.npm_command) setInterval(() => process.ppid === parent || child.kill(), 100).unref();
