import { SpanKind, SpanStatusCode, context, metrics, propagation, trace, type Attributes, type Context, type Link, type SpanContext } from "@opentelemetry/api";
import { asError } from "./errors.js";
import type { HandledMessage, Telemetry } from "./telemetry.js";

const NAME = "reseq";

/**
 * Spans and metrics of OpenTelemetry, by its conventions for messaging. The span of the producer travels with the message;
 * those of handlers belong to its trace. Without an SDK it does nothing.
 */
export function openTelemetry(): Telemetry {
  const tracer = trace.getTracer(NAME);
  // Made at the first use: an SDK that starts later would not get them.
  let made: ReturnType<typeof newInstruments> | undefined;
  const instruments = () => (made ??= newInstruments());

  async function measured<T>(name: string, kind: SpanKind, links: Link[], attributes: Attributes, parent: Context, count: number, run: (active: Context) => Promise<T>): Promise<T> {
    const span = tracer.startSpan(name, { kind, links, attributes }, parent);
    const active = trace.setSpan(parent, span);
    const [sent, handled, took] = instruments();
    const isSent = kind === SpanKind.PRODUCER;
    const { "messaging.destination.name": destination, "messaging.operation.name": operation, "messaging.system": system } = attributes;
    const labels: Attributes = { "messaging.system": system, "messaging.operation.name": operation, "messaging.destination.name": destination };
    const began = performance.now();
    try {
      return await context.with(active, () => run(active));
    } catch (thrown) {
      const error = asError(thrown);
      labels["error.type"] = error.name;
      span.recordException(error);
      span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
      throw thrown;
    } finally {
      (isSent ? sent : handled).add(count, labels);
      if (!isSent) took.record((performance.now() - began) / 1000, labels);
      span.end();
    }
  }

  return {
    send(to, run) {
      const attributes = attributesOf("send", to.join());
      return measured(`send ${to.join()}`, SpanKind.PRODUCER, [], attributes, context.active(), 1, (active) => {
        const headers: Record<string, string> = {};
        propagation.inject(active, headers);
        return run(headers);
      });
    },
    handle(messages, run) {
      const [first] = messages;
      const origins = messages.map(originOf);
      const attributes: Attributes = { ...attributesOf("process", first!.destination), "reseq.sequence": first!.sequence, "reseq.attempt": first!.attempt };
      if (messages.length === 1) attributes["messaging.message.id"] = first!.id;
      else attributes["messaging.batch.message_count"] = messages.length;
      const links = origins.filter((origin): origin is SpanContext => origin !== undefined).map((origin) => ({ context: origin }));
      return measured(`process ${first!.destination}`, SpanKind.CONSUMER, links, attributes, parentOf(origins[0]), messages.length, run);
    },
  };
}

const newInstruments = () => {
  const meter = metrics.getMeter(NAME);
  return [
    meter.createCounter("messaging.client.sent.messages", { unit: "{message}", description: "Messages that were sent or refused" }),
    meter.createCounter("messaging.client.consumed.messages", { unit: "{message}", description: "Messages that handlers had" }),
    meter.createHistogram("messaging.process.duration", { unit: "s", description: "How long handlers took" }),
  ] as const;
};

const attributesOf = (operation: string, destination: string): Attributes => ({
  "messaging.system": NAME,
  "messaging.operation.name": operation,
  "messaging.operation.type": operation,
  "messaging.destination.name": destination,
});

/** The span with which a message came: that of Reseq, if Reseq records traces, or that of the producer. */
const originOf = ({ headers }: HandledMessage) => trace.getSpanContext(propagation.extract(context.active(), headers));

/** The active span if it is of the trace of the message, as that of an instrumented HTTP server is. */
function parentOf(origin: SpanContext | undefined): Context {
  const active = context.active();
  if (!origin || trace.getSpanContext(active)?.traceId === origin.traceId) return active;
  return trace.setSpanContext(active, origin);
}
