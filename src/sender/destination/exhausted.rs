//! What becomes of a head that was refused: it is tried again, or its attempts are used up.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};

use tokio::time::Instant;

use super::{Answer, CALL_LANES_MAX, DestinationSender, LaneKey};
use crate::{
    domain::{Destination, ErrorKind, OnExhausted, Tombstone},
    faults::{
        pause::{Point, point},
        planted,
    },
    sender::{
        deliver::Finality,
        lane::{Disposition, Refused},
    },
    store::{CatalogEntry, Owner, RefusedHead, Store, StoreError, Who, Withdrawal, Withdrawn},
    telemetry,
    wire::answer::excerpt,
};

/// What a definition says of a head whose attempt number `failed` was refused. `chance` is a
/// random number in `[0, 1)`.
pub(super) fn disposition(
    destination: &Destination,
    failed: u32,
    finality: Finality,
    retry_after: Option<Duration>,
    chance: f64,
) -> Disposition {
    let delivery = &destination.delivery;
    if finality == Finality::Again && (delivery.attempts_max == 0 || failed < delivery.attempts_max)
    {
        let asked_max = Duration::from_millis(delivery.retry_after_max_ms);
        let wait = delivery.backoff().wait_asked(failed, chance, retry_after, asked_max);
        return Disposition::Postpone(wait);
    }
    let reason = match finality {
        Finality::Final => "the receiver will never take it",
        Finality::Again | Finality::Halts => "the attempts at its delivery are used up",
    };
    match (finality, destination.on_exhausted) {
        (Finality::Halts, _) | (_, OnExhausted::Halt) => Disposition::Halt,
        (_, OnExhausted::DeadLetter) => {
            Disposition::Withdraw(Tombstone::DeadLettered, reason.to_owned())
        }
        (_, OnExhausted::Drop) => Disposition::Withdraw(Tombstone::Dropped, reason.to_owned()),
    }
}

/// When it is tried again to carry out what is to become of a head, where what Redis holds is damaged.
const END_AGAIN: Duration = Duration::from_secs(1);

/// A head whose disposition is carried out, and what came of it.
pub(super) type Ended = (LaneKey, Refused, Result<(), StoreError>);

impl DestinationSender {
    /// Carries out the fates of heads that were refused, where all before them is settled.
    pub(super) fn end_call(
        &mut self,
        known: &Arc<CatalogEntry>,
    ) -> Option<BoxFuture<'static, Answer>> {
        let mut heads: Vec<(LaneKey, Refused)> = Vec::new();
        while heads.len() < CALL_LANES_MAX
            && let Some(key) = self.to_end.pop()
        {
            let head = self.lanes.get(&key).and_then(|lane| lane.to_end()).cloned();
            heads.extend(head.map(|head| (key, head)));
        }
        if heads.is_empty() {
            return None;
        }
        let (store, owner, known) = (self.store.clone(), self.lease.owner.clone(), known.clone());
        let call = async move {
            let calls = heads.into_iter().map(|(key, head)| {
                let (store, owner, known) = (&store, &owner, &known);
                async move {
                    let done = carry_out(store, owner, known, &key, &head).await;
                    let (disposition, done) = match done {
                        Ok(disposition) => (disposition, Ok(())),
                        Err(error) => (head.disposition, Err(error)),
                    };
                    (key, Refused { disposition, ..head }, done)
                }
            });
            let ended = join_all(calls).await;
            point(Point::SenderEnded).await;
            Answer::Ended(ended)
        };
        Some(call.boxed())
    }

    /// The lanes of these heads are let go of.
    pub(super) fn ended(&mut self, answers: Vec<Ended>) {
        for (key, head, done) in answers {
            match done {
                Ok(()) => {
                    self.let_go(&key);
                    self.tell(&key, &head);
                }
                // Somebody else saw to it, or it is not the head any more.
                Err(StoreError::WrongHead) => {
                    self.let_go(&key);
                    self.look = true;
                }
                // What it needs is damaged. It stays in hand, so that it is not sent again at once, and holds up
                // no other lane.
                Err(StoreError::Failed(_)) => {
                    self.lingering.insert((Instant::now() + END_AGAIN, key));
                }
                Err(error) => {
                    self.to_end.push(&key);
                    self.failed(error);
                }
            }
        }
    }

    fn tell(&mut self, key: &LaneKey, head: &Refused) {
        let (destination, sequence) = (self.name.as_str(), head.sequence);
        let outcome = match &head.disposition {
            Disposition::Postpone(wait) => return self.look_after(*wait),
            Disposition::Halt => "halted",
            Disposition::Withdraw(Tombstone::Dropped, _) => "dropped",
            Disposition::Withdraw(Tombstone::DeadLettered, _) => "dead_lettered",
            Disposition::Withdraw(Tombstone::Cancelled, _) => "cancelled",
        };
        telemetry::exhausted(destination, outcome);
        let (attempts, error) = (head.failed, excerpt(head.error.detail.as_bytes()));
        if head.disposition == Disposition::Halt {
            if head.error.kind == ErrorKind::Damaged
                && let Some(current) = &self.current
            {
                self.store.note_damaged_messages(&current.known, &[sequence]);
            }
            tracing::error!(
                destination,
                sequence,
                key = key.as_deref(),
                attempts,
                error,
                "a lane is halted: its head was not delivered, and waits for a person"
            );
        } else {
            tracing::warn!(
                destination,
                sequence,
                key = key.as_deref(),
                attempts,
                error,
                outcome,
                "a message leaves without being delivered"
            );
            // The tombstone can be passed at once.
            self.look = true;
        }
    }
}

/// Carries out what is to become of a head. Tells what became of it: where there is no room for
/// another dead letter it is halted.
async fn carry_out(
    store: &Store,
    owner: &Owner,
    known: &CatalogEntry,
    key: &LaneKey,
    head: &Refused,
) -> Result<Disposition, StoreError> {
    let Refused { sequence, failed, error, disposition } = head;
    let (sequence, failed) = (*sequence, *failed);
    let refused = RefusedHead { lane: key.as_deref(), sequence, failed, error };
    match disposition {
        Disposition::Postpone(_) if planted::is("backoff_forgotten") => {}
        Disposition::Postpone(wait) => store.postpone(owner, known, refused, *wait).await?,
        Disposition::Halt => store.halt(owner, known, refused).await?,
        Disposition::Withdraw(how, reason) => {
            let withdrawal = Withdrawal {
                how: *how,
                reason,
                error: Some((failed, error)),
                messages: &[(key.clone(), sequence)],
            };
            let answers = store.withdraw(known, Who::Owner(owner), &withdrawal).await?;
            // Its lane is let go of: nothing of it can be released before it can be read.
            if answers.first() == Some(&Withdrawn::Damaged) {
                return Err(StoreError::WrongHead);
            }
            if answers.first() == Some(&Withdrawn::Full) {
                store.halt(owner, known, refused).await?;
                return Ok(Disposition::Halt);
            }
        }
    }
    Ok(disposition.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(attempts_max: u32, on_exhausted: OnExhausted) -> Destination {
        let mut destination = Destination::new("erp".parse().unwrap(), "http://h/");
        destination.delivery.attempts_max = attempts_max;
        destination.delivery.retry_after_max_ms = 9_000;
        destination.on_exhausted = on_exhausted;
        destination
    }

    #[test]
    fn a_head_is_tried_again_until_its_attempts_are_used_up() {
        let of = |attempts_max, failed| {
            let destination = destination(attempts_max, OnExhausted::Halt);
            disposition(&destination, failed, Finality::Again, Some(Duration::from_secs(60)), 0.0)
        };
        let postponed = Disposition::Postpone(Duration::from_secs(9));
        assert_eq!(of(0, 1_000_000), postponed, "0: for ever");
        assert_eq!((of(3, 1), of(3, 2)), (postponed.clone(), postponed));
        assert_eq!(
            (of(3, 3), of(3, 4), of(1, 1)),
            (Disposition::Halt, Disposition::Halt, Disposition::Halt)
        );
    }

    #[test]
    fn what_is_final_is_not_tried_again_and_what_is_gone_always_halts() {
        let of = |on_exhausted, finality| {
            disposition(&destination(0, on_exhausted), 1, finality, None, 0.5)
        };
        let withdrawn = |how| Disposition::Withdraw(how, "the receiver will never take it".into());
        assert_eq!(of(OnExhausted::Halt, Finality::Final), Disposition::Halt);
        assert_eq!(
            of(OnExhausted::DeadLetter, Finality::Final),
            withdrawn(Tombstone::DeadLettered)
        );
        assert_eq!(of(OnExhausted::Drop, Finality::Final), withdrawn(Tombstone::Dropped));
        for on_exhausted in [OnExhausted::Halt, OnExhausted::DeadLetter, OnExhausted::Drop] {
            assert_eq!(of(on_exhausted, Finality::Halts), Disposition::Halt);
        }
    }
}
