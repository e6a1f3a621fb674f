//! After the clock of Redis has stepped back, moves the ends of leases, delays and backoffs back by the step, so that
//! they do not come too late (`lua/step_back.lua`).

use std::collections::BTreeMap;

use domain::DestinationName;
use tokio::time::Instant;

use super::reap::{PAGE_MAX, Reaped, destination_of};
use crate::{
    Store, StoreError,
    contract::{contract, row},
    epoch::{Behind, Ends},
    keys::{DestinationKeys, PartitionKeys},
};

row! {
    /// A member, and the score that this process has read.
    Seen<'a> {
        member: &'a str,
        score: u64,
    }
}

contract! {
    step_back
    keys(keys: &DestinationKeys) {
        destination: keys.hash(), attempts, leases, delayed, lanes, releasable, epoch,
    }
    args<'a> {
        destination: &'a str,
        /// The size of the step, in ms.
        back_ms: u64,
    }
    lists {
        leases: Seen<'a>,
        delays: Seen<'a>,
        /// Lanes in backoff; with ordering by destination, the destination.
        hints: Seen<'a>,
    }
}

/// The most members of each kind that one call moves in a partition.
const MOVED_MAX: isize = 20_000;

/// The most destinations whose lanes one query reads.
const ASKED_MAX: usize = 16;

type Scored = Vec<(Vec<u8>, f64)>;

/// The members to move, each with its score, by destination and kind.
#[derive(Default)]
struct Found(BTreeMap<(DestinationName, Ends), Vec<(String, u64)>>);

impl Found {
    /// Adds members. Leaves out members that name no destination or are not valid UTF-8.
    fn add(&mut self, ends: Ends, of: Option<&DestinationName>, scored: Scored) {
        for (member, score) in scored {
            let Ok(member) = String::from_utf8(member) else { continue };
            let Some(name) = of.cloned().or_else(|| destination_of(&member)) else { continue };
            self.0.entry((name, ends)).or_default().push((member, score as u64));
        }
    }

    fn pages(self, back_ms: u64) -> Vec<Behind> {
        let of = |((destination, ends), members): ((DestinationName, Ends), Vec<(String, u64)>)| {
            let page = |members: &[(String, u64)]| Behind {
                destination: destination.clone(),
                ends,
                members: members.to_vec(),
                back_ms,
            };
            members.chunks(PAGE_MAX as usize).map(page).collect::<Vec<_>>()
        };
        self.0.into_iter().flat_map(of).collect()
    }
}

impl Store {
    /// Like [`Store::recover`], for the owner of the partitions. If the clock of a server has stepped back since the
    /// last call, first moves leases and backoffs back by the step, so that no message waits longer because of it.
    pub async fn recover_owned(&self, partitions: &[u16]) -> Result<Reaped, StoreError> {
        let place = |number: &u16| self.keys().partition(*number).leases();
        let asked = Instant::now();
        let clocks = self.clocks(&partitions.iter().map(place).collect::<Vec<_>>()).await;
        let (answered, epochs) = (Instant::now(), &self.inner.epochs);
        let mut read = Vec::new();
        for (partition, now_ms) in partitions.iter().zip(clocks) {
            let Some(now_ms) = now_ms else { continue };
            let step = epochs.stepped_back(*partition, now_ms, asked);
            match step {
                Some((then_ms, back_ms)) => {
                    tracing::warn!(partition, back_ms, "the clock of Redis has stepped back");
                    if let Err(error) = self.step_back(*partition, then_ms, now_ms, back_ms).await {
                        // The next call finds the step again.
                        tracing::debug!(partition, %error, "cannot read leases and backoffs");
                        continue;
                    }
                    epochs.note_clock(*partition, now_ms, answered);
                }
                // Move the members that an earlier call could not move.
                None => self.move_behind(*partition).await,
            }
            read.push((*partition, now_ms));
        }
        let of = |keys: &PartitionKeys| [keys.leases(), keys.delayed()];
        let reaped = self.recover(&self.occupied(partitions, of).await).await?;
        // By these clocks, all leases and delays that had ended are recovered. So after a later step back, only those
        // that had not ended are moved.
        for (partition, now_ms) in read {
            epochs.note_clock(partition, now_ms, answered);
        }
        Ok(reaped)
    }

    /// Handles a step back of the clock of a partition's server: the clock showed `then_ms`, and later `now_ms`,
    /// which is `back_ms` too early.
    pub async fn step_back(
        &self,
        partition: u16,
        then_ms: u64,
        now_ms: u64,
        back_ms: u64,
    ) -> Result<(), StoreError> {
        let behind = self.behind(partition, then_ms, now_ms, back_ms).await?;
        self.inner.epochs.add_behind(partition, behind);
        self.move_behind(partition).await;
        Ok(())
    }

    /// The members to move: leases and delays that had not ended at `then_ms`, before the clock stepped back; and
    /// backoffs that have not ended by the current clock, because no process recovers backoffs when they end.
    async fn behind(
        &self,
        partition: u16,
        then_ms: u64,
        now_ms: u64,
        back_ms: u64,
    ) -> Result<Vec<Behind>, StoreError> {
        let (keys, mut pipe) = (self.keys().partition(partition), redis::pipe());
        for key in [keys.leases(), keys.delayed()] {
            pipe.zrangebyscore_limit_withscores(key, format!("({then_ms}"), "+inf", 0, MOVED_MAX);
        }
        pipe.zrange_withscores(keys.releasable(), 0, MOVED_MAX - 1);
        let (leases, delays, destinations): (Scored, Scored, Scored) = self.query(&pipe).await?;
        let mut found = Found::default();
        found.add(Ends::Lease, None, leases);
        found.add(Ends::Delay, None, delays);
        let names = destinations.into_iter().filter_map(|(name, score)| {
            let parsed: DestinationName = str::from_utf8(&name).ok()?.parse().ok()?;
            let own: Scored = if score as u64 > now_ms { vec![(name, score)] } else { Vec::new() };
            Some((parsed, own))
        });
        let (mut names, mut left): (Vec<_>, _) = (names.collect(), MOVED_MAX);
        while !names.is_empty() && left > 0 {
            let some = names.split_off(names.len().saturating_sub(ASKED_MAX));
            let mut pipe = redis::pipe();
            for (name, _) in &some {
                let lanes = self.keys().destination(name).lanes();
                pipe.zrangebyscore_limit_withscores(lanes, now_ms, "+inf", 0, left);
            }
            let lanes: Vec<Scored> = self.query(&pipe).await?;
            for ((name, own), lanes) in some.into_iter().zip(lanes) {
                left -= lanes.len() as isize;
                found.add(Ends::Backoff, Some(&name), [own, lanes].concat());
            }
        }
        Ok(found.pages(back_ms))
    }

    /// Moves the remaining members. If a call fails, the next call of this function tries again.
    async fn move_behind(&self, partition: u16) {
        for part in self.inner.epochs.take_behind(partition) {
            let destination = &part.destination;
            let seen = |ends: Ends| match part.ends == ends {
                true => part
                    .members
                    .iter()
                    .map(|(member, score)| Seen { member, score: *score })
                    .collect(),
                false => Vec::new(),
            };
            let args = Args {
                destination: destination.as_str(),
                back_ms: part.back_ms,
                leases: seen(Ends::Lease),
                delays: seen(Ends::Delay),
                hints: seen(Ends::Backoff),
            };
            let call = args.call(self, &self.keys().destination(destination));
            if let Err(error) = self.run::<u64>(&call).await {
                tracing::debug!(%destination, %error, "cannot move leases and backoffs with the clock");
                self.inner.epochs.add_behind(partition, [part]);
            }
        }
    }
}
