//! The producers: one connection for each stream of the plan. Each sends its messages in order.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context;
use domain::{Envelope, Framing};
use tokio::task::JoinSet;

use super::{
    args::{BenchArgs, Transport},
    plan::{Phase, Plan, Turn},
    receive::Tally,
};

mod http;
mod tcp;

/// The time between two checks for room, with --pending.
const ROOM_EVERY: Duration = Duration::from_millis(1);
/// Time limit for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The listeners of ingest.
pub struct Listeners {
    /// The URL `http://…` of each ingest process.
    pub http: Vec<String>,
    /// The TCP listener of each stream.
    pub tcp: Vec<SocketAddr>,
    /// The token that producers show, if any.
    pub token: Option<String>,
}

/// The messages that one stream sent in one phase, in order. The message at `index` has the number `base + stream +
/// index * streams`.
#[derive(Debug, Default)]
pub struct Sent {
    /// When each message was written, from the start of the run.
    pub at: Vec<Duration>,
    /// The sequence in the answer to each message.
    pub sequences: Vec<u64>,
    /// The longest delay of a message behind its schedule.
    pub late: Duration,
}

/// The state that all streams share.
pub struct Load {
    /// The destination and lane of each message.
    pub plan: Plan,
    /// The common clock of sending and arrival.
    pub tally: Arc<Tally>,
    /// The listeners to send to.
    pub listeners: Listeners,
    way: Transport,
    batch: usize,
    window: usize,
    framing: Framing,
    envelope: Envelope,
    with_idempotency_keys: bool,
    pending_max: u64,
    /// The number of messages sent in this phase.
    sent: AtomicU64,
    accepted: AtomicU64,
}

impl Load {
    /// The load of these arguments.
    pub fn new(args: &BenchArgs, plan: Plan, tally: Arc<Tally>, listeners: Listeners) -> Load {
        Load {
            window: (args.window / plan.streams).max(1) as usize,
            plan,
            tally,
            listeners,
            way: args.way_in,
            batch: args.batch as usize,
            framing: args.framing.into(),
            envelope: args.envelope(),
            with_idempotency_keys: args.idempotency_keys,
            pending_max: args.pending.unwrap_or(u64::MAX),
            sent: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
        }
    }

    /// The number of messages that ingest has accepted so far, over all phases.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// True if `--pending` allows one more message in flight.
    fn has_room(&self) -> bool {
        self.sent.load(Relaxed).saturating_sub(self.tally.delivered()) < self.pending_max
    }

    /// Appends a message as JSON to `out`. `to` is empty, or the field with its destination and a comma.
    fn write_item(&self, number: u64, to: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{{{to}").as_bytes());
        if self.plan.keys > 1 {
            out.extend_from_slice(format!("\"key\":\"{}\",", self.plan.key_of(number)).as_bytes());
        }
        if self.with_idempotency_keys {
            out.extend_from_slice(format!("\"idempotency_key\":\"{number}\",").as_bytes());
        }
        out.extend_from_slice(b"\"body\":");
        self.plan.write_body(number, out);
        out.push(b'}');
    }

    /// Sends a phase. Returns the messages of each stream when ingest has accepted all of them.
    pub async fn send(self: &Arc<Self>, phase: Phase) -> anyhow::Result<Vec<Sent>> {
        let start = self.tally.now();
        self.sent.store(0, Relaxed);
        let mut streams = JoinSet::new();
        for stream in 0..self.plan.streams {
            let load = self.clone();
            streams.spawn(async move {
                let turn = Turn::of(&load.plan, phase, stream);
                let pace = Pace { start, turn };
                let sent = match load.way {
                    Transport::Tcp => tcp::send(&load, stream, pace).await,
                    Transport::Http | Transport::HttpBatch => http::send(&load, stream, pace).await,
                };
                sent.map(|sent| (stream, sent))
            });
        }
        let mut all: Vec<Sent> = (0..self.plan.streams).map(|_| Sent::default()).collect();
        while let Some(ended) = streams.join_next().await {
            let (stream, sent) = ended.context("a producer panicked")??;
            all[stream as usize] = sent;
        }
        Ok(all)
    }
}

/// The schedule of a stream, on the clock of the run.
struct Pace {
    start: Duration,
    turn: Turn,
}

impl Pace {
    /// The number of the next message, if it is due and there is room for it. Notes the time of sending.
    fn take(&mut self, now: Duration, load: &Load, sent: &mut Sent) -> Option<u64> {
        let since = now.saturating_sub(self.start);
        if !load.has_room() {
            return None;
        }
        let due = self.turn.due(since)?;
        let number = self.turn.take(since)?;
        load.sent.fetch_add(1, Relaxed);
        sent.at.push(now);
        if due > Duration::ZERO {
            sent.late = sent.late.max(since - due);
        }
        Some(number)
    }

    /// The time until the next message may be sent; `None`: there is none.
    fn wait(&self, now: Duration, load: &Load) -> Option<Duration> {
        let since = now.saturating_sub(self.start);
        let shortest = if load.has_room() { Duration::ZERO } else { ROOM_EVERY };
        self.turn.due(since).map(|due| due.saturating_sub(since).max(shortest))
    }
}
