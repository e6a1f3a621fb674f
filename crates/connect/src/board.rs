//! The state of each source and sink, for `/readyz`, the metrics and the log.

use std::collections::BTreeMap;

use metrics::gauge;
use parking_lot::Mutex;

use crate::source::Fault;

/// `Ok` if a source runs. Otherwise the reason why it does not.
type State = Result<(), Fault>;

/// A source: its state, and a problem that needs attention although the source continues.
#[derive(Debug)]
struct One(State, Option<String>);

impl One {
    /// The problems that keep the process from being ready.
    fn problems(&self) -> Vec<String> {
        let state = match &self.0 {
            Ok(()) | Err(Fault::Standby(_)) => None,
            Err(Fault::Later(why) | Fault::Rewind(why)) => Some(format!("waiting: {why}")),
            Err(Fault::Halted(why)) => Some(format!("halted: {why}")),
        };
        state.into_iter().chain(self.1.clone()).collect()
    }

    fn measure(&self, source: &str) {
        let gauges = [
            gauge!("reseq_connect_ready", "source" => source.to_owned()),
            gauge!("reseq_connect_halted", "source" => source.to_owned()),
        ];
        let values = [self.problems().is_empty(), matches!(self.0, Err(Fault::Halted(_)))];
        gauges.iter().zip(values).for_each(|(gauge, value)| gauge.set(f64::from(value)));
    }
}

/// All sources and sinks of the process.
#[derive(Debug, Default)]
pub struct Board(Mutex<BTreeMap<String, One>>);

impl Board {
    /// Adds a source. The process is not ready before the source runs.
    pub fn add(&self, source: &str) {
        let one = One(Err(Fault::Later("it starts".to_owned())), None);
        one.measure(source);
        self.0.lock().insert(source.to_owned(), one);
    }

    /// Sets the state of a source. Logs it if it has changed.
    pub fn set(&self, source: &str, state: State) {
        match self.0.lock().get_mut(source) {
            Some(one) if one.0 != state => {
                one.0 = state.clone();
                one.measure(source);
            }
            _ => return,
        }
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

    /// Sets the problem that needs attention although the source continues; `None`: there is none.
    pub fn note(&self, source: &str, problem: Option<String>) {
        if let Some(one) = self.0.lock().get_mut(source) {
            one.1 = problem;
            one.measure(source);
        }
    }

    /// The problems that keep the process from being ready: one line for each source.
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
                (Ok(()), 1, 0),
                (Err(Fault::Later(why())), 0, 0),
                (Err(Fault::Standby(why())), 1, 0),
                (Err(Fault::Halted(why())), 0, 1),
                (Ok(()), 1, 0),
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
