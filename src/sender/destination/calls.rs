//! What a destination asks of Redis, one call at a time: to settle and release, to postpone, to name
//! lanes.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use tokio::time::Instant;

use super::{DestinationSender, LaneKey};
use crate::{
    domain::{self, Stage, Trouble, TroubleKind},
    sender::lane::{Lane, Refused},
    store::{Known, LaneRequest, LaneRun, StoreError},
};

/// The most lanes of one call.
const CALL_LANES_MAX: usize = 256;
/// The pause after a call that Redis did not answer.
const PAUSE: Duration = Duration::from_millis(100);

/// What Redis answered.
pub(super) enum Answer {
    Released(Vec<LaneRequest>, Result<Vec<LaneRun>, StoreError>),
    Postponed(Vec<(LaneKey, Refused, Result<(), StoreError>)>),
    Lanes(usize, Result<Vec<String>, StoreError>),
    /// The pause after a failed call is over.
    Rested,
}

impl DestinationSender {
    /// Begins the next call to Redis, if there is anything to ask.
    pub(super) fn begin_call(&mut self) {
        let Some((known, _)) = self.known.clone() else { return };
        if self.call.is_some() {
            return;
        }
        if !self.pause.is_zero() {
            let pause = self.pause;
            self.call = Some(tokio::time::sleep(pause).map(|()| Answer::Rested).boxed());
            return;
        }
        self.call = self
            .postpone_call(&known)
            .or_else(|| self.release_call(&known))
            .or_else(|| self.take_lanes(&known));
    }

    fn postpone_call(&self, known: &Arc<Known>) -> Option<BoxFuture<'static, Answer>> {
        let refused =
            self.lanes.iter().filter_map(|(key, lane)| Some((key.clone(), lane.to_postpone()?)));
        let refused: Vec<(LaneKey, Refused)> = refused.take(CALL_LANES_MAX).collect();
        if refused.is_empty() {
            return None;
        }
        let (store, owner, known) = (self.store.clone(), self.tenure.owner.clone(), known.clone());
        let call = async move {
            let calls = refused.into_iter().map(|(key, head)| {
                let (store, owner, known) = (&store, &owner, &known);
                async move {
                    let lane = key.as_deref();
                    let Refused { sequence, attempts, wait } = head;
                    let trouble = Trouble::new(Stage::Delivery, TroubleKind::Status, "");
                    let done = store
                        .postpone(owner, known, lane, sequence, attempts, wait, &trouble)
                        .await;
                    (key, head, done)
                }
            });
            Answer::Postponed(join_all(calls).await)
        };
        Some(call.boxed())
    }

    fn release_call(&self, known: &Arc<Known>) -> Option<BoxFuture<'static, Answer>> {
        let stop = self.tenure.draining.is_cancelled();
        let requests = self
            .lanes
            .iter()
            .filter_map(|(key, lane)| lane.request(key.as_deref(), self.run_max, stop));
        let requests: Vec<LaneRequest> = requests.take(CALL_LANES_MAX).collect();
        if requests.is_empty() {
            return None;
        }
        let (store, owner, known) = (self.store.clone(), self.tenure.owner.clone(), known.clone());
        let call = async move {
            let answer = store.release(&owner, &known, &requests).await;
            Answer::Released(requests, answer.map(|released| released.runs))
        };
        Some(call.boxed())
    }

    /// Takes lanes in hand that may have something to release: the destination's own, or those
    /// that Redis names.
    fn take_lanes(&mut self, known: &Arc<Known>) -> Option<BoxFuture<'static, Answer>> {
        let lanes_max = known.destination.delivery.lanes_max as usize;
        let room = lanes_max.saturating_sub(self.lanes.len());
        if !self.look || room == 0 || self.tenure.draining.is_cancelled() {
            return None;
        }
        match known.destination.ordering {
            domain::Ordering::Destination => {
                self.look = false;
                if self.lanes.contains_key(&None) {
                    return None;
                }
                self.lanes.insert(None, Lane::default());
                self.release_call(known)
            }
            domain::Ordering::Key | domain::Ordering::None => {
                let (store, known) = (self.store.clone(), known.clone());
                // Those in hand are named too.
                let max = self.lanes.len() + room.min(CALL_LANES_MAX);
                let call =
                    async move { Answer::Lanes(max, store.releasable_lanes(&known, max).await) };
                self.look = false;
                Some(call.boxed())
            }
        }
    }

    pub(super) async fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Rested => self.pause = Duration::ZERO,
            Answer::Lanes(max, Ok(keys)) => {
                // As many as were asked for: there may be more.
                self.look |= keys.len() == max;
                for key in keys {
                    if self.is_full() {
                        self.look = true;
                        break;
                    }
                    self.lanes.entry(Some(key)).or_default();
                }
            }
            Answer::Lanes(_, Err(error)) => {
                self.look = true;
                self.failed(error).await;
            }
            Answer::Released(requests, Ok(runs)) => self.released(&requests, runs),
            Answer::Released(_, Err(error)) => self.failed(error).await,
            Answer::Postponed(answers) => {
                for (key, head, done) in answers {
                    match done {
                        Ok(()) | Err(StoreError::WrongHead) => {
                            self.lanes.remove(&key);
                            self.look_after(head.wait);
                        }
                        Err(error) => self.failed(error).await,
                    }
                }
            }
        }
    }

    fn released(&mut self, requests: &[LaneRequest], runs: Vec<LaneRun>) {
        for (request, run) in requests.iter().zip(runs) {
            if !run.wait.is_zero() {
                self.look_after(run.wait);
            }
            if let Some(lane) = self.lanes.get_mut(&request.key) {
                lane.answered(request, run.messages);
            }
        }
    }

    /// Looks for lanes again when a backoff is over. The server compares whole milliseconds, so
    /// a look at the very instant is too early.
    fn look_after(&mut self, wait: Duration) {
        self.due.insert(Instant::now() + wait + Duration::from_millis(2));
    }

    async fn failed(&mut self, error: StoreError) {
        match error {
            StoreError::StaleEpoch(_) | StoreError::NotOwner => {
                tracing::debug!(destination = %self.name, %error, "the tenure is over");
                self.tenure.lost.cancel();
            }
            StoreError::StaleDefinition | StoreError::UnknownDestination => {
                if let Err(error) = self.catalog.refresh(&self.name).await {
                    tracing::debug!(destination = %self.name, %error, "cannot look up a definition");
                    self.pause = PAUSE;
                }
            }
            StoreError::Quarantine(wait_ms) => self.pause = Duration::from_millis(wait_ms + 1),
            error if error.is_temporary() => {
                tracing::debug!(destination = %self.name, %error, "a call failed, and is made again");
                self.pause = PAUSE;
            }
            error => {
                tracing::error!(destination = %self.name, %error, "cannot release");
                self.pause = Duration::from_secs(1);
            }
        }
    }
}
