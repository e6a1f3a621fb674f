//! Requeues claimed messages (`lua/requeue.lua`).

use super::complete::Status;
use crate::{
    CallSequence, Store, StoreError,
    contract::{contract, row},
    entry::CatalogEntry,
    keys::DestinationKeys,
};
use domain::{LeaseToken, Sequence};

row! {
    /// A lease whose message is requeued.
    Lease {
        sequence: Sequence,
        /// The lease, as a member of `leases`.
        member: String,
    }
}

contract! {
    requeue
    keys(keys: &DestinationKeys, caller: &str) {
        call: keys.call(caller), destination: keys.hash(), waiting, messages, leases,
        active_builtin, active_worker, wake_waiting, epoch,
    }
    args<'a> {
        call_number: u64,
        destination: &'a str,
    }
    lists {
        leases: Lease,
    }
}

impl Store {
    /// Puts claimed messages of one destination back into `waiting`, unprocessed. This does not count as an attempt.
    pub async fn requeue(
        &self,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        tokens: &[LeaseToken],
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys_of(entry);
        let (caller, number) = call_sequence.current();
        let row = |token: &LeaseToken| Lease { sequence: token.sequence, member: token.member() };
        let call = Args {
            call_number: number,
            destination: entry.destination.name.as_str(),
            leases: tokens.iter().map(row).collect(),
        }
        .call(self, &keys, &caller);
        call_sequence.answered(self.run(&call).await)
    }
}
