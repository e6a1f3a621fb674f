//! How much is pending, halted and dead at the destinations of owned partitions, as metrics.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    domain::DestinationName,
    store::{Catalog, Known, Store},
    telemetry::{self, Backlog},
};

/// How often they are looked at: with very many destinations a look is not for nothing.
const EVERY: Duration = Duration::from_secs(5);

/// What this pod has told of, and when.
#[derive(Default)]
pub(super) struct Backlogs {
    told: HashSet<DestinationName>,
    last: Option<Instant>,
}

impl Backlogs {
    /// Tells the numbers of these partitions' destinations, if it is time. Those that another pod has
    /// now are told as nothing: their numbers are that pod's.
    pub(super) async fn tell(&mut self, store: &Store, catalog: &Catalog, partitions: &[u16]) {
        if self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        let all = catalog.all();
        let owned: Vec<Arc<Known>> =
            all.values().filter(|known| partitions.contains(&known.partition)).cloned().collect();
        let numbers = store.backlogs_each(&owned).await;
        let mut told = HashSet::new();
        for (known, numbers) in owned.iter().zip(numbers) {
            let name = &known.destination.name;
            let numbers = match numbers {
                Ok(numbers) => numbers,
                Err(error) => {
                    tracing::debug!(destination = %name, %error, "cannot look how much is pending");
                    // What was told stays told until its server answers.
                    told.insert(name.clone());
                    continue;
                }
            };
            let backlog = Backlog {
                pending: numbers.pending,
                pending_bytes: numbers.pending_bytes,
                halted: numbers.halted,
                dead: numbers.dead,
            };
            telemetry::backlog(name.as_str(), backlog);
            told.insert(name.clone());
        }
        for name in self.told.difference(&told) {
            telemetry::backlog(name.as_str(), Backlog::default());
        }
        self.told = told;
    }
}
