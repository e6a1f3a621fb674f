//! How each source and sink is: for `/readyz`, the metrics and the log.

use std::collections::BTreeMap;

use metrics::gauge;
use parking_lot::Mutex;

use crate::source::Fault;

/// Why it does not run, if it does not.
type State = Result<(), Fault>;

/// All sources and sinks of the process.
#[derive(Debug, Default)]
pub struct Board(Mutex<BTreeMap<String, (State, Option<String>)>>);

impl Board {
    /// There is a source: the process is not ready before it runs.
    pub fn add(&self, source: &str) {
        let starts = Err(Fault::Later("it starts".to_owned()));
        self.0.lock().insert(source.to_owned(), (starts, None));
        gauge!("reseq_connect_halted", "source" => source.to_owned()).set(0.0);
    }

    /// The source is so from now on. Logs it if it was different before.
    pub fn set(&self, source: &str, state: State) {
        match self.0.lock().get_mut(source) {
            Some((before, _)) if *before != state => *before = state.clone(),
            _ => return,
        }
        let is_halted = matches!(state, Err(Fault::Halted(_)));
        gauge!("reseq_connect_halted", "source" => source.to_owned()).set(f64::from(is_halted));
        match state {
            Ok(()) => tracing::info!(source, "running"),
            Err(Fault::Standby(why)) => tracing::info!(
                source,
                why,
                "another process reads this source, or an earlier connection of this one is not ended yet"
            ),
            Err(Fault::Later(why) | Fault::Rewind(why)) => tracing::warn!(source, why, "waiting"),
            Err(Fault::Halted(why)) => tracing::error!(source, why, "halted"),
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
                Ok(()) | Err(Fault::Standby(_)) => None,
                Err(Fault::Later(why) | Fault::Rewind(why)) => Some(format!("waiting: {why}")),
                Err(Fault::Halted(why)) => Some(format!("halted: {why}")),
            };
            let texts: Vec<String> = state.into_iter().chain(problem.clone()).collect();
            (!texts.is_empty()).then(|| format!("{name}: {}", texts.join("; ")))
        };
        self.0.lock().iter().filter_map(problem).collect()
    }
}
