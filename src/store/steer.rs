//! What people do to a destination: pause and resume it, have a head tried again
//! (`lua/pause.lua`, `lua/retry.lua`).

use super::{Claimers, Known, Paused, Store, StoreError, record, release::set_key};
use crate::domain::{Body, DestinationName, Sequence, Stamped, State};

/// What to retry.
#[derive(Debug, Clone)]
pub struct Retry {
    /// The lane, as in [`super::LaneRequest::key`].
    pub lane: Option<String>,
    /// Its head.
    pub sequence: Sequence,
    /// A body in place of the one that it has: of a halted message only.
    pub repaired: Option<Body>,
}

impl Store {
    /// Pauses or resumes ingest and delivery; what is none stays as it is. Tells what is paused
    /// now, and whether that is news.
    pub async fn pause(
        &self,
        name: &DestinationName,
        ingest: Option<bool>,
        delivery: Option<bool>,
    ) -> Result<(Paused, bool), StoreError> {
        let keys = self.keys().destination(name);
        let (transition, mut call) = self.script(|scripts| &scripts.pause);
        let word = |paused: Option<bool>| match paused {
            None => "",
            Some(true) => "1",
            Some(false) => "0",
        };
        call.key(keys.hash()).key(keys.partition.epoch());
        call.arg(word(ingest)).arg(word(delivery));
        type Answer = (u64, String, bool, String, u64);
        let answer: Answer = self.run(transition, &call).await?;
        let (version, definition, changed, paused, born) = answer;
        let paused = Paused::of_text(&paused);
        let noted = self.index(name, version, Some((paused, born, &definition))).await;
        noted.map_err(StoreError::half_way)?;
        Ok((paused, changed))
    }

    /// Has a lane's head tried again now. Tells where it stands: waiting, or ready.
    pub async fn retry(&self, known: &Known, retry: &Retry) -> Result<State, StoreError> {
        self.in_schema(known.partition, |schema| self.retry_in(schema, known, retry)).await
    }

    async fn retry_in(
        &self,
        schema: u32,
        known: &Known,
        retry: &Retry,
    ) -> Result<State, StoreError> {
        let Retry { lane, sequence, repaired } = retry;
        let keys = self.keys().destination(&known.destination.name);
        let (record, length) = match repaired {
            None => (Vec::new(), 0),
            Some(body) => self.repaired(schema, known, *sequence, body).await?,
        };
        let set = set_key(known, lane.as_deref());
        let (name, mut call) = self.script(|scripts| &scripts.retry);
        call.key(keys.hash()).key(keys.waiting()).key(keys.messages()).key(keys.attempts());
        call.key(keys.partition.delayed()).key(keys.halted()).key(keys.partition.releasable());
        call.key(keys.lanes()).key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.wake_waiting());
        call.key(keys.partition.wake_releasable());
        call.key(keys.in_progress(set)).key(keys.ready(set)).key(keys.partition.epoch());
        call.arg(known.destination.name.as_str()).arg(known.version).arg(known.ordering_text());
        call.arg(lane.as_deref().unwrap_or_default()).arg(*sequence).arg(record).arg(length);
        call.arg(schema);
        let stands: String = self.run(name, &call).await?;
        Ok(if stands == "ready" { State::Ready } else { State::Waiting })
    }

    /// The record of a pending message with another body, and the length of the one that it has.
    async fn repaired(
        &self,
        schema: u32,
        known: &Known,
        sequence: Sequence,
        body: &Body,
    ) -> Result<(Vec<u8>, usize), StoreError> {
        let keys = self.keys().destination(&known.destination.name);
        let mut pipe = redis::pipe();
        pipe.cmd("HSTRLEN").arg(keys.messages()).arg(sequence);
        let (length,): (usize,) = self.query(&pipe).await?;
        let found = self.messages(known, &[sequence]).await?.pop().flatten();
        let message: Stamped = found.ok_or(StoreError::WrongHead)?;
        let mut repaired = message;
        repaired.message.body = body.clone();
        Ok((record::of_stamped(&repaired, known.destination.ordering, schema), length))
    }
}
