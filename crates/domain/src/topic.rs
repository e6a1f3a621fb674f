//! A topic: a name under which a message is published to several destinations.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DestinationName, InvalidName, destination::InvalidField};

/// The most destinations of one topic, and of one message.
pub const DESTINATIONS_MAX: usize = 100;

/// A topic's name: `[a-z0-9._-]{1,64}`, like a destination's.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, pattern = "^[a-z0-9._-]{1,64}$")]
pub struct TopicName(DestinationName);

/// A topic, as in `[[topic]]` and in `PUT /v1/topics/{t}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    /// The name of the topic.
    pub name: TopicName,
    /// The destinations. Each gets a copy of each published message, with a position in its own order.
    pub destinations: Vec<DestinationName>,
}

impl Topic {
    /// Checks the number of destinations, and that no destination is named twice.
    pub fn validate(&self) -> Result<(), InvalidField> {
        let bad = |problem: String| Err(InvalidField { field: "destinations", problem });
        if self.destinations.is_empty() || self.destinations.len() > DESTINATIONS_MAX {
            return bad(format!("name 1 to {DESTINATIONS_MAX} of them"));
        }
        for (at, name) in self.destinations.iter().enumerate() {
            if name.shard() > 0 {
                return bad(format!("{name:?} is a shard; name {:?}", name.base()));
            }
            if self.destinations[..at].contains(name) {
                return bad(format!("{name:?} is named twice"));
            }
        }
        Ok(())
    }
}

impl TopicName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for TopicName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let name: DestinationName = text.parse()?;
        // Topics have no shards.
        if name.as_str() == text && name.shard() == 0 {
            Ok(TopicName(name))
        } else {
            Err(InvalidName)
        }
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_names_1_to_100_destinations_each_once() {
        let of = |names: Vec<String>| Topic {
            name: "orders".parse().unwrap(),
            destinations: names.iter().map(|name| name.parse().unwrap()).collect(),
        };
        let numbered = |count| (0..count).map(|number| format!("d{number}")).collect();
        assert_eq!(of(numbered(DESTINATIONS_MAX)).validate(), Ok(()));
        assert!(of(vec![]).validate().unwrap_err().to_string().contains("1 to 100"));
        assert!(of(numbered(DESTINATIONS_MAX + 1)).validate().is_err());
        let twice = of(vec!["erp".into(), "crm".into(), "erp".into()]).validate().unwrap_err();
        assert!(twice.to_string().contains("\"erp\" is named twice"), "{twice}");
    }
}
