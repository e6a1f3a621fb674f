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

/// A source: how it is, and why it needs attention though it goes on.
#[derive(Debug)]
struct One(State, Option<String>);

impl One {
    /// What keeps the process from being ready.
    fn problems(&self) -> Vec<String> {
        let state = match &self.0 {
            State::Running | State::Standby(_) => None,
            State::Starting => Some("starting".to_owned()),
            State::Waiting(why) => Some(format!("waiting: {why}")),
            State::Halted(why) => Some(format!("halted: {why}")),
        };
        state.into_iter().chain(self.1.clone()).collect()
    }

    fn measure(&self, source: &str) {
        let gauges = [
            gauge!("reseq_connect_ready", "source" => source.to_owned()),
            gauge!("reseq_connect_halted", "source" => source.to_owned()),
        ];
        let values = [self.problems().is_empty(), matches!(self.0, State::Halted(_))];
        gauges.iter().zip(values).for_each(|(gauge, value)| gauge.set(f64::from(value)));
    }
}

/// All sources of the process.
#[derive(Debug, Default)]
pub struct Board(Mutex<BTreeMap<String, One>>);

impl Board {
    /// There is a source: the process is not ready before it runs.
    pub fn add(&self, source: &str) {
        let one = One(State::Starting, None);
        one.measure(source);
        self.0.lock().insert(source.to_owned(), one);
    }

    /// The source is so from now on. Logs it if it was different before.
    pub fn set(&self, source: &str, state: State) {
        let before = {
            let mut all = self.0.lock();
            let one = all.entry(source.to_owned()).or_insert(One(State::Starting, None));
            let before = std::mem::replace(&mut one.0, state.clone());
            one.measure(source);
            before
        };
        if before == state {
            return;
        }
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
            one.measure(source);
        }
    }

    /// What keeps the process from being ready: one line for each source.
    pub fn problems(&self) -> Vec<String> {
        let problem = |(name, one): (&String, &One)| {
            let texts = one.problems();
            (!texts.is_empty()).then(|| format!("{name}: {}", texts.join("; ")))
        };
        self.0.lock().iter().filter_map(problem).collect()
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn gauges_say_whether_each_source_is_ready_or_halted() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let (board, why) = (Board::default(), || "why".to_owned());
        let is = |ready: u8, halted: u8| {
            let text = handle.render();
            for (name, value) in [("ready", ready), ("halted", halted)] {
                let line = format!("reseq_connect_{name}{{source=\"orders\"}} {value}\n");
                assert!(text.contains(&line), "{line}: {text}");
            }
        };
        metrics::with_local_recorder(&recorder, || {
            board.add("orders");
            is(0, 0);
            for (state, ready, halted) in [
                (State::Running, 1, 0),
                (State::Waiting(why()), 0, 0),
                (State::Standby(why()), 1, 0),
                (State::Halted(why()), 0, 1),
                (State::Running, 1, 0),
            ] {
                board.set("orders", state);
                is(ready, halted);
            }
            board.note("orders", Some("slot".to_owned()));
            is(0, 0);
            assert_eq!(board.problems(), ["orders: slot"]);
            board.note("orders", None);
            is(1, 0);
        });
    }
}
