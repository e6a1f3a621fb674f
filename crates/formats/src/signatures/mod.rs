//! Signatures of HTTP messages.

mod sign;
mod verify;

pub use sign::Signer;
pub use verify::{Claim, SignatureError};

/// The headers of Standard Webhooks.
pub(crate) const WEBHOOK_ID: &str = "webhook-id";
pub(crate) const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
pub(crate) const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// The text that Standard Webhooks sign.
fn signed_content(id: &str, timestamp: &str, body: &[u8]) -> Vec<u8> {
    [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat()
}
