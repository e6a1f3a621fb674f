//! Recovers messages whose leases have expired or whose delays are over (`lua/reap.lua`).

use std::collections::BTreeMap;

use crate::{Store, StoreError, calls::answered, contract::contract, keys::DestinationKeys};
use domain::{DestinationName, LeaseToken};
use faults::pause::{Point, point};
use redis_client::texts;

contract! {
    reap
    keys(keys: &DestinationKeys) {
        destination: keys.hash(), waiting, attempts, leases, delayed, messages, halted,
        active_builtin, active_worker, wake_waiting, wake_releasable, epoch,
    }
    args<'a> {
        destination: &'a str,
        /// At least this many leases of the destination expired together.
        expired_together: usize,
    }
    lists {
        /// Members of `leases`. They are hints: the script checks them again.
        leases: &'a str,
        /// Members of `delayed`. They are hints, too.
        delays: &'a str,
    }
}

/// The most leases, and the most delays, that one query returns.
pub(super) const PAGE_MAX: isize = 500;

/// The most queries that one `recover` makes.
const LOOKS_MAX: usize = 40;

/// The most leases of one call: each lease may have 75 kB of checkpoint and errors to read and write.
const LEASES_MAX: usize = 25;

/// The most holders of expired leases that a line of the log names.
const HOLDERS_MAX: usize = 5;

/// The leases and delays of a partition that may have ended, by destination. A hint.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// Per destination: members of `leases`, and members of `delayed`.
    pub by_destination: BTreeMap<DestinationName, (Vec<String>, Vec<String>)>,
}

impl Overdue {
    /// True if the query may have left out members.
    fn is_full(&self) -> bool {
        let counts =
            self.by_destination.values().map(|(leases, delays)| (leases.len(), delays.len()));
        let (leases, delays) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        leases.max(delays) >= PAGE_MAX as usize
    }

    fn of(leases: &[String], delays: &[String]) -> Overdue {
        let mut overdue = Overdue::default();
        let tagged = leases.iter().map(|l| (l, true)).chain(delays.iter().map(|d| (d, false)));
        for (member, is_lease) in tagged {
            let Some(name) = destination_of(member) else { continue };
            let (leases, delays) = overdue.by_destination.entry(name).or_default();
            if is_lease { leases } else { delays }.push(member.clone());
        }
        overdue
    }
}

pub(super) fn destination_of(member: &str) -> Option<DestinationName> {
    member.split('/').next()?.parse().ok()
}

/// The holders of these leases, each with the number of its leases.
fn holders_of(leases: &[String]) -> String {
    let mut holders: BTreeMap<String, usize> = BTreeMap::new();
    for lease in leases {
        let holder = lease.rsplit('/').next().and_then(LeaseToken::holder_of);
        let holder = holder.map_or_else(|| "without a name".to_owned(), String::from);
        *holders.entry(holder).or_default() += 1;
    }
    let named =
        holders.iter().take(HOLDERS_MAX).map(|(holder, count)| format!("{holder} ({count})"));
    let mut named: Vec<String> = named.collect();
    if holders.len() > HOLDERS_MAX {
        named.push(format!("and {} more", holders.len() - HOLDERS_MAX));
    }
    named.join(", ")
}

/// The numbers of recovered leases, delays and messages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// Leases that had expired.
    pub leases: usize,
    /// Messages whose delay was over.
    pub delays: usize,
    /// Messages that halted because too many of their leases had expired.
    pub halted: usize,
}

impl Store {
    /// Expired leases and delays of these partitions, in the order of the partitions. An entry is empty if its server
    /// does not answer; an error if no server answers.
    pub async fn overdue(&self, partitions: &[u16]) -> Result<Vec<Overdue>, StoreError> {
        let keys: Vec<_> = partitions.iter().map(|number| self.keys().partition(*number)).collect();
        let places: Vec<_> = keys.iter().map(|keys| keys.leases()).collect();
        let clocks = self.clocks(&places).await;
        let looks = keys.iter().zip(clocks).map(|(keys, now_ms)| {
            let (now_ms, mut pipe) = (now_ms.unwrap_or_default(), redis::pipe());
            pipe.zrangebyscore_limit(keys.leases(), 0, now_ms, 0, PAGE_MAX);
            pipe.zrangebyscore_limit(keys.delayed(), 0, now_ms, 0, PAGE_MAX);
            pipe
        });
        let found = self.query_each(&looks.collect::<Vec<_>>()).await;
        let read = |found: Option<Vec<redis::Value>>| {
            let mut found = found.unwrap_or_default().into_iter();
            // A member that is not valid UTF-8 names no message. It must not hide other members.
            let mut next = || texts(found.next(), "a query of overdue ones").unwrap_or_default();
            Overdue::of(&next(), &next())
        };
        Ok(answered(found)?.into_iter().map(read).collect())
    }

    /// Recovers all expired leases and delays of these partitions. If a destination does not exist any more, only
    /// removes its leftovers.
    pub async fn recover(&self, partitions: &[u16]) -> Result<Reaped, StoreError> {
        let mut all = Reaped::default();
        let mut partitions = partitions.to_vec();
        for _ in 0..LOOKS_MAX {
            let mut full = Vec::new();
            let found = self.overdue(&partitions).await?;
            if found.iter().any(|overdue| !overdue.by_destination.is_empty()) {
                point(Point::ReaperScanned).await;
            }
            for (partition, overdue) in partitions.iter().zip(found) {
                for (name, (leases, delays)) in &overdue.by_destination {
                    let reaped = match self.reap(name, leases, delays).await {
                        Ok(reaped) => reaped,
                        // Other destinations may be on other servers, which answer.
                        Err(error) => {
                            tracing::debug!(destination = %name, %error, "cannot recover expired leases and delays");
                            continue;
                        }
                    };
                    all.leases += reaped.leases;
                    all.delays += reaped.delays;
                    all.halted += reaped.halted;
                    if reaped.leases > 0 {
                        let (workers, count) = (holders_of(leases), reaped.leases);
                        tracing::warn!(
                            destination = %name, workers, count,
                            "leases expired: their messages are processed again",
                        );
                    }
                    if reaped.halted > 0 {
                        let count = reaped.halted;
                        tracing::error!(
                            destination = %name, count,
                            "messages are halted, because too many of their leases expired",
                        );
                    }
                }
                if overdue.is_full() {
                    full.push(*partition);
                }
            }
            if full.is_empty() {
                break;
            }
            partitions = full;
        }
        telemetry::reaped(all.leases, all.delays);
        Ok(all)
    }

    /// Returns messages to `waiting` if their lease or delay has really ended.
    pub async fn reap(
        &self,
        destination: &DestinationName,
        leases: &[String],
        delays: &[String],
    ) -> Result<Reaped, StoreError> {
        let (first, rest) = leases.split_at(leases.len().min(LEASES_MAX));
        let count = leases.len();
        let mut all = self.reap_some(destination, first, count, delays).await?;
        for some in rest.chunks(LEASES_MAX) {
            let reaped = self.reap_some(destination, some, count, &[]).await?;
            all.leases += reaped.leases;
            all.delays += reaped.delays;
            all.halted += reaped.halted;
        }
        Ok(all)
    }

    async fn reap_some(
        &self,
        destination: &DestinationName,
        leases: &[String],
        together: usize,
        delays: &[String],
    ) -> Result<Reaped, StoreError> {
        let args = Args {
            destination: destination.as_str(),
            expired_together: together,
            leases: leases.iter().map(String::as_str).collect(),
            delays: delays.iter().map(String::as_str).collect(),
        };
        let call = args.call(self, &self.keys().destination(destination));
        let (leases, delays, halted) = self.run(&call).await?;
        Ok(Reaped { leases, delays, halted })
    }
}
