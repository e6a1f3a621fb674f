// Real Redis and real pods, on free ports, with what they store in a folder of their own.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, openSync, rmSync, readFileSync, writeFileSync } from "node:fs";
import { createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../..", import.meta.url));

/** `RESEQ_BIN`, or what cargo has built. */
export function reseqProgram() {
  if (process.env.RESEQ_BIN) return process.env.RESEQ_BIN;
  const target = execFileSync(join(root, "scripts/target-dir.sh"), { encoding: "utf8" }).trim();
  const found = ["release", "debug"].map((kind) => join(target, kind, "reseq")).find(existsSync);
  assert.ok(found, "there is no reseq: run `make build`, or set RESEQ_BIN");
  return found;
}

/** Waits until `look` returns something true. */
export async function until(what, look, patienceMs = 120_000) {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(performance.now() < deadline, `never: ${what}`);
    await pause(10);
  }
}

// Linux assigns ports from 32768 on to connections, and to programs that ask for any port. Another process could take such
// a port before the server starts or after it ends, and get its traffic.
const FIRST = 10_000;
const COUNT = 32_768 - FIRST;
/** Processes that run at the same time start far apart. */
let nextPort = (process.pid * 7_919) % COUNT;

/** A free port. It comes again only after all others. */
export async function freePort() {
  for (let tries = 0; tries < COUNT; tries += 1) {
    const port = FIRST + nextPort;
    nextPort = (nextPort + 1) % COUNT;
    const server = createTcpServer();
    const isFree = await new Promise((resolve) => server.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true)));
    await new Promise((resolve) => server.close(resolve));
    if (isFree) return port;
  }
  throw new Error("no port of the loopback is free");
}

/** They end with the test, however it ends. */
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** A process that can be killed and started again. */
export class Restartable {
  /** `user` may have the `uid` and `gid` as which it runs. */
  constructor(program, args, log, env = {}, user = {}) {
    Object.assign(this, { program, args, log, env, user });
  }

  spawn(stdio = ["ignore", openSync(this.log, "a"), openSync(this.log, "a")]) {
    // Reseq reads each RESEQ_… as a setting.
    const others = Object.entries(process.env).filter(([name]) => !name.startsWith("RESEQ_"));
    this.child = spawn(this.program, this.args, { env: { ...Object.fromEntries(others), ...this.env }, stdio, ...this.user });
    running.add(this.child);
    const { child } = this;
    this.isWanted = true;
    child.once("exit", () => {
      running.delete(child);
      // As a supervisor does: a pod ends if there is no Redis when it starts.
      const isNext = () => this.isWanted && this.child === child;
      setTimeout(() => isNext() && this.spawn(), 200).unref();
    });
    this.ended = new Promise((resolve) => this.child.once("exit", resolve));
  }

  async kill(signal = "SIGKILL") {
    this.isWanted = false;
    this.child?.kill(signal);
    await this.ended;
  }
}

/** Redis with an append-only file, and pods on it. */
export class Deployment {
  static async start({ pods = 1, config = "" } = {}) {
    const deployment = new Deployment();
    deployment.dir = mkdtempSync(join(tmpdir(), "reseq-node-"));
    const redisPort = await freePort();
    deployment.redisUrl = `redis://127.0.0.1:${redisPort}`;
    // With `everysec`, Redis answers before it writes while the system is slow to sync, so that SIGKILL loses what it has
    // confirmed. With `no` it writes first; SIGKILL of a process loses nothing of what is written.
    const durable = ["--appendonly", "yes", "--appendfsync", "no", "--save", ""];
    const redisArgs = ["--port", redisPort, "--bind", "127.0.0.1", "--dir", deployment.dir, ...durable];
    deployment.redis = new Restartable("redis-server", redisArgs.map(String), join(deployment.dir, "redis.log"));
    deployment.redis.spawn();
    deployment.pods = [];
    for (let at = 0; at < pods; at += 1) await deployment.#addPod(config);
    await deployment.ready();
    return deployment;
  }

  async #addPod(config) {
    const port = await freePort();
    const file = join(this.dir, `pod-${this.pods.length}.toml`);
    const text = `shutdown_ms = 5000\n[http]\nlisten = "127.0.0.1:${port}"\n[redis]\nurl = "${this.redisUrl}"\npartitions = 4\n[sender]\nlease_ms = 1500\n[outgoing]\nallow = ["127.0.0.0/8", "::1"]\n${config}`;
    writeFileSync(file, text);
    const pod = new Restartable(reseqProgram(), ["serve", "--config", file], join(this.dir, `pod-${this.pods.length}.log`), { RUST_LOG: "warn" });
    pod.url = `http://127.0.0.1:${port}`;
    pod.spawn();
    this.pods.push(pod);
  }

  get urls() {
    return this.pods.map((pod) => pod.url);
  }

  async ready() {
    for (const { url } of this.pods) await until(`${url} is ready`, () => fetch(`${url}/readyz`).then((answer) => answer.ok, () => false));
  }

  /** What each pod says of these destinations, and what it and Redis have logged last. */
  async state(destinations) {
    const parts = [];
    for (const [at, { url }] of this.pods.entries()) {
      for (const name of destinations) parts.push(await fetch(`${url}/v1/destinations/${name}/why`).then((answer) => answer.text(), String));
      parts.push(this.log(at).slice(-4000));
    }
    return [...parts, readFileSync(this.redis.log, "utf8").slice(-2000)].join("\n");
  }

  log(at = 0) {
    return readFileSync(join(this.dir, `pod-${at}.log`), "utf8");
  }

  async stop() {
    await Promise.all(this.pods.map((pod) => pod.kill()));
    await this.redis.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }
}
