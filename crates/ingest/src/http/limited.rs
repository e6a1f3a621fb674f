//! Applies the rates of tokens to HTTP requests, and tells clients how much of the rates is left.

use axum::{
    http::HeaderValue,
    response::{IntoResponse, Response},
};
use tokio::time::Instant;

use super::Ingest;
use crate::{
    Refusal,
    rates::{headers, whole_seconds},
};
use domain::DestinationName;
use http_server::{RATE_LIMIT, RATE_LIMIT_POLICY, principal::Principal, problem::Problem};

impl Ingest {
    /// Handles a request if the rate of its token allows one more message. The answer says how much is left of the
    /// rates of the token, and of the destination in the path.
    pub(super) async fn within_rates(
        &self,
        caller: &Principal,
        destination: Option<&DestinationName>,
        work: impl Future<Output = Result<Response, Problem>>,
    ) -> Response {
        let rate = caller.grant().rate_per_second_max;
        let taken = self.rates.take(&caller.who, rate, 1, Instant::now());
        let mut response = match taken {
            Ok(()) => work.await.into_response(),
            Err(wait) => Refusal::RateLimited(whole_seconds(wait)).problem().into_response(),
        };
        let of_token = self.rates.left(&caller.who, rate, Instant::now());
        let of_destination = destination.and_then(|name| self.committer.rate_left(name));
        let rates: Vec<_> = (of_token.map(|left| ("token", left)).into_iter())
            .chain(of_destination.map(|left| ("destination", left)))
            .collect();
        if !rates.is_empty() {
            let (policy, state) = headers(&rates);
            for (name, text) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, state)] {
                if let Ok(value) = HeaderValue::from_str(&text) {
                    response.headers_mut().insert(name, value);
                }
            }
        }
        response
    }

    /// Takes all messages of a batch except the first from the rate of its token.
    pub(super) fn owe(&self, caller: &Principal, more: usize) {
        self.rates.owe(&caller.who, caller.grant().rate_per_second_max, more, Instant::now());
    }
}
