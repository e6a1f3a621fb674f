//! The transform that POSTs the body to a service and takes the answer as output.

use async_trait::async_trait;
use reqwest::{Response, StatusCode, header::CONTENT_TYPE};

use super::{Failure, Output, Transform};
use domain::{Body, ErrorKind, Stamped};
use formats::json::is_broken_json;
use outbound::{
    http::{
        BodyError, Endpoint, NoAnswer, content_encoding, drain, ends_with_connection,
        refusal_in_full, retry_after,
    },
    http_client::Clients,
};
use store::server_clock;
use telemetry::SpanOf;

/// A service that transforms over HTTP.
///
/// ```text
/// 204                        drop
/// any other 2xx              deliver the answer's body
/// 408, 425, 429              retry
/// any other 4xx              permanent failure
/// 3xx, 5xx, no whole answer  retry
/// ```
pub struct Http {
    endpoint: Endpoint,
    output_bytes_max: usize,
}

impl Http {
    /// The service of this definition. An output longer than `output_bytes_max` is a permanent
    /// failure.
    pub fn new(transform: &domain::Transform, clients: Clients, output_bytes_max: usize) -> Http {
        let url = transform.url.as_deref().unwrap_or_default();
        let endpoint = Endpoint::new(clients, url, &transform.headers, transform.timeout_ms);
        Http { endpoint, output_bytes_max }
    }

    async fn output(&self, answer: Response, input: &Body) -> Result<Output, Failure> {
        let named = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = named.unwrap_or(&input.content_type).to_owned();
        let status = answer.status().as_u16();
        if let Some(encoding) = content_encoding(&answer) {
            let reason = format!(
                "the answer has content-encoding: {encoding}, though none was asked for; send the output as it is"
            );
            return Err(Failure::retryable(reason).with_status(status));
        }
        let may_be_cut = ends_with_connection(&answer);
        match self.endpoint.read(answer, self.output_bytes_max).await {
            Ok(bytes) if may_be_cut && is_broken_json(&content_type, &bytes) => {
                let reason = "the output is JSON that is not whole, in an answer without Content-Length: the \
                              connection may have broken";
                Err(Failure::retryable(reason).with_kind(ErrorKind::Connection).with_status(status))
            }
            Ok(bytes) => Ok(Output::Deliver(Body { content_type, bytes })),
            Err(BodyError::Broken(none)) => Err(unanswered(none).with_status(status)),
            Err(error @ BodyError::TooLong { .. }) => {
                Err(Failure::permanent(error.to_string()).with_status(status))
            }
        }
    }
}

fn unanswered(none: NoAnswer) -> Failure {
    Failure::retryable(none.reason).with_kind(none.kind)
}

#[async_trait]
impl Transform for Http {
    /// The time that a request waits for a free connection of the destination does not count.
    fn limits_its_time(&self) -> bool {
        true
    }

    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        let attempt = message.attempts.number();
        let span = telemetry::span_of(&message.message, SpanOf::Transform, attempt);
        let answer = self.endpoint.send(message, attempt, span).await.map_err(unanswered)?;
        let status = answer.status();
        if status.is_success() && status != StatusCode::NO_CONTENT {
            return self.output(answer, &message.message.body).await;
        }
        if status == StatusCode::NO_CONTENT {
            drain(answer).await;
            return Ok(Output::Drop);
        }
        let retry_after = retry_after(answer.headers(), server_clock());
        let reason = refusal_in_full(answer).await;
        let is_final = status.is_client_error() && !matches!(status.as_u16(), 408 | 425 | 429);
        let (kind, status) = (ErrorKind::Status, Some(status.as_u16()));
        Err(Failure { reason, retry_after, is_final, kind, status })
    }
}
