//! Names of destinations and of their shards.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest name of a destination, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The most shards of a destination.
pub const SHARDS_MAX: u16 = 256;

/// A destination's name: `[a-z0-9._-]{1,64}`. Shards have names, too: those of `orders` are `orders`, `orders~1`,
/// `orders~2` and so on.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[a-z0-9._-]{1,64}(~[0-9]{1,3})?$")]
pub struct DestinationName(Arc<str>);

/// Separates the name of a destination from the number of a shard.
const BEFORE_SHARD: char = '~';

/// The text is not a valid name of a destination or topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name is 1 to 64 of the characters a-z, 0-9, '.', '_' and '-'; a shard of it ends in ~0 to ~255"
)]
pub struct InvalidName;

impl DestinationName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the destination that this is a shard of. Only shards after the first have another name.
    pub fn base(&self) -> &str {
        self.0.split_once(BEFORE_SHARD).map_or(&self.0, |(base, _)| base)
    }

    /// The number of the shard, from 0.
    pub fn shard(&self) -> u16 {
        let number = self.0.split_once(BEFORE_SHARD).and_then(|(_, number)| number.parse().ok());
        number.unwrap_or_default()
    }

    /// The name of the shard in paths, where `orders` means all shards of `orders`: the first one is `orders~0`.
    pub fn shard_in_paths(&self) -> String {
        format!("{}{BEFORE_SHARD}{}", self.base(), self.shard())
    }

    /// The name of this shard of the destination.
    pub fn of_shard(&self, shard: u16) -> DestinationName {
        match shard {
            0 => Self(self.base().into()),
            shard => Self(format!("{}{BEFORE_SHARD}{shard}", self.base()).into()),
        }
    }
}

impl FromStr for DestinationName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
        let (base, number) = text.split_once(BEFORE_SHARD).unwrap_or((text, "0"));
        if base.is_empty() || base.len() > NAME_BYTES_MAX || !base.bytes().all(allowed) {
            return Err(InvalidName);
        }
        // The first shard has no number in its name, but may be written with it.
        let shard: u16 = number.parse().map_err(|_| InvalidName)?;
        match shard.to_string() == number && shard < SHARDS_MAX {
            true if shard == 0 => Ok(Self(base.into())),
            true => Ok(Self(text.into())),
            false => Err(InvalidName),
        }
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
    fn shards_have_one_name_each() {
        let orders: DestinationName = "orders".parse().unwrap();
        assert_eq!((orders.base(), orders.shard()), ("orders", 0));
        let last = orders.of_shard(255);
        assert_eq!(last.as_str(), "orders~255");
        assert_eq!((last.base(), last.shard()), ("orders", 255));
        assert_eq!((last.of_shard(0), last.as_str().parse()), (orders.clone(), Ok(last)));
        assert_eq!("orders~0".parse(), Ok(orders));
        for bad in ["orders~", "orders~01", "orders~256", "orders~+1", "~1", "a~1~1"] {
            assert_eq!(bad.parse::<DestinationName>(), Err(InvalidName), "{bad:?}");
        }
    }
}
