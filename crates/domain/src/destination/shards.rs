//! Shards: a destination may spread its messages over several partitions, and so over several servers of a cluster.
//! Each shard is a destination of its own, with lanes, sequences and counters of its own.

use super::{
    Destination, InvalidField, Ordering,
    validate::{bad, check_range},
};
use crate::{Arrival, DestinationName, name::SHARDS_MAX};

pub(super) fn is_one(shards: &u16) -> bool {
    *shards == 1
}

/// Spreads keys evenly over `shards`. If the number of shards grows from n - 1 to n, only each n-th key moves: the jump
/// consistent hash of Lamping and Veach (<https://arxiv.org/abs/1406.2294>).
fn jump_hash(mut seed: u64, shards: u16) -> u16 {
    let (mut shard, mut next) = (0, 0);
    while next < i64::from(shards) {
        shard = next;
        seed = seed.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((shard + 1) as f64 * ((1_u64 << 31) as f64 / ((seed >> 33) + 1) as f64)) as i64;
    }
    shard as u16
}

impl Destination {
    /// The names of all shards.
    pub fn shard_names(&self) -> impl Iterator<Item = DestinationName> + use<'_> {
        (0..self.shards).map(|shard| self.name.of_shard(shard))
    }

    /// The name of the shard that holds the lane of this ordering key.
    pub fn shard_of_key(&self, key: &str) -> DestinationName {
        const CRC64: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_XZ);
        self.name.of_shard(jump_hash(CRC64.checksum(key.as_bytes()), self.shards))
    }

    /// The name of the shard for this arrival: that of its lane. Without ordering, a repeat under the same idempotency
    /// key goes to the same shard.
    pub fn shard_of(&self, arrival: &Arrival) -> DestinationName {
        let message = &arrival.message;
        match (self.ordering, &arrival.idempotency_key) {
            (Ordering::None, Some(key)) => self.shard_of_key(key),
            (Ordering::None, None) => self.shard_of_key(&message.id),
            (Ordering::Key | Ordering::Destination, _) => {
                self.shard_of_key(message.key.as_deref().unwrap_or_default())
            }
        }
    }

    /// The definition for one of its shards, which has an equal part of each limit, rounded up.
    pub fn for_each_shard(&self) -> Destination {
        let mut part = self.clone();
        let shards = u64::from(self.shards);
        for limit in [
            &mut part.backlog_max,
            &mut part.backlog_bytes_max,
            &mut part.idempotency_keys_max,
            &mut part.log_max,
            &mut part.dead_letters_max,
            &mut part.previous_keys_max,
            &mut part.ids_max,
        ] {
            *limit = limit.div_ceil(shards);
        }
        for limit in [
            &mut part.weight,
            &mut part.transform.concurrency,
            &mut part.transform.rate_per_second_max,
            &mut part.transform.burst,
            &mut part.delivery.lanes_max,
            &mut part.delivery.rate_per_second_max,
        ] {
            *limit = limit.div_ceil(u32::from(self.shards));
        }
        part
    }

    pub(super) fn validate_shards(&self) -> Result<(), InvalidField> {
        if self.name.shard() > 0 {
            return Err(bad("name", "it is the name of a shard; define the destination instead"));
        }
        check_range("shards", self.shards.into(), 1, SHARDS_MAX.into())?;
        if self.shards > 1 && self.ordering == Ordering::Destination {
            let problem = "with ordering \"destination\" all messages are one lane, which cannot be spread; use \
                           ordering \"key\" or \"none\", or leave shards out";
            return Err(bad("shards", problem));
        }
        let (transform, delivery) = (&self.transform, &self.delivery);
        for (field, limit) in [
            ("transform.rate_per_second_max", transform.rate_per_second_max),
            ("transform.concurrency", transform.concurrency),
            ("delivery.rate_per_second_max", delivery.rate_per_second_max),
            ("delivery.lanes_max", delivery.lanes_max),
        ] {
            if (1..self.shards.into()).contains(&limit) {
                let problem = format!(
                    "{limit} cannot be divided among {} shards, each of which needs at least 1; raise it, or use fewer \
                     shards",
                    self.shards
                );
                return Err(bad(field, problem));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharded(shards: u16) -> Destination {
        let mut destination = Destination::new("orders".parse().unwrap(), "http://h/");
        (destination.shards, destination.ordering) = (shards, Ordering::Key);
        destination
    }

    #[test]
    fn shards_have_equal_parts_of_the_keys() {
        let destination = sharded(16);
        let mut counts = [0_u32; 16];
        for number in 0..100_000 {
            counts[usize::from(destination.shard_of_key(&format!("customer-{number}")).shard())] +=
                1;
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*least > 5_900 && *most < 6_600, "{counts:?}");
    }

    #[test]
    fn one_more_shard_moves_only_its_own_keys() {
        let (before, after) = (sharded(9), sharded(10));
        let keys = (0..10_000).map(|number| format!("k{number}"));
        let moved = keys.filter_map(|key| {
            let [old, new] = [&before, &after].map(|one| one.shard_of_key(&key).shard());
            (old != new).then_some(new)
        });
        let moved: Vec<u16> = moved.collect();
        assert!(moved.iter().all(|shard| *shard == 9));
        assert!((900..1_100).contains(&moved.len()), "{}", moved.len());
    }

    #[test]
    fn shards_have_equal_parts_of_the_limits() {
        let mut destination = sharded(4);
        (destination.backlog_max, destination.weight, destination.log_max) = (1_001, 8, 0);
        destination.transform.rate_per_second_max = 10;
        let part = destination.for_each_shard();
        assert_eq!((part.backlog_max, part.weight, part.log_max), (251, 2, 0));
        assert_eq!(part.transform.rate_per_second_max, 3);
    }

    #[test]
    fn lane_or_limit_of_one_cannot_be_divided() {
        let mut destination = sharded(2);
        assert_eq!(destination.validate(), Ok(()));
        destination.delivery.lanes_max = 1;
        assert_eq!(destination.validate().unwrap_err().field, "delivery.lanes_max");
        destination.ordering = Ordering::Destination;
        assert_eq!(destination.validate().unwrap_err().field, "shards");
    }
}
