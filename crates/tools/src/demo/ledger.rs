//! The record of the demo. The producers, the transformer and the receivers write it; Reseq itself does not.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{
    order::{Arrival, OrderCheck, judge},
    plan::{Plan, Stream},
};

/// The record of one demo. All times are relative to its start.
#[derive(Debug)]
pub struct Ledger {
    start: Instant,
    plan: Plan,
    sent: [Mutex<Vec<Duration>>; 2],
    late: Mutex<Duration>,
    arrivals: [Mutex<Vec<Arrival>>; 2],
    work: Mutex<Work>,
}

/// The work of the transformer.
#[derive(Debug, Default, Clone)]
pub struct Work {
    /// Messages that it is processing now.
    pub held: usize,
    /// Attempts that it has answered.
    pub answered: usize,
    /// How many milliseconds longer than planned each attempt took.
    pub overshoot_ms: Vec<f64>,
}

/// The progress of the demo, for display.
#[derive(Debug)]
pub struct Counts {
    /// Messages sent, both streams.
    pub sent: usize,
    /// The work of the transformer.
    pub work: Work,
    /// Messages that arrived at least once, per stream.
    pub delivered: [usize; 2],
}

impl Ledger {
    /// An empty record, starting now.
    pub fn new(plan: Plan) -> Ledger {
        Ledger {
            start: Instant::now(),
            plan,
            sent: Default::default(),
            late: Mutex::default(),
            arrivals: Default::default(),
            work: Mutex::default(),
        }
    }

    /// The plan of the demo.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How many messages each stream has.
    pub fn messages(&self) -> usize {
        self.plan.work(Stream::Http).len()
    }

    /// How long ago the demo started.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A producer is about to send its next message, which was due at `due`.
    pub fn sending(&self, stream: Stream, due: Instant) {
        let now = Instant::now();
        self.sent[stream as usize].lock().push(now - self.start);
        let mut late = self.late.lock();
        *late = late.max(now.saturating_duration_since(due));
    }

    /// The transformer received a message.
    pub fn hold(&self) {
        self.work.lock().held += 1;
    }

    /// The transformer answered a message after `held`, or its caller is gone (`None`).
    pub fn let_go(&self, drawn: Duration, held: Option<Duration>) {
        let mut work = self.work.lock();
        work.held -= 1;
        if let Some(held) = held {
            work.answered += 1;
            work.overshoot_ms.push(held.saturating_sub(drawn).as_secs_f64() * 1000.0);
        }
    }

    /// A receiver accepted a message that arrived at `at`.
    pub fn arrived(
        &self,
        stream: Stream,
        at: Instant,
        (n, is_transformed): (usize, bool),
        place: Option<(u64, u64)>,
    ) {
        let arrival = Arrival { n, at: at - self.start, place, is_transformed };
        self.arrivals[stream as usize].lock().push(arrival);
    }

    /// When each of a stream's messages was sent, in order.
    pub fn sent(&self, stream: Stream) -> Vec<Duration> {
        self.sent[stream as usize].lock().clone()
    }

    /// The longest delay of a message behind its schedule.
    pub fn late_max(&self) -> Duration {
        *self.late.lock()
    }

    /// The work of the transformer.
    pub fn work(&self) -> Work {
        self.work.lock().clone()
    }

    /// Checks the order of a stream's arrivals.
    pub fn judge(&self, stream: Stream) -> OrderCheck {
        judge(&self.arrivals[stream as usize].lock(), self.messages())
    }

    /// The progress so far.
    pub fn counts(&self) -> Counts {
        let sent = self.sent.iter().map(|sent| sent.lock().len()).sum();
        let delivered = Stream::ALL.map(|stream| self.judge(stream).delivered());
        let Work { held, answered, .. } = *self.work.lock();
        Counts { sent, work: Work { held, answered, overshoot_ms: Vec::new() }, delivered }
    }

    /// True when every message has arrived.
    pub fn is_complete(&self) -> bool {
        self.counts().delivered.iter().all(|&count| count == self.messages())
    }
}
