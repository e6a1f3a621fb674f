// The command `reseq`, with the launcher of the package reseq-server and a shell as the program.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const client = fileURLToPath(new URL("..", import.meta.url));
const modules = join(mkdtempSync(join(tmpdir(), "reseq-bin-")), "node_modules");
const command = join(modules, "reseq/bin/reseq.js");
const run = (script) => spawnSync(process.execPath, [command, script], { encoding: "utf8" });
after(() => rmSync(join(modules, ".."), { recursive: true }));
for (const part of ["package.json", "bin"]) cpSync(join(client, part), join(modules, "reseq", part), { recursive: true });

test("without the server, the command says how to get it", () => {
  assert.match(run("exit 0").stderr, /run npx reseq-server/);
  assert.equal(run("exit 0").status, 1);
});

test("with the server, arguments, exit codes and signals pass through", async () => {
  cpSync(join(client, "../../packaging/npm/reseq.js"), join(modules, "reseq-server/bin/reseq.js"));
  writeFileSync(join(modules, "reseq-server/package.json"), '{"optionalDependencies": {}}');
  const platform = join(modules, `@reseq/server-${process.platform}-${process.arch}/bin`);
  mkdirSync(platform, { recursive: true });
  writeFileSync(join(platform, "reseq"), '#!/bin/sh\neval "$1"\n', { mode: 0o755 });

  assert.equal(run("exit 7").status, 7);
  assert.equal(run("kill -KILL $$").signal, "SIGKILL");
  assert.equal(run("kill -TERM $$").signal, "SIGTERM");
  assert.equal(run("kill -PIPE $$").status, 141, "Node ignores SIGPIPE");
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
    const script = `trap 'exit 5' ${signal.slice(3)}; echo ready; while :; do sleep 0.1; done`;
    const child = spawn(process.execPath, [command, script]);
    await once(child.stdout, "data");
    child.kill(signal);
    assert.deepEqual(await once(child, "exit"), [5, null], signal);
  }
});
