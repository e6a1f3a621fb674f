//! The result of a message, as `lua/complete.lua` stores it for the producer that waits for it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use domain::{Body, Epoch, Stamped, Tombstone};

/// The longest output that is stored, in bytes.
pub const RESULT_BYTES_MAX: usize = 1 << 20;

/// The result of processing a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptResult {
    /// The epoch of the message's position: after Redis has lost data, its sequence may belong to another message.
    pub epoch: Epoch,
    /// The id of the message.
    pub id: String,
    /// The output of the processor.
    pub output: KeptOutput,
}

/// An output that a producer waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeptOutput {
    /// The content type and bytes of the output.
    Body(String, Bytes),
    /// The processor dropped the message.
    Dropped,
    /// The output is longer than [`RESULT_BYTES_MAX`]. Contains its length in bytes.
    TooLong(u64),
}

impl KeptResult {
    /// The result of a processed message.
    pub fn of(message: &Stamped) -> KeptResult {
        let Body { content_type, bytes } = &message.message.body;
        let output = match message.tombstone {
            Some(Tombstone::Dropped) => KeptOutput::Dropped,
            _ if bytes.len() > RESULT_BYTES_MAX => KeptOutput::TooLong(bytes.len() as u64),
            _ => KeptOutput::Body(content_type.clone(), bytes.clone()),
        };
        KeptResult { epoch: message.position.epoch, id: message.message.id.clone(), output }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Writing into memory cannot fail, and MessagePack can express all fields.
        rmp_serde::to_vec(self).unwrap_or_default()
    }

    /// Reads a result that [`KeptResult::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<KeptResult, StoreError> {
        let unreadable =
            |error| StoreError::Unreadable(format!("the result of a message: {error}"));
        rmp_serde::from_slice(bytes).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{Message, Position};

    #[test]
    fn result_comes_back_unless_it_is_too_long() {
        let of = |length: usize, tombstone| {
            let body = Body { content_type: "a/b".into(), bytes: vec![7; length].into() };
            let (id, key, headers) = ("m1".to_owned(), None, Vec::new());
            let message = Message { id, key, headers, body, received_ms: 1 };
            let position = Position { epoch: 3, sequence: 9 };
            let whole = Stamped::new("erp".parse().unwrap(), position, 8, message);
            let kept = KeptResult::of(&Stamped { tombstone, ..whole }).encode();
            let KeptResult { epoch, id, output } = KeptResult::decode(&kept).unwrap();
            assert_eq!((epoch, id.as_str()), (3, "m1"));
            output
        };
        let body = |length| KeptOutput::Body("a/b".into(), vec![7; length].into());
        assert_eq!(of(0, None), body(0));
        assert_eq!(of(RESULT_BYTES_MAX, None), body(RESULT_BYTES_MAX));
        let longer = RESULT_BYTES_MAX + 1;
        assert_eq!(of(longer, None), KeptOutput::TooLong(longer as u64));
        assert_eq!(of(0, Some(Tombstone::Dropped)), KeptOutput::Dropped);
        assert!(KeptResult::decode(b"").is_err());
    }
}
