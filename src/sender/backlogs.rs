//! How much is pending, halted and dead at the destinations of owned partitions, as metrics.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    domain::DestinationName,
    store::{Catalog, Known, Round, Store},
    telemetry::{self, Backlog},
};

/// How often a destination is looked at, at most.
const EVERY: Duration = Duration::from_secs(5);
/// The most destinations that one look asks for, of all senders together: with more, a round takes
/// several looks.
pub(super) const BACKLOGS_LOOK_MAX: usize = 500;

/// What this pod has told of.
#[derive(Default)]
pub(super) struct Backlogs {
    round: Round,
    begun: Option<Instant>,
    /// In the last round, and so far in this one.
    told: HashSet<DestinationName>,
    telling: HashSet<DestinationName>,
}

impl Backlogs {
    /// Tells the numbers of so many of these partitions' destinations, if it is time. Those that are
    /// gone, or that another pod has now, end with the round.
    pub(super) async fn tell(
        &mut self,
        store: &Store,
        catalog: &Catalog,
        partitions: &[u16],
        some: usize,
    ) {
        if self.telling.is_empty() {
            if self.begun.is_some_and(|begun| begun.elapsed() < EVERY) {
                return;
            }
            self.begun = Some(Instant::now());
        }
        let (some, is_over) = catalog.some(&mut self.round, partitions, some);
        self.tell_some(store, &some).await;
        if is_over {
            let telling = std::mem::take(&mut self.telling);
            for name in self.told.difference(&telling) {
                telemetry::backlog(name.as_str(), None);
            }
            self.told = telling;
        }
    }

    async fn tell_some(&mut self, store: &Store, some: &[Arc<Known>]) {
        let numbers = store.backlogs_each(some).await;
        for (known, numbers) in some.iter().zip(numbers) {
            let name = &known.destination.name;
            match numbers {
                Ok(numbers) => {
                    let backlog = Backlog {
                        pending: numbers.pending,
                        pending_bytes: numbers.pending_bytes,
                        halted: numbers.halted,
                        dead: numbers.dead,
                    };
                    telemetry::backlog(name.as_str(), Some(backlog));
                }
                // What was told stays told until its server answers.
                Err(error) => {
                    tracing::debug!(destination = %name, %error, "cannot look how much is pending");
                }
            }
            self.telling.insert(name.clone());
        }
    }
}
