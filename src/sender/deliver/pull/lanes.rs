//! The lanes of a destination whose delivery waits for a consumer: what to ask Redis about each, and what its
//! answers mean.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::super::{Finality, Verdict};
use crate::{
    domain::{AttemptError, ErrorKind, Sequence, Stage},
    store::{Ask, OfferRequest, Offered},
};

/// How often to look at an offer without a wake-up.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most lanes, and the most sequences, of one call.
const LANES_MAX: usize = 256;
const SEQUENCES_MAX: usize = 4_000;
/// A lane is offered again when it has this many times as many finished messages as its offer. So each message is
/// offered few times, however long no consumer comes.
const GROWTH: usize = 2;

/// The lanes whose delivery is in progress.
#[derive(Default)]
pub(super) struct Lanes {
    waiting: Mutex<HashMap<String, Waiting>>,
    pub(super) changed: Notify,
    last_id: AtomicU64,
}

/// A delivery that waits for its consumer.
pub(super) struct Waiting {
    /// Distinguishes it from an earlier one of the same lane.
    id: u64,
    sequences: Vec<Sequence>,
    pub(super) is_offered: bool,
    /// A consumer had it when Redis last answered.
    is_held: bool,
    pub(super) is_recalled: bool,
    /// A call about it is under way. What Redis answers must not be lost: it may have ended the offer.
    is_asked: bool,
    /// End it, whatever Redis answers. The offer stays.
    is_over: bool,
    /// When to ask Redis next.
    pub(super) next: Instant,
    verdict: oneshot::Sender<Verdict>,
}

impl Waiting {
    /// Whether to offer it again, with this many finished messages.
    pub(super) fn has_grown(&self, count: usize) -> bool {
        count >= GROWTH * self.sequences.len()
    }

    fn ask(&self) -> Ask {
        match (self.is_offered, self.is_recalled) {
            (_, true) => Ask::Recall,
            (true, false) => Ask::Look,
            (false, false) => Ask::Offer(self.sequences.clone()),
        }
    }
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(
        &self,
        lane: String,
        sequences: Vec<Sequence>,
        verdict: oneshot::Sender<Verdict>,
    ) -> u64 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let next = Instant::now();
        let waiting = Waiting {
            id,
            sequences,
            is_offered: false,
            is_held: false,
            is_recalled: false,
            is_asked: false,
            is_over: false,
            next,
            verdict,
        };
        self.lock().insert(lane, waiting);
        self.changed.notify_one();
        id
    }

    /// Ends these deliveries: at once, or with the answer of a call that is under way.
    pub(super) fn end(&self, which: impl Fn(&str, &Waiting) -> bool) {
        let mut all = self.lock();
        all.iter_mut().for_each(|(lane, one)| one.is_over |= which(lane, one));
        end_those_over(&mut all);
    }

    pub(super) fn each(&self, mut change: impl FnMut(&str, &mut Waiting)) {
        self.lock().iter_mut().for_each(|(lane, waiting)| change(lane, waiting));
        self.changed.notify_one();
    }

    /// What to ask Redis now, each with the delivery that it is for; or when the next question is due.
    pub(super) fn due(&self, now: Instant) -> Result<Vec<(u64, OfferRequest)>, Option<Instant>> {
        let (mut due, mut sequences) = (Vec::new(), 0);
        let mut waiting = self.lock();
        for (lane, one) in waiting.iter_mut().filter(|(_, one)| one.next <= now) {
            let ask = one.ask();
            if let Ask::Offer(all) = &ask {
                sequences += all.len();
            }
            if due.len() == LANES_MAX || (!due.is_empty() && sequences > SEQUENCES_MAX) {
                break;
            }
            one.next = now + LOOK_EVERY;
            one.is_asked = true;
            due.push((one.id, OfferRequest { lane: lane.clone(), ask }));
        }
        if due.is_empty() { Err(waiting.values().map(|one| one.next).min()) } else { Ok(due) }
    }

    /// How many messages wait for a consumer.
    pub(super) fn unheld(&self) -> usize {
        let waiting = self.lock();
        waiting.values().filter(|one| !one.is_held).map(|one| one.sequences.len()).sum()
    }

    /// The call failed: ask the same again, after a pause.
    pub(super) fn failed(&self, asked: &[(u64, OfferRequest)]) {
        let now = Instant::now();
        let mut waiting = self.lock();
        for (id, request) in asked {
            if let Some(one) = waiting.get_mut(&request.lane).filter(|one| one.id == *id) {
                (one.is_asked, one.next) = (false, now);
            }
        }
        end_those_over(&mut waiting);
    }

    /// What Redis says of a lane's offer.
    pub(super) fn answered(&self, id: u64, request: &OfferRequest, answer: Offered, now: Instant) {
        let mut all = self.lock();
        let Some(one) = all.get_mut(&request.lane).filter(|one| one.id == id) else { return };
        one.is_asked = false;
        one.is_held = matches!(answer, Offered::Leased(..));
        let was_recalled = request.ask == Ask::Recall;
        let count = one.sequences.len();
        let verdict = match answer {
            Offered::Free => {
                one.is_offered = true;
                None
            }
            Offered::Leased(_, accepted) if accepted > 0 => Some(Verdict::Accepted(accepted)),
            Offered::Leased(left, _) => {
                // It cannot be recalled now. Whoever recalled it asks again.
                (one.is_offered, one.is_recalled) = (true, false);
                one.next = now + LOOK_EVERY.min(left + Duration::from_millis(1));
                None
            }
            Offered::Accepted(accepted) => Some(Verdict::Accepted(accepted)),
            Offered::Refused { accepted, error, retry_after, is_permanent } => {
                let finality = if is_permanent { Finality::Permanent } else { Finality::Retryable };
                Some(Verdict::Refused { accepted, error, retry_after, finality })
            }
            Offered::Expired(accepted) => {
                let detail = "the consumer's lease expired before it accepted the message";
                let error = AttemptError::new(Stage::Delivery, ErrorKind::Stalled, detail);
                let (retry_after, finality) = (None, Finality::Retryable);
                Some(Verdict::Refused { accepted, error, retry_after, finality })
            }
            Offered::Gone if was_recalled => Some(Verdict::Accepted(0)),
            Offered::Gone => {
                (one.is_offered, one.next) = (false, now);
                None
            }
            Offered::Wait(wait) => {
                (one.is_offered, one.next) = (false, now + LOOK_EVERY.min(wait));
                None
            }
        };
        let verdict = verdict.map(|verdict| within(verdict, count));
        let verdict = verdict.or(one.is_over.then_some(Verdict::Accepted(0)));
        if let Some(verdict) = verdict
            && let Some(waiting) = all.remove(&request.lane)
        {
            // Its delivery may have been aborted meanwhile.
            let _ = waiting.verdict.send(verdict);
        }
    }
}

/// Ends the deliveries that are over, and have no call under way.
fn end_those_over(all: &mut HashMap<String, Waiting>) {
    for (_, over) in all.extract_if(|_, one| one.is_over && !one.is_asked) {
        // It may have been aborted meanwhile.
        let _ = over.verdict.send(Verdict::Accepted(0));
    }
}

/// Never more than were offered.
fn within(verdict: Verdict, count: usize) -> Verdict {
    match verdict {
        Verdict::Refused { accepted, .. } if accepted >= count => Verdict::Accepted(count),
        Verdict::Accepted(accepted) => Verdict::Accepted(accepted.min(count)),
        verdict => verdict,
    }
}

/// Forgets a delivery when it ends, also when it is aborted.
pub(super) struct Ended<'a> {
    pub(super) lanes: &'a Lanes,
    pub(super) lane: String,
    pub(super) id: u64,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut waiting = self.lanes.lock();
        if waiting.get(&self.lane).is_some_and(|one| one.id == self.id) {
            waiting.remove(&self.lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks what is due, and gives one answer to it.
    fn exchange(lanes: &Lanes, expected: &Ask, answer: Offered) {
        let now = Instant::now();
        let due = lanes.due(now).unwrap_or_default();
        let [(id, request)] = &due[..] else { panic!("{due:?}") };
        assert_eq!(&request.ask, expected);
        lanes.answered(*id, request, answer, now);
    }

    fn look_now(lanes: &Lanes) {
        lanes.each(|_, waiting| waiting.next = Instant::now());
    }

    #[tokio::test]
    async fn what_a_consumer_accepted_ends_the_delivery_and_the_rest_is_offered_again() {
        let lanes = Lanes::default();
        let (verdict, mut outcome) = oneshot::channel();
        lanes.add("a".into(), vec![4, 7], verdict);
        exchange(&lanes, &Ask::Offer(vec![4, 7]), Offered::Wait(Duration::ZERO));
        exchange(&lanes, &Ask::Offer(vec![4, 7]), Offered::Free);
        assert!(lanes.due(Instant::now()).is_err());
        look_now(&lanes);
        exchange(&lanes, &Ask::Look, Offered::Leased(Duration::from_secs(9), 0));
        assert!(outcome.try_recv().is_err());
        look_now(&lanes);
        exchange(&lanes, &Ask::Look, Offered::Leased(Duration::from_secs(9), 1));
        assert_eq!(outcome.try_recv().unwrap(), Verdict::Accepted(1));
    }

    #[tokio::test]
    async fn a_recall_ends_only_what_no_consumer_holds() {
        let lanes = Lanes::default();
        let (verdict, mut outcome) = oneshot::channel();
        lanes.add("a".into(), vec![4], verdict);
        exchange(&lanes, &Ask::Offer(vec![4]), Offered::Free);
        let recall = || {
            lanes.each(|_, one| (one.is_recalled, one.next) = (true, Instant::now()));
        };
        recall();
        exchange(&lanes, &Ask::Recall, Offered::Leased(Duration::from_secs(9), 0));
        look_now(&lanes);
        exchange(&lanes, &Ask::Look, Offered::Leased(Duration::from_secs(9), 0));
        recall();
        exchange(&lanes, &Ask::Recall, Offered::Accepted(0));
        assert_eq!(outcome.try_recv().unwrap(), Verdict::Accepted(0));
    }

    #[tokio::test]
    async fn a_lane_that_has_grown_is_offered_again_after_the_answer_of_a_call_under_way() {
        let lanes = Lanes::default();
        let grown = |count| lanes.end(|_, one| one.has_grown(count));
        let add = || {
            let (verdict, outcome) = oneshot::channel();
            lanes.add("a".into(), vec![4, 7], verdict);
            outcome
        };
        let mut outcome = add();
        exchange(&lanes, &Ask::Offer(vec![4, 7]), Offered::Free);
        grown(3);
        assert!(outcome.try_recv().is_err());
        grown(4);
        assert_eq!(outcome.try_recv().unwrap(), Verdict::Accepted(0));

        let mut outcome = add();
        exchange(&lanes, &Ask::Offer(vec![4, 7]), Offered::Free);
        look_now(&lanes);
        let due = lanes.due(Instant::now()).unwrap();
        grown(4);
        assert!(outcome.try_recv().is_err(), "the answer would be lost");
        lanes.answered(due[0].0, &due[0].1, Offered::Accepted(2), Instant::now());
        assert_eq!(outcome.try_recv().unwrap(), Verdict::Accepted(2));

        let mut outcome = add();
        let due = lanes.due(Instant::now()).unwrap();
        grown(4);
        lanes.failed(&due);
        assert_eq!(outcome.try_recv().unwrap(), Verdict::Accepted(0));
    }

    #[test]
    fn nothing_beyond_the_offer_is_accepted() {
        let error = AttemptError::new(Stage::Delivery, ErrorKind::Failed, "no");
        let refused = |accepted| Verdict::Refused {
            accepted,
            error: error.clone(),
            retry_after: None,
            finality: Finality::Retryable,
        };
        assert_eq!(within(Verdict::Accepted(3), 2), Verdict::Accepted(2));
        assert_eq!(within(refused(2), 2), Verdict::Accepted(2));
        assert_eq!(within(refused(1), 2), refused(1));
    }
}
