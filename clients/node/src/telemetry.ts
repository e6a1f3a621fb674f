/** What is known of a message before its handler begins. */
export interface HandledMessage {
  destination: string;
  id: string;
  key: string | null;
  sequence: number;
  attempt: number;
  headers: Record<string, string>;
}

/**
 * Gets to know each message that is sent and handled, for traces and metrics. `openTelemetry()` of `reseq/opentelemetry` is
 * one; an object of your own can count for any other system. Each method calls `run` once and returns what it returns.
 */
export interface Telemetry {
  /** `to` are the destinations, or the topic. `run` adds the headers to those of the message. */
  send<T>(to: string[], run: (headers: Record<string, string>) => Promise<T>): Promise<T>;
  /** An attempt of a worker (one message), or a delivery to a guard (one or, in a batch, several of one lane). */
  handle<T>(messages: HandledMessage[], run: () => Promise<T>): Promise<T>;
}
