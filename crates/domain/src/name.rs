//! Names of destinations, and the partition that a name belongs to.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest name of a destination, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A destination's name: `[a-z0-9._-]{1,64}`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[a-z0-9._-]{1,64}$")]
pub struct DestinationName(Arc<str>);

/// The text is not a valid name of a destination or topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name is 1 to 64 of the characters a-z, 0-9, '.', '_' and '-'")]
pub struct InvalidName;

impl DestinationName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The partition that holds all keys of this destination: `CRC16(name) mod partitions`, with
    /// the CRC16 of Redis Cluster (XMODEM).
    pub fn partition(&self, partitions: u16) -> u16 {
        const CRC16: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);
        CRC16.checksum(self.0.as_bytes()) % partitions.max(1)
    }
}

impl FromStr for DestinationName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(allowed) {
            return Err(InvalidName);
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for DestinationName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<DestinationName> for String {
    fn from(name: DestinationName) -> Self {
        name.0.to_string()
    }
}

impl Borrow<str> for DestinationName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DestinationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DestinationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_alphabet_or_too_long_are_refused() {
        for bad in ["", "ERP", "a b", "a{b}", "a:b", "é", &"x".repeat(65)] {
            assert_eq!(bad.parse::<DestinationName>(), Err(InvalidName), "{bad:?}");
        }
        assert!("erp-1.eu_west".parse::<DestinationName>().is_ok());
    }

    #[test]
    fn the_partition_is_redis_clusters_crc16() {
        // CRC16("123456789") is 0x31C3 in the specification of Redis Cluster.
        let name: DestinationName = "123456789".parse().unwrap();
        assert_eq!(name.partition(u16::MAX), 0x31C3);
        assert_eq!(name.partition(64), 0x31C3 % 64);
    }
}
