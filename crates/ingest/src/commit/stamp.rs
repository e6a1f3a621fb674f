//! Makes the calls that stamp the arrivals of a destination.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{CopyResult, Job, Session};
use crate::{MemoryBudget, Outcome, Receipt, Refusal, Watermark, options};
use domain::{
    Arrival, Destination, DestinationName, Durability, LeaseToken, Ordering, TransformKind,
};
use faults::{
    pause::{Point, point},
    planted,
};
use store::{
    Catalog, CatalogEntry, Claimed, DueTimer, Ingested, LeaseTerms, Room, Store, StoreError, Taker,
    Unconfirmed, chunks_by_size, retry_until, server_clock,
};

/// The most bytes of bodies in one call (a call takes at least one message).
const CALL_BYTES_MAX: usize = 4 << 20;

/// How long to try to requeue messages whose call was given up. After that, their leases expire.
const REQUEUE_WITHIN: Duration = Duration::from_secs(10);

/// Stamps the arrivals of all destinations. For one destination, makes one call at a time.
pub(super) struct Stamping {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    pub(super) watermark: Watermark,
    /// Schedules delayed messages that are due soon.
    pub(super) due: DueTimer,
    /// The processor and the waiting workers of this process, which can take messages at once.
    pub(super) takers: Vec<Arc<dyn Taker>>,
    pub(super) memory: MemoryBudget,
    pub(super) batch_max: usize,
    pub(super) retry: Duration,
}

/// A copy for Redis to stamp, or the reason why Redis does not get it.
type Candidate<'a> = Result<&'a Arrival, Refusal>;

impl Stamping {
    /// Stamps the arrivals of these jobs. All jobs are for the same destination.
    pub(super) async fn run(self: Arc<Self>, mut jobs: Vec<Job>) {
        // Drops old jobs whose producers no longer wait: they have probably sent the messages again.
        jobs.retain(|job| {
            let is_left_out = job.reply.is_closed() && job.submitted.elapsed() > self.retry;
            if is_left_out {
                // Later arrivals of the same producer must not overtake the dropped ones.
                job.session.fail();
            }
            !is_left_out
        });
        #[cfg(feature = "planted-bugs")]
        let Some(jobs) = self.inject_faults(jobs) else { return };
        self.stamp_all(jobs).await;
    }

    /// Stamps the arrivals of these jobs and sends the outcomes.
    pub(super) async fn stamp_all(&self, jobs: Vec<Job>) {
        point(Point::IngestGathered).await;
        // The last job has the newest definition.
        let Some(mut entry) = jobs.last().map(|job| job.entry.clone()) else { return };
        let mut outcomes: Vec<Vec<Outcome>> = jobs.iter().map(|_| Vec::new()).collect();
        let of_job =
            jobs.iter().enumerate().map(|(at, job)| job.copies.iter().map(move |copy| (at, copy)));
        let copies: Vec<(usize, &CopyResult)> = of_job.flatten().collect();
        let size = |(_, copy): &(usize, &CopyResult)| {
            copy.as_ref().map_or(0, |arrival| arrival.message.body.bytes.len())
        };
        for some in chunks_by_size(&copies, self.batch_max, CALL_BYTES_MAX, size) {
            let called = self.stamp(&mut entry, &jobs, some).await;
            for ((at, copy), outcome) in some.iter().zip(called) {
                let outcome = self.noted(&entry, &jobs[*at].session, copy, outcome);
                outcomes[*at].push(outcome);
            }
        }
        for (job, outcomes) in jobs.into_iter().zip(outcomes) {
            // An error only means that the producer is gone.
            let _ = job.reply.send(outcomes);
        }
    }

    /// Makes one call for these copies, each with the number of its job.
    async fn stamp(
        &self,
        entry: &mut Arc<CatalogEntry>,
        jobs: &[Job],
        copies: &[(usize, &CopyResult)],
    ) -> Vec<Outcome> {
        let candidates = copies.iter().map(|(at, copy)| match copy {
            Ok(_) if jobs[*at].session.has_failed() && !planted::is("failed_session_goes_on") => {
                Err(Refusal::Aborted)
            }
            Ok(arrival) => Ok(arrival),
            Err(refusal) => Err(refusal.clone()),
        });
        let mut candidates: Vec<Candidate> = candidates.collect();
        let oldest = copies.iter().map(|(at, _)| jobs[*at].submitted).min();
        let deadline = oldest.unwrap_or_else(Instant::now) + self.retry;
        match self.ingest(entry, &mut candidates, deadline).await {
            Ok(ingested) => {
                let Destination { name, durability, .. } = &entry.destination;
                let mut ingested = ingested.into_iter();
                let mut next = || ingested.next().ok_or(Refusal::NotConfirmed);
                let outcome = |one: Candidate| {
                    one.and_then(|_| next()).and_then(|one| outcome(one, name, *durability))
                };
                candidates.into_iter().map(outcome).collect()
            }
            Err(refusal) => {
                let outcome = |one: Candidate| Err(one.err().unwrap_or_else(|| refusal.clone()));
                candidates.into_iter().map(outcome).collect()
            }
        }
    }

    /// Makes a call for the candidates that this destination accepts, and refuses the others. Repeats the call if the
    /// epoch or the definition is stale.
    async fn ingest(
        &self,
        entry: &mut Arc<CatalogEntry>,
        candidates: &mut [Candidate<'_>],
        deadline: Instant,
    ) -> Result<Vec<Ingested>, Refusal> {
        loop {
            // If ingest was paused meanwhile, no more arrivals may be stored.
            if let Some(refusal) = self.closed(entry) {
                return Err(refusal);
            }
            for one in &mut *candidates {
                if let Ok(arrival) = one
                    && let Some(problem) = undeliverable(entry, arrival)
                {
                    *one = Err(Refusal::invalid_field(problem));
                }
            }
            let arrivals: Vec<&Arrival> = candidates.iter().flatten().copied().collect();
            if arrivals.is_empty() {
                return Ok(Vec::new());
            }
            let room = self.takers.iter().find_map(|taker| taker.room(entry, arrivals.len()));
            let terms = room.as_deref().map(Room::terms);
            match self.call(entry, &arrivals, deadline, terms).await {
                Ok((ingested, leased)) => {
                    if let Some(room) = room {
                        room.take(leased);
                    }
                    return Ok(ingested);
                }
                Err(StoreError::StaleEpoch(_)) => {}
                Err(StoreError::StaleDefinition | StoreError::UnknownDestination) => {
                    let name = &entry.destination.name;
                    let refreshed = self.catalog.refresh(name).await;
                    let refreshed = refreshed.map_err(|error| refusal(&error))?;
                    let is_shard = entry.destination.shards > 1;
                    let Some(fresh) = refreshed else {
                        let unknown = Refusal::UnknownDestination(name.to_string());
                        return Err(if is_shard { Refusal::RedisUnavailable } else { unknown });
                    };
                    let of = |entry: &CatalogEntry| {
                        (entry.destination.shards, entry.destination.ordering)
                    };
                    if (is_shard || fresh.destination.shards > 1) && of(&fresh) != of(entry) {
                        // These arrivals may belong to another shard now. The next attempt finds it.
                        let first = self.catalog.refresh(&name.of_shard(0)).await;
                        first.map_err(|error| refusal(&error))?;
                        return Err(Refusal::RedisUnavailable);
                    }
                    *entry = fresh;
                }
                Err(error) => return Err(refusal(&error)),
            }
        }
    }

    /// Makes a call, and repeats it until `deadline` if Redis does not answer.
    async fn call(
        &self,
        entry: &Arc<CatalogEntry>,
        arrivals: &[&Arrival],
        deadline: Instant,
        terms: Option<&LeaseTerms>,
    ) -> Result<(Vec<Ingested>, Claimed), StoreError> {
        let (store, name) = (&self.store, &entry.destination.name);
        let (caller, epoch) =
            (store.take_caller(entry.partition, Some(name)), store.message_epoch(entry));
        let bytes = arrivals.iter().map(|arrival| arrival.message.body.bytes.len()).sum();
        let unconfirmed = Unconfirmed::default();
        let terms = terms.map(|terms| (terms, &unconfirmed));
        let call = || async {
            // Held for one call only, not during the retries: calls of other destinations wait for this room.
            let _room = self.memory.take_call(bytes).await;
            store.ingest_leasing(&caller, entry, epoch, arrivals, terms).await
        };
        let answer = retry_until(Some(deadline), call).await;
        use StoreError as E;
        let given_up = match &answer {
            Ok(_) | Err(E::StaleEpoch(_) | E::StaleDefinition | E::UnknownDestination) => None,
            Err(error) => {
                // This call may still reach Redis. Redis must refuse it once the next call has run.
                caller.give_up();
                // Clients get the error in their answer. Other lines of the log report problems of Redis.
                if !error.is_logged() && !error.is_temporary() {
                    tracing::warn!(destination = %name, %error, "could not stamp arrivals");
                }
                Some(name)
            }
        };
        store.put_back_caller(entry.partition, caller, given_up);
        let leases = unconfirmed.into_inner();
        if given_up.is_some() && !leases.is_empty() {
            tokio::spawn(requeue(store.clone(), entry.clone(), leases));
        }
        if let Ok((ingested, _)) = &answer {
            let is_new = |one: &&Ingested| matches!(one, Ingested::Stamped(_));
            let stamped = ingested.iter().filter(is_new).count();
            telemetry::ingested(name.as_str(), stamped, arrivals.len());
            point(Point::IngestStamped).await;
        }
        answer
    }

    /// The reason if the destination refuses all arrivals now.
    fn closed(&self, entry: &CatalogEntry) -> Option<Refusal> {
        if self.watermark.is_high(entry.partition) {
            return Some(Refusal::MemoryHigh);
        }
        entry.paused.ingest.then_some(Refusal::Paused)
    }

    /// Notes the outcome of a copy. If the producer may send the copy again, its session fails, so that no later copy
    /// is stored before it.
    fn noted(
        &self,
        entry: &CatalogEntry,
        session: &Session,
        copy: &CopyResult,
        outcome: Outcome,
    ) -> Outcome {
        // `Aborted` means "not stored", so an unconfirmed copy must not get it.
        let is_behind = |refusal: &Refusal| {
            refusal.is_temporary() && *refusal != Refusal::NotConfirmed && session.has_failed()
        };
        let or_aborted = |refusal| if is_behind(&refusal) { Refusal::Aborted } else { refusal };
        let outcome = outcome.map_err(or_aborted);
        if let Ok(arrival) = copy {
            match (&outcome, arrival.due) {
                (Ok(_), Some(due)) => self.due.note_arrival(entry.partition, due),
                (Ok(_), None) => {}
                (Err(refusal), _) => {
                    telemetry::refused(entry.destination.name.as_str(), refusal.code().as_str());
                }
            }
            if arrival.traced.is_some() {
                note_span(entry, arrival, &outcome);
            }
        }
        if outcome.as_ref().err().is_some_and(Refusal::is_temporary) {
            session.fail();
        }
        outcome
    }
}

/// Requeues messages that are stored, but whose call was given up without a confirmation: nobody processes them.
async fn requeue(store: Store, entry: Arc<CatalogEntry>, leases: Vec<LeaseToken>) {
    let caller = store.take_caller(entry.partition, None);
    let requeue = || store.requeue(&caller, &entry, &leases);
    if let Err(error) = retry_until(Some(Instant::now() + REQUEUE_WITHIN), requeue).await {
        tracing::debug!(%error, "cannot requeue messages; their leases will expire");
    }
    caller.give_up();
    store.put_back_caller(entry.partition, caller, None);
}

fn note_span(entry: &CatalogEntry, arrival: &Arrival, outcome: &Outcome) {
    let (sequence, outcome) = match outcome {
        Ok(receipt) if receipt.duplicate_of.is_some() => {
            // The sequence of a message that its source has repeated is not known.
            (Some(receipt.position.sequence).filter(|sequence| *sequence > 0), "duplicate")
        }
        Ok(receipt) => (Some(receipt.position.sequence), "stored"),
        // The same arrival may be submitted again.
        Err(refusal) if refusal.is_temporary() => return,
        Err(refusal) => (None, refusal.code().as_str()),
    };
    telemetry::note_ingest(&entry.destination.name, arrival, sequence, outcome, server_clock());
}

fn outcome(ingested: Ingested, name: &DestinationName, durability: Durability) -> Outcome {
    let receipt = |position, duplicate_of| {
        let destination = name.clone();
        Ok(Receipt { destination, position, durability, duplicate_of })
    };
    match ingested {
        Ingested::Stamped(position) => receipt(position, None),
        Ingested::Duplicate(position, id) => receipt(position, Some(id)),
        Ingested::Conflict => Err(Refusal::Conflict),
        Ingested::SourceGap(mark) => Err(Refusal::SourceGap(mark)),
        Ingested::SourcesFull => Err(Refusal::SourcesFull),
        Ingested::Damaged => {
            Err(Refusal::Damaged("the entry of its idempotency key in Redis cannot be read".into()))
        }
        // `Gone` is only an answer to redrives, never to an arrival of a producer.
        Ingested::BacklogFull | Ingested::Gone => Err(Refusal::BacklogFull),
    }
}

pub(super) fn refusal(error: &StoreError) -> Refusal {
    match error {
        // The arrivals may be stored, all or some of them. An error that says "not stored" would cause duplicates.
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

/// The reason why this destination cannot accept this arrival, if there is one. For example, a body with a line break
/// could never be delivered as a line if no transform removes the line break, and would block its lane.
fn undeliverable(entry: &CatalogEntry, arrival: &Arrival) -> Option<String> {
    let destination = &entry.destination;
    if let Some(problem) = options::problem(&arrival.options, destination) {
        return Some(problem);
    }
    if arrival.priority.is_some() && destination.ordering != Ordering::None {
        return Some(
            "priority (Reseq-Priority): only a destination whose ordering is \"none\" accepts it; \
             leave it out, as this destination keeps the order of arrival"
                .to_owned(),
        );
    }
    let as_is = destination.transform.kind == TransformKind::None;
    (as_is && destination.breaks_lines(&arrival.message.body.bytes)).then(|| {
        "body: it contains a line break, but the destination frames messages as lines; \
         give the destination delivery.framing = \"length\""
            .to_owned()
    })
}
