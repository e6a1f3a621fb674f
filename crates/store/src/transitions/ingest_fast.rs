//! Stamps a few ordinary arrivals (`lua/ingest_fast.lua`).

use crate::{
    contract::contract,
    keys::{Claimers, DestinationKeys},
};
use domain::Epoch;

contract! {
    ingest_fast
    keys(keys: &DestinationKeys, caller: &str, claimers: Claimers) {
        epoch, call: keys.call(caller), destination: keys.hash(), waiting, messages,
        active: keys.active(claimers), wake_waiting, in_progress: keys.in_progress(None), leases,
    }
    args<'a> {
        call_number: u64,
        destination: &'a str,
        version: u64,
        message_epoch: Epoch,
        seen_epoch: String,
        backlog_max: u64,
        record_schema: u32,
        accounted_bytes_sum: u64,
        /// The secret of the leases that the arrivals get at once if no message waits before them; empty: the
        /// arrivals wait.
        secret: &'a str,
        lease_ms: u64,
    }
    lists {
        records: &'a [u8],
    }
}
