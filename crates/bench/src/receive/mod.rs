//! The receivers. They accept every message at once, and record each arrival.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use domain::Framing;
use tokio_util::task::AbortOnDropHandle;
use tools::servers;

use super::{
    args::Transport,
    plan::{Numbered, Plan, numbered},
    surroundings::Surroundings,
};

mod http;

/// Bodies with a higher index are not from this bench.
const INDEX_MAX: usize = 1 << 31;

/// One receiver for all destinations. Dropping this ends it.
pub struct Receivers {
    url: String,
    _server: AbortOnDropHandle<()>,
}

impl Receivers {
    /// Starts the receiver on a free port.
    pub async fn start(
        way: Transport,
        framing: Framing,
        tally: Arc<Tally>,
        surroundings: &Surroundings,
    ) -> std::io::Result<Receivers> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = tokio::net::TcpListener::bind(any).await?;
        let address = surroundings.before_receiver(listener.local_addr()?).await?;
        let url = match (way, surroundings.is_tls()) {
            (Transport::Tcp, false) => format!("tcp://{address}"),
            (Transport::Tcp, true) => format!("tls://{address}"),
            (Transport::Http | Transport::HttpBatch, false) => format!("http://{address}/in"),
            (Transport::Http | Transport::HttpBatch, true) => format!("https://{address}/in"),
        };
        let server = match way {
            Transport::Tcp => tokio::spawn(servers::frames(listener, framing, move |frame| {
                tally.arrives(numbered(frame), tally.now());
            })),
            Transport::Http => tokio::spawn(http::serve(listener, false, tally)),
            Transport::HttpBatch => tokio::spawn(http::serve(listener, true, tally)),
        };
        Ok(Receivers { url, _server: AbortOnDropHandle::new(server) })
    }

    /// The URL for the definition of a destination.
    pub fn url(&self) -> String {
        self.url.clone()
    }
}

/// The arrivals of this phase, by lane, in the order of arrival.
pub struct Tally {
    plan: Plan,
    start: Instant,
    base: AtomicU64,
    delivered: AtomicU64,
    repeats: AtomicU64,
    foreign: AtomicU64,
    lanes: Vec<Mutex<Lane>>,
}

/// The first arrivals of one lane.
#[derive(Default)]
struct Lane {
    arrivals: Vec<Arrival>,
    /// A bit for each message of the lane in this phase: set if the message has arrived.
    seen: Vec<u64>,
}

/// One message that was accepted for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the message.
    pub number: u64,
    /// Time of arrival, from the start of the run.
    pub at: Duration,
    /// How long its work really took, if noted.
    pub worked: Option<Duration>,
}

/// The arrivals of a phase.
pub struct Arrived {
    /// The first arrivals of each lane, in the order of arrival.
    pub lanes: Vec<Vec<Arrival>>,
    /// Messages that arrived again.
    pub repeats: u64,
    /// Bodies that are not from this phase.
    pub foreign: u64,
}

impl Tally {
    /// An empty tally.
    pub fn new(plan: Plan) -> Tally {
        let lanes = (0..plan.lanes()).map(|_| Mutex::default()).collect();
        let [base, delivered, repeats, foreign] = Default::default();
        Tally { plan, start: Instant::now(), base, delivered, repeats, foreign, lanes }
    }

    /// The time since the start of the run: the common clock of sending and arrival.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Messages that have arrived at least once in this phase.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Relaxed)
    }

    /// Notes the arrival of a message; `None`: the body is not from the bench.
    fn arrives(&self, message: Option<Numbered>, at: Duration) {
        let base = self.base.load(Relaxed);
        let Some(Numbered { number, worked }) = message else {
            self.foreign.fetch_add(1, Relaxed);
            return;
        };
        // The message is from an earlier phase. That phase was complete, so this is a repeat.
        if number < base {
            self.repeats.fetch_add(1, Relaxed);
            return;
        }
        let lane = &self.lanes[self.plan.lane_of(number) as usize];
        let mut lane = lane.lock().unwrap_or_else(PoisonError::into_inner);
        let index = ((number - base) / self.plan.lanes()) as usize;
        if index > INDEX_MAX {
            self.foreign.fetch_add(1, Relaxed);
            return;
        }
        let (word, bit) = (index / 64, 1 << (index % 64));
        if lane.seen.len() <= word {
            lane.seen.resize(word + 1, 0);
        }
        if lane.seen[word] & bit != 0 {
            self.repeats.fetch_add(1, Relaxed);
            return;
        }
        lane.seen[word] |= bit;
        lane.arrivals.push(Arrival { number, at, worked });
        self.delivered.fetch_add(1, Relaxed);
    }

    /// Ends a phase, and returns its arrivals. The next phase has the numbers from `base` on.
    pub fn take(&self, base: u64) -> Arrived {
        let lanes = self.lanes.iter().map(|lane| {
            let mut lane = lane.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *lane).arrivals
        });
        let lanes = lanes.collect();
        self.base.store(base, Relaxed);
        self.delivered.store(0, Relaxed);
        let (repeats, foreign) = (self.repeats.swap(0, Relaxed), self.foreign.swap(0, Relaxed));
        Arrived { lanes, repeats, foreign }
    }
}
