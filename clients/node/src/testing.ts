import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Reseq } from "./client.js";
import { ReseqError } from "./errors.js";
import { checkOptions } from "./options.js";
import { orderGuard, type DeliveryHandler } from "./receiver/guard.js";
import type { Delivery } from "./receiver/message.js";
import { memoryStore } from "./receiver/stores/memory.js";
import { pause } from "./timing.js";
import type { components } from "./api.js";

export interface TestReseqOptions {
  /** The program. Without it, RESEQ_BIN, and then that of the package `reseq-server`. */
  program?: string | undefined;
  /** More lines for its configuration file, in TOML. */
  config?: string | undefined;
  /** Handles what comes to `receiverUrl`. What it throws makes Reseq deliver again; what it accepts is in `deliveries()`. */
  receive?: DeliveryHandler<undefined> | undefined;
  /** Shows what the program logs (false). */
  log?: boolean | undefined;
}

const OPTIONS: Record<keyof TestReseqOptions, true> = { program: true, config: true, receive: true, log: true };
const START_MS = 30_000;
const LOOK_EVERY_MS = 20;
const LOG_LENGTH_MAX = 4_000;

type Pending = components["schemas"]["PendingMessage"];

/** A Reseq for tests: a process of its own with an embedded Redis, on free ports. Call `stop()` at the end. */
export async function startReseq(options: TestReseqOptions = {}): Promise<TestReseq> {
  checkOptions(options, OPTIONS, "startReseq");
  const [program, ...args] = options.program === undefined ? programOf() : [options.program];
  const dir = mkdtempSync(join(tmpdir(), "reseq-test-"));
  const port = await freePort();
  const config = join(dir, "reseq.toml");
  writeFileSync(config, `shutdown_ms = 1000\n[http]\nlisten = "127.0.0.1:${port}"\n[redis]\nurl = "embedded"\n[outgoing]\nallow = ["127.0.0.0/8", "::1"]\n${options.config ?? ""}`);
  // Reseq reads each RESEQ_… as a setting.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("RESEQ_")));
  const child = spawn(program!, [...args, "serve", "--config", config], { cwd: dir, env, stdio: ["ignore", options.log ? "inherit" : "ignore", "pipe"] });
  const service = new TestReseq(child, dir, `http://127.0.0.1:${port}`, options.receive ?? (() => {}));
  try {
    await service.ready();
    return service;
  } catch (error) {
    await service.stop();
    throw error;
  }
}

export class TestReseq {
  readonly reseq: Reseq;
  readonly #delivered: Delivery[] = [];
  readonly #server: Server;
  readonly #advances: { at: number; ms: number }[] = [];
  readonly #kill = () => void this.child.kill("SIGKILL");
  #said = "";

  /** @internal */
  constructor(
    private readonly child: ChildProcess,
    private readonly dir: string,
    readonly url: string,
    receive: DeliveryHandler<undefined>,
  ) {
    this.reseq = new Reseq({ url });
    child.stderr!.on("data", (text) => (this.#said = (this.#said + String(text)).slice(-LOG_LENGTH_MAX)));
    child.once("error", (error) => (this.#said += error.message));
    process.once("exit", this.#kill);
    // Each message is a lane of its own: so the guard knows repeats, whatever the ordering of the destination is.
    const guard = orderGuard({ store: memoryStore(), ordering: "none", onError: () => {} });
    this.#server = createServer(guard.node(async (delivery, tx, context) => {
      await receive(delivery, tx, context);
      this.#delivered.push(delivery);
    }));
  }

  /** A receiver that keeps what it gets: `define("invoices", { url: service.receiverUrl })`. */
  get receiverUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  /** @internal */
  async ready(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    const until = performance.now() + START_MS;
    while (!(await fetch(`${this.url}/readyz`).then(({ ok }) => ok, () => false))) {
      const isOver = this.child.exitCode !== null || this.child.pid === undefined || performance.now() > until;
      if (isOver) throw new Error(`reseq did not start: ${this.#said || `no answer within ${START_MS} ms`}`);
      await pause(LOOK_EVERY_MS);
    }
  }

  /** What came to `receiverUrl` and was accepted, each message once, in the order of arrival. */
  deliveries<Body = any>(destination?: string): Delivery<Body>[] {
    return this.#delivered.filter((delivery) => destination === undefined || delivery.destination === destination);
  }

  /**
   * Moves the clock of the messages that wait: what would be due by then is due now. What is sent
   * later waits for its whole delay.
   */
  async advance(ms: number): Promise<void> {
    this.#advances.push({ at: Date.now(), ms });
    await this.#moving();
  }

  /**
   * Waits until nothing moves: each message has left, is halted, is not due yet, or is behind one of these. Throws after
   * `timeoutMs` (10 s), and says why the first of the others does not leave.
   */
  async drain({ timeoutMs = 10_000 }: { timeoutMs?: number | undefined } = {}): Promise<void> {
    const until = performance.now() + timeoutMs;
    for (;;) {
      const moving = await this.#moving();
      if (!moving) return;
      if (performance.now() > until) throw new Error(`after ${timeoutMs} ms, ${moving.name}/${moving.sequence} is ${moving.state}: ${await this.#why(moving)}`);
      await pause(LOOK_EVERY_MS);
    }
  }

  /** Removes all destinations with their messages, and forgets the deliveries: for the next test. */
  async clear(): Promise<void> {
    for await (const { name } of this.reseq.list<{ name: string }>("/v1/destinations")) {
      await this.reseq.call("DELETE", `/v1/destinations/${encodeURIComponent(name)}?force=true`);
    }
    this.#delivered.length = 0;
    this.#advances.length = 0;
  }

  /** Ends the program and the receiver, and removes the data. */
  async stop(): Promise<void> {
    this.reseq.close();
    this.#server.close();
    this.#server.closeAllConnections();
    process.off("exit", this.#kill);
    if (this.child.exitCode === null && this.child.signalCode === null && this.child.pid !== undefined) {
      const ended = once(this.child, "exit");
      this.child.kill("SIGTERM");
      await ended;
    }
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Begins what is due by the moved clock. Returns a message that moves; undefined if none does. */
  async #moving(): Promise<(Pending & { name: string }) | undefined> {
    let moving: (Pending & { name: string }) | undefined;
    for await (const { name, ordering } of this.reseq.list<{ name: string; ordering: string }>("/v1/destinations")) {
      const path = `/v1/destinations/${encodeURIComponent(name)}`;
      const messages: Pending[] = [];
      for await (const message of this.reseq.list<Pending>(`${path}/messages`)) messages.push(message);
      const laneOf = ({ sequence, key }: Pending) => (ordering === "none" ? sequence : ordering === "key" ? (key ?? "") : undefined);
      /** The lanes that nothing leaves, because of their first message. */
      const atRest = new Map<unknown, boolean>();
      for (const message of messages.sort((one, other) => one.sequence - other.sequence)) {
        const isWaiting = message.state === "halted" || (message.state === "delayed" && message.attempts === 0 && !this.#isDue(message));
        const lane = laneOf(message);
        if (!atRest.has(lane)) {
          atRest.set(lane, isWaiting);
          if (message.state === "delayed" && this.#isDue(message)) await this.#begin(path, ordering, message);
        }
        if (isWaiting || (message.state === "ready" && atRest.get(lane))) continue;
        moving ??= { ...message, name };
      }
    }
    return moving;
  }

  #isDue({ due_at, received_at }: Pending): boolean {
    const received = Date.parse(received_at!);
    const moved = this.#advances.reduce((sum, { at, ms }) => sum + (at >= received ? ms : 0), 0);
    return Date.parse(due_at!) <= Date.now() + moved;
  }

  async #begin(path: string, ordering: string, { sequence, key }: Pending): Promise<void> {
    try {
      await this.reseq.call("POST", `${path}/retry-head`, { sequence, ...(ordering === "key" ? { key: key ?? "" } : {}) });
    } catch (error) {
      // It has begun by itself meanwhile.
      if (!(error instanceof ReseqError && error.status === 409)) throw error;
    }
  }

  async #why({ name, key }: { name: string; key?: string | null | undefined }): Promise<string> {
    const lane = key == null ? "" : `?key=${encodeURIComponent(key)}`;
    const ask = (query: string) => this.reseq.call<{ explanation: string }>("GET", `/v1/destinations/${encodeURIComponent(name)}/why${query}`);
    const { explanation } = await ask(lane).catch(() => ask(""));
    return explanation;
  }
}

/** The program and its first arguments. */
function programOf(): string[] {
  if (process.env.RESEQ_BIN) return [process.env.RESEQ_BIN];
  for (const from of [__filename, join(process.cwd(), "package.json")]) {
    try {
      return [process.execPath, join(dirname(createRequire(from).resolve("reseq-server/package.json")), "bin/reseq.js")];
    } catch {
      // The next one.
    }
  }
  throw new Error("there is no reseq: npm install --save-dev reseq-server, or set RESEQ_BIN to the program");
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
