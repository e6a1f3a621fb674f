//! Tests traces over OTLP: the receiver of traces sees one connected trace of a message that
//! passed through three processes.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, routing::post};
use domain::{TraceContext, trace::TRACEPARENT};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value as Any},
    trace::v1::Span,
};
use prost::Message as _;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    policies::scenario::Service,
    support::{
        pods::{Pod, Settings, client},
        redis::TestRedis,
        wait::eventually,
    },
};

/// A span, and the process that sent it.
#[derive(Debug, Clone)]
struct Seen {
    process: String,
    span: Span,
}

impl Seen {
    fn text(&self, name: &str) -> String {
        let found = self.span.attributes.iter().find(|attribute| attribute.key == name);
        text_of(found.unwrap_or_else(|| panic!("no {name}: {self:?}")))
    }

    /// The context of the span, as in a `traceparent`.
    fn context(&self) -> TraceContext {
        TraceContext {
            trace_id: self.span.trace_id.clone().try_into().unwrap(),
            span_id: self.span.span_id.clone().try_into().unwrap(),
            is_sampled: true,
        }
    }
}

fn text_of(attribute: &KeyValue) -> String {
    match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// A receiver of traces.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Seen>>>);

impl Collector {
    async fn start(&self) -> (String, AbortOnDropHandle<()>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let all = self.0.clone();
        let take = move |body: Bytes| {
            let all = all.clone();
            async move {
                let request = ExportTraceServiceRequest::decode(body).unwrap();
                all.lock().unwrap().extend(spans_of(request));
            }
        };
        let router = Router::new().route("/v1/traces", post(take));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (format!("http://{address}"), AbortOnDropHandle::new(server))
    }

    /// The spans of a trace, by name and attempt.
    fn of(&self, trace_id: [u8; 16]) -> HashMap<String, Seen> {
        let all = self.0.lock().unwrap();
        let of_trace = all.iter().filter(|seen| seen.span.trace_id == trace_id);
        of_trace.map(|seen| (seen.span.name.clone(), seen.clone())).collect()
    }
}

fn spans_of(request: ExportTraceServiceRequest) -> Vec<Seen> {
    let mut all = Vec::new();
    for of_process in request.resource_spans {
        let attributes = of_process.resource.unwrap().attributes;
        let named = |name: &str| text_of(attributes.iter().find(|of| of.key == name).unwrap());
        assert_eq!(named("service.name"), "reseq");
        let process = named("service.instance.id");
        let spans = of_process.scope_spans.into_iter().flat_map(|scope| scope.spans);
        all.extend(spans.map(|span| Seen { process: process.clone(), span }));
    }
    all
}

/// The context of a producer.
fn producer(number: u8, is_sampled: bool) -> TraceContext {
    TraceContext { trace_id: [number; 16], span_id: [7; 8], is_sampled }
}

struct Deployment {
    ingest: Pod,
    _processor: Pod,
    sender: Pod,
    receiver: Arc<Service>,
    transformer: Arc<Service>,
    collector: Collector,
    _servers: Vec<AbortOnDropHandle<()>>,
    _redis: TestRedis,
}

impl Deployment {
    async fn start() -> Deployment {
        let redis = TestRedis::start().await;
        let (receiver, transformer) = (Arc::new(Service::default()), Arc::new(Service::default()));
        let (receiver_url, first) = receiver.serve().await;
        let (transformer_url, second) = transformer.serve().await;
        let collector = Collector::default();
        let (endpoint, third) = collector.start().await;
        let plain = format!("url = \"{receiver_url}\"\n");
        let transform = format!("transform = {{ kind = \"http\", url = \"{transformer_url}\" }}");
        let mut settings = Settings::new(redis.url())
            .destination("erp", &format!("{plain}{transform}"))
            .destination(
                "batches",
                &format!("{plain}delivery = {{ batch_max = 3, batch_linger_ms = 1000 }}"),
            )
            .destination("silent", &format!("{plain}forward_headers = []"))
            .destination(
                "once",
                &format!(
                    "{plain}delivery = {{ attempts_max = 1 }}\non_exhausted = \"dead_letter\""
                ),
            )
            .destination(
                "halts",
                &format!("{plain}{}", transform.replace(" }", ", attempts_max = 1 }")),
            );
        settings.environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
            ("RESEQ_TRACING_SAMPLE_RATIO", "0"),
            ("RESEQ_LOG_FORMAT", "json"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        let ingest = Pod::start("ingest", "ingest", &settings).await;
        let processor = Pod::start("processor", "processor", &settings).await;
        let sender = Pod::start("sender", "sender", &settings).await;
        Deployment {
            ingest,
            _processor: processor,
            sender,
            receiver,
            transformer,
            collector,
            _servers: vec![first, second, third],
            _redis: redis,
        }
    }

    async fn send(&self, name: &str, body: &str, trace: Option<TraceContext>) {
        let path = format!("/v1/destinations/{name}/messages");
        let request = client().post(self.ingest.url(&path)).body(body.to_owned());
        let request = match trace {
            Some(trace) => request.header(TRACEPARENT, trace.header()),
            None => request,
        };
        assert_eq!(request.send().await.unwrap().status(), 202);
    }

    /// The `traceparent` of each request that the receiver had, by body.
    fn received(&self) -> HashMap<String, Option<String>> {
        let taken = self.receiver.taken.lock().unwrap();
        let of = taken.iter().map(|one| (one.body.clone(), one.headers.get(TRACEPARENT).cloned()));
        of.collect()
    }
}

#[tokio::test]
async fn receiver_sees_one_connected_trace_of_three_processes() {
    let deployment = Deployment::start().await;
    let of_producer = producer(1, true);
    deployment.send("erp", "traced", Some(of_producer)).await;
    let expected = ["ingest", "wait", "transform", "resequence", "deliver"];
    let spans = eventually("all stages are there", async || {
        let spans = deployment.collector.of(of_producer.trace_id);
        let is_whole = expected.iter().all(|name| spans.contains_key(*name));
        if is_whole { Ok(spans) } else { Err(format!("{:?}", spans.keys())) }
    })
    .await;
    assert_eq!(spans.len(), expected.len(), "{:?}", spans.keys());

    // The trace is connected: the producer's span, the ingest, and the other stages below the ingest.
    assert_eq!(spans["ingest"].span.parent_span_id, of_producer.span_id);
    for name in &expected[1..] {
        let (parent, span) = (&spans[*name].span.parent_span_id, &spans["ingest"].span.span_id);
        assert_eq!(parent, span, "{name}");
    }
    // The spans are from three processes.
    let process = |name: &str| spans[name].process.clone();
    assert_eq!(
        (process("wait"), process("resequence")),
        (process("transform"), process("deliver"))
    );
    let processes: HashSet<String> = expected.iter().map(|name| process(name)).collect();
    assert_eq!(processes.len(), 3);
    // Each span begins when the previous one has ended, or later. Deliveries are measured; other
    // times are whole milliseconds by the clock of Redis.
    for pair in expected.windows(2) {
        let (before, after) = (&spans[pair[0]].span, &spans[pair[1]].span);
        let slack_ns = if pair[0] == "ingest" { u64::MAX / 2 } else { 50_000_000 };
        let earliest = before.end_time_unix_nano.saturating_sub(slack_ns);
        assert!(after.start_time_unix_nano >= earliest, "{pair:?}: {before:?}, {after:?}");
    }
    assert_eq!(spans["deliver"].text("messaging.destination.name"), "erp");
    assert_eq!(spans["deliver"].text("reseq.sequence"), "1");
    assert_eq!(spans["deliver"].text("reseq.outcome"), "accepted");
    // Both services continue the trace.
    let transform = spans["transform"].context().header();
    assert_eq!(deployment.transformer.header(0, TRACEPARENT), transform);
    assert_eq!(deployment.receiver.header(0, TRACEPARENT), spans["deliver"].context().header());
    is_respected(&deployment).await;
    are_linked(&deployment).await;
    are_in_the_log(&deployment).await;
    say_what_they_waited_for(&deployment).await;
    say_how_it_ended(&deployment).await;
}

/// A message that waits for its turn is linked to the message before it.
async fn say_what_they_waited_for(deployment: &Deployment) {
    deployment.receiver.refuse("first", 503, None);
    let (first, second) = (producer(30, true), producer(31, true));
    deployment.send("erp", "first", Some(first)).await;
    deployment.send("erp", "second", Some(second)).await;
    let span = |trace: TraceContext, name: &str, outcome: &str| {
        let mut spans = deployment.collector.of(trace.trace_id);
        let found = spans.remove(name).filter(|seen| seen.text("reseq.outcome") == outcome);
        found.ok_or_else(|| format!("no {name} that {outcome}: {:?}", spans.keys()))
    };
    eventually("the second is processed", async || span(second, "transform", "deliver")).await;
    deployment.receiver.accept("first");
    let delivered =
        eventually("the first is delivered", async || span(first, "deliver", "accepted")).await;
    let waited =
        eventually("the second has waited", async || span(second, "resequence", "released")).await;
    assert_eq!(waited.text("reseq.waited_for"), delivered.text("reseq.sequence"));
    let links: Vec<_> = waited.span.links.iter().map(|link| &link.span_id).collect();
    assert_eq!(links, [&delivered.span.span_id]);
}

/// A trace says that its message became a dead letter, or that its lane is halted.
async fn say_how_it_ended(deployment: &Deployment) {
    deployment.receiver.refuse("dead", 503, None);
    deployment.transformer.refuse("stuck", 500, None);
    for (number, name, body, event) in
        [(32, "once", "dead", "dead_lettered"), (33, "halts", "stuck", "halted")]
    {
        let trace = producer(number, true);
        deployment.send(name, body, Some(trace)).await;
        let ended = eventually("its end is there", async || {
            let mut spans = deployment.collector.of(trace.trace_id);
            spans.remove("exhausted").ok_or_else(|| format!("{:?}", spans.keys()))
        })
        .await;
        let events: Vec<_> = ended.span.events.iter().collect();
        assert_eq!((events.len(), events[0].name.as_str()), (1, event));
        assert_eq!(text_of(&events[0].attributes[0]), "status");
        assert_eq!(ended.text("reseq.outcome"), event);
    }
}

/// A line of the log about a message names the message and its trace.
async fn are_in_the_log(deployment: &Deployment) {
    deployment.receiver.refuse_all(Some((503, 1)));
    let trace = producer(20, true);
    deployment.send("erp", "refused", Some(trace)).await;
    let line = eventually("the refusal is logged", async || {
        let log = deployment.sender.log();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_refusal =
            |line: &Value| line["reason"].as_str().is_some_and(|why| why.contains("503"));
        let mut refusals = lines.filter(is_refusal);
        refusals.next().ok_or_else(|| format!("{} lines", log.lines().count()))
    })
    .await;
    assert_eq!((&line["level"], &line["destination"]), (&json!("WARN"), &json!("erp")), "{line}");
    assert!(line["sequence"].is_u64() && line["id"].is_string(), "{line}");
    assert!(line["timestamp"].is_string() && line["message"].is_string(), "{line}");
    assert_eq!(line["trace"], trace.trace_id_text(), "{line}");
}

/// If the producer does not record a trace, Reseq only forwards the header. With a ratio of 0,
/// Reseq records no message without a trace.
async fn is_respected(deployment: &Deployment) {
    let unsampled = producer(2, false);
    deployment.send("batches", "1", None).await;
    deployment.send("batches", "2", Some(unsampled)).await;
    deployment.send("silent", "3", Some(producer(3, true))).await;
    let received = eventually("all are delivered", async || {
        let received = deployment.received();
        let delivered = deployment.receiver.bodies().concat();
        let is_all = ["\"MQ==\"", "\"Mg==\""].iter().all(|body| delivered.contains(body));
        if is_all && received.contains_key("3") { Ok(received) } else { Err(delivered) }
    })
    .await;
    assert_eq!(received["3"], None, "forward_headers does not have it");
    let batches: Vec<&Option<String>> =
        received.iter().filter(|(body, _)| body.starts_with('[')).map(|(_, trace)| trace).collect();
    assert!(batches.iter().all(|trace| trace.is_none()), "{batches:?}");
    let delivered = deployment.receiver.bodies().concat();
    assert!(delivered.contains(&unsampled.header()), "its envelope has it: {delivered}");
}

/// The messages of one batch are linked.
async fn are_linked(deployment: &Deployment) {
    // A batch waits until it is full.
    for number in 11..=13 {
        deployment.send("batches", "x", Some(producer(number, true))).await;
    }
    let deliver = |number| {
        let mut spans = deployment.collector.of([number; 16]);
        spans.remove("deliver").ok_or_else(|| format!("{number}: {:?}", spans.keys()))
    };
    let spans = eventually("all are delivered", async || (11..=13).map(deliver).collect()).await;
    let spans: Vec<Seen> = spans;
    let links = |at: usize| -> HashSet<Vec<u8>> {
        spans[at].span.links.iter().map(|link| link.span_id.clone()).collect()
    };
    let id = |at: usize| spans[at].span.span_id.clone();
    assert_eq!(links(0), HashSet::from([id(1), id(2)]));
    assert_eq!((links(1), links(2)), (HashSet::from([id(0)]), HashSet::from([id(0)])));
    let batch =
        deployment.received().into_iter().find(|(body, _)| body.matches("\"eA==\"").count() == 3);
    assert_eq!(batch.unwrap().1, Some(spans[0].context().header()));
    // Spans of messages that are not traced would have arrived by now.
    for number in [2, 3] {
        assert!(deployment.collector.of([number; 16]).is_empty());
    }
}
