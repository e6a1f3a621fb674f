//! The result of ingest for each arrival.

use redis::Value;

use super::leased::Leased;
use crate::{StoreError, calls::unexpected};
use domain::{Epoch, Position};

/// The result for one arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ingested {
    /// The message was stamped, with this position.
    Stamped(Position),
    /// A repeat of a message that was stamped before, with this position and id. If the message repeats a position of
    /// its source, or only moves the mark of its source, the sequence is 0 and the id is empty.
    Duplicate(Position, String),
    /// A message with another body was stamped under the same idempotency key.
    Conflict,
    /// The destination's backlog is full, in messages, bytes or idempotency keys. Nothing was stored.
    BacklogFull,
    /// The dead letter to redrive does not exist any more. Nothing was stored.
    Gone,
    /// The entry of the message's idempotency key is damaged. Nothing was stored.
    Damaged,
    /// The message does not follow the mark of its source. Contains the mark. Nothing was stored.
    SourceGap(Option<String>),
    /// The destination has as many sources as it may have. Nothing was stored.
    SourcesFull,
}

/// Reads the result of each arrival, and the leased messages.
pub(super) fn read_answer(
    answer: Value,
    epoch: Epoch,
    count: usize,
) -> Result<(Vec<Ingested>, Option<Leased>), StoreError> {
    type Exception = (usize, String, u64, Epoch, String);
    let Value::Array(mut parts) = answer else { return Err(unexpected("ingest")) };
    if parts.is_empty() {
        return Err(unexpected("ingest"));
    }
    let exceptions: Vec<Exception> = parts
        .split_off(1)
        .into_iter()
        .map(redis::from_redis_value)
        .collect::<Result<_, _>>()
        .map_err(|_| unexpected("ingest"))?;
    let mut sequence: u64 = parts
        .pop()
        .and_then(|first| redis::from_redis_value(first).ok())
        .ok_or_else(|| unexpected("ingest"))?;
    let mut exceptions = exceptions.into_iter().peekable();
    let leased = exceptions.next_if(|exception| exception.0 == 0);
    let leased =
        leased.map(|(_, _, deadline, _, text)| Leased::read(deadline, &text)).transpose()?;
    let result = |arrival| {
        let listed = exceptions.next_if(|exception| exception.0 == arrival);
        let Some((_, kind, at, in_epoch, id)) = listed else {
            let position = Position { epoch, sequence };
            sequence += 1;
            return Ok(Ingested::Stamped(position));
        };
        match kind.as_str() {
            "duplicate" => Ok(Ingested::Duplicate(Position { epoch: in_epoch, sequence: at }, id)),
            "conflict" => Ok(Ingested::Conflict),
            "source_gap" => Ok(Ingested::SourceGap(Some(id).filter(|mark| !mark.is_empty()))),
            "sources_full" => Ok(Ingested::SourcesFull),
            "backlog_full" => Ok(Ingested::BacklogFull),
            "gone" => Ok(Ingested::Gone),
            "damaged" => Ok(Ingested::Damaged),
            _ => Err(unexpected("ingest")),
        }
    };
    let ingested: Result<Vec<_>, _> = (1..=count).map(result).collect();
    Ok((ingested?, leased))
}
