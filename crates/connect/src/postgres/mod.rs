//! A Postgres outbox, read by logical replication: rows of an insert-only table, or texts of `pg_logical_emit_message`.
//!
//! Messages come in the order of commits. The source confirms a position of the slot only when all destinations have
//! had it as their mark for `confirm_delay_ms`. So a mark before the confirmed position shows that messages are gone.

mod content;
mod examine;
mod feed;
mod pgoutput;
mod position;
mod session;
mod settings;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use anyhow::ensure;
use async_trait::async_trait;
use pgwire_replication::Lsn;
use tokio::sync::{mpsc, watch};

use crate::source::{Event, Fault, Finding, Health, Source};
use feed::{EVENTS_MAX, Feed};
use position::{Position, Timelines};
use session::{Session, Target, in_time};
pub use settings::Settings;

/// The most positions that wait to be old enough for a confirmation.
const UNCONFIRMED_MAX: usize = 1_024;

/// An outbox.
pub struct Postgres {
    name: String,
    settings: Settings,
    target: Target,
    /// The connection for queries. After an error, a new one is opened.
    queries: Option<Session>,
    reading: Option<Reading>,
    /// True if this process has asked Postgres to create the slot. Then no other process has read it.
    has_asked_for_slot: bool,
}

/// A slot that is being read.
struct Reading {
    events: mpsc::Receiver<Result<Event, Fault>>,
    confirmed: watch::Sender<Lsn>,
    /// Positions that all destinations have, each with the time when they had it.
    unconfirmed: VecDeque<(Instant, Lsn)>,
}

/// The state of a slot.
struct Slot {
    confirmed: Lsn,
    /// The bytes of the log that Postgres keeps for the slot.
    bytes: u64,
}

impl Postgres {
    pub fn new(name: &str, settings: &Settings) -> anyhow::Result<Postgres> {
        Ok(Postgres {
            name: name.to_owned(),
            settings: settings.clone(),
            target: settings.target()?,
            queries: None,
            reading: None,
            has_asked_for_slot: false,
        })
    }

    /// Runs a query over the connection for queries.
    async fn query(&mut self, sql: &str) -> Result<Vec<session::Row>, Fault> {
        let mut session = match self.queries.take() {
            Some(session) => session,
            None => Session::connect(&self.target).await?,
        };
        let rows = in_time(session.query(sql)).await?;
        self.queries = Some(session);
        Ok(rows)
    }

    /// The id of the system, its timeline, and the end of its log.
    async fn system(&mut self) -> Result<(String, u32, Lsn), Fault> {
        let rows = self.query("IDENTIFY_SYSTEM").await?;
        match rows.first().map(Vec::as_slice) {
            Some([Some(id), Some(timeline), Some(end), ..]) => {
                let numbers = timeline.parse().ok().zip(Lsn::parse(end).ok());
                let (timeline, end) = numbers.ok_or_else(session::cut_short)?;
                Ok((id.clone(), timeline, end))
            }
            _ => Err(session::cut_short()),
        }
    }

    /// The slot, if it exists. Fails if it cannot be used.
    async fn slot(&mut self) -> Result<Option<Slot>, Fault> {
        let name = self.settings.slot.clone();
        let sql = format!(
            "SELECT database = current_database() AND plugin = 'pgoutput', wal_status, confirmed_flush_lsn, \
             pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint \
             FROM pg_replication_slots WHERE slot_name = '{name}'"
        );
        let rows = self.query(&sql).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let text = |index: usize| row.get(index).and_then(Option::as_deref);
        if text(0) != Some("t") {
            let other = "is of another database, or not of the plugin pgoutput";
            return Err(Fault::Halted(format!("slot {name} {other}")));
        }
        if text(1) == Some("lost") {
            return Err(Fault::Halted(format!(
                "slot {name} is lost: Postgres has removed the log that it needs. Messages may be gone. Drop the slot, \
                 compare the table with what was delivered, and begin again with --begin-at oldest"
            )));
        }
        let Some(confirmed) = text(2).and_then(|text| Lsn::parse(text).ok()) else {
            let text = format!("slot {name} is being created, after the open transactions");
            return Err(Fault::Later(text));
        };
        let bytes = text(3).and_then(|text| text.parse().ok()).unwrap_or_default();
        Ok(Some(Slot { confirmed, bytes }))
    }

    async fn create_slot(&mut self) -> Result<Slot, Fault> {
        let name = self.settings.slot.clone();
        let sql =
            format!("SELECT lsn FROM pg_create_logical_replication_slot('{name}', 'pgoutput')");
        tracing::info!(source = self.name, "creating slot {name}, after the open transactions");
        self.has_asked_for_slot = true;
        Session::connect(&self.target).await?.query(&sql).await?;
        let gone = || Fault::Later(format!("slot {name} was removed again"));
        self.slot().await?.ok_or_else(gone)
    }

    async fn timelines(&mut self, current: u32) -> Result<Timelines, Fault> {
        let rows = match current {
            1 => Vec::new(),
            _ => self.query(&format!("TIMELINE_HISTORY {current}")).await?,
        };
        let history = rows.first().and_then(|row| row.get(1)?.as_deref()).unwrap_or_default();
        Ok(Timelines::parse(current, history))
    }

    /// The position from which to read the log, to get everything after this position.
    async fn start_of(&mut self, after: Position) -> Result<(Lsn, Timelines), Fault> {
        let (_, timeline, end) = self.system().await?;
        let timelines = self.timelines(timeline).await?;
        if after.timeline == timeline && after.commit <= end {
            return Ok((after.commit, timelines));
        }
        let Some(ended) = timelines.end_of(after.timeline) else {
            return Err(Fault::Halted(format!(
                "this server is older than what was delivered ({after}), or of another past: it is at timeline \
                 {timeline}, {end}. Is it a former primary, or a restored backup?"
            )));
        };
        if ended < after.commit {
            tracing::warn!(
                source = self.name,
                "a failover of Postgres has lost transactions after {ended} whose messages were delivered, to {after}"
            );
        }
        Ok((ended.min(after.commit), timelines))
    }

    /// Where to read from to get everything after the mark. Fails if the slot no longer has all of it.
    async fn start_after(&mut self, mark: &str) -> Result<(Position, Lsn, Timelines), Fault> {
        let slot = self.slot().await?;
        let name = self.settings.slot.clone();
        let Some(slot) = slot else {
            return Err(Fault::Halted(format!(
                "slot {name} does not exist any more. Messages after {mark} may be gone: compare the table with what \
                 was delivered, and begin again with --begin-at oldest"
            )));
        };
        let after = Position::parse(mark)
            .ok_or_else(|| Fault::Halted(format!("the mark {mark:?} is not of this source")))?;
        let (start, timelines) = self.start_of(after).await?;
        if slot.confirmed > start {
            return Err(Fault::Halted(format!(
                "slot {name} has nothing before {} any more, and a destination has messages to {after} only: it has \
                 lost more than the last {} ms (confirm_delay_ms), or is new. Begin with --begin-at oldest",
                slot.confirmed, self.settings.confirm_delay_ms
            )));
        }
        Ok((after, start, timelines))
    }

    /// Fails if nobody has said where to begin, and this process must not decide it.
    fn may_begin(&self, slot: Option<&Slot>) -> Result<(), Fault> {
        let name = &self.settings.slot;
        match slot {
            None if !self.settings.create_slot => {
                Err(Fault::Halted(format!("slot {name} does not exist, and create_slot is false")))
            }
            Some(_) if !self.has_asked_for_slot => Err(Fault::Halted(format!(
                "slot {name} exists, and no destination has a mark of this source: its data is gone, somebody else \
                 created the slot, or reseq-connect ended while it created it. Begin with --begin-at oldest"
            ))),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Source for Postgres {
    async fn name(&mut self) -> Result<String, Fault> {
        // Close the connection: Postgres cannot stop while a client reads the slot without confirming anything.
        self.reading = None;
        let (id, ..) = self.system().await?;
        Ok(format!("{}@{id}", self.name))
    }

    async fn begin(&mut self, at: Option<&str>) -> Result<String, Fault> {
        let (name, (_, timeline, _)) = (self.settings.slot.clone(), self.system().await?);
        let halted = |text: String| Err(Fault::Halted(text));
        let slot = self.slot().await?;
        if at.is_none() {
            self.may_begin(slot.as_ref())?;
        }
        let slot = match slot {
            Some(slot) => slot,
            None => self.create_slot().await?,
        };
        let oldest = self.timelines(timeline).await?.at(slot.confirmed, 0);
        match at.filter(|at| *at != "oldest").map(|at| Position::parse(at).ok_or(at)) {
            None => Ok(oldest.to_string()),
            Some(Ok(position)) if position >= oldest => Ok(position.to_string()),
            Some(Ok(_)) => {
                halted(format!("--begin-at: slot {name} has nothing before {oldest} any more"))
            }
            Some(Err(at)) => halted(format!("--begin-at: {}", unknown_begin(at))),
        }
    }

    async fn open(&mut self, after: &str) -> Result<(), Fault> {
        self.reading = None;
        // There are marks. If they are gone later although the slot exists, Redis has lost them.
        self.has_asked_for_slot = false;
        let (after, start, timelines) = self.start_after(after).await?;
        let name = self.settings.slot.clone();
        let mut session = Session::connect(&self.target).await?;
        session.start(&name, start, &self.settings.publication).await?;
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let (confirmed, receiver) = watch::channel(Lsn::ZERO);
        let feed = Feed::after(after, timelines, &self.name, &self.settings);
        tokio::spawn(feed.run(session, sender, receiver));
        self.reading = Some(Reading { events, confirmed, unconfirmed: VecDeque::new() });
        Ok(())
    }

    async fn next(&mut self) -> Result<Event, Fault> {
        let ended = || Fault::Later("the slot is not read".to_owned());
        let reading = self.reading.as_mut().ok_or_else(ended)?;
        reading.events.recv().await.ok_or_else(ended)?
    }

    fn confirm(&mut self, position: &str) {
        let (Some(reading), Some(position)) = (&mut self.reading, Position::parse(position)) else {
            return;
        };
        let Reading { unconfirmed, confirmed, .. } = reading;
        let is_new = unconfirmed.back().is_none_or(|(_, last)| *last < position.commit);
        if is_new && unconfirmed.len() < UNCONFIRMED_MAX {
            unconfirmed.push_back((Instant::now(), position.commit));
        }
        let delay = Duration::from_millis(self.settings.confirm_delay_ms);
        let is_old = |(since, _): &(Instant, Lsn)| since.elapsed() >= delay;
        while unconfirmed.front().is_some_and(is_old)
            && let Some((_, commit)) = unconfirmed.pop_front()
        {
            confirmed.send_replace(commit);
        }
    }

    async fn health(&mut self, read: &str) -> Result<Health, Fault> {
        let (.., end) = self.system().await?;
        let slot = self.slot().await?;
        let (confirmed, bytes) = slot.map_or((end, 0), |slot| (slot.confirmed, slot.bytes));
        let last = Position::parse(read).map_or(confirmed, |read| read.commit);
        metrics::gauge!("reseq_connect_slot_bytes", "source" => self.name.clone())
            .set(bytes as f64);
        let Settings { slot, slot_bytes_max, .. } = &self.settings;
        let problem = (bytes > *slot_bytes_max).then(|| {
            format!("slot {slot} keeps {bytes} bytes of the log (slot_bytes_max: {slot_bytes_max})")
        });
        let halted = self.publication_problem().await?;
        let problem = match problem {
            None => self.column_problem().await?,
            problem => problem,
        };
        let (lag, at) = (end.0.saturating_sub(last.0), last.0 as f64);
        Ok(Health { lag, unit: "bytes", at, problem, halted })
    }

    async fn check(&mut self, mark: Option<&str>) -> Vec<Finding> {
        self.examine(mark).await
    }
}

/// Checks the value of `--begin-at`.
pub fn check_begin(at: &str) -> anyhow::Result<()> {
    ensure!(at == "oldest" || Position::parse(at).is_some(), unknown_begin(at));
    Ok(())
}

fn unknown_begin(at: &str) -> String {
    format!("{at:?} is neither \"oldest\" nor a position")
}
