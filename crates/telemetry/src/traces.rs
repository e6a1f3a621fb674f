//! Traces: a span for each stage of a message whose trace is recorded. Without a receiver for
//! traces, these functions do nothing, and allocate nothing.
//!
//! The header `traceparent` of a message holds its trace, and names the span of its ingest. All other spans of the
//! message are children of that span. Each process computes their ids from it ([`TraceContext::child`]).

mod export;

use std::{
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor,
};

pub use export::TracesError;

use domain::{
    Arrival, DestinationName, Message, MessageIds, Sequence, Stamped, TraceContext,
    message::Traced, trace::TRACEPARENT,
};

/// The most links of one span.
const LINKS_MAX: usize = 128;

static TRACES: OnceLock<Traces> = OnceLock::new();

struct Traces {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    /// The share of the messages without `traceparent` that are traced.
    sample_ratio: f64,
}

/// Sends the remaining spans when the process ends.
#[derive(Debug)]
pub struct TracesEnd(());

/// Records spans and sends them to the OTLP receiver with this base URL. Call it once, in a runtime.
pub fn install_traces(endpoint: &str, sample_ratio: f64) -> Result<TracesEnd, TracesError> {
    let processor = export::processor(endpoint)?;
    let version = env!("CARGO_PKG_VERSION");
    let scope = InstrumentationScope::builder("reseq").with_version(version).build();
    let _ = TRACES.set(Traces { processor, scope, sample_ratio });
    Ok(TracesEnd(()))
}

impl TracesEnd {
    /// Sends the remaining spans, for a few seconds at most.
    pub async fn end(self) {
        let end = || TRACES.get().map(|traces| traces.processor.shutdown());
        if let Ok(Some(Err(error))) = tokio::task::spawn_blocking(end).await {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// A stage of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanOf {
    /// From the arrival until Redis has stored the message.
    Ingest,
    /// From the arrival until a processor or worker first claims the message.
    Wait,
    /// An attempt to process the message.
    Transform,
    /// From the end of the processing to the first attempt to deliver it.
    Resequence,
    /// An attempt to deliver the message.
    Deliver,
    /// The moment when the attempts at the message were used up, or it was withdrawn after an attempt.
    Exhausted,
}

impl SpanOf {
    fn name(self) -> &'static str {
        match self {
            SpanOf::Ingest => "ingest",
            SpanOf::Wait => "wait",
            SpanOf::Transform => "transform",
            SpanOf::Resequence => "resequence",
            SpanOf::Deliver => "deliver",
            SpanOf::Exhausted => "exhausted",
        }
    }

    fn kind(self) -> SpanKind {
        match self {
            SpanOf::Ingest => SpanKind::Producer,
            SpanOf::Wait | SpanOf::Resequence | SpanOf::Exhausted => SpanKind::Internal,
            SpanOf::Transform | SpanOf::Deliver => SpanKind::Consumer,
        }
    }
}

/// Decides whether to record the trace of an arrival, and makes its ingest a span of that trace. If the destination
/// does not forward `traceparent` (`travels` is false), nothing is recorded.
pub fn begin_trace(arrival: &mut Arrival, travels: bool) {
    let Some(traces) = TRACES.get().filter(|_| travels) else { return };
    let headers = &mut arrival.message.headers;
    let before = headers.iter().position(|(name, _)| name == TRACEPARENT);
    let known = before.and_then(|at| TraceContext::parse(&headers[at].1));
    let is_sampled = match known {
        Some(known) => known.is_sampled,
        None => rand::random::<f64>() < traces.sample_ratio,
    };
    if !is_sampled {
        return;
    }
    let trace_id = known.map_or_else(rand::random, |known| known.trace_id);
    let span = TraceContext { trace_id, span_id: rand::random(), is_sampled };
    match before {
        Some(at) => headers[at].1 = span.header(),
        None => headers.push((TRACEPARENT.to_owned(), span.header())),
    }
    arrival.traced = Some(Traced { parent: known.map(|known| known.span_id) });
}

/// The span of this attempt at a stage, if the trace of the message is recorded here.
pub fn span_of(message: &Message, stage: SpanOf, attempt: u32) -> Option<TraceContext> {
    TRACES.get()?;
    let context = TraceContext::of(&message.headers).filter(|context| context.is_sampled)?;
    Some(context.child(stage.name(), attempt))
}

/// True if the trace of the message is recorded here.
pub fn is_traced(message: &Message) -> bool {
    TRACES.get().is_some()
        && TraceContext::of(&message.headers).is_some_and(|context| context.is_sampled)
}

/// Milliseconds since 1970 as a time.
pub fn time_of(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

/// The facts about a span that has ended.
pub struct Noted<'a> {
    /// The stage.
    pub stage: SpanOf,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// When the span began.
    pub begun: SystemTime,
    /// When the span ended.
    pub ended: SystemTime,
    /// The outcome, as a word.
    pub outcome: &'static str,
    /// The error, if there was one.
    pub error: Option<&'a str>,
    /// Spans of other messages: the messages of the same batch, or the message that this one waited for.
    pub links: &'a [TraceContext],
    /// The sequence of the message that had to leave the lane first.
    pub waited_for: Option<Sequence>,
}

/// Records the span of an attempt that has ended.
pub fn note_span(message: &Stamped, noted: &Noted<'_>) {
    let Some(traces) = TRACES.get() else { return };
    let context = TraceContext::of(&message.message.headers).filter(|context| context.is_sampled);
    let Some(parent) = context else { return };
    let span = parent.child(noted.stage.name(), noted.attempt);
    let (name, sequence) = (message.destination.as_str(), Some(message.position.sequence));
    let mut attributes =
        attributes(name, sequence, &message.message.id, Some(noted.attempt), noted.outcome);
    let waited_for = noted.waited_for.map(|sequence| sequence as i64);
    attributes.extend(waited_for.map(|sequence| KeyValue::new("reseq.waited_for", sequence)));
    traces.record(span, Some(parent.span_id), attributes, noted);
}

/// Records the wait of a message that was claimed for the first time.
pub fn note_wait(message: &Stamped, claimed_ms: u64) {
    let begun = time_of(message.message.received_ms);
    let (stage, outcome) = (SpanOf::Wait, "claimed");
    let ended = time_of(claimed_ms).max(begun);
    let noted = Noted {
        stage,
        attempt: 1,
        begun,
        ended,
        outcome,
        error: None,
        links: &[],
        waited_for: None,
    };
    note_span(message, &noted);
}

/// Records that the attempts of a message are used up, or that it was withdrawn after an attempt: it is `halted`,
/// `dead_lettered`, `dropped` or `cancelled`. `error`: the kind of its last error.
pub fn note_given_up(
    destination: &str,
    sequence: Sequence,
    ids: &MessageIds,
    outcome: &'static str,
    error: &'static str,
) {
    let Some(traces) = TRACES.get() else { return };
    let Some(parent) = ids.trace.filter(|context| context.is_sampled) else { return };
    // This may happen more than once, because an operator may retry the message.
    let span = TraceContext { span_id: rand::random(), ..parent };
    let attributes = attributes(destination, Some(sequence), &ids.id, None, outcome);
    let now = SystemTime::now();
    let noted = Noted {
        stage: SpanOf::Exhausted,
        attempt: 1,
        begun: now,
        ended: now,
        outcome,
        error: Some(error),
        links: &[],
        waited_for: None,
    };
    traces.record(span, Some(parent.span_id), attributes, &noted);
}

/// Records the ingest of an arrival. The sequence is known if the message was stored.
pub fn note_ingest(
    name: &DestinationName,
    arrival: &Arrival,
    sequence: Option<Sequence>,
    outcome: &'static str,
    ended: SystemTime,
) {
    let (Some(traces), Some(traced)) = (TRACES.get(), arrival.traced) else { return };
    let Some(span) = TraceContext::of(&arrival.message.headers) else { return };
    let attributes = attributes(name.as_str(), sequence, &arrival.message.id, None, outcome);
    let noted = Noted {
        stage: SpanOf::Ingest,
        attempt: 1,
        begun: time_of(arrival.message.received_ms),
        ended,
        outcome,
        error: sequence.is_none().then_some(outcome),
        links: &[],
        waited_for: None,
    };
    traces.record(span, traced.parent, attributes, &noted);
}

fn attributes(
    destination: &str,
    sequence: Option<Sequence>,
    id: &str,
    attempt: Option<u32>,
    outcome: &'static str,
) -> Vec<KeyValue> {
    let mut all = vec![
        KeyValue::new("messaging.system", "reseq"),
        KeyValue::new("messaging.destination.name", destination.to_owned()),
        KeyValue::new("messaging.message.id", id.to_owned()),
        KeyValue::new("reseq.outcome", outcome),
    ];
    all.extend(sequence.map(|sequence| KeyValue::new("reseq.sequence", sequence as i64)));
    all.extend(attempt.map(|attempt| KeyValue::new("reseq.attempt", i64::from(attempt))));
    all
}

fn context_of(span: TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(span.trace_id),
        SpanId::from_bytes(span.span_id),
        TraceFlags::SAMPLED,
        true,
        TraceState::NONE,
    )
}

impl Traces {
    fn record(
        &self,
        span: TraceContext,
        parent: Option<[u8; 8]>,
        attributes: Vec<KeyValue>,
        noted: &Noted<'_>,
    ) {
        let mut links = SpanLinks::default();
        let some = noted.links.iter().filter(|link| **link != span).take(LINKS_MAX);
        links.links = some.map(|link| Link::with_context(context_of(*link))).collect();
        let mut events = SpanEvents::default();
        if noted.stage == SpanOf::Exhausted {
            let error = noted.error.map(|error| KeyValue::new("reseq.error", error.to_owned()));
            events.events.push(Event::new(
                noted.outcome,
                noted.ended,
                error.into_iter().collect(),
                0,
            ));
        }
        self.processor.on_end(SpanData {
            span_context: context_of(span),
            parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from_bytes),
            parent_span_is_remote: true,
            span_kind: noted.stage.kind(),
            name: noted.stage.name().into(),
            start_time: noted.begun.min(noted.ended),
            end_time: noted.ended,
            attributes,
            dropped_attributes_count: 0,
            events,
            links,
            status: match noted.error {
                Some(error) => Status::error(error.to_owned()),
                None => Status::Unset,
            },
            instrumentation_scope: self.scope.clone(),
        });
    }
}
