//! How each source is: for `/readyz`, the metrics and the log.

use std::collections::BTreeMap;

use metrics::gauge;
use parking_lot::Mutex;

/// How a source is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Starting,
    Running,
    /// Another process reads it.
    Standby(String),
    /// It goes on by itself.
    Waiting(String),
    /// Somebody has to do something.
    Halted(String),
}

/// All sources of the process.
#[derive(Debug, Default)]
pub struct Board(Mutex<BTreeMap<String, (State, Option<String>)>>);

impl Board {
    /// There is a source: the process is not ready before it runs.
    pub fn add(&self, source: &str) {
        self.0.lock().insert(source.to_owned(), (State::Starting, None));
        gauge!("reseq_connect_halted", "source" => source.to_owned()).set(0.0);
    }

    /// The source is so from now on. Logs it if it was different before.
    pub fn set(&self, source: &str, state: State) {
        let before = {
            let mut all = self.0.lock();
            let one = all.entry(source.to_owned()).or_insert((State::Starting, None));
            std::mem::replace(&mut one.0, state.clone())
        };
        if before == state {
            return;
        }
        let is_halted = matches!(state, State::Halted(_));
        gauge!("reseq_connect_halted", "source" => source.to_owned()).set(f64::from(is_halted));
        match state {
            State::Starting => {}
            State::Running => tracing::info!(source, "running"),
            State::Standby(why) => tracing::info!(
                source,
                why,
                "another process reads this source, or an earlier connection of this one is not ended yet"
            ),
            State::Waiting(why) => tracing::warn!(source, why, "waiting"),
            State::Halted(why) => tracing::error!(source, why, "halted"),
        }
    }

    /// Why it needs attention though it goes on, if it does.
    pub fn note(&self, source: &str, problem: Option<String>) {
        if let Some(one) = self.0.lock().get_mut(source) {
            one.1 = problem;
        }
    }

    /// What keeps the process from being ready: one line for each source.
    pub fn problems(&self) -> Vec<String> {
        let problem = |(name, (state, problem)): (&String, &(State, Option<String>))| {
            let state = match state {
                State::Running | State::Standby(_) => None,
                State::Starting => Some("starting".to_owned()),
                State::Waiting(why) => Some(format!("waiting: {why}")),
                State::Halted(why) => Some(format!("halted: {why}")),
            };
            let texts: Vec<String> = state.into_iter().chain(problem.clone()).collect();
            (!texts.is_empty()).then(|| format!("{name}: {}", texts.join("; ")))
        };
        self.0.lock().iter().filter_map(problem).collect()
    }
}
