import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker as Thread } from "node:worker_threads";
import type { Message } from "./message.js";
import { Backoff, TimeLimitError, pause } from "../timing.js";
import { Output, REQUEUE } from "./outputs.js";
import type { Context } from "./handler.js";

/** What a thread says. `made` tells what the handler returned: a value, a symbol or an output. */
type Said =
  | { kind: "loaded" }
  | { kind: "unloadable"; message: string }
  | { kind: "returned"; id: number; value?: unknown; symbol?: string; output?: { bytes: Uint8Array | string; contentType: string } }
  | { kind: "threw"; id: number; message: string; stack?: string; name: string; marks: string[]; afterMs?: number }
  | { kind: "checkpoint"; id: number; call: number; value: unknown }
  | { kind: "progress"; id: number; value: unknown }
  | { kind: "log"; id: number; value: unknown };

type Answer = Extract<Said, { id: number }>;

interface Job {
  context: Context;
  resolve(output: unknown): void;
  reject(error: unknown): void;
}

// The program of a thread, as text: a file of its own would get lost when a program is bundled.
const PROGRAM = `
const { parentPort, workerData } = require("node:worker_threads");
const jobs = new Map();
const marks = ["reseq.permanent", "reseq.retry", "reseq.later"];
const loaded = import(workerData.module).then((module) => {
  const handler = typeof module.default === "function" ? module.default : module.default?.default;
  if (typeof handler !== "function") throw new TypeError(workerData.module + " has no default export that is a function");
  return handler;
});
loaded.then(
  () => parentPort.postMessage({ kind: "loaded" }),
  (error) => parentPort.postMessage({ kind: "unloadable", message: String(error?.message ?? error) }),
);
parentPort.on("message", async (said) => {
  if (said.kind === "abort") return jobs.get(said.id)?.lost.abort(new Error(said.reason));
  if (said.kind === "stop") return jobs.get(said.id)?.stopping.abort();
  if (said.kind === "saved") {
    const { resolve, reject } = jobs.get(said.id)?.calls.get(said.call) ?? {};
    return said.error ? reject?.(new Error(said.error)) : resolve?.();
  }
  const { id, message } = said;
  const job = { lost: new AbortController(), stopping: new AbortController(), calls: new Map() };
  jobs.set(id, job);
  message.raw = Buffer.from(message.raw);
  if (message.isBytes) message.body = message.raw;
  const context = {
    signal: job.lost.signal,
    stopping: job.stopping.signal,
    checkpoint: (value) => new Promise((resolve, reject) => {
      job.calls.set(job.calls.size, { resolve, reject });
      parentPort.postMessage({ kind: "checkpoint", id, call: job.calls.size - 1, value });
    }),
    progress: (value) => parentPort.postMessage({ kind: "progress", id, value }),
    log: (value) => parentPort.postMessage({ kind: "log", id, value }),
  };
  try {
    const value = await (await loaded)(message, context);
    if (value?.[Symbol.for("reseq.later")] === true) throw value;
    if (typeof value === "symbol") parentPort.postMessage({ kind: "returned", id, symbol: Symbol.keyFor(value) });
    else if (value?.constructor?.name === "Output" && "contentType" in value) {
      parentPort.postMessage({ kind: "returned", id, output: { bytes: value.bytes, contentType: value.contentType } });
    } else parentPort.postMessage({ kind: "returned", id, value });
  } catch (error) {
    const has = marks.filter((mark) => error?.[Symbol.for(mark)] === true);
    const message = String(error?.message ?? error);
    parentPort.postMessage({ kind: "threw", id, message, stack: error?.stack, name: String(error?.name ?? "Error"), marks: has, afterMs: error?.afterMs });
  }
  jobs.delete(id);
});
`;

/** Threads that run the default export of a module, each one message at a time. */
export class ThreadPool {
  readonly #module: string;
  readonly #idle: Thread[] = [];
  readonly #all = new Set<Thread>();
  readonly #waiting: ((thread: Thread | Promise<Thread>) => void)[] = [];
  #ready: Promise<unknown> | undefined;
  #id = 0;
  #isClosed = false;

  constructor(
    module: URL | string,
    private readonly size: number,
    private readonly onTrouble: (error: unknown) => void,
    private readonly end: AbortSignal,
  ) {
    const isUrl = module instanceof URL || module.startsWith("file:");
    this.#module = isUrl ? String(module) : pathToFileURL(resolve(module)).href;
  }

  /** Resolves when a thread has imported the module, or the worker closes. Until then, nothing may be leased. */
  ready(): Promise<unknown> {
    return (this.#ready ??= Promise.race([
      this.#prepare(),
      new Promise((resolve) => this.end.addEventListener("abort", resolve, { once: true })),
    ]));
  }

  async #prepare(): Promise<void> {
    const backoff = new Backoff(1000, 5000);
    while (!this.end.aborted && this.#idle.length === 0 && this.#all.size < this.size) {
      try {
        this.#give(await this.#start());
      } catch (error) {
        if (this.end.aborted) return;
        this.onTrouble(error);
        await pause(Math.max(500, backoff.nextMs()), this.end).catch(() => {});
      }
    }
  }

  /** What the handler returns. `REQUEUE` if no thread can import the module: that is not the fault of the message. */
  async run(message: Message, context: Context): Promise<unknown> {
    let thread: Thread;
    try {
      thread = await this.#take();
    } catch (error) {
      this.onTrouble(error);
      this.#ready = undefined;
      return REQUEUE;
    }
    const id = this.#id++;
    const isBytes = Buffer.isBuffer(message.body);
    const plain = { ...message, body: isBytes ? undefined : message.body, raw: message.raw, isBytes };
    const stop = () => thread.postMessage({ kind: "stop", id });
    const abort = () => {
      thread.postMessage({ kind: "abort", id, reason: String(context.signal.reason?.message) });
      // It would do nothing else any more.
      if (context.signal.reason instanceof TimeLimitError) void thread.terminate();
    };
    let onSaid: ((said: Answer | undefined) => void) | undefined;
    let onExit: ((code: number) => void) | undefined;
    try {
      return await new Promise((resolve, reject) => {
        const job = { context, resolve, reject };
        if (context.signal.aborted) return reject(context.signal.reason);
        onSaid = (said) => said?.id === id && answer(thread, job, said);
        onExit = (code) => reject(new Error(`the thread of the handler ended with ${code}`));
        thread.on("message", onSaid).once("exit", onExit);
        context.stopping.addEventListener("abort", stop, { once: true });
        context.signal.addEventListener("abort", abort, { once: true });
        thread.postMessage({ kind: "run", id, message: plain });
        if (context.stopping.aborted) stop();
      });
    } finally {
      if (onSaid) thread.off("message", onSaid);
      if (onExit) thread.off("exit", onExit);
      context.stopping.removeEventListener("abort", stop);
      context.signal.removeEventListener("abort", abort);
      this.#give(thread);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#all].map((thread) => thread.terminate()));
  }

  async #take(): Promise<Thread> {
    const idle = this.#idle.pop();
    if (idle) return idle;
    if (this.#all.size < this.size) return this.#start();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** A new thread that has imported the module. */
  #start(): Promise<Thread> {
    return new Promise((resolve, reject) => {
      const thread = this.#newThread();
      let why: string | undefined;
      thread.once("exit", (code) => reject(new Error(`the module of the handler cannot be imported: ${why ?? `its thread ended with ${code}`}`)));
      thread.on("message", (said: Said | undefined) => {
        if (said?.kind === "loaded") resolve(thread);
        if (said?.kind !== "unloadable") return;
        why = said.message;
        void thread.terminate();
      });
    });
  }

  #newThread(): Thread {
    const thread = new Thread(PROGRAM, { eval: true, workerData: { module: this.#module } });
    this.#all.add(thread);
    // An error ends the thread: `exit` follows, and the message that it had fails.
    thread.on("error", (error) => console.error(`reseq: the thread of a handler failed: ${error.message}`));
    thread.once("exit", () => {
      this.#all.delete(thread);
      const at = this.#idle.indexOf(thread);
      if (at >= 0) this.#idle.splice(at, 1);
      const next = this.#waiting.shift();
      if (next && !this.#isClosed) next(this.#start());
    });
    return thread;
  }

  #give(thread: Thread): void {
    if (!this.#all.has(thread)) return;
    const next = this.#waiting.shift();
    if (next) next(thread);
    else this.#idle.push(thread);
  }
}

function answer(thread: Thread, job: Job, said: Answer): void {
  if (said.kind === "returned") {
    if (said.symbol !== undefined) return job.resolve(Symbol.for(said.symbol));
    return job.resolve(said.output ? new Output(said.output.bytes, said.output.contentType) : said.value);
  }
  if (said.kind === "progress") return job.context.progress(said.value);
  if (said.kind === "log") return job.context.log(String(said.value));
  if (said.kind === "checkpoint") {
    const { id, call } = said;
    job.context.checkpoint(said.value).then(
      () => thread.postMessage({ kind: "saved", id, call }),
      (error: Error) => thread.postMessage({ kind: "saved", id, call, error: error.message || "failed" }),
    );
    return;
  }
  const error = Object.assign(new Error(said.message), { stack: said.stack, name: said.name, afterMs: said.afterMs });
  for (const mark of said.marks) Object.defineProperty(error, Symbol.for(mark), { value: true });
  job.reject(error);
}
