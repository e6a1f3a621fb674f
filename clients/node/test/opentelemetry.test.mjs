// Traces and metrics of the client, with the SDK of OpenTelemetry and a real Reseq.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { context, metrics, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Permanent, Reseq, Worker, memoryStore, orderGuard } from "reseq";
import { openTelemetry } from "reseq/opentelemetry";
import { Deployment, until } from "./support/processes.mjs";
import { listening } from "./support/receiver.mjs";

const telemetry = openTelemetry(); // before the SDK: the order does not matter
const spans = new InMemorySpanExporter();
const counted = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter: counted, exportIntervalMillis: 3_600_000 });
/** The propagator of W3C Trace Context, as far as the tests need it. */
const w3c = {
  inject: (from, carrier) => {
    const span = trace.getSpanContext(from);
    if (span) carrier.traceparent = `00-${span.traceId}-${span.spanId}-0${span.traceFlags}`;
  },
  extract: (from, carrier) => {
    const [, traceId, spanId, flags] = carrier.traceparent?.split("-") ?? [];
    return traceId ? trace.setSpanContext(from, { traceId, spanId, traceFlags: Number(flags), isRemote: true }) : from;
  },
  fields: () => ["traceparent"],
};
let deployment;
let reseq;
before(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }));
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
  propagation.setGlobalPropagator(w3c);
  deployment = await Deployment.start();
  reseq = new Reseq({ url: deployment.urls, telemetry });
});
beforeEach(() => spans.reset());
after(async () => {
  reseq?.close();
  await reader.shutdown();
  await deployment?.stop();
});

/** A guard on a server, and what its handler throws. */
async function receiver(t, handler, nodeOf = "node") {
  const guard = orderGuard({ store: memoryStore(), telemetry, onError: () => {} });
  const server = await listening(guard[nodeOf](handler));
  t.after(() => server.close());
  return server.url;
}

const named = (name) => spans.getFinishedSpans().filter((span) => span.name === name);

test("the span of the producer is the parent of those of the worker and the guard", async (t) => {
  const seen = [];
  const url = await receiver(t, () => void seen.push(trace.getActiveSpan().spanContext().spanId));
  await reseq.define("invoices", { url, ordering: "key", transform: { kind: "worker", backoff_ms: 10 } });
  let failures = 1;
  const worker = new Worker("invoices", ({ body }) => {
    if ((failures -= 1) >= 0) throw new RangeError("once");
    seen.push(trace.getActiveSpan().spanContext().spanId);
    return body;
  }, { reseq });
  t.after(() => worker.close());
  const request = trace.getTracer("app").startSpan("request");
  await context.with(trace.setSpan(context.active(), request), () => reseq.send("invoices", { id: 7 }, { key: "a" }).delivered());
  request.end();
  await until("the spans have ended", () => named("process invoices").length === 3);
  const [sent] = named("send invoices");
  const [failed, worked, delivered] = named("process invoices");
  assert.equal(sent.parentSpanContext.spanId, request.spanContext().spanId);
  for (const span of [failed, worked, delivered]) {
    assert.equal(span.spanContext().traceId, request.spanContext().traceId);
    assert.equal(span.parentSpanContext.spanId, sent.spanContext().spanId, "Reseq itself records no traces here");
    assert.equal(span.links[0].context.spanId, sent.spanContext().spanId);
    assert.equal(span.attributes["messaging.destination.name"], "invoices");
    assert.equal(span.attributes["reseq.sequence"], 1);
  }
  assert.deepEqual([failed, worked].map((span) => span.attributes["reseq.attempt"]), [1, 2]);
  assert.deepEqual([failed.status.code, failed.status.message, failed.events[0].name], [2, "once", "exception"]);
  assert.deepEqual(seen, [worked, delivered].map((span) => span.spanContext().spanId));
});

test("a batch is linked to the spans of all its messages, and counted", async (t) => {
  const sizes = [];
  const url = await receiver(t, (messages) => void sizes.push(messages.length), "nodeBatch");
  await reseq.define("hits", { url, delivery: { batch_max: 10, batch_linger_ms: 200 } });
  await Promise.all([1, 2, 3].map((hit) => reseq.send("hits", hit).delivered()));
  const all = named("process hits");
  assert.deepEqual(all.map((span) => span.links.length), sizes);
  const linked = all.flatMap((span) => span.links.map((link) => link.context.spanId));
  assert.deepEqual(linked.sort(), named("send hits").map((span) => span.spanContext().spanId).sort());
});

test("messages and the time of handlers are counted, by destination and error", async (t) => {
  const url = await receiver(t, ({ body }) => {
    if (body === 2) throw new Permanent("no");
  });
  await reseq.define("counted", { url, delivery: { attempts_max: 1 }, on_exhausted: "drop" });
  await Promise.all([1, 2, 3].map((body) => reseq.send("counted", body).delivered()));
  await assert.rejects(reseq.send("nowhere", 1));
  await reader.forceFlush();
  const points = counted.getMetrics().at(-1).scopeMetrics.find(({ scope }) => scope.name === "reseq").metrics.flatMap(({ descriptor, dataPoints }) => dataPoints.map((point) => ({ name: descriptor.name, ...point })));
  const of = (name, destination, error) => points.find(({ name: its, attributes }) => its === name && attributes["messaging.destination.name"] === destination && attributes["error.type"] === error)?.value;
  assert.equal(of("messaging.client.sent.messages", "counted"), 3);
  assert.equal(of("messaging.client.sent.messages", "nowhere", "ReseqError"), 1);
  assert.equal(of("messaging.client.consumed.messages", "counted"), 2);
  assert.equal(of("messaging.client.consumed.messages", "counted", "Permanent"), 1);
  assert.equal(of("messaging.process.duration", "counted").count, 2);
});
