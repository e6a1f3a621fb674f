import { EventEmitter } from "node:events";
import { sentenceOf } from "../errors.js";
import { printer } from "../print.js";
import type { Message } from "./message.js";

export interface WorkerEvents {
  /** A handler begins. */
  active: [message: Message];
  /** Reseq has the output. */
  completed: [message: Message, output: unknown];
  /** An attempt failed, and Reseq knows. `exhausted` says what becomes of the message if its attempts are used up. */
  failed: [message: Message, error: Error, exhausted: string | null];
  /** The lease was lost while the handler ran or its output was on its way: another worker gets the message. */
  stalled: [message: Message];
  /** Reseq does not answer, or refuses a call. The worker goes on by itself. */
  error: [error: Error];
  /** Nothing is left to do at the moment. */
  drained: [];
  /** A handler called `progress()`. */
  progress: [message: Message, value: unknown];
  /** A handler called `log()`. */
  log: [message: Message, text: string];
}

/** Events that never stop who tells them: neither a missing listener nor one that throws. */
export class SafeEvents {
  readonly #emitter = new EventEmitter({ captureRejections: true });
  readonly #print = printer();

  constructor() {
    // Also what an asynchronous listener rejects with arrives here.
    this.#emitter.on("error", (error: unknown) => {
      if (this.#emitter.listenerCount("error") === 1) this.#print(sentenceOf(error));
    });
  }

  on<Name extends keyof WorkerEvents>(name: Name, listener: (...args: WorkerEvents[Name]) => unknown): void {
    this.#emitter.on(name, listener as (...args: unknown[]) => void);
  }

  once<Name extends keyof WorkerEvents>(name: Name, listener: (...args: WorkerEvents[Name]) => unknown): void {
    this.#emitter.once(name, listener as (...args: unknown[]) => void);
  }

  off<Name extends keyof WorkerEvents>(name: Name, listener: (...args: WorkerEvents[Name]) => unknown): void {
    this.#emitter.off(name, listener as (...args: unknown[]) => void);
  }

  has(name: keyof WorkerEvents): boolean {
    return this.#emitter.listenerCount(name) > (name === "error" ? 1 : 0);
  }

  tell<Name extends keyof WorkerEvents>(name: Name, ...args: WorkerEvents[Name]): void {
    if (name !== "error" && this.#emitter.listenerCount(name) === 0) return;
    try {
      this.#emitter.emit(name, ...args);
    } catch (error) {
      this.#print(`a listener of ${name} threw: ${sentenceOf(error)}`);
    }
  }
}
