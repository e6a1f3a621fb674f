//! Delivery to consumers, who take the messages: offers the front of a lane, and learns what became of it.
//!
//! ```text
//!   deliver ──► offer ──► look ◄──┐ every second, and when a consumer has acknowledged something
//!                 ▲        │  └───┘ nobody has it, or a consumer holds it and has accepted nothing yet
//!      forgotten  └────────┤
//!                          └──► accepted, refused, or its consumer's lease expired
//! ```
//!
//! Redis holds the offer and the consumer's lease, so both outlive this process. The next owner of the partition
//! goes on with them.

mod lanes;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::{Connecting, Deliver, Verdict};
use crate::{
    domain::{Destination, DestinationName, Stamped},
    store::{CatalogEntry, StoreError},
};
use lanes::{Ended, Lanes};

/// The pause after a call that failed.
const CALL_PAUSE: Duration = Duration::from_millis(100);

/// Consumers that take messages.
pub struct Pull {
    destination: Destination,
    lanes: Arc<Lanes>,
    _task: AbortOnDropHandle<()>,
}

impl Pull {
    /// The consumers of this destination.
    pub(super) fn new(entry: &CatalogEntry, connecting: Connecting) -> Pull {
        let lanes = Arc::new(Lanes::default());
        let name = entry.destination.name.clone();
        let task = tokio::spawn(run(lanes.clone(), name, connecting));
        Pull { destination: entry.destination.clone(), lanes, _task: AbortOnDropHandle::new(task) }
    }
}

#[async_trait]
impl Deliver for Pull {
    async fn deliver(&self, messages: &[Arc<Stamped>], _attempt: u32) -> Verdict {
        let Some(first) = messages.first() else { return Verdict::Accepted(0) };
        let key = first.message.key.as_deref();
        let lane = self.destination.lane_of(key, first.position.sequence).unwrap_or_default();
        let sequences = messages.iter().map(|message| message.position.sequence).collect();
        let (verdict, outcome) = oneshot::channel();
        let id = self.lanes.add(lane.clone(), sequences, verdict);
        let _ended = Ended { lanes: &self.lanes, lane, id };
        outcome.await.unwrap_or(Verdict::Accepted(0))
    }

    fn poked(&self) {
        let now = Instant::now();
        self.lanes.each(|_, waiting| {
            // A lane that must wait is not offered earlier because another one has changed.
            if waiting.is_offered {
                waiting.next = now;
            }
        });
    }

    fn recall(&self, lane: Option<&str>) {
        let lane = lane.unwrap_or_default();
        self.lanes.each(|key, waiting| {
            if key == lane {
                (waiting.is_recalled, waiting.next) = (true, Instant::now());
            }
        });
    }

    fn grown(&self, lane: Option<&str>, count: usize) {
        self.lanes.end(|key, waiting| key == lane.unwrap_or_default() && waiting.has_grown(count));
    }

    fn let_go(&self) {
        self.lanes.end(|_, _| true);
    }
}

/// Asks Redis, one call at a time, for all lanes whose question is due.
async fn run(lanes: Arc<Lanes>, name: DestinationName, connecting: Connecting) {
    let Connecting { store, catalog, lease, gauge, .. } = connecting;
    loop {
        gauge.set_unheld(lanes.unheld());
        let changed = lanes.changed.notified();
        let due = match lanes.due(Instant::now()) {
            Ok(due) => due,
            Err(next) => {
                tokio::select! {
                    () = changed => {}
                    () = sleep_until(next) => {}
                }
                continue;
            }
        };
        let requests: Vec<_> = due.iter().map(|(_, request)| request.clone()).collect();
        // A pause changes the version of the definition.
        let error = match catalog.get(name.as_str()) {
            None => StoreError::UnknownDestination,
            Some(entry) => match store.offer(&lease.owner, &entry, &requests).await {
                Ok(answers) => {
                    let now = Instant::now();
                    for ((id, request), answer) in due.iter().zip(answers) {
                        lanes.answered(*id, request, answer, now);
                    }
                    continue;
                }
                Err(error) => error,
            },
        };
        tracing::debug!(destination = %name, %error, "cannot offer messages to consumers");
        lanes.failed(&due);
        match error {
            StoreError::StaleEpoch(epoch) => lease.superseded(epoch),
            StoreError::NotOwner => lease.lost.cancel(),
            StoreError::StaleDefinition | StoreError::UnknownDestination => {
                let _ = catalog.refresh(&name).await;
            }
            _ => {}
        }
        tokio::time::sleep(CALL_PAUSE).await;
    }
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
