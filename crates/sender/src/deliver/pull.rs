//! Delivery to consumers, which fetch messages themselves. The owner gets a message only after a
//! consumer accepted it, or to resolve it after a refusal (`lua/include/pulled.lua`).

use std::sync::Arc;

use async_trait::async_trait;

use super::{Deliver, Finality, Verdict};
use domain::Stamped;

/// Returns the consumers' answers that the messages carry, and does no I/O.
pub struct Pull;

#[async_trait]
impl Deliver for Pull {
    async fn deliver(&self, messages: &[Arc<Stamped>], _attempt: u32) -> Verdict {
        for (accepted, message) in messages.iter().enumerate() {
            if let Some(refusal) = &message.refused {
                let finality =
                    if refusal.is_permanent { Finality::Permanent } else { Finality::Retryable };
                let (error, retry_after) = (refusal.error.clone(), refusal.retry_after);
                return Verdict::Refused { accepted, error, retry_after, finality };
            }
        }
        Verdict::Accepted(messages.len())
    }
}
