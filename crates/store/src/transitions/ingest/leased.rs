//! Arrivals that the call leases (`lua/include/on_arrival.lua`).

use std::{sync::Arc, time::Duration};

use super::Ingested;
use crate::{CatalogEntry, Claimed, StoreError, calls::unexpected, record};
use domain::{Arrival, LeaseToken, Ordering, Sequence, WorkerName};
use parking_lot::Mutex;
use redis_client::server_clock_ms;

/// The terms of a lease.
#[derive(Debug, Clone, Default)]
pub struct LeaseTerms {
    /// The holder of the lease, if known.
    pub holder: Option<WorkerName>,
    /// How long the lease lasts unless extended.
    pub lease: Duration,
}

/// The leases that a call got although its messages were not confirmed.
pub type Unconfirmed = Mutex<Vec<LeaseToken>>;

/// The leases that a call asks for. With an empty secret, it asks for none.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    pub secret: Arc<str>,
    pub lease_ms: u64,
    pub unconfirmed: Option<&'a Unconfirmed>,
}

/// The script's answer about the arrivals that it has leased.
pub(super) struct Leased {
    deadline_ms: u64,
    /// Each sequence, with the previous sequence in its lane if the script knows it. The script returns this only
    /// with ordering by key.
    messages: Vec<(Sequence, Option<Sequence>)>,
}

impl Leased {
    /// Reads the answer: its deadline, and the sequences as text.
    pub(super) fn read(deadline_ms: u64, text: &str) -> Result<Leased, StoreError> {
        let read = |one: &str| {
            let (sequence, previous) = one.split_once(',').unwrap_or((one, ""));
            Some((sequence.parse().ok()?, previous.parse().ok()))
        };
        let messages: Option<Vec<_>> = text.split(' ').map(read).collect();
        Ok(Leased { deadline_ms, messages: messages.ok_or_else(|| unexpected("ingest"))? })
    }

    /// Returns the arrivals that the script has stamped and leased, as claimed messages.
    pub(super) fn claimed(
        self,
        entry: &CatalogEntry,
        wanted: &Wanted<'_>,
        ingested: &[Ingested],
        arrivals: &[&Arrival],
    ) -> Claimed {
        // If the call was repeated for a long time, the leases have ended, and others may hold the messages.
        if self.deadline_ms <= server_clock_ms() {
            return Claimed::default();
        }
        let destination = &entry.destination;
        let claimed_ms = self.deadline_ms.saturating_sub(wanted.lease_ms);
        let mut leased = self.messages.into_iter().peekable();
        let mut messages = Vec::with_capacity(leased.len());
        for (one, arrival) in ingested.iter().zip(arrivals) {
            let Ingested::Stamped(position) = *one else { continue };
            let sequence = position.sequence;
            let Some((_, previous)) = leased.next_if(|(next, _)| *next == sequence) else {
                continue;
            };
            let previous = match destination.ordering {
                Ordering::Destination => Some(sequence - 1),
                Ordering::Key => previous,
                Ordering::None => Some(0),
            };
            let message = record::arrived(arrival, destination, position, previous);
            let key = destination.lane_key(message.message.key.as_deref()).map(str::to_owned);
            let (destination, secret) = (destination.name.clone(), wanted.secret.clone());
            messages.push((LeaseToken { destination, sequence, secret, claimed_ms, key }, message));
        }
        Claimed { deadline_ms: self.deadline_ms, messages, ..Claimed::default() }
    }
}
