//! Taking up again what a dead processor held, and what has waited out its backoff
//! (`lua/reap.lua`).

use std::collections::BTreeMap;

use super::{Claimers, Store, StoreError};
use crate::domain::DestinationName;

/// The most that one look finds, of leases and of delays.
const LOOK_MAX: isize = 500;

/// What may be over in a partition, by destination. A hint.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// Per destination: members of the leases, members of the delayed.
    pub by_destination: BTreeMap<DestinationName, (Vec<String>, Vec<String>)>,
    /// When the next delay is over, in ms from now.
    pub next_due_ms: Option<u64>,
}

/// What was taken up again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// Leases that had run out.
    pub leases: usize,
    /// Delays that were over.
    pub delays: usize,
}

impl Store {
    /// Looks for leases and delays of a partition that are over.
    pub async fn overdue(&self, partition: u16) -> Result<Overdue, StoreError> {
        let keys = self.keys().partition(partition);
        let now_ms = self.server_time_ms().await?;
        let mut pipe = redis::pipe();
        pipe.zrangebyscore_limit(keys.leases(), 0, now_ms, 0, LOOK_MAX);
        pipe.zrangebyscore_limit(keys.delayed(), 0, now_ms, 0, LOOK_MAX);
        let after = format!("({now_ms}");
        pipe.zrangebyscore_limit_withscores(keys.delayed(), after, "+inf", 0, 1);
        type Found = (Vec<String>, Vec<String>, Vec<(String, u64)>);
        let (leases, delays, next): Found = self.query(&pipe).await?;

        let mut overdue = Overdue {
            next_due_ms: next.first().map(|(_, due)| due.saturating_sub(now_ms)),
            ..Overdue::default()
        };
        let mut place = |member: String, is_lease: bool| {
            let name = member.split('/').next().unwrap_or_default().parse();
            let Ok(name) = name else { return };
            let entry: &mut (Vec<String>, Vec<String>) =
                overdue.by_destination.entry(name).or_default();
            if is_lease { entry.0.push(member) } else { entry.1.push(member) }
        };
        leases.into_iter().for_each(|member| place(member, true));
        delays.into_iter().for_each(|member| place(member, false));
        Ok(overdue)
    }

    /// Puts back to waiting what is really over. `claimers` are those of the destination.
    pub async fn reap(
        &self,
        destination: &DestinationName,
        claimers: Claimers,
        leases: &[String],
        delays: &[String],
    ) -> Result<Reaped, StoreError> {
        let keys = self.keys().destination(destination);
        let (name, mut call) = self.script(|scripts| &scripts.reap);
        call.key(keys.hash()).key(keys.waiting()).key(keys.attempts());
        call.key(keys.partition.leases()).key(keys.partition.delayed());
        call.key(keys.partition.active(claimers)).key(keys.partition.wake_waiting());
        call.arg(destination.as_str()).arg(leases.len());
        for member in leases.iter().chain(delays) {
            call.arg(member);
        }
        let (leases, delays) = self.run(name, &call).await?;
        Ok(Reaped { leases, delays })
    }
}
