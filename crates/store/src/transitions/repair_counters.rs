//! Compares the counters of a destination with the actual counts (`lua/repair_counters.lua`).

use super::repair::{Findings, Repairing};
use crate::{
    StoreError,
    contract::{contract, row},
    keys::DestinationKeys,
};
use domain::Sequence;

row! {
    /// A counter to verify.
    Counter<'a> {
        name: &'a str,
        /// The value of the counter before the messages were counted.
        before: i64,
        counted: u64,
    }
}

contract! {
    repair_counters
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), waiting, withdrawals, withdrawn, active_builtin, active_worker,
        withdrawing, wake_waiting, wake_releasable, delayed,
    }
    args<'a> {
        destination: &'a str,
        version: u64,
        /// False: only report problems.
        repairs: bool,
    }
    lists {
        counters: Counter<'a>,
    }
}

/// The counters to verify.
const COUNTERS: [&str; 7] =
    ["last", "settled", "ready", "halted_ready", "awaiting_turn", "bytes", "delayed"];

/// The values of [`COUNTERS`].
pub(super) struct Counters([i64; 7]);

impl Counters {
    /// The last sequence that was stamped.
    pub(super) fn last(&self) -> Sequence {
        self.0[0].max(0).unsigned_abs()
    }
}

impl Repairing<'_> {
    pub(super) async fn counters(&self) -> Result<Counters, StoreError> {
        let mut pipe = redis::pipe();
        pipe.hmget(self.keys.hash(), &COUNTERS);
        let values: [Option<i64>; 7] = self.query(&pipe).await?;
        Ok(Counters(values.map(Option::unwrap_or_default)))
    }

    /// Compares the counters with the actual counts. False if the counters have changed meanwhile.
    pub(super) async fn check_counters(&mut self, before: &Counters) -> Result<bool, StoreError> {
        let [pending, ready, halted_ready, held, bytes, delayed] = self.pass.sums;
        // With a lower value, a sequence would be used twice.
        let last = before.last().max(self.pass.highest);
        let settled = last.saturating_sub(pending);
        let counted = [last, settled, ready, halted_ready, held, bytes, delayed];
        self.begin()?;
        let keys = self.keys.clone();
        let counters = COUNTERS.iter().zip(before.0).zip(counted);
        let counter =
            |((name, before), counted): ((&'static &str, _), _)| Counter { name, before, counted };
        let call = Args {
            destination: self.entry.destination.name.as_str(),
            version: self.entry.version,
            repairs: !self.dry_run,
            counters: counters.map(counter).collect(),
        }
        .call(self.store, &keys);
        let (answer, findings): (String, Findings) = self.store.run(&call).await?;
        self.note_all(findings);
        Ok(answer == "ok")
    }
}
