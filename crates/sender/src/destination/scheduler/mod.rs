//! All queues and timers of one destination: which lane is next, and when work is due without an
//! event. No I/O; the caller passes the time in.
//!
//! Each event puts its lane into the queues below. So no event visits all lanes, except when the
//! partition is given back.
//!
//! ```text
//!   queue        which lanes are in it                   put there by a timer, when
//!   due          a scan found them: they do not wait     a backoff is over: another scan
//!                for all others
//!   named        a scan found them
//!   to ask       loaded lanes, after each event          a request is to be repeated
//!   to send      loaded lanes, after each event          a batch has waited; there is a slot
//!   resting      lanes to send of a paused destination
//!   to resolve   their head was refused                  a call is to be repeated
//! ```

mod lane_queue;
mod pace;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::LaneKey;
use crate::breaker::{Probes, Receiver};
use lane_queue::{LaneQueue, LaneQueues};
use pace::Pace;
use store::ReleasableLanes;

/// A task that had nothing to do for this long ends; the next poke starts another.
const IDLE: Duration = Duration::from_secs(60);
/// Redis compares whole milliseconds, so a scan at the very end of a backoff is too early.
const SCAN_DELAY: Duration = Duration::from_millis(2);

/// The shortest time between two scans, if the first found no new lane or both search only for due lanes.
const SCAN_EVERY: Duration = Duration::from_millis(20);
/// The most due lanes that are loaded beyond `lanes_max`. They settle and resolve at once, and
/// are the next to deliver.
const DUE_LANES_MAX: usize = 256;

/// The action for which a lane has a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The lane sends its batch, which has waited long enough, or asks for more messages.
    Send,
    /// The lane repeats a request that Redis could not carry out.
    Request,
    /// The lane tries again to resolve its refused head.
    Resolve,
}

/// The kind of lanes that a scan searches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    /// Only due lanes: there is no room for others.
    Due,
    All,
}

#[derive(Default)]
pub(super) struct Scheduler {
    /// Lanes that may have messages to send.
    to_send: LaneQueues,
    /// Lanes that may have messages to send once the destination is resumed.
    resting: LaneQueue,
    /// Lanes that may have messages to settle or to ask for.
    to_request: LaneQueues,
    /// Lanes whose refused head has to be resolved.
    to_resolve: LaneQueue,
    /// Lanes that Redis named as due and that are not loaded yet.
    due: LaneQueue,
    /// Other lanes that Redis named. There was no room for them yet.
    named: VecDeque<String>,
    /// Loaded lanes that go first, until they deliver or are dropped.
    first: HashSet<LaneKey>,
    /// True if Redis may have lanes that no scan has named yet.
    wants_scan: bool,
    /// True if Redis may have due lanes that no scan has named yet.
    wants_due_scan: bool,
    /// The earliest time of the next scan only for due lanes.
    due_scan_from: Option<Instant>,
    /// True if the partition is being given back: load no more lanes.
    is_draining: bool,
    pace: Pace,
    receiver: Receiver,
    /// When the next delivery may begin, if the rate limit is reached or the receiver fails.
    next_slot: Option<Instant>,
    /// True if the next slot waits for the receiver, not for the rate limit.
    waits_for_receiver: bool,
    /// The timers of lanes, each with its action.
    lanes_due: BTreeSet<(Instant, LaneKey, Due)>,
    /// When to scan for lanes whose backoff is over.
    scans_due: BTreeSet<Instant>,
    /// After a failed call, no call begins before this time.
    calls_from: Option<Instant>,
    idle_since: Option<Instant>,
}

/// The part that begins deliveries.
impl Scheduler {
    /// Sets the rate limit of the definition.
    pub(super) fn set_rate(&mut self, rate_per_second_max: u32, now: Instant) {
        self.pace.set(rate_per_second_max, now);
    }

    /// The receiver of the destination, with its breakers.
    pub(super) fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    pub(super) fn wants_send(&mut self, key: &LaneKey) {
        self.to_send.push(key, self.first.contains(key));
    }

    /// The next lane that may have something to send.
    pub(super) fn next_to_send(&mut self) -> Option<LaneKey> {
        self.next_slot = None;
        self.to_send.pop()
    }

    /// An upper limit of the number of lanes that have something to send.
    pub(super) fn waiting_to_send(&self) -> usize {
        self.to_send.len()
    }

    /// Puts a lane back that did not fit into a delivery. It is the first lane of the next delivery.
    pub(super) fn send_first(&mut self, key: LaneKey) {
        self.to_send.push_front(key);
    }

    /// Takes a slot for one delivery, if the rate limit allows it, and the receiver works or a probe may begin. `None`
    /// if no slot is free now: the lane stays first in its queue, and no other lane may send either.
    pub(super) fn take_slot(&mut self, key: &LaneKey, now: Instant) -> Option<Probes> {
        let probes = self.receiver.take(now);
        self.waits_for_receiver = probes.is_err();
        let taken = probes.and_then(|probes| self.pace.take(now).map(|()| probes));
        if let Err(wait) = &taken {
            self.to_send.push_front(key.clone());
            self.next_slot = Some(now + *wait);
        }
        taken.ok()
    }

    /// True if a lane waits because the rate limit is reached.
    pub(super) fn is_rate_limited(&self) -> bool {
        self.next_slot.is_some() && !self.waits_for_receiver
    }

    /// When the next delivery begins, if lanes wait because the receiver fails.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.receiver.probe_at().filter(|_| self.next_slot.is_some() && self.waits_for_receiver)
    }

    /// Lets a lane of a paused destination rest: it sends after the destination is resumed.
    pub(super) fn rest(&mut self, key: &LaneKey) {
        self.resting.push(key);
    }

    /// Forgets a lane that was dropped, perhaps because its messages were withdrawn while the destination was paused.
    pub(super) fn dropped(&mut self, key: &LaneKey) {
        self.resting.remove(key);
        self.first.remove(key);
    }

    /// Moves the resting lanes to the lanes to send: the destination is not paused (any more).
    pub(super) fn resume(&mut self) {
        while let Some(key) = self.resting.pop() {
            self.wants_send(&key);
        }
    }
}

/// The part that begins calls to Redis.
impl Scheduler {
    pub(super) fn wants_request(&mut self, key: &LaneKey) {
        self.to_request.push(key, self.first.contains(key));
    }

    pub(super) fn next_to_request(&mut self) -> Option<LaneKey> {
        self.to_request.pop()
    }

    /// Puts a lane back that did not fit into this call. It is the first lane of the next call.
    pub(super) fn ask_first(&mut self, key: LaneKey) {
        self.to_request.push_front(key);
    }

    pub(super) fn wants_resolve(&mut self, key: &LaneKey) {
        self.to_resolve.push(key);
    }

    pub(super) fn next_to_resolve(&mut self) -> Option<LaneKey> {
        self.to_resolve.pop()
    }

    /// After a failed call: lets no call begin for this time.
    pub(super) fn pause_calls(&mut self, now: Instant, wait: Duration) {
        self.calls_from = Some(now + wait);
    }

    pub(super) fn may_call(&self, now: Instant) -> bool {
        self.calls_from.is_none_or(|from| from <= now)
    }
}

/// The part that loads lanes.
impl Scheduler {
    /// Requests a scan: Redis may have lanes that no scan has named yet.
    pub(super) fn wants_scan(&mut self) {
        (self.wants_scan, self.wants_due_scan) = (true, true);
    }

    /// Scans for lanes when a backoff is over.
    pub(super) fn scan_after(&mut self, now: Instant, wait: Duration) {
        self.scans_due.insert(now + wait + SCAN_DELAY);
    }

    /// True if lanes that are not loaded wait for room.
    pub(super) fn others_wait(&self) -> bool {
        self.wants_scan || !self.named.is_empty()
    }

    /// Returns the scan to begin now, if one is wanted. `has_room`: lanes that are not due fit too.
    pub(super) fn take_scan(&mut self, has_room: bool, now: Instant) -> Option<Scan> {
        if self.is_draining {
            return None;
        }
        if self.wants_scan && has_room && self.named.is_empty() {
            (self.wants_scan, self.wants_due_scan) = (false, false);
            return Some(Scan::All);
        }
        if !self.wants_due_scan || !self.due.is_empty() || self.due_scan_from.is_some() {
            return None;
        }
        self.wants_due_scan = false;
        self.due_scan_from = Some(now + SCAN_EVERY);
        Some(Scan::Due)
    }

    /// Queues the lanes that a scan found. `is_new` is false for loaded lanes.
    pub(super) fn named(
        &mut self,
        found: ReleasableLanes,
        now: Instant,
        is_new: impl Fn(&String) -> bool,
    ) {
        let mut has_new = false;
        for key in found.due.into_iter().filter(&is_new) {
            has_new = true;
            self.due.push(&Some(key));
        }
        let waiting = found.waiting.into_iter().filter(is_new);
        self.named.extend(waiting.inspect(|_| has_new = true));
        match found.is_cut {
            true if has_new => self.wants_scan(),
            // A scan now would find the same lanes again.
            true => self.scan_after(now, SCAN_EVERY),
            false => {}
        }
        if let Some(wait) = found.next_due {
            self.scan_after(now, wait);
        }
    }

    /// True if `loaded` lanes leave no room for another lane that is not due.
    pub(super) fn is_full(&self, loaded: usize, lanes_max: usize) -> bool {
        loaded.saturating_sub(self.first.len()) >= lanes_max
    }

    /// The next lane to load.
    pub(super) fn next_to_load(&mut self, loaded: usize, lanes_max: usize) -> Option<LaneKey> {
        if self.is_draining {
            return None;
        }
        if loaded < lanes_max + DUE_LANES_MAX
            && let Some(key) = self.due.pop()
        {
            self.first.insert(key.clone());
            return Some(key);
        }
        if self.is_full(loaded, lanes_max) { None } else { self.named.pop_front().map(Some) }
    }

    /// From now on, this loaded lane goes first.
    pub(super) fn goes_first(&mut self, key: &LaneKey) {
        self.first.insert(key.clone());
    }

    /// From now on, this loaded lane waits for its turn.
    pub(super) fn goes_in_turn(&mut self, key: &LaneKey) {
        self.first.remove(key);
    }

    /// Loads no more lanes: the partition is given back.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
        self.next_slot = None;
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Forgets every lane, because the destination has other lanes now.
    pub(super) fn forget_lanes(&mut self) {
        let pace = std::mem::take(&mut self.pace);
        let is_draining = self.is_draining;
        *self = Scheduler { pace, is_draining, ..Scheduler::default() };
        self.wants_scan();
    }
}

/// Timers.
impl Scheduler {
    /// Sets a timer for an action of a lane.
    pub(super) fn at(&mut self, at: Instant, key: &LaneKey, due: Due) {
        self.lanes_due.insert((at, key.clone(), due));
    }

    /// The time of the next timer.
    pub(super) fn next_time(&self) -> Option<Instant> {
        let lane = self.lanes_due.first().map(|(at, ..)| *at);
        let scan = self.scans_due.first().copied();
        [lane, scan, self.next_slot, self.calls_from, self.due_scan_from]
            .into_iter()
            .flatten()
            .min()
    }

    /// Moves due lanes and scans into their queues.
    pub(super) fn advance(&mut self, now: Instant) {
        while self.scans_due.first().is_some_and(|due| *due <= now) {
            self.scans_due.pop_first();
            self.wants_scan();
        }
        while self.lanes_due.first().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, key, due)) = self.lanes_due.pop_first() else { break };
            match due {
                Due::Send => self.wants_send(&key),
                Due::Request => self.wants_request(&key),
                Due::Resolve => self.to_resolve.push(&key),
            }
        }
        self.next_slot.take_if(|slot| *slot <= now);
        self.calls_from.take_if(|from| *from <= now);
        self.due_scan_from.take_if(|from| *from <= now);
    }

    /// When the task ends, if it is idle. `is_busy`: lanes are loaded, or calls in flight.
    pub(super) fn idle_end(&mut self, is_busy: bool, now: Instant) -> Option<Instant> {
        let is_idle =
            !is_busy && self.named.is_empty() && self.due.is_empty() && self.next_time().is_none();
        self.idle_since = is_idle.then(|| self.idle_since.unwrap_or(now));
        self.idle_since.map(|since| since + IDLE)
    }
}
