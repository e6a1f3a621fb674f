//! Compares the counters of a destination with the actual counts (`lua/repair_counters.lua`).

use super::repair::{Finding, Repairing};
use crate::{
    StoreError,
    contract::{contract, row},
    keys::DestinationKeys,
};

row! {
    /// A counter to verify.
    Counter<'a> {
        name: &'a str,
        /// Its value before the messages were counted.
        before: i64,
        counted: u64,
    }
}

contract! {
    repair_counters
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), withdrawals, withdrawn,
    }
    args<'a> {
        version: u64,
        /// `1`, or empty: only to report.
        repairs: &'a str,
    }
    lists {
        counters: Counter<'a>,
    }
}

/// The counters to verify.
const COUNTERS: [&str; 7] =
    ["last", "settled", "ready", "halted_ready", "awaiting_turn", "bytes", "delayed"];

impl Repairing<'_> {
    pub(super) async fn counters(&self) -> Result<Vec<i64>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.hmget(self.keys.hash(), &COUNTERS);
        let (values,): (Vec<Option<i64>>,) = self.store.query(&pipe).await?;
        Ok(values.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// Compares the counters with the actual count, if they have not changed meanwhile.
    pub(super) async fn compare_counters(&mut self, before: &[i64]) -> Result<bool, StoreError> {
        let [pending, ready, halted_ready, held, bytes] = self.sums;
        let last = before.first().map_or(0, |last| last.max(&0).unsigned_abs());
        let settled = last.saturating_sub(pending);
        let counted = [last, settled, ready, halted_ready, held, bytes, self.delayed];
        self.begin()?;
        let keys = self.keys.clone();
        let call = Args {
            version: self.entry.version,
            repairs: self.repairs(),
            counters: COUNTERS
                .iter()
                .zip(before)
                .zip(counted)
                .map(|((name, before), counted)| Counter { name, before: *before, counted })
                .collect(),
        }
        .call(self.store, &keys);
        let (answer, findings): (String, Vec<Finding>) = self.store.run(&call).await?;
        self.note_all(findings, &[]);
        Ok(answer == "ok")
    }
}
