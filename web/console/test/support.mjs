// A real Reseq with its own Redis, a receiver, and a real Chromium.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../../..", import.meta.url));
export const ADMIN = "an-admin-token-for-the-tests-of-the-console";

/** `RESEQ_BIN`, or what cargo has built. */
function program() {
  if (process.env.RESEQ_BIN) return process.env.RESEQ_BIN;
  const target = execFileSync(join(root, "scripts/target-dir.sh"), { encoding: "utf8" }).trim();
  const found = ["release", "debug"].map((kind) => join(target, kind, "reseq")).find(existsSync);
  assert.ok(found, "there is no reseq: run `make build`, or set RESEQ_BIN");
  return found;
}

/** Waits until `look` returns something true. */
export async function until(what, look, patienceMs = 30_000) {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(performance.now() < deadline, `never: ${what}`);
    await pause(20);
  }
}

/** Accepts what it gets, unless `answer` says otherwise. */
export class Receiver {
  received = [];
  answer = () => ({ status: 200 });

  async start() {
    this.server = createServer(async (request, response) => {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      const message = { path: request.url, sequence: Number(request.headers["reseq-sequence"]), body: Buffer.concat(chunks).toString() };
      const { status = 200, text = "", afterMs = 0, headers = {} } = this.answer(message);
      if (afterMs) await pause(afterMs);
      if (status < 300) this.received.push(message);
      response.writeHead(status, headers).end(text);
    });
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  sequences(path) {
    return this.received.filter((one) => one.path === path).map((one) => one.sequence);
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** Reseq with an embedded Redis, a listener for operators, and an admin token. */
export class Service {
  /** `withClock`: `step` moves its clock and that of its Redis. */
  constructor({ withClock = false } = {}) {
    this.withClock = withClock;
  }

  async start() {
    this.folder = mkdtempSync(join(tmpdir(), "reseq-console-"));
    const clock = this.withClock ? this.#clock() : {};
    const config = join(this.folder, "reseq.toml");
    writeFileSync(config, `[http]\nlisten = "127.0.0.1:0"\n[admin]\nlisten = "127.0.0.1:0"\n[outgoing]\nallow = ["127.0.0.0/8"]\n[redis]\nurl = "embedded"\ndata_dir = ${JSON.stringify(join(this.folder, "data"))}\npartitions = 8\n`);
    const others = Object.entries(process.env).filter(([name]) => !name.startsWith("RESEQ_"));
    this.log = "";
    this.child = spawn(program(), ["serve", "--config", config], {
      env: { ...Object.fromEntries(others), ...clock, RESEQ_AUTH_ADMIN_TOKEN: ADMIN, RESEQ_LOG_FORMAT: "text" }, stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.child.stdout, this.child.stderr]) stream.on("data", (text) => (this.log += text));
    process.once("exit", () => this.child.kill("SIGKILL"));
    const found = await until("Reseq runs", () => {
      assert.equal(this.child.exitCode, null, this.log);
      return /http=(\S+) admin=(\S+)/.exec(this.log.replaceAll(/\u001b\[[0-9;]*m/g, ""));
    });
    this.public = `http://${found[1]}`;
    this.url = `http://${found[2]}`;
    return this;
  }

  /** The clock of the tests in Rust: crates/testing/src/support/clock.c says what the file holds. */
  #clock() {
    const library = join(this.folder, "clock.so");
    execFileSync("cc", ["-shared", "-fPIC", "-O1", "-o", library, join(root, "crates/testing/src/support/clock.c"), "-ldl"]);
    this.clockFile = join(this.folder, "clock");
    writeFileSync(this.clockFile, Buffer.alloc(4096));
    return { LD_PRELOAD: library, CLOCK_FILE: this.clockFile };
  }

  /** Moves the clock forward by so many ms in all. */
  step(ms) {
    const ahead = Buffer.alloc(8);
    ahead.writeBigInt64LE(BigInt(ms) * 1_000_000n);
    const file = openSync(this.clockFile, "r+");
    writeSync(file, ahead, 0, 8, 0);
    closeSync(file);
  }

  /** Stops its Redis, or lets it go on: it does not answer, and its connections stay. */
  freezeRedis(isFrozen) {
    const [redis] = execFileSync("pgrep", ["-P", String(this.child.pid), "redis-server"], { encoding: "utf8" }).split("\n");
    process.kill(Number(redis), isFrozen ? "SIGSTOP" : "SIGCONT");
  }

  async ask(method, path, body, { token = ADMIN, headers = {} } = {}) {
    const answer = await fetch(`${this.url}${path}`, {
      method, headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    const json = text ? JSON.parse(text) : null;
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return json;
  }

  define(name, definition) {
    return this.ask("PUT", `/v1/destinations/${name}`, definition);
  }

  async send(destination, body, more = {}) {
    return (await this.ask("POST", "/v1/messages", { destinations: [destination], body, ...more })).deliveries[0].sequence;
  }

  /** Claims all that can be claimed, at least `min`. */
  async claim(destination, max, min = 1) {
    const leases = [];
    await until(`${min} leases of ${destination}`, async () => {
      const wanted = { destinations: [destination], max: max - leases.length, wait_ms: 500, lease_ms: 600_000 };
      if (leases.length < max) leases.push(...(await this.ask("POST", "/v1/leases", wanted)).leases);
      return leases.length >= min;
    });
    return leases.sort((a, b) => a.sequence - b.sequence);
  }

  complete(lease, body = lease.body) {
    return this.ask("POST", "/v1/leases/complete", { items: [{ token: lease.token, body }] });
  }

  fail(lease, error, more = { final: true }) {
    return this.ask("POST", "/v1/leases/fail", { items: [{ token: lease.token, error, ...more }] });
  }

  async token(scopes, destinations) {
    return (await this.ask("POST", "/v1/tokens", { name: scopes.join(" "), scopes, destinations })).token;
  }

  async stop() {
    this.child.kill("SIGTERM");
    if (this.child.exitCode === null) await new Promise((resolve) => this.child.once("exit", resolve));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export function launch() {
  const executablePath = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
  assert.ok(executablePath, "there is no Chromium: run `make setup`, or set CHROMIUM");
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** A page that is signed in. What goes wrong in it is noted in `page.problems`. */
export async function signedIn(browser, service, { token = ADMIN, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  // Waits end when what they wait for is there; on a busy machine that takes long.
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && page.problems.push(message.text()));
  page.on("dialog", (dialog) => { page.problems.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  // While the front end is written: what was built last, with the headers of the program.
  if (process.env.CONSOLE_DIST) {
    await context.route(/\/console\/?($|console\.|icon)/, async (route) => {
      const answer = await route.fetch();
      const name = new URL(route.request().url()).pathname.split("/")[2] || "index.html";
      await route.fulfill({ response: answer, body: readFileSync(join(process.env.CONSOLE_DIST, name)) });
    });
  }
  await page.goto(`${service.url}/console`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  page.show = async (path) => {
    await page.goto(`${service.url}/console#/${path}`);
  };
  return page;
}
