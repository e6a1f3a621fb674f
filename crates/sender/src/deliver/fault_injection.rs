//! Planted bugs of delivery.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Deliver, Verdict};
use domain::Stamped;
use faults::planted;

/// Returns the transport, with the planted bug if one is set.
pub(super) fn wrap(way: Arc<dyn Deliver>) -> Arc<dyn Deliver> {
    if planted::is("accepted_when_sent") {
        return Arc::new(AcceptedWhenSent(way));
    }
    if planted::is("two_in_flight") {
        return Arc::new(TwoInFlight(way));
    }
    if planted::is("unclear_is_yes") {
        return Arc::new(UnclearIsYes(way));
    }
    way
}

/// Treats an answer that accepts no message as one that accepts all.
struct UnclearIsYes(Arc<dyn Deliver>);

#[async_trait]
impl Deliver for UnclearIsYes {
    async fn deliver(&self, messages: &[Arc<Stamped>], attempt: u32) -> Verdict {
        match self.0.deliver(messages, attempt).await {
            Verdict::Refused { .. } => Verdict::Accepted(messages.len()),
            accepted => accepted,
        }
    }
}

/// Does not wait for the receiver's answer.
struct AcceptedWhenSent(Arc<dyn Deliver>);

#[async_trait]
impl Deliver for AcceptedWhenSent {
    async fn deliver(&self, messages: &[Arc<Stamped>], attempt: u32) -> Verdict {
        let (way, sent) = (self.0.clone(), messages.to_vec());
        tokio::spawn(async move { way.deliver(&sent, attempt).await });
        Verdict::Accepted(messages.len())
    }
}

/// Sends the messages of a batch concurrently.
struct TwoInFlight(Arc<dyn Deliver>);

#[async_trait]
impl Deliver for TwoInFlight {
    async fn deliver(&self, messages: &[Arc<Stamped>], attempt: u32) -> Verdict {
        let each = messages.chunks(1).map(|one| self.0.deliver(one, attempt));
        let mut verdicts = futures::future::join_all(each).await;
        let is_accepted = |verdict: &Verdict| matches!(verdict, Verdict::Accepted(_));
        match verdicts.iter().take_while(|verdict| is_accepted(verdict)).count() {
            0 => verdicts.swap_remove(0),
            count => Verdict::Accepted(count),
        }
    }
}
