//! Delivery by a POST to the receiver's URL.
//!
//! ```text
//! 2xx                  accepted; a batch: the first `accepted` of it, if the answer says so
//! 400, 413, 415, 422   refused for good
//! 410                  refused: the receiver is gone, and the lane halts
//! anything else        refused; tried again
//! ```

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::{Response, StatusCode};

use super::{Deliver, Finality, Verdict};
use crate::{
    domain::{BatchFormat, Destination, Ordering, Stage, Stamped, Trouble, TroubleKind},
    store::server_clock,
    wire::{
        envelope,
        http::{BodyError, Endpoint, NoAnswer, drain, refusal_in_full, retry_after},
    },
};

/// The longest answer to a batch that is looked into, in bytes; a longer one accepts it all.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A receiver that speaks HTTP: any 2xx says that it has the message.
pub struct Http {
    endpoint: Endpoint,
    /// Set where messages travel in envelopes, several in one request.
    batches: Option<Batches>,
}

struct Batches {
    format: BatchFormat,
    by_key: bool,
}

impl Http {
    /// The receiver of this destination.
    pub fn new(destination: &Destination, client: reqwest::Client) -> Http {
        let delivery = &destination.delivery;
        let endpoint =
            Endpoint::new(client, &destination.url, &destination.headers, delivery.timeout_ms);
        let batches = Batches {
            format: delivery.batch_format,
            by_key: destination.ordering == Ordering::Key,
        };
        Http { endpoint, batches: (delivery.batch_max > 1).then_some(batches) }
    }

    async fn send(&self, messages: &[Arc<Stamped>], attempt: u32) -> Result<Response, NoAnswer> {
        let Some(batches) = &self.batches else {
            let Some(message) = messages.first() else { return Err(NoAnswer::nothing_to_send()) };
            return self.endpoint.send(message, attempt).await;
        };
        let (content_type, body) = envelope::batch(messages, batches.format);
        self.endpoint.send_batch(messages, batches.by_key, attempt, content_type, body).await
    }

    /// How many of the `count` messages of a batch a 2xx is for: all, unless it says otherwise.
    async fn accepted(&self, answer: Response, count: usize) -> Verdict {
        let status = answer.status();
        let said = match self.endpoint.read(answer, ANSWER_BYTES_MAX).await {
            Ok(body) => envelope::accepted(&body),
            Err(BodyError::TooLong { .. }) => None,
            // It may have been about to say that it has only some.
            Err(BodyError::Broken(NoAnswer { kind, reason })) => {
                return refused(Trouble::new(Stage::Delivery, kind, reason));
            }
        };
        match said.unwrap_or(count) {
            0 => {
                let detail = format!("status {}: none of {count} was accepted", status.as_u16());
                let trouble = Trouble::new(Stage::Delivery, TroubleKind::Status, detail);
                refused(trouble.with_status(status.as_u16()))
            }
            accepted => Verdict::Accepted(accepted.min(count)),
        }
    }
}

#[async_trait]
impl Deliver for Http {
    async fn deliver(&self, messages: &[Arc<Stamped>], attempt: u32) -> Verdict {
        let answer = match self.send(messages, attempt).await {
            Ok(answer) => answer,
            Err(NoAnswer { kind, reason }) => {
                return refused(Trouble::new(Stage::Delivery, kind, reason));
            }
        };
        let status = answer.status();
        if status.is_success() {
            if self.batches.is_some() {
                return self.accepted(answer, messages.len()).await;
            }
            // The status settles it; how the rest of the answer fares does not matter.
            drain(answer).await;
            return Verdict::Accepted(1);
        }
        let retry_after = retry_after(answer.headers(), server_clock());
        let detail = refusal_in_full(answer).await;
        let trouble = Trouble::new(Stage::Delivery, TroubleKind::Status, detail);
        let trouble = trouble.with_status(status.as_u16());
        Verdict::Refused { accepted: 0, trouble, retry_after, finality: finality_of(status) }
    }
}

fn refused(trouble: Trouble) -> Verdict {
    Verdict::Refused { accepted: 0, trouble, retry_after: None, finality: Finality::Again }
}

fn finality_of(status: StatusCode) -> Finality {
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::UNPROCESSABLE_ENTITY => Finality::Final,
        StatusCode::GONE => Finality::Halts,
        _ => Finality::Again,
    }
}
