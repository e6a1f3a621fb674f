//! Delivery by a POST to the receiver's URL.

use std::time::SystemTime;

use async_trait::async_trait;

use super::{Deliver, Verdict};
use crate::{
    domain::{Destination, Stamped},
    wire::http::{Endpoint, drain, refusal, retry_after},
};

/// A receiver that speaks HTTP: any 2xx says that it has the message.
pub struct Http {
    endpoint: Endpoint,
}

impl Http {
    /// The receiver of this destination.
    pub fn new(destination: &Destination, client: reqwest::Client) -> Http {
        let timeout_ms = destination.delivery.timeout_ms;
        let endpoint = Endpoint::new(client, &destination.url, &destination.headers, timeout_ms);
        Http { endpoint }
    }
}

#[async_trait]
impl Deliver for Http {
    async fn deliver(&self, message: &Stamped, attempt: u32) -> Verdict {
        let answer = match self.endpoint.post(message, attempt).await {
            Ok(answer) => answer,
            Err(none) => return Verdict::Refused { reason: none.reason, retry_after: None },
        };
        let status = answer.status();
        let retry_after = retry_after(answer.headers(), SystemTime::now());
        // The status settles it; how the rest of the answer fares does not matter.
        drain(answer).await;
        if status.is_success() {
            return Verdict::Accepted;
        }
        Verdict::Refused { reason: refusal(status), retry_after }
    }
}
