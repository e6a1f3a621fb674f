//! Delivery by a POST to the receiver's URL.
//!
//! ```text
//! 2xx                  accepted; for a batch, the answer says how many (`formats::batch_answer`)
//! 400, 413, 415, 422   refused permanently
//! 410                  refused: the receiver is gone, and the lane halts
//! anything else        refused; tried again
//! ```

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use reqwest::{Response, StatusCode};

use super::{Deliver, Finality, Verdict};
use domain::{AttemptError, BatchFormat, Destination, ErrorKind, Ordering, Stage, Stamped};
use formats::{
    batch_answer::{Accepted, accepted},
    envelope,
    signatures::Signer,
};
use outbound::{
    http::{BodyError, Endpoint, NoAnswer, content_encoding, drain, refusal_in_full, retry_after},
    http_client::Clients,
};
use store::{server_clock, server_clock_ms};
use telemetry::SpanOf;

/// The longest answer to a batch that Reseq reads, in bytes. A longer answer accepts no message.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A receiver that speaks HTTP. Any 2xx means that it has the message.
pub struct Http {
    endpoint: Endpoint,
    /// Set if messages are sent in envelopes, several in one request.
    batches: Option<Batches>,
}

struct Batches {
    format: BatchFormat,
    json_depth_max: usize,
    ordering: Ordering,
}

impl Http {
    /// The receiver of this destination.
    pub fn new(destination: &Destination, clients: Clients, json_depth_max: usize) -> Http {
        let delivery = &destination.delivery;
        let url = destination.url.as_deref().unwrap_or_default();
        let endpoint = Endpoint::new(clients, url, &destination.headers, delivery.timeout_ms);
        let sign = destination.sign.as_ref();
        let endpoint = endpoint.signed_by(sign.map(|sign| Signer::new(sign, server_clock_ms)));
        let batches = Batches {
            format: delivery.batch_format,
            json_depth_max,
            ordering: destination.ordering,
        };
        Http { endpoint, batches: (delivery.batch_max > 1).then_some(batches) }
    }

    async fn send(&self, messages: &[Arc<Stamped>], attempt: u32) -> Result<Response, NoAnswer> {
        let Some(batches) = &self.batches else {
            let Some(message) = messages.first() else { return Err(NoAnswer::nothing_to_send()) };
            let span = telemetry::span_of(&message.message, SpanOf::Deliver, attempt);
            return self.endpoint.send(message, attempt, span).await;
        };
        let (content_type, body) =
            envelope::batch(messages, batches.format, batches.json_depth_max);
        let span = |message: &Arc<Stamped>| {
            let attempt = message.attempts.failed + 1;
            telemetry::span_of(&message.message, SpanOf::Deliver, attempt)
        };
        let span = messages.iter().find_map(span);
        self.endpoint
            .send_batch(messages, batches.ordering, attempt, span, content_type, body)
            .await
    }

    /// Reads how many of the `count` messages of a batch a 2xx accepts. An unclear or incomplete
    /// answer accepts no message.
    async fn accepted(&self, answer: Response, count: usize) -> Verdict {
        let status = answer.status();
        let retry_after = retry_after(answer.headers(), server_clock());
        let said = match content_encoding(&answer) {
            Some(encoding) => Accepted::Unclear(format!(
                "the answer has content-encoding: {encoding}, though none was asked for"
            )),
            None => match self.endpoint.read(answer, ANSWER_BYTES_MAX).await {
                Ok(body) => accepted(&body, count),
                Err(error @ BodyError::TooLong { .. }) => Accepted::Unclear(error.to_string()),
                // The missing rest might have said that the receiver accepted only some messages.
                Err(BodyError::Broken(error)) => return unanswered(error),
            },
        };
        let mut detail = format!("status {}: none of {count} was accepted", status.as_u16());
        match said {
            Accepted::First(accepted) if accepted > 0 => return Verdict::Accepted(accepted),
            Accepted::First(_) => {}
            Accepted::Unclear(reason) => detail += &format!(": {reason}"),
        }
        let error = AttemptError::new(Stage::Delivery, ErrorKind::Status, detail);
        refused(error.with_status(status.as_u16()), retry_after)
    }
}

#[async_trait]
impl Deliver for Http {
    async fn deliver(&self, messages: &[Arc<Stamped>], attempt: u32) -> Verdict {
        let answer = match self.send(messages, attempt).await {
            Ok(answer) => answer,
            Err(error) => return unanswered(error),
        };
        let status = answer.status();
        if status.is_success() {
            if self.batches.is_some() {
                return self.accepted(answer, messages.len()).await;
            }
            // The status decides. Errors in the rest of the answer do not matter.
            drain(answer).await;
            return Verdict::Accepted(1);
        }
        let retry_after = retry_after(answer.headers(), server_clock());
        let detail = refusal_in_full(answer).await;
        let error = AttemptError::new(Stage::Delivery, ErrorKind::Status, detail);
        let error = error.with_status(status.as_u16());
        Verdict::Refused { accepted: 0, error, retry_after, finality: finality_of(status) }
    }
}

fn unanswered(error: NoAnswer) -> Verdict {
    let NoAnswer { kind, reason, is_refused_address } = error;
    let finality =
        if is_refused_address { Finality::RetryableThenHalts } else { Finality::Retryable };
    let error = AttemptError::new(Stage::Delivery, kind, reason);
    Verdict::Refused { accepted: 0, error, retry_after: None, finality }
}

fn refused(error: AttemptError, retry_after: Option<Duration>) -> Verdict {
    Verdict::Refused { accepted: 0, error, retry_after, finality: Finality::Retryable }
}

fn finality_of(status: StatusCode) -> Finality {
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::UNPROCESSABLE_ENTITY => Finality::Permanent,
        StatusCode::GONE => Finality::Halts,
        _ => Finality::Retryable,
    }
}
