//! What a destination asks of Redis, one call at a time: to settle and release, to name lanes, to
//! carry out what a refusal or a withdrawal comes to.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, OptionFuture},
};

use tokio::time::Instant;

use super::{DestinationSender, exhausted::Ended, now};
use crate::{
    domain,
    faults::{
        pause::{Point, point},
        planted,
    },
    store::{CatalogEntry, LaneRequest, PendingWithdrawal, Released, StoreError},
};

/// The most lanes of one call.
pub(super) const CALL_LANES_MAX: usize = 256;
/// One call settles no more messages than that, unless one lane alone has more (`SETTLED_MAX` in
/// `lua/release.lua` is above both).
const CALL_SETTLED_MAX: usize = 4_000;
/// The most lanes whose names are kept for when there is room.
const NAMED_MAX: usize = 1024;
/// The pause after a call that Redis did not answer.
const PAUSE: Duration = Duration::from_millis(100);

/// How many names were asked for at most, and those that there are.
pub(super) type Names = (usize, Result<Vec<String>, StoreError>);

/// What Redis answered.
pub(super) enum Answer {
    /// With the names of lanes, where they were asked for at the same time.
    Released(Vec<LaneRequest>, Result<Released, StoreError>, Option<Names>),
    Ended(Vec<Ended>),
    Lanes(Names),
    /// Some withdrawals, and where the next look goes on.
    Withdrawals(Result<(Vec<PendingWithdrawal>, u64), StoreError>),
    /// How many withdrawals were carried out.
    Withdrawn(usize, Result<(), StoreError>),
    /// The pause after a failed call is over.
    Rested,
}

impl DestinationSender {
    /// Begins the next call to Redis, if there is anything to ask.
    pub(super) fn begin_call(&mut self) {
        let Some(known) = self.current.as_ref().map(|current| current.known.clone()) else {
            return;
        };
        // A refused call comes again with what is being looked up.
        if self.call.is_some() || self.lookup.is_some() {
            return;
        }
        if !self.pause.is_zero() {
            let pause = self.pause;
            self.call = Some(tokio::time::sleep(pause).map(|()| Answer::Rested).boxed());
            return;
        }
        self.call = self
            .withdraw_call(&known)
            .or_else(|| self.end_call(&known))
            .or_else(|| self.withdrawals_call(&known))
            .or_else(|| self.release_call(&known))
            .or_else(|| {
                let names = self.ask_names(&known)?;
                Some(names.map(Answer::Lanes).boxed())
            })
            .or_else(|| {
                // No release tells whether there are withdrawals.
                self.withdrawals.ask = std::mem::take(&mut self.withdrawals.suspected);
                self.withdrawals_call(&known)
            });
    }

    fn release_call(&mut self, known: &Arc<CatalogEntry>) -> Option<BoxFuture<'static, Answer>> {
        let stop = self.lease.draining.is_cancelled();
        let rules = self.current.as_ref()?.rules.clone();
        let mut requests: Vec<LaneRequest> = Vec::new();
        let mut settled = 0;
        while requests.len() < CALL_LANES_MAX
            && let Some(key) = self.to_ask.pop()
        {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            if !requests.is_empty() && settled + lane.settles() > CALL_SETTLED_MAX {
                // The next call begins with it.
                self.to_ask.push_front(key);
                break;
            }
            match lane.request(key.as_deref(), &rules, stop) {
                Some(_) if stop && planted::is("drain_settles_nothing") => self.let_go(&key),
                Some(request) => {
                    settled += request.settled.count;
                    requests.push(request);
                }
                None if lane.is_done(stop) => self.let_go(&key),
                None => {}
            }
        }
        if requests.is_empty() {
            return None;
        }
        self.withdrawals.suspected = false;
        let names = self.ask_names(known);
        let (store, owner, known) = (self.store.clone(), self.lease.owner.clone(), known.clone());
        let call = async move {
            let release = async {
                let answer = store.release(&owner, &known, &requests).await;
                if let Ok(released) = &answer {
                    pause(&requests, released).await;
                }
                answer
            };
            let (answer, names) = tokio::join!(release, OptionFuture::from(names));
            Answer::Released(requests, answer, names)
        };
        Some(call.boxed())
    }

    /// Asks for the names of lanes, where there is room for some: beside a release if there is one. For
    /// more than there is room for, so that not each lane that is done makes another call.
    fn ask_names(&mut self, known: &Arc<CatalogEntry>) -> Option<BoxFuture<'static, Names>> {
        let is_one_lane = known.destination.ordering == domain::Ordering::Destination;
        let is_wanted = self.look && self.named.is_empty() && !self.is_full();
        if is_one_lane || !is_wanted || self.lease.draining.is_cancelled() {
            return None;
        }
        self.look = false;
        // Those in hand are named too.
        let max = self.lanes.len() + self.lanes_max().clamp(CALL_LANES_MAX, NAMED_MAX);
        let (store, known) = (self.store.clone(), known.clone());
        Some(async move { (max, store.releasable_lanes(&known, max).await) }.boxed())
    }

    pub(super) fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Rested => self.pause = Duration::ZERO,
            Answer::Lanes(names) => self.take_names(names, &[]),
            Answer::Released(requests, answer, names) => {
                match answer {
                    Ok(released) => self.released(&requests, released),
                    Err(error) => {
                        requests.iter().for_each(|request| self.to_ask.push(&request.key));
                        self.withdrawals.suspected = true;
                        self.failed(error);
                    }
                }
                if let Some(names) = names {
                    self.take_names(names, &requests);
                }
            }
            Answer::Ended(answers) => self.ended(answers),
            Answer::Withdrawals(withdrawals) => self.note_withdrawals(withdrawals),
            Answer::Withdrawn(done, answer) => self.withdrawn(done, answer),
        }
    }

    /// Takes the names of lanes over, but not those of what was asked for at the same time: they may be
    /// older than its answer. What came to such a lane since has said so itself.
    fn take_names(&mut self, (max, keys): Names, asked: &[LaneRequest]) {
        match keys {
            Ok(keys) => {
                // As many as were asked for: there may be more.
                self.look |= keys.len() == max;
                let asked: HashSet<&str> = asked.iter().filter_map(|r| r.key.as_deref()).collect();
                let is_new = |key: &String| {
                    !asked.contains(key.as_str()) && !self.lanes.contains_key(&Some(key.clone()))
                };
                self.named.extend(keys.into_iter().filter(is_new));
            }
            Err(error) => {
                self.look = true;
                self.failed(error);
            }
        }
    }

    fn released(&mut self, requests: &[LaneRequest], released: Released) {
        self.withdrawals.count(released.withdrawals);
        let stop = self.lease.draining.is_cancelled();
        let Some(rules) = self.current.as_ref().map(|current| current.rules.clone()) else {
            return;
        };
        for (request, run) in requests.iter().zip(released.runs) {
            if !run.wait.is_zero() {
                self.look_after(run.wait);
            }
            if let Some(error) = &run.error {
                let key = request.key.as_deref();
                tracing::debug!(destination = %self.name, key, error, "a lane cannot be read");
                // Nothing of it was settled: the same is asked again.
                self.lingering.insert((Instant::now() + run.wait, request.key.clone()));
                continue;
            }
            let Some(lane) = self.lanes.get_mut(&request.key) else { continue };
            lane.answered(request, run.messages, &rules, now());
            if lane.to_end().is_some() {
                self.to_end.push(&request.key);
            }
            if lane.is_done(stop) {
                self.let_go(&request.key);
            } else {
                self.to_send.push(&request.key);
                self.to_ask.push(&request.key);
            }
        }
    }

    /// Begins to look up the definition where the truth is. Nothing waits for it but the next call to
    /// Redis: leases run out meanwhile, and deliveries end.
    pub(super) fn look_up(&mut self) {
        if self.lookup.is_some() {
            return;
        }
        let (catalog, name) = (self.catalog.clone(), self.name.clone());
        let lookup = async move {
            let found = catalog.refresh(&name).await;
            if let Err(error) = &found {
                tracing::debug!(destination = %name, %error, "cannot look up a definition");
                tokio::time::sleep(PAUSE).await;
            }
            found
        };
        self.lookup = Some(lookup.boxed());
    }

    pub(super) fn failed(&mut self, error: StoreError) {
        match error {
            StoreError::StaleEpoch(epoch) => {
                tracing::debug!(destination = %self.name, %error, "the lease is over");
                self.lease.superseded(epoch);
            }
            StoreError::NotOwner => {
                tracing::debug!(destination = %self.name, %error, "the lease is over");
                self.lease.lost.cancel();
            }
            StoreError::StaleDefinition | StoreError::UnknownDestination => self.look_up(),
            // The store has logged why.
            error if error.is_told() => self.pause = Duration::from_secs(1),
            StoreError::TakeoverWait(wait_ms) => self.pause = Duration::from_millis(wait_ms + 1),
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

/// The points after a call that settled something, or released something.
async fn pause(requests: &[LaneRequest], released: &Released) {
    if requests.iter().any(|request| request.settled.upto > 0) {
        point(Point::SenderAcked).await;
    }
    if released.runs.iter().any(|run| !run.messages.is_empty()) {
        point(Point::SenderReleased).await;
    }
}
