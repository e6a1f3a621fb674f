//! The hash slots of a Redis Cluster.

use crc::{CRC_16_XMODEM, Crc};

/// Number of slots in a cluster.
const SLOTS: u16 = 16_384;
const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of a key. If the key has a hash tag, only the tag decides the slot.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let open = key.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close])
    });
    CRC.checksum(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_the_slot_that_redis_says() {
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"reseq:{foo}:d:x:{y}"), 12182);
        assert_eq!(slot_of(b"{}foo"), slot_of(b"{}foo"));
        assert_ne!(slot_of(b"{}foo"), slot_of(b"{}bar"));
    }
}
