//! The only module that knows Redis: keys, scripts, records, errors, and one file per verb.

mod ask;
mod attempts;
mod backlogs;
mod bodies;
mod catalog;
mod claim;
mod clock;
mod complete;
mod confirm;
mod connect;
mod damage;
mod dead_letters;
mod destinations;
mod due;
mod durability;
pub mod embedded;
mod epoch;
mod error;
mod exhausted;
mod group;
mod in_file;
mod index;
mod ingest;
mod interventions;
pub mod keys;
mod log;
mod lookups;
mod memory;
mod messages;
mod own;
mod record;
mod recover;
mod release;
mod repair;
mod rights;
mod schema;
pub mod scripts;
mod stats;
mod takeover;
mod topics;
mod wake;
mod withdraw;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

pub use catalog::{Catalog, CatalogEntry, Changed, ChangedNames, Paused, Round, Watch};
pub use claim::Claimed;
pub use clock::{server_clock, server_clock_ms};
pub use complete::{Completion, Extension, Failed, Status};
pub use confirm::Confirm;
pub use connect::{Fitness, UnfitServer};
pub use damage::Damaged;
pub use dead_letters::DeadLetter;
pub use destinations::{Defined, Removed};
pub use due::DueTimer;
pub use error::StoreError;
pub use group::{Batches, GroupCommit, chunks_by_size};
pub use in_file::InFile;
pub use ingest::Ingested;
pub use interventions::Retry;
pub use keys::{Claimers, Keys};
pub use log::{Content, LogEntry};
pub use lookups::Newest;
pub use memory::Memory;
pub use messages::{Listed, Page, Which};
pub use own::{Owned, OwnerToken, Resigned};
pub use record::INLINE_MAX;
pub use recover::{Overdue, Reaped};
pub use release::{LaneRequest, LaneRun, Owner, RefusedHead, Released, Settled};
pub use repair::{Found, Repair};
pub use rights::{Missing, table as commands};
pub use schema::{OlderPod, SCHEMA, known as known_schema};
pub use stats::{Head, Stats};
pub use topics::CatalogTopic;
pub use wake::{Wake, Wakes};
pub use withdraw::{PendingWithdrawal, WITHDRAW_MAX, Who, Withdrawal, Withdrawn};

use crate::{config, faults::planted};
use connect::Links;
use damage::Damage;
use epoch::Epochs;
use rights::{Probe, Rights};
use schema::Schemas;
use scripts::{Call, Scripts, Transition};
use takeover::Takeovers;

/// All calls that Reseq makes to Redis. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    links: Links,
    keys: Keys,
    scripts: Scripts,
    /// The random, unique name of this process.
    pod: String,
    /// The seed for lease secrets. Only this process knows it.
    seed: uuid::Uuid,
    /// The epochs seen, and how long an owner that Redis forgot may continue.
    epochs: Epochs,
    /// Replicas of each primary.
    replicas: u32,
    schemas: Schemas,
    takeovers: Takeovers,
    rights: Rights,
    damage: Damage,
}

/// A caller whose calls must not run twice. It makes one call at a time and numbers them.
#[derive(Debug)]
pub struct CallSequence {
    name: String,
    number: AtomicU64,
}

impl CallSequence {
    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Gives up the current call without an answer. If it still arrives at Redis, Redis refuses it.
    pub fn give_up(&self) {
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// Passes the answer on. Unless the call must be repeated, the next call gets a new number.
    fn answered<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let goes_on = |error: &StoreError| error.is_temporary() || error.is_of_this_attempt();
        let is_over = !answer.as_ref().err().is_some_and(goes_on);
        if is_over || planted::is("call_renumbered") {
            self.give_up();
        }
        answer
    }
}

impl Store {
    /// Connects, checks the server, and checks or records the number of partitions.
    pub async fn open(
        redis: &config::Redis,
        owner_lease: Duration,
    ) -> Result<(Store, Fitness), UnfitServer> {
        let url = redis.url_masked();
        let unreachable = |problem: String| UnfitServer::Unreachable { url: url.clone(), problem };
        let links = Links::open(redis).map_err(|error| unreachable(error.to_string()))?;
        let (keys, scripts) = (Keys::new(&redis.prefix, redis.partitions), Scripts::new());
        let needs = links.needs(redis.replicas > 0);
        let probe = Probe::new(&keys, &scripts, needs);
        let fitness = links.check(&url, &probe).await?;
        let store = Store {
            inner: Arc::new(Inner {
                links,
                keys,
                scripts,
                pod: uuid::Uuid::new_v4().simple().to_string()[..12].to_owned(),
                seed: uuid::Uuid::new_v4(),
                epochs: Epochs::new(redis.partitions, owner_lease),
                replicas: redis.replicas.into(),
                schemas: Schemas::new(redis.partitions),
                takeovers: Takeovers::default(),
                rights: Rights::new(probe),
                damage: Damage::default(),
            }),
        };
        store.check_meta(redis.partitions).await.map_err(|error| match error {
            MetaError::Unfit(unfit) => unfit,
            MetaError::Store(error) => unreachable(error.to_string()),
        })?;
        Ok((store, fitness))
    }

    /// The unique name of this process.
    pub fn pod(&self) -> &str {
        &self.inner.pod
    }

    /// The names of the keys.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// A caller for `actor`, a name that must be unique in this process.
    pub fn caller(&self, actor: &str) -> CallSequence {
        CallSequence { name: format!("{}:{actor}", self.inner.pod), number: AtomicU64::new(1) }
    }

    /// Like `caller`, for an actor that exists several times: each gets a unique name, because all
    /// of them number their calls from 1.
    pub fn caller_anew(&self, actor: &str) -> CallSequence {
        static MADE: AtomicU64 = AtomicU64::new(0);
        self.caller(&format!("{actor}:{}", MADE.fetch_add(1, Ordering::Relaxed)))
    }

    async fn check_meta(&self, configured: u16) -> Result<(), MetaError> {
        let meta = self.inner.keys.meta();
        let mut pipe = redis::pipe();
        pipe.exists(&meta);
        let (is_known,): (bool,) = self.query(&pipe).await?;
        if !is_known {
            // Before any other pod knows the deployment: later, a missing epoch means a forgotten
            // one.
            self.init_epoch().await?;
        }
        let mut pipe = redis::pipe();
        pipe.hset_nx(&meta, "schema", schema::FIRST).ignore();
        pipe.hset_nx(&meta, "partitions", configured).ignore();
        pipe.hget(&meta, "schema").hget(&meta, "partitions");
        let (schema, stored): (u32, u16) = self.query(&pipe).await?;
        if schema < schema::FIRST {
            return Err(MetaError::Unfit(UnfitServer::OlderSchema { stored: schema }));
        }
        if stored != configured {
            return Err(MetaError::Unfit(UnfitServer::WrongPartitions { stored, configured }));
        }
        self.enter().await
    }

    fn script(&self, pick: impl FnOnce(&Scripts) -> &Transition) -> (&'static str, Call<'_>) {
        let transition = pick(&self.inner.scripts);
        (transition.name, transition.call())
    }
}

enum MetaError {
    Unfit(UnfitServer),
    Store(StoreError),
}

impl From<StoreError> for MetaError {
    fn from(error: StoreError) -> Self {
        MetaError::Store(error)
    }
}

/// Repeats the same call until Redis answers or `deadline` passes. If an attempt was sent without
/// an answer, and a later error says nothing about that attempt, returns `Unconfirmed`: the call
/// may have run.
pub async fn retry_until<T, F: Future<Output = Result<T, StoreError>>>(
    deadline: Option<Instant>,
    mut call: impl FnMut() -> F,
) -> Result<T, StoreError> {
    let mut pause = Duration::from_millis(20);
    let mut unconfirmed = None;
    loop {
        let error = match call().await {
            Err(error) if error.is_temporary() => error,
            Err(error) if error.is_of_this_attempt() => match (unconfirmed, deadline) {
                (Some(earlier), Some(_)) => return Err(earlier),
                (None, Some(_)) => return Err(error),
                // Without a deadline, retry until an operator has fixed the cause.
                (earlier, None) => {
                    unconfirmed = earlier;
                    error
                }
            },
            settled => return settled,
        };
        let out_of_time = deadline.is_some_and(|deadline| Instant::now() + pause > deadline);
        if out_of_time {
            return Err(unconfirmed.unwrap_or(error));
        }
        tracing::debug!(%error, "Redis call failed, trying again");
        if matches!(error, StoreError::Unconfirmed(_)) {
            unconfirmed = Some(error);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// The error for an answer that does not have the documented shape.
fn unexpected(what: &str) -> StoreError {
    StoreError::Unreadable(format!("an answer of {what} has another shape than documented"))
}
