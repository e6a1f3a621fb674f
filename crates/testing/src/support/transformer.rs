//! An HTTP transform with a random delay per message.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio_util::task::AbortOnDropHandle;

use super::{
    gate::{Gate, Point},
    http::{self, Answer, Request},
};

/// The transformer's output for a body.
pub fn transformed(body: &str) -> String {
    format!("{{\"transformed\":{body}}}")
}

/// The transformer's record of a destination's messages.
#[derive(Default)]
struct Seen {
    /// Attempts by epoch and sequence.
    attempts: HashMap<(u64, u64), Vec<u64>>,
    /// The highest position that it has finished.
    finished: (u64, u64),
    overtaken: usize,
}

/// The transformer's record of all messages.
#[derive(Default)]
pub struct Work {
    pub gate: Gate,
    seen: Mutex<HashMap<String, Seen>>,
}

impl Work {
    /// Messages that it finished after a later one: Reseq must restore their order.
    pub fn overtaken(&self) -> usize {
        self.seen.lock().unwrap().values().map(|seen| seen.overtaken).sum()
    }

    /// Messages that came more than once.
    pub fn repeats(&self) -> usize {
        self.with_attempts(|attempts| attempts.len() > 1)
    }

    /// Messages that came with an attempt above 1.
    pub fn taken_up_again(&self) -> usize {
        self.with_attempts(|attempts| attempts.iter().any(|attempt| *attempt > 1))
    }

    fn with_attempts(&self, counts: impl Fn(&Vec<u64>) -> bool) -> usize {
        let seen = self.seen.lock().unwrap();
        let all = seen.values().flat_map(|seen| seen.attempts.values());
        all.filter(|attempts| counts(attempts)).count()
    }
}

/// A running transformer; dropping this stops it.
pub struct Transformer {
    pub work: Arc<Work>,
    pub address: SocketAddr,
    _server: AbortOnDropHandle<()>,
}

impl Transformer {
    /// Starts it. It takes between 0 and `slowest_ms` for a message: always the same time, derived from `seed`.
    pub async fn start(seed: u64, slowest_ms: u64) -> Transformer {
        let work = Arc::new(Work::default());
        let shared = work.clone();
        let (address, server) = http::serve(move |request| {
            let work = shared.clone();
            async move { Some(answer(&work, request, seed, slowest_ms).await) }
        })
        .await;
        Transformer { work, address, _server: server }
    }

    /// Its URL in a destination.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

async fn answer(work: &Work, request: Request, seed: u64, slowest_ms: u64) -> Answer {
    let destination = request.header("reseq-destination");
    let position = (request.number("reseq-epoch"), request.number("reseq-sequence"));
    let attempt = request.number("reseq-attempt");
    with(work, destination, |seen| seen.attempts.entry(position).or_default().push(attempt));
    work.gate.at(Point::Arrived, destination).await;
    let mut hasher = DefaultHasher::new();
    (seed, destination, &request.body).hash(&mut hasher);
    // This sleep simulates the work.
    tokio::time::sleep(Duration::from_millis(hasher.finish() % (slowest_ms + 1))).await;
    with(work, destination, |seen| {
        seen.overtaken += usize::from(position < seen.finished);
        seen.finished = seen.finished.max(position);
    });
    work.gate.at(Point::Accepted, destination).await;
    Answer { body: transformed(&request.body), ..Answer::status(200) }
}

fn with(work: &Work, destination: &str, change: impl FnOnce(&mut Seen)) {
    change(work.seen.lock().unwrap().entry(destination.to_owned()).or_default());
}
