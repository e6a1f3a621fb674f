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
    store::{LaneRequest, Settled},
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
    /// Something has been asked for.
    asked: bool,
    /// How many have been delivered since the lane was taken in hand.
    pub(super) delivered: usize,
    /// To be let go of after what it holds, so that another lane gets its turn.
    pub(super) yielding: bool,
    /// Redis had nothing more, when last asked with nothing left in hand.
    exhausted: bool,
}

impl Lane {
    /// The message to deliver now, if there is one and none is in flight. Tombstones before it
    /// are passed: nobody is to be sent them.
    pub(super) fn begin(&mut self) -> Option<Arc<Stamped>> {
        if self.in_flight || self.refused.is_some() {
            return None;
        }
        while self.queue.front()?.tombstone.is_some() {
            self.settled_to = self.queue.pop_front()?.place.sequence;
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
        if !(unsettled || !self.asked && !let_go) {
            return None;
        }
        let in_hand = self.queue.back().map_or(0, |message| message.place.sequence);
        Some(LaneRequest {
            key: key.map(str::to_owned),
            settled: Settled {
                upto: self.settled_to,
                dropped: self.tombstones,
                ..Settled::default()
            },
            // A lane that is let go of leaves what it holds to the next owner.
            in_hand: if stop && !self.in_flight { 0 } else { in_hand },
            want: if may_want || (idle && !let_go) { run_max - self.queue.len() } else { 0 },
        })
    }

    /// Redis has done what was asked for, and released these.
    pub(super) fn answered(&mut self, request: &LaneRequest, released: Vec<Stamped>) {
        self.asked = true;
        if self.settled_to == request.settled.upto {
            self.settled_to = 0;
            self.tombstones = 0;
        } else {
            self.tombstones -= request.settled.dropped;
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{Body, Message, Place, Tombstone};

    const RUN_MAX: usize = 4;

    fn message(sequence: Sequence, tombstone: bool) -> Stamped {
        let message = Message {
            id: sequence.to_string(),
            key: None,
            headers: Vec::new(),
            body: Body { content_type: "text/plain".into(), bytes: Bytes::new() },
            received_ms: 0,
        };
        let place = Place { epoch: 1, sequence };
        let tombstone = tombstone.then_some(Tombstone::Dropped);
        Stamped { tombstone, ..Stamped::new("erp".parse().unwrap(), place, sequence - 1, message) }
    }

    fn with(messages: &[(Sequence, bool)]) -> Lane {
        let mut lane = Lane::default();
        let request = lane.request(None, RUN_MAX, false).unwrap();
        lane.answered(&request, messages.iter().map(|&(s, t)| message(s, t)).collect());
        lane
    }

    #[test]
    fn the_next_is_not_sent_before_the_one_in_flight_is_accepted() {
        let mut lane = with(&[(1, false), (2, false)]);
        assert_eq!(lane.begin().unwrap().place.sequence, 1);
        assert!(lane.begin().is_none());
        lane.accepted();
        assert_eq!(lane.begin().unwrap().place.sequence, 2);
    }

    #[test]
    fn a_refused_head_is_postponed_only_after_all_before_it_is_settled() {
        let mut lane = with(&[(1, false), (2, false), (3, false)]);
        lane.begin();
        lane.accepted();
        lane.begin();
        lane.refused(1, Duration::from_millis(5));
        assert!(lane.begin().is_none());
        assert_eq!(lane.to_postpone(), None);
        let request = lane.request(None, RUN_MAX, false).unwrap();
        assert_eq!((request.settled.upto, request.in_hand, request.want), (1, 2, 0));
        lane.answered(&request, Vec::new());
        assert_eq!(lane.to_postpone().map(|head| head.sequence), Some(2));
    }

    #[test]
    fn a_tombstone_is_settled_without_being_sent() {
        let mut lane = with(&[(1, true), (2, true), (3, false)]);
        assert_eq!(lane.begin().unwrap().place.sequence, 3);
        let request = lane.request(None, RUN_MAX, false).unwrap();
        assert_eq!((request.settled.upto, request.settled.dropped, request.in_hand), (2, 2, 3));
    }

    #[test]
    fn a_lane_that_is_given_back_settles_what_was_delivered_and_drops_the_rest() {
        let mut lane = with(&[(1, false), (2, false)]);
        lane.begin();
        assert!(!lane.is_done(true), "one is in flight");
        lane.accepted();
        let request = lane.request(None, RUN_MAX, true).unwrap();
        assert_eq!((request.settled.upto, request.in_hand, request.want), (1, 0, 0));
        lane.answered(&request, Vec::new());
        assert!(lane.is_done(true));
        assert!(Lane::default().is_done(true), "nothing was asked for yet");
    }

    /// What may happen to a lane, as its destination drives it.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Begin,
        Accept,
        Refuse,
        Ask,
        Answer,
        Finish(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => Just(Step::Begin),
            3 => Just(Step::Accept),
            1 => Just(Step::Refuse),
            2 => Just(Step::Ask),
            2 => Just(Step::Answer),
            2 => (0u8..20).prop_map(Step::Finish),
        ];
        prop::collection::vec(step, 0..400)
    }

    /// Redis's side of one lane: 20 messages, of which each seventh is dropped by its transform.
    struct World {
        finished: [bool; 20],
        settled: u64,
        sent: Vec<Sequence>,
        asked: Option<LaneRequest>,
    }

    impl World {
        fn answer(&mut self, request: &LaneRequest) -> Vec<Stamped> {
            self.settled = self.settled.max(request.settled.upto);
            let from = request.in_hand.max(self.settled) + 1;
            let run = (from..=20).take_while(|&s| self.finished[s as usize - 1]);
            run.take(request.want).map(|s| message(s, s % 7 == 0)).collect()
        }

        fn step(&mut self, lane: &mut Option<Lane>, step: Step) {
            let held = lane.get_or_insert_with(Lane::default);
            match step {
                Step::Begin => self.sent.extend(held.begin().map(|m| m.place.sequence)),
                Step::Accept if held.in_flight => held.accepted(),
                Step::Refuse if held.in_flight => held.refused(1, Duration::ZERO),
                Step::Ask if self.asked.is_none() => {
                    self.asked = held.request(None, RUN_MAX, false);
                }
                Step::Answer => {
                    if let Some(request) = self.asked.take() {
                        let released = self.answer(&request);
                        held.answered(&request, released);
                    }
                }
                Step::Finish(at) => self.finished[at as usize] = true,
                _ => {}
            }
            let postponed = self.asked.is_none() && held.to_postpone().is_some();
            if postponed || (self.asked.is_none() && held.is_done(false)) {
                *lane = None;
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_happens_messages_are_sent_in_order_and_all_in_the_end(steps in steps()) {
            let mut world =
                World { finished: [false; 20], settled: 0, sent: Vec::new(), asked: None };
            let mut lane = None;
            for step in steps {
                world.step(&mut lane, step);
            }
            // Everything is finished, and the receiver accepts: all must leave within a bound.
            for at in 0..20 {
                world.step(&mut lane, Step::Finish(at));
            }
            for _ in 0..100 {
                for step in [Step::Accept, Step::Begin, Step::Ask, Step::Answer] {
                    world.step(&mut lane, step);
                }
            }
            prop_assert_eq!(world.settled, 20);
            // Repeats come only after a refusal, and each is of the one sent last.
            prop_assert!(world.sent.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", world.sent);
            world.sent.dedup();
            let expected: Vec<Sequence> = (1..=20).filter(|s| s % 7 != 0).collect();
            prop_assert_eq!(world.sent, expected);
        }
    }
}
