//! The spans of a delivery that has ended.

use std::{sync::Arc, time::Duration};

use domain::{Stamped, TraceContext};
use store::server_clock;
use telemetry::{Noted, SpanOf};

use crate::lane::Before;

/// Notes the spans of the accepted messages of a delivery, and of the first message that was not accepted. In a
/// batch, links each span to the span of the first message, whose `traceparent` the request had. `before`: the message
/// that left before these.
pub(super) fn note(
    messages: &[Arc<Stamped>],
    accepted: usize,
    error: Option<&str>,
    has_transform: bool,
    took: Duration,
    before: Option<&Before>,
) {
    let count = accepted + usize::from(error.is_some());
    let attempt = |message: &Stamped| message.attempts.failed + 1;
    let span = |(at, message)| {
        let message: &Arc<Stamped> = message;
        let span = telemetry::span_of(&message.message, SpanOf::Deliver, attempt(message))?;
        Some((at, message, span))
    };
    let spans: Vec<(usize, &Arc<Stamped>, TraceContext)> =
        messages.iter().take(count).enumerate().filter_map(span).collect();
    let all: Vec<TraceContext> = spans.iter().map(|(.., span)| *span).collect();
    let (ended, first) = (server_clock(), all.get(..1).unwrap_or_default());
    let begun = ended - took;
    for (number, (at, message, _)) in spans.iter().enumerate() {
        if message.attempts.failed == 0
            && let Some(processed_ms) = message.processed_ms(has_transform)
        {
            let begun_to_wait = telemetry::time_of(processed_ms);
            let waited_for = before.filter(|before| before.left_ms > processed_ms);
            let link: Vec<TraceContext> =
                waited_for.and_then(|before| before.span).into_iter().collect();
            telemetry::note_span(
                message,
                &Noted {
                    stage: SpanOf::Resequence,
                    attempt: 1,
                    begun: begun_to_wait,
                    ended: begun.max(begun_to_wait),
                    outcome: "released",
                    error: None,
                    links: &link,
                    waited_for: waited_for.map(|before| before.sequence),
                },
            );
        }
        let error = error.filter(|_| *at == accepted);
        telemetry::note_span(
            message,
            &Noted {
                stage: SpanOf::Deliver,
                attempt: attempt(message),
                begun,
                ended,
                outcome: if error.is_some() { "refused" } else { "accepted" },
                error,
                links: if number == 0 { &all } else { first },
                waited_for: None,
            },
        );
    }
}
