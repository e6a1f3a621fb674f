import type { components } from "../api.js";
import { ReseqError } from "../errors.js";
import { whole } from "../options.js";
import { pause } from "../timing.js";
import type { Transport } from "../transport.js";

type MessageResult = components["schemas"]["MessageResult"];
type Position = { destination: string; sequence: number; id: string };

/** One request waits this long; the next one goes on. */
const POLL_MS = 20_000;
const WAIT_MS_MAX = 60_000;

/** The message is stored, but has no output (yet). `state` says why. */
export class ResultError extends Error {
  /**
   * `failed`: it cannot succeed; `dropped` and `cancelled`: it was not processed to the end; `not_kept`: its output is
   * too long, or no longer kept; `pending`: it is not processed yet.
   */
  readonly state: Exclude<MessageResult["state"], "processed">;
  readonly destination: string;
  readonly sequence: number;
  readonly id: string;

  constructor(position: Position, state: Exclude<MessageResult["state"], "processed">, detail: string) {
    super(`message ${position.sequence} of ${position.destination} has no result: ${detail}`);
    this.name = "ResultError";
    this.state = state;
    this.destination = position.destination;
    this.sequence = position.sequence;
    this.id = position.id;
  }
}

/** The output of a message, as soon as it is processed: JSON as a value, anything else as a `Buffer`. */
export async function outputOf(transport: Transport, position: Position, waitMs = WAIT_MS_MAX, signal?: AbortSignal): Promise<unknown> {
  const until = performance.now() + whole(waitMs, "waitMs", 0, WAIT_MS_MAX);
  const path = `/v1/destinations/${encodeURIComponent(position.destination)}/messages/${position.sequence}/result`;
  const backoff = transport.newBackoff();
  for (;;) {
    const leftMs = Math.max(0, Math.round(until - performance.now()));
    const query = new URLSearchParams({ id: position.id, wait_ms: String(Math.min(leftMs, POLL_MS)) });
    try {
      const result = await transport.json<MessageResult>({ method: "GET", path: `${path}?${query}`, signal, lasts: true, timeoutMs: POLL_MS + 10_000 });
      if (result.state === "processed") return result.body_base64 != null ? Buffer.from(result.body_base64, "base64") : result.body;
      if (result.state !== "pending") throw new ResultError(position, result.state, detailOf(result));
      if (leftMs === 0) throw new ResultError(position, "pending", `it is not processed after ${waitMs} ms (waitMs)`);
      backoff.reset();
      // A pod that stops answers at once.
      if (until - performance.now() > 0) await pause(1, signal);
    } catch (error) {
      if (!(error instanceof ReseqError && error.isTemporary) || leftMs === 0) throw error;
      await pause(Math.min(leftMs, backoff.nextMs(error.retryAfterMs)), signal);
    }
  }
}

function detailOf(result: MessageResult): string {
  return result.detail ?? result.error?.detail ?? `it was ${result.state === "failed" ? "set aside" : result.state}`;
}
