//! Reads a slot in a separate task, so that Postgres gets reports even while messages wait for Reseq.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use metrics::counter;
use pgwire_replication::{Lsn, protocol::ReplicationCopyData};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::{
    content::{of_emitted, of_row},
    pgoutput::{Change, Relation, decode},
    position::{Position, Timelines},
    session::{MESSAGE_BYTES_MAX, Next, Session, cut_short},
    settings::Settings,
};
use crate::source::{Content, Event, Fault, Unfit};

/// The most events that wait to be sent. The other constant limits the bytes of their bodies, in units of 1 KiB.
pub const EVENTS_MAX: usize = 4_096;
const HELD_MAX: usize = 16 << 10;
/// The time between two reports to Postgres.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// A position; the message there if there is one, or why it cannot be sent; and its share of [`HELD_MAX`].
type Found = (Position, Option<Result<Content, Unfit>>, u32);
/// A message with the position of its commit, and its number in the transaction.
type Changed = (Lsn, u32, Result<Content, Unfit>);

/// The state of a slot that is being read.
pub struct Feed {
    /// The name of the source, for metrics.
    name: String,
    settings: Settings,
    /// The last position that was read.
    last: Position,
    timelines: Timelines,
    /// The position of the commit of the current transaction, and the number of its changes so far.
    transaction: Option<(Lsn, u32)>,
    relations: HashMap<u32, Relation>,
}

enum Step<'a> {
    Read(Next),
    Send(OwnedSemaphorePermit, mpsc::Permit<'a, Result<Event, Fault>>),
    Report,
}

impl Feed {
    /// Reads the changes after a position.
    pub fn after(last: Position, timelines: Timelines, name: &str, settings: &Settings) -> Feed {
        let (name, settings, relations) = (name.to_owned(), settings.clone(), HashMap::new());
        Feed { name, settings, last, timelines, transaction: None, relations }
    }

    /// Reads until the receiver is gone or the connection ends. Sends the error to the receiver. Reports to Postgres
    /// that positions up to `confirmed` will not be needed again.
    pub async fn run(
        mut self,
        mut session: Session,
        events: mpsc::Sender<Result<Event, Fault>>,
        confirmed: watch::Receiver<Lsn>,
    ) {
        let Err(fault) = tokio::select! {
            ended = self.read(&mut session, &events, &confirmed) => ended,
            () = events.closed() => return,
        };
        let _ = events.send(Err(fault)).await;
    }

    async fn read(
        &mut self,
        session: &mut Session,
        events: &mpsc::Sender<Result<Event, Fault>>,
        confirmed: &watch::Receiver<Lsn>,
    ) -> Result<Infallible, Fault> {
        let mut ticks = interval_at(Instant::now(), REPORT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let held = Arc::new(Semaphore::new(HELD_MAX));
        // An event that is already read, and waits for room.
        let mut waiting: Option<Found> = None;
        loop {
            let work = async {
                let Some((_, _, size)) = &waiting else {
                    return session.next().await.map(Step::Read);
                };
                let held = held.clone().acquire_many_owned(*size).await;
                match (held, events.reserve().await) {
                    (Ok(held), Ok(place)) => Ok(Step::Send(held, place)),
                    _ => Err(Fault::Later("nobody reads".to_owned())),
                }
            };
            let step = tokio::select! {
                step = work => step?,
                _ = ticks.tick() => Step::Report,
            };
            match step {
                Step::Report => {
                    let until = *confirmed.borrow();
                    session.report(self.last.commit, until).await?;
                }
                Step::Read(message) => waiting = self.take(message)?,
                Step::Send(held, place) => {
                    let Some((position, content, _)) = waiting.take() else { continue };
                    let position = position.to_string();
                    place.send(Ok(Event { position, content, held: Some(held) }));
                }
            }
        }
    }

    /// The event for a message of Postgres. `None` if it has no event, or its position is not after the last one.
    fn take(&mut self, message: Next) -> Result<Option<Found>, Fault> {
        let (position, content, size) = match message {
            // Postgres has sent everything before this position, except the current transaction.
            Next::Data(ReplicationCopyData::KeepAlive { wal_end, .. })
                if self.transaction.is_none() =>
            {
                (self.timelines.at(wal_end, 0), None, 0)
            }
            Next::Data(ReplicationCopyData::KeepAlive { .. }) => return Ok(None),
            Next::TooLong(bytes) => {
                let outside = format!(
                    "a text outside a transaction has {bytes} bytes, after {}: begin after it with --begin-at",
                    self.last
                );
                let (commit, change) = self.count().map_err(|_| Fault::Halted(outside))?;
                let why = format!(
                    "it has {bytes} bytes, and the longest row may have {MESSAGE_BYTES_MAX}"
                );
                (self.timelines.at(commit, change), Some(Err(why.into())), 1)
            }
            Next::Data(ReplicationCopyData::XLogData { data, .. }) => {
                let size = u32::try_from(data.len() / 1024 + 1).unwrap_or(u32::MAX);
                let Some((commit, change, content)) = self.change(data)? else { return Ok(None) };
                let position = self.timelines.at(commit, change);
                (position, Some(content), size.min(HELD_MAX as u32))
            }
        };
        if position <= self.last {
            return Ok(None);
        }
        self.last = position;
        Ok(Some((position, content, size)))
    }

    /// The message in a change, if it has one.
    fn change(&mut self, data: Bytes) -> Result<Option<Changed>, Fault> {
        let mut is_ignored = false;
        let content = match decode(data).ok_or_else(cut_short)? {
            Change::Begin(commit) => {
                self.transaction = Some((commit, 0));
                return Ok(None);
            }
            Change::Commit => {
                self.transaction = None;
                return Ok(None);
            }
            Change::Relation(relation) => {
                self.relations.insert(relation.id, relation);
                return Ok(None);
            }
            Change::Nothing => return Ok(None),
            Change::Other => {
                is_ignored = true;
                None
            }
            Change::Insert { relation, row } => {
                let relation = self.relations.get(&relation).ok_or_else(cut_short)?;
                let Settings { table, columns, content_type, .. } = &self.settings;
                let name = format!("{}.{}", relation.schema, relation.name);
                let is_own = table.as_ref() == Some(&name);
                is_ignored = !is_own;
                is_own.then(|| of_row(columns, content_type.as_deref(), relation, &row))
            }
            Change::Message { is_transactional, at, prefix, content } => {
                let is_own = self.settings.message_prefix.as_ref() == Some(&prefix);
                let content = is_own.then(|| of_emitted(&content));
                if !is_transactional {
                    // This text belongs to no transaction. Its position is where it is in the log.
                    return Ok(content.map(|content| (at, 1, content)));
                }
                content
            }
        };
        if is_ignored {
            counter!("reseq_connect_ignored_total", "source" => self.name.clone()).increment(1);
        }
        let (commit, count) = self.count()?;
        Ok(content.map(|content| (commit, count, content)))
    }

    /// Counts a change of the current transaction. Returns the position of the commit, and the number of the change.
    /// Counts all changes, even those that are not sent: so a position means the same after a change of the settings.
    fn count(&mut self) -> Result<(Lsn, u32), Fault> {
        let (commit, count) = self.transaction.as_mut().ok_or_else(cut_short)?;
        *count += 1;
        Ok((*commit, *count))
    }
}
