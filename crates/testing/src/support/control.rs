//! The test's side of the pause points: pods report each visit, and wait until the test releases
//! them.

use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufStream},
    net::{UnixListener, UnixStream},
};
use tokio_util::task::AbortOnDropHandle;

use super::wait::eventually;

/// The number of visits in the message if an expected visit does not come.
const LAST: usize = 20;

/// One visit of a point by a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    pub point: String,
    pub process: u32,
}

/// A process that waits at a point. Dropping this releases it.
pub struct Caught {
    pub visit: Visit,
    /// The number of visits so far, including this one.
    pub since: usize,
    _stream: BufStream<UnixStream>,
}

impl Caught {
    /// Releases the process.
    pub fn go(self) {}
}

/// The process to catch, and the point.
struct Trap {
    point: String,
    is_meant: Box<dyn Fn(u32) -> bool + Send>,
}

#[derive(Default)]
struct State {
    visits: Vec<Visit>,
    traps: Vec<Trap>,
    caught: Vec<Caught>,
}

/// Listens to pods. A visiting process continues at once, unless it is caught.
pub struct Control {
    dir: TempDir,
    state: Arc<Mutex<State>>,
    _server: AbortOnDropHandle<()>,
}

impl Control {
    pub fn start() -> Control {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("control")).unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a test can accept connections");
                tokio::spawn(visit(shared.clone(), BufStream::new(stream)));
            }
        });
        Control { dir, state, _server: AbortOnDropHandle::new(server) }
    }

    /// The environment variable for pods.
    pub fn environment(&self) -> (String, String) {
        let socket = self.dir.path().join("control");
        ("RESEQ_PAUSE_SOCKET".to_owned(), socket.to_str().unwrap().to_owned())
    }

    /// Catches the next process at this point.
    pub fn catch(&self, point: &str) {
        self.catch_of(point, |_| true);
    }

    /// Catches the next process at this point whose id matches.
    pub fn catch_of(&self, point: &str, is_meant: impl Fn(u32) -> bool + Send + 'static) {
        let trap = Trap { point: point.to_owned(), is_meant: Box::new(is_meant) };
        self.state.lock().unwrap().traps.push(trap);
    }

    /// Waits for the next caught process.
    pub async fn caught(&self) -> Caught {
        eventually("a process comes to the point", async || {
            let mut state = self.state.lock().unwrap();
            let caught = (!state.caught.is_empty()).then(|| state.caught.remove(0));
            caught.ok_or_else(|| {
                let traps: Vec<_> = state.traps.iter().map(|trap| &trap.point).collect();
                format!("{} visits, none at {traps:?}", state.visits.len())
            })
        })
        .await
    }

    /// The number of visits so far.
    pub fn count(&self) -> usize {
        self.state.lock().unwrap().visits.len()
    }

    /// The visits from number `since` on that match.
    pub fn visits(&self, since: usize, is_meant: impl Fn(&Visit) -> bool) -> Vec<Visit> {
        let state = self.state.lock().unwrap();
        state.visits[since..].iter().filter(|visit| is_meant(visit)).cloned().collect()
    }

    /// Among the first `until` visits, counts the visits up to the last one that matches, including it.
    ///
    /// # Panics
    ///
    /// If no visit matches.
    pub fn last(&self, until: usize, is_meant: impl Fn(&Visit) -> bool) -> usize {
        let state = self.state.lock().unwrap();
        1 + state.visits[..until].iter().rposition(is_meant).expect("such a visit")
    }

    /// Waits for this many matching visits from number `since` on; returns the last.
    pub async fn sees(
        &self,
        what: &str,
        since: usize,
        count: usize,
        is_meant: impl Fn(&Visit) -> bool,
    ) -> Visit {
        eventually(what, async || {
            let mut visits = self.visits(since, &is_meant);
            let seen = visits.len();
            if seen >= count { Ok(visits.pop().unwrap()) } else { Err(self.told(seen, since)) }
        })
        .await
    }

    /// Describes the visits so far.
    fn told(&self, seen: usize, since: usize) -> String {
        let all = self.visits(since, |_| true);
        let last = all.iter().rev().take(LAST).rev();
        let last: Vec<_> = last.map(|visit| format!("{} {}", visit.point, visit.process)).collect();
        format!("{seen} visits of {}; the last: {}", all.len(), last.join(", "))
    }
}

async fn visit(state: Arc<Mutex<State>>, mut stream: BufStream<UnixStream>) {
    let mut line = String::new();
    // A killed pod breaks the connection.
    if stream.read_line(&mut line).await.is_err() {
        return;
    }
    let Some((point, process)) = line.trim_end().split_once(' ') else { return };
    let visit = Visit { point: point.to_owned(), process: process.parse().unwrap() };
    let mut state = state.lock().unwrap();
    state.visits.push(visit.clone());
    let is_meant = |trap: &Trap| trap.point == visit.point && (trap.is_meant)(visit.process);
    if let Some(at) = state.traps.iter().position(is_meant) {
        state.traps.remove(at);
        let since = state.visits.len();
        state.caught.push(Caught { visit, since, _stream: stream });
    }
}
