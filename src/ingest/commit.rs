//! Group commit: what arrives while one call to Redis is in flight makes the next one.
//!
//! The calls for one destination run strictly in turn, so the order in which arrivals are
//! submitted is the order of their sequences. After a temporary failure, what the same producer
//! submitted later is refused too: were it stamped, sending the failed one again would put it
//! behind what came after it.

#[cfg(feature = "planted-bugs")]
mod misled;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::TaskTracker;

use super::{Outcome, Receipt, Refusal, Room, Rooms, Watermark};
use crate::{
    config,
    domain::{Arrival, DestinationName, Durability, Ordering as Ordered, TopicName, TransformKind},
    faults::{
        pause::{Point, point},
        planted,
    },
    store::{
        Batches, Caller, Catalog, DueTimer, GroupCommit, Ingested, Known, Store, StoreError, cut,
        persist,
    },
    telemetry,
};

/// Jobs that wait for one destination; producers wait beyond it.
const QUEUE_MAX: usize = 1024;
/// The most bytes of bodies in one call (one message is always taken).
const CALL_BYTES_MAX: usize = 4 << 20;

/// One producer's stream of arrivals: a request or a connection. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Session {
    failed: Arc<AtomicBool>,
}

impl Session {
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) && !planted::is("failed_session_goes_on")
    }

    /// Nothing that is submitted from now on is stamped.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Arrivals of one producer for one destination, to be stamped in this order.
struct Job {
    arrivals: Arc<[Arrival]>,
    session: Session,
    reply: oneshot::Sender<Vec<Outcome>>,
    submitted: Instant,
    /// What the bodies take of the process's memory.
    _room: Room,
}

/// Answers that are on their way.
pub struct Pending {
    reply: oneshot::Receiver<Vec<Outcome>>,
    count: usize,
}

impl Pending {
    /// True while the outcomes are not there yet.
    pub fn is_waiting(&self) -> bool {
        self.reply.is_empty()
    }

    /// One outcome for each arrival, in order.
    pub async fn outcomes(self) -> Vec<Outcome> {
        let draining = || vec![Err(Refusal::Draining); self.count];
        self.reply.await.unwrap_or_else(|_| draining())
    }
}

/// Takes arrivals and stamps them. Cheap to clone.
#[derive(Clone)]
pub struct Committer {
    catalog: Catalog,
    jobs: Arc<GroupCommit<Job>>,
    rooms: Rooms,
}

impl Committer {
    /// A committer whose work runs on `tracker`, to its end once this is dropped.
    pub fn new(
        store: Store,
        catalog: Catalog,
        config: &config::Ingest,
        watermark: Watermark,
        due: DueTimer,
        tracker: TaskTracker,
    ) -> Committer {
        let (batch_max, retry) = (config.batch_max, Duration::from_millis(config.retry_ms));
        let of_worker = (store, catalog.clone(), watermark, due);
        let jobs = GroupCommit::new(catalog.clone(), QUEUE_MAX, tracker, move |name, queue| {
            let (store, catalog, watermark, due) = of_worker.clone();
            let caller = store.caller_anew(&format!("ingest:{name}"));
            let worker =
                Worker { store, catalog, watermark, due, name, caller, batch_max, retry, epoch: 0 };
            Box::pin(worker.run(queue))
        });
        let rooms = Rooms::new(config.bytes_in_flight_max);
        Committer { catalog, jobs: Arc::new(jobs), rooms }
    }

    /// Where there is room for what is to be submitted.
    pub fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// Where what is published to this topic goes, as of now.
    pub async fn destinations_of(
        &self,
        topic: &TopicName,
    ) -> Result<Vec<DestinationName>, Refusal> {
        match self.catalog.find_topic(topic).await {
            Ok(Some(known)) => Ok(known.topic.destinations.clone()),
            Ok(None) => Err(Refusal::UnknownTopic(topic.to_string())),
            Err(error) => Err(unread(&error)),
        }
    }

    /// Queues arrivals for one destination. The order of the calls is the order of the
    /// sequences; the outcomes come later. Their room is given back when they have.
    pub async fn submit(
        &self,
        destination: &DestinationName,
        arrivals: impl Into<Arc<[Arrival]>>,
        session: &Session,
        room: Room,
    ) -> Pending {
        let arrivals = arrivals.into();
        let count = arrivals.len();
        let (reply, pending) = oneshot::channel();
        let pending = Pending { reply: pending, count };
        let known = match self.catalog.find(destination).await {
            Ok(Some(known)) => known,
            other => {
                let refusal = match other {
                    Ok(_) => Refusal::UnknownDestination(destination.to_string()),
                    Err(error) => unread(&error),
                };
                if refusal.is_temporary() {
                    session.fail();
                }
                let _ = reply.send(vec![Err(refusal); count]);
                return pending;
            }
        };
        let submitted = Instant::now();
        let job = Job { arrivals, session: session.clone(), reply, submitted, _room: room };
        self.jobs.submit(&known.destination.name, job).await;
        pending
    }
}

/// Stamps what arrives for one destination, a call at a time.
struct Worker {
    store: Store,
    catalog: Catalog,
    watermark: Watermark,
    /// Takes up what is due soon.
    due: DueTimer,
    name: DestinationName,
    caller: Caller,
    batch_max: usize,
    retry: Duration,
    /// The partition's epoch, as last heard.
    epoch: u64,
}

/// One arrival of a batch, and whose it is.
struct Item<'a> {
    job: usize,
    submitted: Instant,
    arrival: &'a Arrival,
    session: &'a Session,
}

impl Worker {
    async fn run(mut self, mut queue: Batches<Job>) {
        while let Some(mut jobs) = queue.next(self.batch_max).await {
            // Nobody waits for these any more: who sent them will have sent them again.
            let is_late = |job: &Job| job.submitted.elapsed() > self.retry;
            jobs.retain(|job| {
                let is_left_out = job.reply.is_closed() && is_late(job);
                if is_left_out {
                    // What was submitted behind it must not overtake it.
                    job.session.fail();
                }
                !is_left_out
            });
            #[cfg(feature = "planted-bugs")]
            let Some(jobs) = self.misled(jobs) else { continue };
            self.stamp_all(jobs).await;
        }
    }

    /// Stamps the arrivals of a batch, and answers.
    async fn stamp_all(&mut self, jobs: Vec<Job>) {
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
        for call in cut(&items, self.batch_max, CALL_BYTES_MAX, size) {
            self.stamp(call, &mut outcomes).await;
        }
        for (job, outcomes) in jobs.into_iter().zip(outcomes) {
            // A producer that has gone does not hear.
            let _ = job.reply.send(outcomes);
        }
    }

    /// Makes one call, and notes what became of each item.
    async fn stamp(&mut self, items: &[Item<'_>], outcomes: &mut [Vec<Outcome>]) {
        let (live, aborted): (Vec<_>, Vec<_>) =
            items.iter().partition(|item| !item.session.has_failed());
        for item in aborted {
            outcomes[item.job].push(Err(Refusal::Aborted));
        }
        let results = self.settle(&live).await;
        for (item, result) in live.into_iter().zip(results) {
            let outcome = match result {
                // What may be there is not called aborted: that would say that it is not.
                Err(refusal)
                    if refusal.is_temporary()
                        && refusal != Refusal::NotConfirmed
                        && item.session.has_failed() =>
                {
                    Err(Refusal::Aborted)
                }
                outcome => outcome,
            };
            match &outcome {
                Ok(_) => {
                    if let Some(due) = item.arrival.due
                        && let Some(known) = self.catalog.get(self.name.as_str())
                    {
                        self.due.note_arrival(known.partition, due);
                    }
                }
                Err(refusal) => {
                    telemetry::refused(self.name.as_str(), refusal.code().1);
                    if refusal.is_temporary() {
                        item.session.fail();
                    }
                }
            }
            outcomes[item.job].push(outcome);
        }
    }

    async fn settle(&mut self, items: &[&Item<'_>]) -> Vec<Outcome> {
        let Some(known) = self.catalog.get(self.name.as_str()) else {
            return vec![Err(Refusal::UnknownDestination(self.name.to_string())); items.len()];
        };
        if let Some(refusal) = self.closed(&known) {
            return vec![Err(refusal); items.len()];
        }
        let fits = |item: &&&Item| undeliverable(&known, item.arrival).is_none();
        let arrivals: Vec<&Arrival> = items.iter().filter(fits).map(|item| item.arrival).collect();
        let oldest = items.iter().map(|item| item.submitted).min().unwrap_or_else(Instant::now);
        let mut stamped = match self.ingest(&arrivals, oldest + self.retry).await {
            Ok((ingested, level)) => {
                ingested.into_iter().map(|one| outcome(one, level)).collect::<Vec<_>>()
            }
            Err(refusal) => vec![Err(refusal); arrivals.len()],
        }
        .into_iter();
        let outcome_of = |item: &&Item| match undeliverable(&known, item.arrival) {
            Some(problem) => Err(Refusal::Invalid(problem)),
            None => stamped.next().unwrap_or(Err(Refusal::NotConfirmed)),
        };
        items.iter().map(outcome_of).collect()
    }

    /// Why nothing at all is taken just now.
    fn closed(&self, known: &Known) -> Option<Refusal> {
        if self.watermark.is_high(known.partition) {
            return Some(Refusal::MemoryHigh);
        }
        known.paused.ingest.then_some(Refusal::Paused)
    }

    /// Stamps arrivals, however often the epoch or the definition turn out to be stale; with the
    /// durability that they have reached. After `deadline` there is no further attempt.
    async fn ingest(
        &mut self,
        arrivals: &[&Arrival],
        deadline: Instant,
    ) -> Result<(Vec<Ingested>, Durability), Refusal> {
        let unknown = || Refusal::UnknownDestination(self.name.to_string());
        if arrivals.is_empty() {
            return Ok((Vec::new(), Durability::Memory));
        }
        loop {
            let known = self.catalog.get(self.name.as_str()).ok_or_else(unknown)?;
            let (store, caller, epoch) = (&self.store, &self.caller, self.epoch);
            let call = || store.ingest(caller, &known, epoch, arrivals);
            let error = match persist(Some(deadline), call).await {
                Ok(ingested) => {
                    let is_new = |one: &&Ingested| matches!(one, Ingested::Stamped(_));
                    let stamped = ingested.iter().filter(is_new).count();
                    telemetry::ingested(self.name.as_str(), stamped, arrivals.len());
                    point(Point::IngestStamped).await;
                    return Ok((ingested, known.destination.durability));
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
                    let known = refreshed.map_err(|error| refusal(&error))?.ok_or_else(unknown)?;
                    // It may have been paused just then: after that nothing more gets in.
                    if let Some(refusal) = self.closed(&known) {
                        return Err(refusal);
                    }
                }
                error => {
                    // What may still arrive of this call must not be stamped behind the next one.
                    self.caller.give_up();
                    if !error.is_told() {
                        tracing::warn!(destination = %self.name, %error, "arrivals were not stamped");
                    }
                    return Err(refusal(&error));
                }
            }
        }
    }
}

fn outcome(ingested: Ingested, durability: Durability) -> Outcome {
    match ingested {
        Ingested::Stamped(place) => Ok(Receipt { place, durability, duplicate_of: None }),
        Ingested::Duplicate(place, id) => Ok(Receipt { place, durability, duplicate_of: Some(id) }),
        Ingested::Conflict => Err(Refusal::Conflict),
        Ingested::Damaged => Err(Refusal::Damaged),
        // No arrival of a producer replaces a dead letter.
        Ingested::BacklogFull | Ingested::Gone => Err(Refusal::BacklogFull),
    }
}

/// Why a definition could not be looked up: nothing was sent to be stored.
fn unread(error: &StoreError) -> Refusal {
    match error {
        StoreError::NoRights(_) => refusal(error),
        _ => Refusal::RedisUnavailable,
    }
}

fn refusal(error: &StoreError) -> Refusal {
    match error {
        // Some of it may be there: to say that nothing is would have it sent twice.
        StoreError::Unconfirmed(_) | StoreError::Failed(_) => Refusal::NotConfirmed,
        StoreError::NoRights(_) => Refusal::NoRights(error.to_string()),
        StoreError::CannotConfirm(problem) => Refusal::CannotConfirm(problem.clone()),
        StoreError::OutOfMemory => Refusal::MemoryHigh,
        StoreError::NewerSchema(_) => Refusal::NewerSchema(error.to_string()),
        _ => Refusal::RedisUnavailable,
    }
}

/// Why this destination can never take this arrival: better refused now than found out later. A
/// line break that nothing takes out, for one, would be stuck at the head of its lane.
fn undeliverable(known: &Known, arrival: &Arrival) -> Option<&'static str> {
    let destination = &known.destination;
    if arrival.priority.is_some() && destination.ordering != Ordered::None {
        return Some(
            "priority (Reseq-Priority): only a destination whose ordering is \"none\" takes one; \
             leave it out, as this destination keeps the order of arrival",
        );
    }
    let as_is = destination.transform.kind == TransformKind::None;
    (as_is && destination.breaks_lines(&arrival.message.body.bytes)).then_some(
        "body: it holds a line break, but the destination's receiver is sent lines; \
         give the destination delivery.framing = \"length\"",
    )
}
