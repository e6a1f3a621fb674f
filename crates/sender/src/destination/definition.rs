//! The definition of the destination in this pod's memory.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::Instant;

use super::{DestinationSender, InFlight, calls::CALL_PAUSE, withdrawals::Withdrawals};
use crate::{
    deliver::{self, Deliver},
    lane::Rules,
};
use domain::RELEASE_BATCH_MAX;
use faults::planted;
use store::{CatalogEntry, StoreError};

/// The result of a lookup of the definition.
pub(super) type Lookup = Result<Option<Arc<CatalogEntry>>, StoreError>;

/// The definition, and values derived from it.
#[derive(Clone)]
pub(super) struct Definition {
    pub(super) entry: Arc<CatalogEntry>,
    /// Delivers to the destination's receiver.
    pub(super) transport: Arc<dyn Deliver>,
    pub(super) rules: Arc<Rules>,
}

impl DestinationSender {
    /// Adopts the definition from this pod's catalog. If the catalog has none, starts a lookup;
    /// until it ends, the old definition applies.
    pub(super) fn adopt_definition(&mut self) {
        let Some(entry) = self.deps.catalog.get(self.deps.name.as_str()) else {
            self.look_up();
            return;
        };
        let lanes_of = |entry: &CatalogEntry| {
            let is_pulled = entry.destination.delivery.kind == domain::DeliveryKind::Pull;
            (entry.born, entry.destination.ordering, is_pulled)
        };
        let (mut transport, mut has_other_lanes) = (None, false);
        if let Some(old) = &self.definition {
            if Arc::ptr_eq(&old.entry, &entry) {
                return;
            }
            has_other_lanes = lanes_of(&old.entry) != lanes_of(&entry);
            let is_same = !has_other_lanes && old.entry.destination == entry.destination;
            transport = is_same.then(|| old.transport.clone());
        }
        if has_other_lanes && !planted::is("generation_ignored") {
            self.forget_lanes();
        }
        let destination = &entry.destination;
        let transport = transport.unwrap_or_else(|| {
            deliver::connect(destination, &self.deps.clients, self.deps.json_depth_max)
        });
        self.scheduler.set_rate(destination.delivery.rate_per_second_max, Instant::now());
        let has_receiver = destination.delivery.kind == domain::DeliveryKind::Push;
        let url = destination.url.as_deref().filter(|_| has_receiver);
        let failures_max = destination.delivery.breaker_failures;
        self.scheduler.receiver().set(&self.deps.hosts, url, failures_max);
        let rules = Arc::new(rules_of(destination, self.deps.release_batch_max));
        self.definition = Some(Definition { entry, transport, rules });
    }

    /// Begins to look up the definition in Redis. Only the next call waits for the lookup.
    /// Meanwhile the task handles all other events.
    pub(super) fn look_up(&mut self) {
        if self.in_flight.lookup.is_some() {
            return;
        }
        let (catalog, name) = (self.deps.catalog.clone(), self.deps.name.clone());
        let lookup = async move {
            let found = catalog.refresh(&name).await;
            if let Err(error) = &found {
                tracing::debug!(destination = %name, %error, "cannot look up a definition");
                tokio::time::sleep(CALL_PAUSE).await;
            }
            found
        };
        self.in_flight.lookup = Some(lookup.boxed());
    }

    /// Ends the task if the destination is gone, or Redis does not answer and there is no old definition.
    pub(super) fn looked_up(&mut self, found: &Lookup) -> ControlFlow<()> {
        let is_known = match found {
            Ok(Some(_)) => true,
            Ok(None) => self.deps.catalog.get(self.deps.name.as_str()).is_some(),
            // Redis does not answer: the old definition applies, if there is one.
            Err(_) => self.definition.is_some(),
        };
        if is_known { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Forgets all loaded lanes and calls in flight. The destination has other lanes now: its ordering has changed, or
    /// it was removed and created again, and its sequences start from 1.
    fn forget_lanes(&mut self) {
        self.lanes.clear();
        self.heard_upto = None;
        self.scheduler.forget_lanes();
        self.withdrawals = Withdrawals::default();
        self.withdrawals.ask();
        // Deliveries are aborted, as at the end of a lease.
        let lookup = self.in_flight.lookup.take();
        self.in_flight = InFlight { lookup, ..InFlight::default() };
    }
}

/// The rules of the definition for each lane.
fn rules_of(destination: &domain::Destination, release_batch_max: usize) -> Rules {
    let delivery = &destination.delivery;
    let is_single = destination.ordering == domain::Ordering::None;
    let is_tcp = destination.is_tcp();
    let has_receiver = delivery.kind == domain::DeliveryKind::Push;
    let batch_max = match is_tcp {
        _ if !has_receiver => release_batch_max,
        true => delivery.window_max as usize,
        false => delivery.batch_max as usize,
    };
    let batch_max = if planted::is("two_in_flight") { 2 } else { batch_max };
    let lingers = batch_max > 1 && !is_tcp && has_receiver;
    Rules {
        release_batch_max: if is_single {
            1
        } else {
            release_batch_max.max(batch_max).min(RELEASE_BATCH_MAX)
        },
        batch_max,
        refused_max: destination.refused_max(),
        batch_bytes_max: if has_receiver { delivery.batch_bytes_max } else { u64::MAX },
        linger: Duration::from_millis(if lingers { delivery.batch_linger_ms } else { 0 }),
        is_single,
        is_pulled: delivery.kind == domain::DeliveryKind::Pull,
        log: (destination.log_max > 0).then_some(destination.log_bodies),
    }
}
