//! Calls to Redis, one at a time: to settle and release, to find lanes, to resolve refused heads, to
//! read and carry out withdrawals.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, OptionFuture},
};

use tokio::time::Instant;

use super::{
    DestinationSender, now,
    refused::Resolved,
    scheduler::{Due, Scan},
};
use crate::lane::{Next, Rules};
use domain::DeliveryKind;
use faults::{
    pause::{Point, point},
    planted,
};
use store::{CatalogEntry, LaneRequest, PendingWithdrawal, ReleasableLanes, Released, StoreError};

/// The most lanes that one call serves.
pub(super) const CALL_LANES_MAX: usize = 256;
/// The most messages that one call settles, unless its first lane has more. `CALL_LANES_MAX` and this number are below
/// `SETTLED_MAX` in `lua/release.lua`.
const CALL_SETTLED_MAX: usize = 4_000;
/// The most names of lanes to keep until there is room for these lanes.
const NAMED_MAX: usize = 1024;
/// The pause after a call that Redis did not answer.
pub(super) const CALL_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a call that keeps failing until an operator fixes the cause.
const CALL_PAUSE_LONG: Duration = Duration::from_secs(1);

/// The names of lanes that a scan found.
pub(super) type Names = Result<ReleasableLanes, StoreError>;

/// The result of a call, by the kind of call.
pub(super) enum Answer {
    /// A release, with the names of lanes if the same call scanned for them.
    Released(Vec<LaneRequest>, Result<Released, StoreError>, Option<Names>),
    Resolved(Vec<Resolved>),
    Named(Names),
    /// Pending withdrawals.
    Withdrawals(Result<Vec<PendingWithdrawal>, StoreError>),
    /// The number of withdrawals carried out.
    Withdrawn(usize, Result<(), StoreError>),
}

impl DestinationSender {
    /// Begins the next call to Redis, if one is needed.
    pub(super) fn begin_call(&mut self) {
        // Wait for a lookup too: a call refused because of an old definition must be repeated with the new one.
        let is_busy = self.in_flight.call.is_some() || self.in_flight.lookup.is_some();
        if is_busy || !self.scheduler.may_call(Instant::now()) {
            return;
        }
        let Some(definition) = &self.definition else { return };
        let (entry, rules) = (definition.entry.clone(), definition.rules.clone());
        self.in_flight.call = self
            .withdraw_call(&entry)
            .or_else(|| Some(self.resolve_call(&entry)?.then(ended).boxed()))
            .or_else(|| self.release_call(&entry, &rules))
            .or_else(|| Some(self.scan(&entry)?.map(Answer::Named).boxed()))
            .or_else(|| self.withdrawals_call(&entry));
    }

    /// A call that settles and releases. If wanted, a scan for lanes runs at the same time.
    fn release_call(
        &mut self,
        entry: &Arc<CatalogEntry>,
        rules: &Rules,
    ) -> Option<BoxFuture<'static, Answer>> {
        let requests = self.requests(rules);
        if requests.is_empty() {
            return None;
        }
        self.withdrawals.asked();
        let scan = self.scan(entry);
        let (store, owner) = (self.deps.store.clone(), self.deps.lease.owner.clone());
        let entry = entry.clone();
        let call = async move {
            let release = async {
                let answer = store.release(&owner, &entry, &requests).await;
                if let Ok(released) = &answer {
                    pause(&requests, released).await;
                }
                answer
            };
            let (answer, names) = tokio::join!(release, OptionFuture::from(scan));
            Answer::Released(requests, answer, names)
        };
        Some(call.boxed())
    }

    /// The requests of the lanes that are next in turn. Drops lanes that are done.
    fn requests(&mut self, rules: &Rules) -> Vec<LaneRequest> {
        let mut requests: Vec<LaneRequest> = Vec::new();
        let mut settled = 0;
        while requests.len() < CALL_LANES_MAX
            && let Some(key) = self.scheduler.next_to_request()
        {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            if !requests.is_empty() && settled + lane.settles() > CALL_SETTLED_MAX {
                self.scheduler.ask_first(key);
                break;
            }
            let is_draining = self.scheduler.is_draining();
            match lane.request(key.as_deref(), rules) {
                Some(_) if is_draining && planted::is("drain_settles_nothing") => {
                    self.drop_lane(&key);
                }
                Some(request) => {
                    settled += request.settled.count;
                    requests.push(request);
                }
                None if lane.next() == Next::Drop => self.drop_lane(&key),
                None => {}
            }
        }
        requests
    }

    /// Scans for due lanes, and for other lanes if there is room. Asks for more names than fit,
    /// so that a dropped lane seldom causes another call.
    fn scan(&mut self, entry: &Arc<CatalogEntry>) -> Option<BoxFuture<'static, Names>> {
        if self.is_one_lane() {
            return None;
        }
        let has_room = match self.scheduler.take_scan(!self.is_full(), Instant::now())? {
            Scan::Due => false,
            Scan::All => true,
        };
        // Redis also names the lanes that are loaded.
        let max = self.lanes.len() + self.loaded_max().clamp(CALL_LANES_MAX, NAMED_MAX);
        let (store, entry) = (self.deps.store.clone(), entry.clone());
        let is_pulled = entry.destination.delivery.kind == DeliveryKind::Pull;
        let scan = async move {
            match is_pulled {
                true => store.lanes_of_consumers(&entry, max, has_room).await,
                false => store.releasable_lanes(&entry, if has_room { max } else { 0 }).await,
            }
        };
        Some(scan.boxed())
    }

    pub(super) fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Released(requests, answer, names) => {
                self.release_ended(&requests, answer);
                if let Some(names) = names {
                    self.named(names, &requests);
                }
            }
            Answer::Named(names) => self.named(names, &[]),
            Answer::Resolved(answers) => self.resolved(answers),
            Answer::Withdrawals(Ok(pending)) => self.note_withdrawals(pending),
            Answer::Withdrawals(Err(error)) => {
                self.withdrawals.ask();
                self.call_failed(error);
            }
            Answer::Withdrawn(done, answer) => self.withdrawn(done, answer),
        }
    }

    fn release_ended(&mut self, requests: &[LaneRequest], answer: Result<Released, StoreError>) {
        match answer {
            Ok(released) => self.released(requests, released),
            Err(error) => {
                requests.iter().for_each(|request| self.scheduler.wants_request(&request.key));
                self.withdrawals.ask();
                self.call_failed(error);
            }
        }
    }

    fn released(&mut self, requests: &[LaneRequest], released: Released) {
        self.note_withdrawals(released.withdrawals);
        let Some(rules) = self.definition.as_ref().map(|definition| definition.rules.clone())
        else {
            return;
        };
        let count: usize = released.runs.iter().map(|run| run.messages.len()).sum();
        if count > 0 {
            telemetry::released(count);
        }
        for (request, run) in requests.iter().zip(released.runs) {
            let now = now();
            if let Some(last) = run.messages.last() {
                self.heard_of(last.position.sequence);
            }
            if run.is_too_long {
                // Redis has settled nothing of this lane, so the lane repeats its request.
                self.scheduler.at(now.instant + run.wait, &request.key, Due::Request);
            }
            if !run.wait.is_zero() {
                self.scheduler.scan_after(now.instant, run.wait);
            }
            if !run.is_too_long
                && let Some(lane) = self.lanes.get_mut(&request.key)
            {
                lane.released(request, run.messages, &rules, now);
                self.schedule(&request.key);
            }
        }
    }

    /// Called when a scan has ended. Ignores the lanes that `asked` Redis in the same call: the scan may be older than
    /// their answers, and later messages of these lanes have sent wake-ups.
    fn named(&mut self, names: Names, asked: &[LaneRequest]) {
        match names {
            Ok(names) => {
                let asked: HashSet<&str> = asked.iter().filter_map(|r| r.key.as_deref()).collect();
                self.scheduler.named(names, Instant::now(), |key| {
                    !asked.contains(key.as_str()) && !self.lanes.contains_key(&Some(key.clone()))
                });
            }
            Err(error) => {
                self.scheduler.wants_scan();
                self.call_failed(error);
            }
        }
    }

    /// Called when a call has failed. The caller has already queued the requests to repeat.
    pub(super) fn call_failed(&mut self, error: StoreError) {
        let wait = match error {
            StoreError::StaleEpoch(epoch) => {
                tracing::debug!(destination = %self.deps.name, %error, "the lease is over");
                return self.deps.lease.superseded(epoch);
            }
            StoreError::NotOwner => {
                tracing::debug!(destination = %self.deps.name, %error, "the lease is over");
                return self.deps.lease.lost.cancel();
            }
            StoreError::StaleDefinition | StoreError::UnknownDestination => {
                return self.look_up();
            }
            // The store has already logged this error.
            error if error.is_logged() => CALL_PAUSE_LONG,
            StoreError::TakeoverWait(_) => CALL_PAUSE_LONG,
            error if error.is_temporary() => {
                tracing::debug!(destination = %self.deps.name, %error, "a call failed, and will be repeated");
                CALL_PAUSE
            }
            error => {
                tracing::error!(destination = %self.deps.name, %error, "a call to Redis failed");
                CALL_PAUSE_LONG
            }
        };
        self.scheduler.pause_calls(Instant::now(), wait);
    }
}

/// A pause point (for tests) after a call that carried out the dispositions of refused heads.
async fn ended(answer: Answer) -> Answer {
    point(Point::SenderEnded).await;
    answer
}

/// Pause points (for tests) after a call that settled or released something.
async fn pause(requests: &[LaneRequest], released: &Released) {
    if requests.iter().any(|request| request.settled.upto > 0) {
        point(Point::SenderAcked).await;
    }
    if released.runs.iter().any(|run| !run.messages.is_empty()) {
        point(Point::SenderReleased).await;
    }
}
