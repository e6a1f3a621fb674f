import { Agent as HttpAgent, request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { ReseqError, errorOf, type ProblemLike } from "./errors.js";
import { Backoff, pause } from "./timing.js";

export interface TransportOptions {
  /**
   * One URL or several (an array, or separated by commas): the pods. The client begins with any of them. If one does
   * not answer, the next is asked.
   */
  url?: string | string[] | undefined;
  /** Sent as `Authorization: Bearer …`. */
  token?: string | undefined;
  /** Connections to each pod at once. */
  connectionsMax?: number | undefined;
  /** A call without an answer has failed after this time (30 s; 10 s for messages). */
  timeoutMs?: number | undefined;
  /** Waits before repeats: a random time up to `firstMs`, then up to twice that, and so on up to `maxMs`. */
  backoff?: { firstMs?: number | undefined; maxMs?: number | undefined } | undefined;
}

export const TRANSPORT_OPTIONS: Record<keyof TransportOptions, true> = { url: true, token: true, connectionsMax: true, timeoutMs: true, backoff: true };

export interface Call {
  method: string;
  path: string;
  body?: string | undefined;
  contentType?: string | undefined;
  headers?: Record<string, string> | undefined;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  /** It waits for long: it has a connection that no other call waits for. */
  lasts?: boolean | undefined;
  /** When aborted, the client ends its side of the connection, and still takes an answer that comes. */
  endOfWait?: AbortSignal | undefined;
}

export interface Answer {
  status: number;
  headers: IncomingMessage["headers"];
  text: string;
}

const DEFAULT_URL = "http://127.0.0.1:8080";
/** Below the idle timeout of Reseq (75 s), so that this side closes first. */
const IDLE_MS = 30_000;
/** After the end of a wait, Reseq has this long to answer. */
const LAST_ANSWER_MS = 5_000;

/** The most connections to each pod with calls that wait; further ones wait until one is free. */
const WAITS_MAX = 512;

/** HTTP calls to some pods. */
export class Transport {
  readonly #urls: URL[];
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;
  readonly #httpWaits: HttpAgent;
  readonly #httpsWaits: HttpsAgent;
  readonly #backoff: NonNullable<TransportOptions["backoff"]>;
  /** How long a batch of messages may take: shorter than other calls, because a program waits for it. */
  readonly sendTimeoutMs: number;
  #current: number;

  constructor(options: TransportOptions) {
    this.#backoff = options.backoff ?? {};
    const given = options.url ?? (process.env.RESEQ_URL || DEFAULT_URL);
    const urls = (Array.isArray(given) ? given : given.split(",")).map((url) => url.trim()).filter(Boolean);
    if (urls.length === 0) throw new TypeError("url is empty");
    this.#urls = urls.map(checkedUrl);
    // Many processes have the same list: they must not all call its first pod.
    this.#current = Math.floor(Math.random() * urls.length);
    this.#headers = options.token ? { authorization: `Bearer ${options.token}` } : {};
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.sendTimeoutMs = options.timeoutMs ?? 10_000;
    const agent = { keepAlive: true, maxSockets: options.connectionsMax ?? 64, timeout: IDLE_MS };
    this.#http = new HttpAgent(agent);
    this.#https = new HttpsAgent(agent);
    this.#httpWaits = new HttpAgent({ ...agent, maxSockets: WAITS_MAX });
    this.#httpsWaits = new HttpsAgent({ ...agent, maxSockets: WAITS_MAX });
  }

  newBackoff(): Backoff {
    return new Backoff(this.#backoff.firstMs, this.#backoff.maxMs);
  }

  /** Calls once. Throws `no_answer` if no whole answer comes; the next call then goes to the next pod. */
  async once(call: Call): Promise<Answer> {
    const at = this.#current;
    const failed = () => {
      if (at === this.#current) this.#current = (at + 1) % this.#urls.length;
    };
    try {
      const answer = await this.#exchange(this.#urls[at]!, call);
      // This pod cannot serve now, for example because it is stopping. Another one may.
      if (answer.status === 503 || answer.status === 502) failed();
      return answer;
    } catch (error) {
      if (!call.signal?.aborted) failed();
      throw error;
    }
  }

  /** Calls once. Throws what Reseq refuses. */
  async json<T>(call: Call): Promise<T> {
    const answer = await this.once(call);
    if (answer.status >= 200 && answer.status < 300) return parsed<T>(answer);
    throw refusal(answer);
  }

  /**
   * Calls until Reseq answers other than "later". Only for calls that are safe to repeat. Gives up after
   * `forMs`, with the last error.
   */
  async untilAnswered<T>(call: Call, forMs = Infinity): Promise<T> {
    const backoff = this.newBackoff();
    const until = performance.now() + forMs;
    for (;;) {
      try {
        return await this.json<T>(call);
      } catch (error) {
        if (!(error instanceof ReseqError) || !error.isTemporary) throw error;
        const waitMs = backoff.nextMs(error.retryAfterMs);
        if (performance.now() + waitMs > until) throw error;
        await pause(waitMs, call.signal);
      }
    }
  }

  close(): void {
    for (const agent of [this.#http, this.#https, this.#httpWaits, this.#httpsWaits]) agent.destroy();
  }

  #exchange(url: URL, call: Call): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const { signal, endOfWait } = call;
      if (signal?.aborted) return reject(signal.reason as Error);
      const request = this.#request(url, call);
      let endTimer: NodeJS.Timeout | undefined;
      const timer = setTimeout(() => request.destroy(new Error("no answer in time")), call.timeoutMs ?? this.#timeoutMs);
      const onAbort = () => request.destroy(signal!.reason as Error);
      const onEnd = () => {
        request.socket?.end();
        endTimer ??= setTimeout(() => request.destroy(new Error("no answer after the end")), LAST_ANSWER_MS);
      };
      const settle = () => {
        clearTimeout(timer);
        clearTimeout(endTimer);
        signal?.removeEventListener("abort", onAbort);
        endOfWait?.removeEventListener("abort", onEnd);
      };
      const fail = (cause: unknown) => {
        settle();
        request.destroy();
        if (signal?.aborted) return reject(signal.reason as Error);
        const detail = `${call.method} ${url.origin}${call.path}: ${(cause as Error)?.message || (cause as { code?: string })?.code}`;
        reject(new ReseqError({ code: "no_answer", detail, cause }));
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      endOfWait?.addEventListener("abort", onEnd, { once: true });
      request.on("error", fail);
      request.once("response", (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", fail);
        response.once("aborted", () => fail(new Error("the answer broke off")));
        response.once("end", () => {
          if (!response.complete) return fail(new Error("the answer broke off"));
          settle();
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text: Buffer.concat(chunks).toString() });
        });
      });
      request.end(call.body);
      if (endOfWait?.aborted) request.once("socket", onEnd);
    });
  }

  #request(url: URL, call: Call): ClientRequest {
    const isTls = url.protocol === "https:";
    const headers: Record<string, string | number> = { ...this.#headers, ...call.headers };
    if (call.body !== undefined) {
      headers["content-type"] = call.contentType ?? "application/json";
      headers["content-length"] = Buffer.byteLength(call.body);
    } else if (call.method !== "GET") {
      headers["content-length"] = 0;
    }
    const agents = call.lasts ? [this.#httpWaits, this.#httpsWaits] : [this.#http, this.#https];
    const options = { method: call.method, headers, agent: agents[isTls ? 1 : 0] };
    const target = new URL(url.pathname.replace(/\/$/, "") + call.path, url);
    return isTls ? httpsRequest(target, options) : httpRequest(target, options);
  }
}

function checkedUrl(text: string): URL {
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new TypeError(`url must be http or https: ${text}`);
  if (/\/v1\/?$/.test(url.pathname)) throw new TypeError(`url must not end in /v1, which the client adds itself: ${text}`);
  return url;
}

export function parsed<T>(answer: Answer): T {
  try {
    return JSON.parse(answer.text) as T;
  } catch (cause) {
    throw new ReseqError({ code: "invalid_answer", detail: `not JSON: ${start(answer.text)}`, status: answer.status, cause });
  }
}

/** The error that an answer other than 2xx stands for. */
export function refusal(answer: Answer): ReseqError {
  try {
    const problem = JSON.parse(answer.text) as ProblemLike;
    if (typeof problem.code === "string") {
      const retry_after = problem.retry_after ?? retryAfterSeconds(answer);
      return errorOf({ ...problem, status: answer.status, retry_after });
    }
  } catch {
    // What answered is not Reseq, for example a proxy.
  }
  const seconds = retryAfterSeconds(answer);
  const retryAfterMs = seconds === undefined ? undefined : seconds * 1000;
  const detail = `status ${answer.status}: ${start(answer.text)}`;
  return new ReseqError({ code: "invalid_answer", detail, status: answer.status, retryAfterMs });
}

/** A longer wait that an answer asks for counts as this one. */
const RETRY_AFTER_SECONDS_MAX = 3600;

function retryAfterSeconds(answer: Answer): number | undefined {
  const header = answer.headers["retry-after"];
  if (header === undefined) return undefined;
  const seconds = /^\d+(\.\d+)?$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(0, seconds), RETRY_AFTER_SECONDS_MAX);
}

const start = (text: string) => JSON.stringify(text.slice(0, 200));
