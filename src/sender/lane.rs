//! One lane in hand: what was released and not yet settled, and what may be done next. No I/O.
//!
//! ```text
//!            released              accepted            settled by the next call
//!   Redis ─────────────► queue ──────────────► settled_to ─────────────────────► gone
//!                          ▲ front: one in flight
//!                          └─ refused: the lane is postponed and let go of
//! ```

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    domain::{Sequence, Stamped},
    store::LaneRequest,
};

/// A head that its receiver did not accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) sequence: Sequence,
    pub(super) attempts: u32,
    pub(super) wait: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    queue: VecDeque<Arc<Stamped>>,
    in_flight: bool,
    /// Delivered, and Redis does not know it yet; 0: nothing.
    settled_to: Sequence,
    tombstones: u64,
    refused: Option<Refused>,
    /// Nothing has been asked for yet.
    is_new: bool,
    /// How many have been delivered since the lane was taken in hand.
    pub(super) delivered: usize,
    /// To be let go of after what it holds, so that another lane gets its turn.
    pub(super) yielding: bool,
    /// Redis had nothing more, when last asked with nothing left in hand.
    exhausted: bool,
}

impl Lane {
    pub(super) fn new() -> Lane {
        Lane { is_new: true, ..Lane::default() }
    }

    /// The message to deliver now, if there is one and none is in flight. Tombstones before it
    /// are passed: nobody is to be sent them.
    pub(super) fn begin(&mut self) -> Option<Arc<Stamped>> {
        if self.in_flight || self.refused.is_some() {
            return None;
        }
        while let Some(dropped) = self.queue.pop_front_if(|message| message.tombstone) {
            self.settled_to = dropped.place.sequence;
            self.tombstones += 1;
        }
        let next = self.queue.front()?.clone();
        self.in_flight = true;
        Some(next)
    }

    /// The receiver has the front.
    pub(super) fn accepted(&mut self) {
        self.in_flight = false;
        if let Some(message) = self.queue.pop_front() {
            self.settled_to = message.place.sequence;
            self.delivered += 1;
        }
    }

    /// The receiver does not have the front: nothing behind it may leave before it does.
    pub(super) fn refused(&mut self, attempts: u32, wait: Duration) {
        self.in_flight = false;
        if let Some(message) = self.queue.front() {
            let sequence = message.place.sequence;
            self.refused = Some(Refused { sequence, attempts, wait });
        }
        self.queue.truncate(1);
    }

    /// The head to be postponed, once all before it is settled.
    pub(super) fn to_postpone(&self) -> Option<Refused> {
        self.refused.filter(|_| self.settled_to == 0)
    }

    /// What to ask of Redis: to settle, to release more, or both. Nothing while the lane has
    /// enough in hand.
    pub(super) fn request(
        &self,
        key: Option<&str>,
        run_max: usize,
        stop: bool,
    ) -> Option<LaneRequest> {
        let idle = self.queue.is_empty();
        let unsettled = self.settled_to > 0;
        let let_go = stop || self.yielding || self.refused.is_some();
        let may_want = !let_go && !self.exhausted && self.queue.len() <= run_max / 2;
        if !(unsettled || self.is_new && !let_go) {
            return None;
        }
        let in_hand = self.queue.back().map_or(0, |message| message.place.sequence);
        Some(LaneRequest {
            key: key.map(str::to_owned),
            settled_to: self.settled_to,
            tombstones: self.tombstones,
            // A lane that is let go of leaves what it holds to the next owner.
            in_hand: if stop && !self.in_flight { 0 } else { in_hand },
            want: if may_want || (idle && !let_go) { run_max - self.queue.len() } else { 0 },
        })
    }

    /// Redis has done what was asked for, and released these.
    pub(super) fn answered(&mut self, request: &LaneRequest, released: Vec<Stamped>) {
        self.is_new = false;
        if self.settled_to == request.settled_to {
            self.settled_to = 0;
            self.tombstones = 0;
        } else {
            self.tombstones -= request.tombstones;
        }
        self.exhausted = released.is_empty() && request.in_hand == 0 && request.want > 0;
        let last = self.queue.back().map_or(0, |message| message.place.sequence);
        // A refusal that came meanwhile has let go of all behind it.
        if self.refused.is_none() {
            let after = |message: &Stamped| message.place.sequence > last;
            self.queue.extend(released.into_iter().filter(after).map(Arc::new));
        }
    }

    /// True when nothing is left to do with it here.
    pub(super) fn is_done(&self, stop: bool) -> bool {
        let let_go = stop || self.yielding || self.exhausted;
        let empty = self.queue.is_empty() || stop;
        let nothing_left = empty && !self.in_flight && self.settled_to == 0;
        nothing_left && let_go && self.refused.is_none()
    }
}
