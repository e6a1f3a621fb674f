//! Stamps a few ordinary arrivals that need no processing (`lua/ingest_ready_fast.lua`).

use super::ingest_fast;
use crate::{contract::contract, keys::DestinationKeys};
use domain::Epoch;

contract! {
    ingest_ready_fast
    keys(keys: &DestinationKeys, caller: &str) {
        epoch, call: keys.call(caller), destination: keys.hash(), messages, releasable,
        wake_releasable, in_progress: keys.in_progress(None), ready: keys.ready(None),
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
    }
    lists {
        records: &'a [u8],
    }
}

impl<'a> From<ingest_fast::Args<'a>> for Args<'a> {
    fn from(args: ingest_fast::Args<'a>) -> Args<'a> {
        Args {
            call_number: args.call_number,
            destination: args.destination,
            version: args.version,
            message_epoch: args.message_epoch,
            seen_epoch: args.seen_epoch,
            backlog_max: args.backlog_max,
            record_schema: args.record_schema,
            accounted_bytes_sum: args.accounted_bytes_sum,
            records: args.records,
        }
    }
}
