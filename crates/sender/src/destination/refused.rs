//! Handles a refused head: postpones it, halts it, or withdraws it.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};

use tokio::time::Instant;

use super::{Answer, DestinationSender, LaneKey, calls::CALL_LANES_MAX, scheduler::Due};
use crate::lane::{Lane, Refused};
use domain::excerpt::excerpt;
use domain::{Disposition, ErrorKind, MessageIds};
use store::{CatalogEntry, Owner, RefusedHead, Store, StoreError, Who, Withdrawal, Withdrawn};

/// The wait before another try to carry out a disposition, if the data in Redis is damaged.
const RESOLVE_PAUSE: Duration = Duration::from_secs(1);

/// A refused head whose disposition a call carried out, and the result.
pub(super) type Resolved = (LaneKey, Refused, Result<(), StoreError>);

impl DestinationSender {
    /// A call that carries out the dispositions of refused heads whose predecessors are all settled.
    pub(super) fn resolve_call(
        &mut self,
        entry: &Arc<CatalogEntry>,
    ) -> Option<BoxFuture<'static, Answer>> {
        let mut heads: Vec<(LaneKey, Refused)> = Vec::new();
        while heads.len() < CALL_LANES_MAX
            && let Some(key) = self.scheduler.next_to_resolve()
        {
            let head = self.lanes.get(&key).and_then(|lane| lane.refused_head()).cloned();
            heads.extend(head.map(|head| (key, head)));
        }
        if heads.is_empty() {
            return None;
        }
        let (store, owner) = (self.deps.store.clone(), self.deps.lease.owner.clone());
        let entry = entry.clone();
        let call = async move {
            let calls = heads.into_iter().map(|(key, head)| {
                let (store, owner, entry) = (&store, &owner, &entry);
                async move {
                    let done = carry_out(store, owner, entry, &key, &head).await;
                    let (disposition, done) = match done {
                        Ok(disposition) => (disposition, Ok(())),
                        Err(error) => (head.disposition, Err(error)),
                    };
                    (key, Refused { disposition, ..head }, done)
                }
            });
            Answer::Resolved(join_all(calls).await)
        };
        Some(call.boxed())
    }

    /// Called when a call has carried out dispositions. Drops the lanes of the resolved heads. Reloads a lane at once if
    /// its head became a tombstone.
    pub(super) fn resolved(&mut self, answers: Vec<Resolved>) {
        for (key, head, done) in answers {
            match done {
                Ok(()) => {
                    let ids = self.lanes.get(&key).and_then(Lane::head_ids).unwrap_or_default();
                    match head.disposition {
                        Disposition::Withdraw(..) => self.load_again(&key),
                        Disposition::Postpone(_) | Disposition::Halt => self.drop_lane(&key),
                    }
                    self.report(&key, &head, &ids);
                }
                // The message is no longer the head, or another call has handled it.
                Err(StoreError::WrongHead) => {
                    self.drop_lane(&key);
                    self.scheduler.wants_scan();
                }
                // The script found data that it cannot read. The lane stays loaded, so that its head is not sent again
                // at once. Other lanes do not wait for it.
                Err(StoreError::Failed(_)) => {
                    self.scheduler.at(Instant::now() + RESOLVE_PAUSE, &key, Due::Resolve);
                }
                Err(error) => {
                    self.scheduler.wants_resolve(&key);
                    self.call_failed(error);
                }
            }
        }
    }

    /// Schedules a scan for the end of the wait of a postponed head. Logs and counts a head that halted or left.
    fn report(&mut self, key: &LaneKey, head: &Refused, ids: &MessageIds) {
        let (destination, sequence) = (self.deps.name.as_str(), head.sequence);
        let (key, attempts) = (key.as_deref(), head.failed);
        let error = excerpt(head.error.detail.as_bytes());
        let outcome = match &head.disposition {
            Disposition::Postpone(wait) => {
                return self.scheduler.scan_after(Instant::now(), *wait);
            }
            Disposition::Halt => "halted",
            Disposition::Withdraw(how, _) => how.as_str(),
        };
        telemetry::exhausted(destination, outcome);
        telemetry::note_given_up(destination, sequence, ids, outcome, head.error.kind.as_str());
        if head.disposition != Disposition::Halt {
            tracing::warn!(
                destination,
                sequence,
                id = ids.id,
                trace = ids.trace_id(),
                key,
                attempts,
                error,
                outcome,
                "a message leaves without being delivered"
            );
            return;
        }
        if head.error.kind == ErrorKind::Damaged
            && let Some(definition) = &self.definition
        {
            self.deps.store.note_damaged_messages(&definition.entry, &[sequence]);
        }
        tracing::error!(
            destination,
            sequence,
            id = ids.id,
            trace = ids.trace_id(),
            key,
            attempts,
            error,
            "a lane is halted: its head was not delivered, and waits for an operator"
        );
    }
}

/// Carries out the disposition of a head, and returns the disposition that took effect: the head
/// is halted if there is no room for another dead letter.
async fn carry_out(
    store: &Store,
    owner: &Owner,
    entry: &CatalogEntry,
    key: &LaneKey,
    head: &Refused,
) -> Result<Disposition, StoreError> {
    let Refused { sequence, failed, error, disposition } = head;
    let (sequence, failed) = (*sequence, *failed);
    let refused = RefusedHead { lane: key.as_deref(), sequence, failed, error };
    match disposition {
        Disposition::Postpone(wait) => store.postpone(owner, entry, refused, *wait).await?,
        Disposition::Halt => store.halt(owner, entry, refused).await?,
        Disposition::Withdraw(how, reason) => {
            let withdrawal = Withdrawal {
                how: *how,
                reason,
                error: Some((failed, error)),
                messages: &[(key.clone(), sequence)],
            };
            let answers = store.withdraw(entry, Who::Owner(owner), &withdrawal).await?;
            if answers.first() == Some(&Withdrawn::Full) {
                store.halt(owner, entry, refused).await?;
                return Ok(Disposition::Halt);
            }
        }
    }
    Ok(disposition.clone())
}
