//! Retries a head now (`lua/retry_head.lua`).

use bytes::Bytes;

use crate::{
    Store, StoreError,
    contract::contract,
    entry::{CatalogEntry, set_key},
    keys::DestinationKeys,
    record::{self, Part},
};
use domain::{Body, Sequence, Stamped, State};

contract! {
    retry_head
    keys(keys: &DestinationKeys, lane: Option<&str>) {
        destination: keys.hash(), waiting, messages, attempts, delayed, halted, releasable, lanes,
        active_builtin, active_worker, wake_waiting, wake_releasable,
        in_progress: keys.in_progress(lane), ready: keys.ready(lane), epoch, bodies,
    }
    args<'a> {
        destination: &'a str,
        version: u64,
        ordering: &'a str,
        lane: &'a str,
        sequence: Sequence,
        repaired: Vec<u8>,
        stored_bytes: usize,
        record_schema: u32,
        repaired_body: &'a [u8],
    }
}

/// A head to retry.
#[derive(Debug, Clone)]
pub struct Retry {
    /// The lane, as in [`LaneRequest::key`](super::LaneRequest::key).
    pub lane: Option<String>,
    /// The sequence of the head.
    pub sequence: Sequence,
    /// A body that replaces the message's body; only for halted messages.
    pub repaired: Option<Body>,
}

impl Store {
    /// Retries a lane's head now. Returns the head's new state: waiting or ready.
    pub async fn retry(&self, entry: &CatalogEntry, retry: &Retry) -> Result<State, StoreError> {
        self.in_schema(entry.partition, |schema| self.retry_in(schema, entry, retry)).await
    }

    async fn retry_in(
        &self,
        schema: u32,
        entry: &CatalogEntry,
        retry: &Retry,
    ) -> Result<State, StoreError> {
        let Retry { lane, sequence, repaired } = retry;
        let keys = self.keys_of(entry);
        let (record, body, length) = match repaired {
            None => (Vec::new(), None, 0),
            Some(body) => self.repaired(schema, entry, *sequence, body).await?,
        };
        let set = set_key(entry, lane.as_deref());
        let call = Args {
            destination: entry.destination.name.as_str(),
            version: entry.version,
            ordering: entry.ordering_text(),
            lane: lane.as_deref().unwrap_or_default(),
            sequence: *sequence,
            repaired: record,
            stored_bytes: length,
            record_schema: schema,
            repaired_body: body.as_deref().unwrap_or_default(),
        }
        .call(self, &keys, set);
        let stands: String = self.run(&call).await?;
        Ok(if stands == "ready" { State::Ready } else { State::Waiting })
    }

    /// Returns the record of a pending message with its new body, the new body if it is stored out of line, and the
    /// length of the current record and body.
    async fn repaired(
        &self,
        schema: u32,
        entry: &CatalogEntry,
        sequence: Sequence,
        body: &Body,
    ) -> Result<(Vec<u8>, Option<Bytes>, usize), StoreError> {
        let keys = self.keys_of(entry);
        let mut pipe = redis::pipe();
        pipe.cmd("HSTRLEN").arg(keys.messages()).arg(sequence);
        pipe.cmd("HSTRLEN").arg(keys.bodies()).arg(sequence);
        let lengths: (usize, usize) = self.query(&pipe).await?;
        let found = self.headers(entry, &[sequence]).await?.pop().flatten();
        let message: Stamped = found.ok_or(StoreError::WrongHead)?;
        if let Some(why) = &message.damaged {
            return Err(StoreError::WrongState(format!(
                "the message is damaged ({why}): only a message whose headers can be read takes another \
                 body; skip or cancel it"
            )));
        }
        let mut repaired = message;
        repaired.message.body = body.clone();
        repaired.message.end_encoding(false);
        let written = record::of_stamped(&repaired, entry.destination.ordering, schema);
        let stored = written.bodies.into_iter().find(|(part, _)| *part == Part::Body);
        Ok((written.record, stored.and_then(|(_, body)| body), lengths.0 + lengths.1))
    }
}
