//! The partitions of a deployment, and the partition of each destination and shard.

use std::sync::Arc;

use crate::DestinationName;

/// The CRC16 of Redis Cluster.
const CRC16: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);
/// The slots of a Redis Cluster.
const SLOTS: u16 = 16_384;

/// The partitions of a deployment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Partitions {
    /// The slot of each partition in a Redis Cluster.
    slots: Arc<[u16]>,
}

impl Partitions {
    /// This many partitions.
    pub fn new(count: u16) -> Partitions {
        let slot = |number| CRC16.checksum(Self::tag(number).as_bytes()) % SLOTS;
        Partitions { slots: (0..count.max(1)).map(slot).collect() }
    }

    /// The hash tag of a partition, which puts all its keys in one slot.
    pub fn tag(number: u16) -> String {
        format!("p{number:02}")
    }

    /// How many partitions there are.
    pub fn count(&self) -> u16 {
        self.slots.len() as u16
    }

    /// The partition that holds all keys of this destination, or of this shard. For a destination and its first shard:
    /// `CRC16(name) mod partitions`.
    pub fn of(&self, name: &DestinationName) -> u16 {
        match (CRC16.checksum(name.base().as_bytes()) % self.count(), name.shard()) {
            (first, 0) => first,
            (first, shard) => self.of_shard(first, name, shard),
        }
    }

    /// The partition of a shard after the first. Primaries of a cluster hold ranges of slots, so the slots are halved
    /// again and again, and each shard goes to the other half of the part that an earlier shard has had to itself.
    /// However many primaries share the slots equally, if they are a power of two, they hold equally many shards. The
    /// place of a shard does not depend on how many there are.
    fn of_shard(&self, first: u16, name: &DestinationName, shard: u16) -> u16 {
        let mut targets = vec![self.slots[usize::from(first)]];
        let mut shards_in = vec![0_u16; self.slots.len()];
        shards_in[usize::from(first)] = 1;
        let mut partition = first;
        for number in 1..=shard {
            let level = number.ilog2();
            let earlier = usize::from(number - (1 << level));
            let half = SLOTS >> (level + 1);
            let offset = CRC16.checksum(name.of_shard(number).as_str().as_bytes()) % half;
            let target = targets[earlier] ^ half ^ offset;
            targets.push(target);
            // The partition whose slot shares the longest prefix of bits with the target, among those that have the
            // fewest shards.
            let rounds = number / self.count();
            let free = (0..self.count()).filter(|one| shards_in[usize::from(*one)] == rounds);
            let nearest = free.min_by_key(|one| self.slots[usize::from(*one)] ^ target);
            partition = nearest.unwrap_or(first);
            shards_in[usize::from(partition)] += 1;
        }
        partition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_shards(partitions: u16, name: &str, shards: u16) -> Vec<u16> {
        let (partitions, name) = (Partitions::new(partitions), name.parse::<DestinationName>());
        let name = name.unwrap();
        (0..shards).map(|shard| partitions.of(&name.of_shard(shard))).collect()
    }

    #[test]
    fn partition_of_a_destination_is_redis_clusters_crc16() {
        // CRC16("123456789") is 0x31C3 in the specification of Redis Cluster.
        assert_eq!(of_shards(u16::MAX, "123456789", 1), [0x31C3]);
        assert_eq!(of_shards(64, "123456789", 1), [0x31C3 % 64]);
    }

    #[test]
    fn partitions_of_shards_never_change() {
        let expected = [41, 46, 44, 43, 38, 33, 39, 36, 63, 60, 62, 61];
        assert_eq!(of_shards(64, "orders", 12), expected);
        assert_eq!(of_shards(256, "orders", 6), [105, 88, 100, 107, 3, 4]);
        assert_eq!(of_shards(4, "orders", 8), [1, 2, 0, 3, 1, 2, 0, 3]);
        assert_eq!(of_shards(1, "orders", 3), [0, 0, 0]);
    }

    #[test]
    fn primaries_have_equally_many_shards() {
        let partitions = Partitions::new(64);
        for (name, shards) in [("orders", 16), ("erp", 16), ("invoices", 32), ("a", 4)] {
            let mut of_primaries = [0; 4];
            for partition in of_shards(64, name, shards) {
                let slot = partitions.slots[usize::from(partition)];
                of_primaries[usize::from(slot / (SLOTS / 4))] += 1;
            }
            assert_eq!(of_primaries, [shards / 4; 4], "{name}");
        }
    }
}
