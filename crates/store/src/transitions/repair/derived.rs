//! Compares data that is derived from records, except lanes: leases, hints, and the list of dead letters.

use bytes::Bytes;

use super::{
    Bits, Repairing,
    lanes::{LONG_VALUES, PAGE},
    number,
};
use crate::{StoreError, server_clock_ms};
use domain::{DeliveryKind, Sequence};

impl Repairing<'_> {
    /// Reads one page of a set of the partition. Returns the members that name messages of this destination.
    async fn of_partition(
        &self,
        key: &str,
        cursor: &mut u64,
    ) -> Result<Vec<(Sequence, String, f64)>, StoreError> {
        let prefix = format!("{}/", self.entry.destination.name);
        let mut pipe = redis::pipe();
        pipe.cmd("ZSCAN").arg(key).arg(*cursor).arg("MATCH").arg(format!("{prefix}*"));
        pipe.arg("COUNT").arg(PAGE);
        let (next, found): (u64, Vec<(String, f64)>) = self.query(&pipe).await?;
        *cursor = next;
        let read = |(member, score): (String, f64)| {
            let sequence = member.strip_prefix(&prefix)?.split('/').next()?.parse().ok()?;
            Some((sequence, member, score))
        };
        Ok(found.into_iter().filter_map(read).collect())
    }

    /// The leases on messages of the destination, expired or not, each with its sequence.
    pub(in crate::transitions) async fn leases(
        &self,
    ) -> Result<Vec<(Sequence, String)>, StoreError> {
        let (mut leases, mut cursor) = (Vec::new(), 0);
        loop {
            let page = self.of_partition(&self.keys.leases(), &mut cursor).await?;
            leases.extend(page.into_iter().map(|(sequence, member, _)| (sequence, member)));
            if cursor == 0 {
                return Ok(leases);
            }
        }
    }

    /// Removes leases whose message has no record and is in no lane.
    pub(super) async fn check_leases(
        &mut self,
        leases: Vec<(Sequence, String)>,
    ) -> Result<(), StoreError> {
        for (sequence, member) in leases {
            if !self.pass.seen.has(sequence) {
                self.write(redis::pipe().zrem(self.keys.leases(), &member)).await?;
                self.note("left_over", member, !self.dry_run);
            }
        }
        Ok(())
    }

    pub(super) async fn read_delayed(&mut self) -> Result<(), StoreError> {
        let (key, mut cursor) = (self.keys.delayed(), 0);
        loop {
            for (sequence, ..) in self.of_partition(&key, &mut cursor).await? {
                self.pass.delayed.insert(sequence);
            }
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Makes the lists of dead letters complete, and removes entries without a dead letter.
    pub(super) async fn check_letters(&mut self) -> Result<(), StoreError> {
        let keys = self.keys.clone();
        let (letters, lists) =
            (keys.dead_letter_messages(), [keys.dead_letters(), keys.dead_lettered_at()]);
        let (mut seen, mut cursor) = (Bits::default(), 0);
        for (command, key) in [("HSCAN", &letters), ("ZSCAN", &lists[0]), ("ZSCAN", &lists[1])] {
            loop {
                let found: Vec<(Bytes, Bytes)> =
                    self.scan(command, key, &mut cursor, LONG_VALUES).await?;
                for (member, value) in found {
                    let Some(sequence) = number(&member).filter(|one| seen.insert(*one)) else {
                        continue;
                    };
                    let mut pipe = redis::pipe();
                    pipe.hexists(&letters, sequence);
                    pipe.zscore(&lists[0], sequence).zscore(&lists[1], sequence);
                    self.begin()?;
                    let state: (bool, Option<f64>, Option<f64>) = self.store.query(&pipe).await?;
                    let mut pipe = redis::pipe();
                    match state {
                        (true, Some(_), Some(_)) | (false, None, None) => continue,
                        (true, _, at) => {
                            // The content of a dead letter begins with the time at which the message became one.
                            let text = String::from_utf8_lossy(&value);
                            let since = text.split(' ').next().and_then(|since| since.parse().ok());
                            let since = at.unwrap_or(since.unwrap_or(server_clock_ms() as f64));
                            pipe.zadd(&lists[0], sequence, sequence);
                            pipe.zadd(&lists[1], sequence, since);
                        }
                        (false, ..) => {
                            pipe.zrem(&lists[0], sequence).zrem(&lists[1], sequence);
                        }
                    }
                    self.write(&pipe).await?;
                    self.note("dead_letter", sequence.to_string(), !self.dry_run);
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Makes the owner look at each lane that consumers hold. Hints may name too many lanes, never too few.
    pub(super) async fn renew_consumer_hints(&mut self) -> Result<(), StoreError> {
        if self.entry.destination.delivery.kind != DeliveryKind::Pull {
            return Ok(());
        }
        let (keys, mut cursor) = (self.keys.clone(), 0);
        loop {
            let held: Vec<(Bytes, Bytes)> =
                self.scan("HSCAN", &keys.consumer_leases(), &mut cursor, LONG_VALUES).await?;
            let mut pipe = redis::pipe();
            for (lane, _) in &held {
                pipe.cmd("ZADD").arg(keys.consumer_lease_ends()).arg("NX").arg(0).arg(&lane[..]);
            }
            if !held.is_empty() {
                pipe.zadd(keys.consumers(), self.entry.destination.name.as_str(), 0);
            }
            self.write(&pipe).await?;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}
