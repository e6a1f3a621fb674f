//! The recipients of a message.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use domain::{DestinationName, TopicName};

/// The recipients, as the producer named them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipients {
    /// The destinations: at least one, without duplicates, in the order in which the producer named them.
    Destinations(Arc<[DestinationName]>),
    /// A topic: the destinations that it has when the message arrives.
    Topic(TopicName),
}

impl Recipients {
    /// An id for a message without one: a UUIDv7. With several copies and an idempotency key, derives the id from key
    /// and body instead. Retries may stamp the copies separately, and all copies must have the same id.
    pub(super) fn fresh_id(&self, idempotency_key: Option<&str>, body: &[u8]) -> String {
        match idempotency_key.filter(|_| !self.is_one()) {
            Some(key) => id_of_key(key, body),
            None => Uuid::now_v7().to_string(),
        }
    }

    /// True if the message certainly has only one copy.
    pub(super) fn is_one(&self) -> bool {
        matches!(self, Recipients::Destinations(names) if names.len() == 1)
    }
}

/// The id that is derived from an idempotency key and the body.
pub(super) fn id_of_key(key: &str, body: &[u8]) -> String {
    let mut digest = Sha256::new();
    digest.update((key.len() as u64).to_be_bytes());
    digest.update(key);
    digest.update(body);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.finalize()[..16]);
    Uuid::new_v8(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_copies_of_one_publication_share_a_fresh_id() {
        let topic = Recipients::Topic("orders".parse().unwrap());
        let both = Recipients::Destinations(["erp", "crm"].map(|d| d.parse().unwrap()).into());
        let id = topic.fresh_id(Some("k"), b"body");
        assert_eq!((&id, 8), (&both.fresh_id(Some("k"), b"body"), version(&id)));
        assert_ne!(id, topic.fresh_id(Some("kb"), b"ody"));
        let one = Recipients::Destinations(["erp".parse().unwrap()].into());
        for (to, key) in [(&topic, None), (&one, Some("k"))] {
            assert_eq!(version(&to.fresh_id(key, b"body")), 7);
            assert_ne!(to.fresh_id(key, b"body"), to.fresh_id(key, b"body"));
        }
    }

    fn version(id: &str) -> usize {
        Uuid::parse_str(id).unwrap().get_version_num()
    }
}
