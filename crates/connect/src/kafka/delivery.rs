//! A message that Reseq delivers: converts it to a record, and holds the result of writing it.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use krafka::{KrafkaError, Record, error::ErrorCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::source::Fault;

/// The answer to a request of a consumer.
#[derive(Deserialize)]
pub struct Taken {
    pub lease_ms: u64,
    pub deliveries: Vec<Delivery>,
}

/// A message under a lease.
#[derive(Deserialize)]
pub struct Delivery {
    pub token: String,
    pub lane: String,
    pub sequence: u64,
    epoch: u64,
    previous: Option<u64>,
    id: String,
    key: Option<String>,
    content_type: String,
    headers: BTreeMap<String, String>,
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
}

/// The result of writing a message.
pub enum Outcome {
    Written,
    /// Kafka refuses the message, and will always refuse it.
    Refused(String),
    /// The message was not written, or this is unknown.
    Open(Fault),
}

impl Delivery {
    /// Converts the message to a record. The error says why this is not possible.
    pub fn record(&self, topic: &str) -> Result<Record, String> {
        let body = match (&self.body_base64, &self.body) {
            (Some(text), _) => BASE64_STANDARD.decode(text).map_err(|error| error.to_string())?,
            (None, body) => body.as_ref().map_or("null", |body| body.get()).as_bytes().to_vec(),
        };
        let record = match (&self.key, self.lane.as_str()) {
            (Some(key), _) => Record::new(topic, body).key(key.clone()),
            // All messages of the destination are one lane.
            (None, "") => Record::new(topic, body).partition(0),
            (None, _) => Record::new(topic, body),
        };
        let own = [
            ("content-type", Some(self.content_type.clone())),
            ("reseq-id", Some(self.id.clone())),
            ("reseq-key", self.key.clone()),
            ("reseq-epoch", Some(self.epoch.to_string())),
            ("reseq-sequence", Some(self.sequence.to_string())),
            ("reseq-previous", self.previous.map(|previous| previous.to_string())),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let others = self.headers.iter().map(|(name, value)| (name.as_str(), value.clone()));
        Ok(others.chain(own).fold(record, |record, (name, value)| record.header(name, value)))
    }
}

impl Outcome {
    pub fn of<T>(result: krafka::Result<T>) -> Outcome {
        match result {
            Ok(_) => Outcome::Written,
            Err(error) if is_of_message(&error) => Outcome::Refused(error.to_string()),
            Err(error) => Outcome::Open(error.into()),
        }
    }
}

/// True if Kafka refuses the message itself, not the topic or the user.
fn is_of_message(error: &KrafkaError) -> bool {
    use ErrorCode::{InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge};
    match error {
        KrafkaError::Broker { code, .. } => {
            matches!(code, MessageTooLarge | RecordListTooLarge | InvalidRecord | InvalidTimestamp)
        }
        KrafkaError::Serialization { .. } => true,
        _ => false,
    }
}
