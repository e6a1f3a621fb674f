//! The task of one destination: it makes the calls that stamp its arrivals.

use std::time::Duration;

use tokio::time::Instant;

use super::{Job, Session};
use crate::{MemoryBudget, Outcome, Receipt, Refusal, Watermark};
use domain::{Arrival, DestinationName, Durability, Ordering, TransformKind};
use faults::{
    pause::{Point, point},
    planted,
};
use store::{
    Batches, CallSequence, Catalog, CatalogEntry, DueTimer, Ingested, Store, StoreError,
    chunks_by_size, retry_until, server_clock,
};

/// The most bytes of bodies in one call (at least one message is taken).
const CALL_BYTES_MAX: usize = 4 << 20;

/// Stamps the arrivals of one destination, one call at a time.
pub(super) struct CommitTask {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    pub(super) watermark: Watermark,
    /// Schedules delayed messages that are due soon.
    pub(super) due: DueTimer,
    pub(super) memory: MemoryBudget,
    pub(super) name: DestinationName,
    pub(super) call_sequence: CallSequence,
    pub(super) batch_max: usize,
    pub(super) retry: Duration,
    /// The partition's epoch, as this task last saw it.
    pub(super) epoch: u64,
}

/// One arrival of a batch, and the job it belongs to.
struct Item<'a> {
    job: usize,
    submitted: Instant,
    arrival: &'a Arrival,
    session: &'a Session,
}

impl CommitTask {
    pub(super) async fn run(mut self, mut queue: Batches<Job>) {
        while let Some(mut jobs) = queue.next(self.batch_max).await {
            // Drop old jobs that nobody waits for any more: their producers have probably sent them
            // again.
            let is_late = |job: &Job| job.submitted.elapsed() > self.retry;
            jobs.retain(|job| {
                let is_left_out = job.reply.is_closed() && is_late(job);
                if is_left_out {
                    // Later arrivals of the same producer must not overtake it.
                    job.session.fail();
                }
                !is_left_out
            });
            #[cfg(feature = "planted-bugs")]
            let Some(jobs) = self.inject_faults(jobs) else { continue };
            self.stamp_all(jobs).await;
        }
    }

    /// Stamps the arrivals of a batch and sends the outcomes.
    pub(super) async fn stamp_all(&mut self, jobs: Vec<Job>) {
        point(Point::IngestGathered).await;
        let mut outcomes: Vec<Vec<Outcome>> = jobs.iter().map(|_| Vec::new()).collect();
        let items: Vec<Item> = jobs
            .iter()
            .enumerate()
            .flat_map(|(job, whole)| {
                let (session, submitted) = (&whole.session, whole.submitted);
                let item = move |arrival| Item { job, submitted, arrival, session };
                whole.arrivals.iter().map(item)
            })
            .collect();
        let size = |item: &Item| item.arrival.message.body.bytes.len();
        for call in chunks_by_size(&items, self.batch_max, CALL_BYTES_MAX, size) {
            self.stamp(call, &mut outcomes).await;
        }
        for (job, outcomes) in jobs.into_iter().zip(outcomes) {
            // An error only means that the producer is gone.
            let _ = job.reply.send(outcomes);
        }
    }

    /// Makes one call, and records the outcome of each item.
    async fn stamp(&mut self, items: &[Item<'_>], outcomes: &mut [Vec<Outcome>]) {
        let (live, aborted): (Vec<_>, Vec<_>) =
            items.iter().partition(|item| !item.session.has_failed());
        for item in aborted {
            outcomes[item.job].push(Err(Refusal::Aborted));
        }
        let results = self.ingest_valid(&live).await;
        for (item, result) in live.into_iter().zip(results) {
            let outcome = match result {
                // `Aborted` means "not stored", so do not use it for an unconfirmed item.
                Err(refusal)
                    if refusal.is_temporary()
                        && refusal != Refusal::NotConfirmed
                        && item.session.has_failed() =>
                {
                    Err(Refusal::Aborted)
                }
                outcome => outcome,
            };
            if item.arrival.traced.is_some() {
                self.note_span(item.arrival, &outcome);
            }
            match &outcome {
                Ok(_) => {
                    if let Some(due) = item.arrival.due
                        && let Some(entry) = self.catalog.get(self.name.as_str())
                    {
                        self.due.note_arrival(entry.partition, due);
                    }
                }
                Err(refusal) => {
                    telemetry::refused(self.name.as_str(), refusal.code().as_str());
                    if refusal.is_temporary() {
                        item.session.fail();
                    }
                }
            }
            outcomes[item.job].push(outcome);
        }
    }

    fn note_span(&self, arrival: &Arrival, outcome: &Outcome) {
        let (sequence, outcome) = match outcome {
            Ok(receipt) if receipt.duplicate_of.is_some() => {
                (Some(receipt.position.sequence), "duplicate")
            }
            Ok(receipt) => (Some(receipt.position.sequence), "stored"),
            // It may be submitted again, as the same arrival.
            Err(refusal) if refusal.is_temporary() => return,
            Err(refusal) => (None, refusal.code().as_str()),
        };
        telemetry::note_ingest(&self.name, arrival, sequence, outcome, server_clock());
    }

    async fn ingest_valid(&mut self, items: &[&Item<'_>]) -> Vec<Outcome> {
        let Some(entry) = self.catalog.get(self.name.as_str()) else {
            return vec![Err(Refusal::UnknownDestination(self.name.to_string())); items.len()];
        };
        if let Some(refusal) = self.closed(&entry) {
            return vec![Err(refusal); items.len()];
        }
        let fits = |item: &&&Item| undeliverable(&entry, item.arrival).is_none();
        let arrivals: Vec<&Arrival> = items.iter().filter(fits).map(|item| item.arrival).collect();
        let oldest = items.iter().map(|item| item.submitted).min().unwrap_or_else(Instant::now);
        let mut stamped = match self.ingest(&arrivals, oldest + self.retry).await {
            Ok((ingested, level)) => {
                ingested.into_iter().map(|one| outcome(one, level)).collect::<Vec<_>>()
            }
            Err(refusal) => vec![Err(refusal); arrivals.len()],
        }
        .into_iter();
        let outcome_of = |item: &&Item| match undeliverable(&entry, item.arrival) {
            Some(problem) => Err(Refusal::invalid_field(problem)),
            None => stamped.next().unwrap_or(Err(Refusal::NotConfirmed)),
        };
        items.iter().map(outcome_of).collect()
    }

    /// The reason if the destination refuses all arrivals now.
    fn closed(&self, entry: &CatalogEntry) -> Option<Refusal> {
        if self.watermark.is_high(entry.partition) {
            return Some(Refusal::MemoryHigh);
        }
        entry.paused.ingest.then_some(Refusal::Paused)
    }

    /// Stamps arrivals. Repeats the call if the epoch or the definition is stale, and until
    /// `deadline` if Redis does not answer. Returns the results, and the durability reached.
    async fn ingest(
        &mut self,
        arrivals: &[&Arrival],
        deadline: Instant,
    ) -> Result<(Vec<Ingested>, Durability), Refusal> {
        let unknown = || Refusal::UnknownDestination(self.name.to_string());
        if arrivals.is_empty() {
            return Ok((Vec::new(), Durability::Memory));
        }
        let bytes = arrivals.iter().map(|arrival| arrival.message.body.bytes.len()).sum();
        loop {
            let entry = self.catalog.get(self.name.as_str()).ok_or_else(unknown)?;
            let (store, call_sequence, epoch) = (&self.store, &self.call_sequence, self.epoch);
            let call = || async {
                // Not through the retries: others' calls wait for this room.
                let _room = self.memory.take_call(bytes).await;
                store.ingest(call_sequence, &entry, epoch, arrivals).await
            };
            let error = match retry_until(Some(deadline), call).await {
                Ok(ingested) => {
                    let is_new = |one: &&Ingested| matches!(one, Ingested::Stamped(_));
                    let stamped = ingested.iter().filter(is_new).count();
                    telemetry::ingested(self.name.as_str(), stamped, arrivals.len());
                    point(Point::IngestStamped).await;
                    return Ok((ingested, entry.destination.durability));
                }
                Err(error) => error,
            };
            match error {
                StoreError::StaleEpoch(_) if self.epoch > 0 && planted::is("epoch_ignored") => {
                    return Err(Refusal::RedisUnavailable);
                }
                StoreError::StaleEpoch(now) => self.epoch = now,
                StoreError::StaleDefinition | StoreError::UnknownDestination => {
                    let refreshed = self.catalog.refresh(&self.name).await;
                    let entry = refreshed.map_err(|error| refusal(&error))?.ok_or_else(unknown)?;
                    // If ingest was paused meanwhile, nothing more may be stored.
                    if let Some(refusal) = self.closed(&entry) {
                        return Err(refusal);
                    }
                }
                error => {
                    // This call may still reach Redis. Once the next call has run, Redis must
                    // refuse it.
                    self.call_sequence.give_up();
                    if !error.is_logged() {
                        tracing::warn!(destination = %self.name, %error, "could not stamp arrivals");
                    }
                    return Err(refusal(&error));
                }
            }
        }
    }
}

fn outcome(ingested: Ingested, durability: Durability) -> Outcome {
    match ingested {
        Ingested::Stamped(position) => Ok(Receipt { position, durability, duplicate_of: None }),
        Ingested::Duplicate(position, id) => {
            Ok(Receipt { position, durability, duplicate_of: Some(id) })
        }
        Ingested::Conflict => Err(Refusal::Conflict),
        Ingested::Damaged => {
            Err(Refusal::Damaged("the entry of its idempotency key in Redis cannot be read".into()))
        }
        // `Gone` concerns redrives only, never an arrival of a producer.
        Ingested::BacklogFull | Ingested::Gone => Err(Refusal::BacklogFull),
    }
}

pub(super) fn refusal(error: &StoreError) -> Refusal {
    match error {
        // Part of it may be stored, or all of it: a refusal that denies this would cause duplicates.
        StoreError::Unconfirmed(_)
        | StoreError::LostRights(_)
        | StoreError::Failed(_)
        | StoreError::Unreadable(_) => Refusal::NotConfirmed,
        StoreError::WrongType(_) => Refusal::Damaged(error.to_string()),
        StoreError::RefusesWrites(_) => Refusal::RedisRefusesWrites(error.to_string()),
        StoreError::NoRights(_) => Refusal::NoRights(error.to_string()),
        StoreError::CannotConfirm(problem) => Refusal::CannotConfirm(problem.clone()),
        StoreError::OutOfMemory => Refusal::MemoryHigh,
        StoreError::NewerSchema(_) => Refusal::NewerSchema(error.to_string()),
        StoreError::NoSecretsKey(_) => Refusal::NoSecretsKey(error.to_string()),
        _ => Refusal::RedisUnavailable,
    }
}

/// Why this destination cannot accept this arrival, if so. For example, a line break that no transform
/// removes could never be delivered as a line, and the message would block its lane.
fn undeliverable(entry: &CatalogEntry, arrival: &Arrival) -> Option<&'static str> {
    let destination = &entry.destination;
    if arrival.priority.is_some() && destination.ordering != Ordering::None {
        return Some(
            "priority (Reseq-Priority): only a destination whose ordering is \"none\" accepts it; \
             leave it out, as this destination keeps the order of arrival",
        );
    }
    let as_is = destination.transform.kind == TransformKind::None;
    (as_is && destination.breaks_lines(&arrival.message.body.bytes)).then_some(
        "body: it contains a line break, but the destination frames messages as lines; \
         give the destination delivery.framing = \"length\"",
    )
}
