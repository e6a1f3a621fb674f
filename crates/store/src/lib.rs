//! The data in Redis and all calls on it: keys, records, scripts, and the meaning of each call.
//!
//! [`transitions`] change the data in Redis, one file for each script. [`queries`] read it. The [`catalog`] is this
//! pod's copy of all definitions. They use the modules for keys, records and errors, which use [`redis_client`]. That
//! crate does not depend on the rest of Reseq.

pub mod catalog;
pub mod queries;
pub mod transitions;

mod coded;
mod due;
mod exhausted;
mod group;
mod on_arrival;

mod attempts;
mod bodies;
mod callers;
mod calls;
mod chunks;
pub mod commands;
pub mod contract;
mod damage;
mod durability;
mod entry;
mod epoch;
mod error;
mod hand_over;
mod kept_result;
mod key_types;
pub mod keys;
mod known_schema;
mod log_entry;
mod presence;
mod record;
mod rights;
pub mod rows;
mod schema;
pub mod scripts;
mod sealed;
mod tail;
mod unfit;
mod versions;
mod wake;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

pub use catalog::{
    Catalog, CatalogToken, CatalogTopic, Changed, ChangedNames, FromFile, InFile, OlderPod, Round,
    SecretsFound, Watch, left_over,
};
pub use chunks::chunks_by_size;
pub use damage::Damaged;
pub use due::DueTimer;
pub use entry::{CatalogEntry, Paused};
pub use error::{StoreError, WrongType};
pub use group::GroupCommit;
pub use hand_over::HandOver;
pub use kept_result::{KeptOutput, KeptResult, RESULT_BYTES_MAX};
pub use keys::{Claimers, Keys};
pub use known_schema::{SCHEMA, known as known_schema};
pub use log_entry::{Content, LogEntry};
pub use on_arrival::{Room, Taker};
pub use presence::About;
pub use queries::{
    attention::{Attention, Trouble},
    audit::AuditId,
    blocked_times::{BlockedTimes, Causes},
    cause::{Cause, Surroundings, waits_for_processor},
    dead_letters::DeadLetter,
    lanes::{LaneSize, LanesScanned},
    lookups::Newest,
    messages::{Leased, Listed, Page, Which},
    pods::{Ownership, PodInfo},
    stats::{Head, Stats},
    why::LaneHead,
    work::{Delivering, ReleasableLanes},
};
pub use record::INLINE_MAX;
pub use redis_client::{
    Confirm, Fitness, Memory, Replica, SentinelState, ServerState, server_clock, server_clock_ms,
};
pub use rights::{Missing, rules as rights_needed};
pub use sealed::{Keyring, Seal};
pub use tail::{Delivery, Outcome, TailHeard, Told};
pub use transitions::{
    acknowledge::RefusedMessage,
    acquire_partition::{Owned, OwnerToken},
    claim::Claimed,
    complete::{Completion, Status},
    consume::Consumed,
    define::{Defined, Replaces, Terms},
    delete_destination::Removed,
    end_session::SESSION_MS_MAX,
    extend::Extension,
    fail::{FAIL_MAX, Failed},
    ingest::{Ingested, LeaseTerms, Unconfirmed},
    postpone::RefusedHead,
    reap::{Overdue, Reaped},
    release::{LaneRequest, LaneRun, Owner, Released, Settled, WITHDRAWALS_MAX},
    repair::{Found, GoesOn, Repair},
    resign_partition::Resigned,
    retry_head::Retry,
    withdraw::{PendingWithdrawal, WITHDRAW_MAX, Who, Withdrawal, Withdrawn},
};
pub use unfit::UnfitServer;
pub use versions::{Author, KeptDefinition};
pub use wake::{Wake, WakeKind, Wakes, already_here, woken};

use callers::Callers;
use damage::Damage;
use epoch::Epochs;
use keys::DestinationKeys;
use redis_client::{Deployment, RedisClient};
use rights::{Needs, Probe, Rights};
use schema::Schemas;
use scripts::Scripts;

/// All calls that Reseq makes to Redis. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

/// A random, unique name for a process.
pub fn pod_name() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..12].to_owned()
}

struct Inner {
    client: RedisClient,
    keys: Keys,
    scripts: Scripts,
    /// The random, unique name of this process.
    pod: String,
    /// The seed for lease secrets. Only this process knows it.
    seed: uuid::Uuid,
    /// The epochs seen, and the lease length of an owner that Redis may have forgotten.
    epochs: Epochs,
    /// Replicas of each primary, as configured.
    replicas: u32,
    schemas: Schemas,
    rights: Rights,
    damage: Damage,
    blocked_times: BlockedTimes,
    keyring: Keyring,
    callers: Callers,
}

/// How long a numbered call may still run after its first attempt, in microseconds.
const CALL_US_MAX: u64 = 60_000_000;

/// Calls that must not run twice: they are made one at a time, and numbered. The number of a call is the time, by
/// Redis's clock in microseconds, after which Redis refuses the call ([`StoreError::LateCall`]).
#[derive(Debug)]
pub struct CallSequence {
    name: String,
    current: Mutex<CurrentCall>,
}

#[derive(Debug, Default)]
struct CurrentCall {
    /// The number of this call, or of the call before if this call has no number yet.
    number: u64,
    is_numbered: bool,
    /// Counts how often numbering began again, because the clock of Redis had stepped back.
    generation: u64,
    /// How far the server's clock is ahead of this pod's estimate of it, in ms.
    ahead_ms: i64,
}

impl CallSequence {
    /// The name and the number of the current call. They stay the same until the call is over.
    fn current(&self) -> (String, u64) {
        let mut current = self.current.lock();
        if !current.is_numbered {
            let now_ms = server_clock_ms().saturating_add_signed(current.ahead_ms);
            let not_after = now_ms * 1000 + CALL_US_MAX;
            if current.number > not_after + CALL_US_MAX / 2 {
                (current.generation, current.number) = (current.generation + 1, 0);
            }
            current.number = not_after.max(current.number + 1);
            current.is_numbered = true;
        }
        match current.generation {
            0 => (self.name.clone(), current.number),
            generation => (format!("{}~{generation}", self.name), current.number),
        }
    }

    /// Sets the number of the current call. For tests.
    pub fn set_number(&self, number: u64) {
        let mut current = self.current.lock();
        (current.number, current.is_numbered) = (number, true);
    }

    /// Gives up the current call without an answer. If the call arrives at Redis after the next call, Redis refuses
    /// it.
    pub fn give_up(&self) {
        self.current.lock().is_numbered = false;
    }

    /// Returns the answer unchanged. Unless the call must be repeated, the next call gets a new number.
    fn answered<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let goes_on = |error: &StoreError| error.is_temporary() || error.did_not_run();
        let is_over = !answer.as_ref().err().is_some_and(goes_on);
        if let Err(StoreError::LateCall(now_ms)) = &answer {
            let ahead_ms = now_ms.wrapping_sub(server_clock_ms()) as i64;
            self.current.lock().ahead_ms = ahead_ms;
            self.give_up();
        }
        if is_over {
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
        Store::open_with(redis, owner_lease, Keyring::default(), pod_name()).await
    }

    /// Like `open`, with keys for the secrets of definitions, and the name of this process ([`pod_name`]).
    pub async fn open_with(
        redis: &config::Redis,
        owner_lease: Duration,
        keyring: Keyring,
        pod: String,
    ) -> Result<(Store, Fitness), UnfitServer> {
        let url = redis.url_masked();
        let unreachable = |problem: String| {
            UnfitServer::Server(redis_client::UnfitServer::Unreachable {
                url: url.clone(),
                problem,
            })
        };
        let client = RedisClient::open(redis).map_err(|error| unreachable(error.to_string()))?;
        let (keys, scripts) = (Keys::new(&redis.prefix, redis.partitions), Scripts::new());
        let deployment = client.deployment();
        let needs = Needs {
            cluster: deployment == Deployment::Cluster,
            sentinel: deployment == Deployment::Sentinel,
            replicas: redis.replicas > 0,
        };
        let probe = Probe::new(&keys, &scripts, needs);
        let fitness = client.check(&url, &probe).await?;
        let store = Store {
            inner: Arc::new(Inner {
                client,
                keys,
                scripts,
                pod,
                seed: uuid::Uuid::new_v4(),
                epochs: Epochs::new(redis.partitions, owner_lease),
                replicas: redis.replicas.into(),
                schemas: Schemas::new(redis.partitions),
                rights: Rights::new(probe),
                damage: Damage::default(),
                blocked_times: BlockedTimes::default(),
                keyring,
                callers: Callers::default(),
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

    /// How long the heads that this pod samples have waited, by cause.
    pub fn blocked_times(&self) -> &BlockedTimes {
        &self.inner.blocked_times
    }

    /// The Redis servers that are known now: the addresses that calls use, other ports of these servers, and their
    /// replicas.
    pub async fn redis_hosts(&self, wait: Duration) -> Vec<config::Host> {
        let mut hosts = self.inner.client.hosts();
        let examined = tokio::time::timeout(wait, self.inner.client.examine(false)).await;
        for (name, state) in examined.unwrap_or_default() {
            let Ok(state) = state else { continue };
            // Without a port, the name is the path of a socket on this machine.
            let host = name.rsplit_once(':').map_or("localhost", |(host, _)| host);
            hosts.extend(state.ports.into_iter().map(|port| (host.to_owned(), port)));
            let parsed = |address: &str| {
                let (host, port) = address.rsplit_once(':')?;
                Some((host.to_owned(), port.parse().ok()?))
            };
            hosts.extend(state.replicas.iter().filter_map(|replica| parsed(&replica.address)));
        }
        hosts
    }

    /// Builds the names of keys.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// Builds the names of a destination's keys.
    fn keys_of(&self, entry: &CatalogEntry) -> DestinationKeys {
        self.keys().destination(&entry.destination.name)
    }

    /// Creates a call sequence for `actor`, a name that must be unique in this process.
    pub fn call_sequence(&self, actor: &str) -> CallSequence {
        CallSequence { name: format!("{}:{actor}", self.inner.pod), current: Mutex::default() }
    }

    /// Like `call_sequence`, for an actor with several instances: each sequence gets a unique name.
    pub fn new_call_sequence(&self, actor: &str) -> CallSequence {
        static MADE: AtomicU64 = AtomicU64::new(0);
        self.call_sequence(&format!("{actor}:{}", MADE.fetch_add(1, Ordering::Relaxed)))
    }

    async fn check_meta(&self, configured: u16) -> Result<(), MetaError> {
        let meta = self.inner.keys.meta();
        let mut pipe = redis::pipe();
        pipe.exists(&meta).hget(&meta, "schema").hget(&meta, "partitions");
        let found: (bool, Option<u32>, Option<u16>) = self.query(&pipe).await?;
        if !found.0 {
            // Write the epochs before any pod can find the deployment: after that, a missing epoch
            // means that Redis has lost it.
            self.init_epoch().await?;
        }
        let (schema, stored) = match found {
            // Does not write: Redis refuses the commands below when it has no memory left.
            (_, Some(schema), Some(stored)) => (schema, stored),
            _ => {
                let mut pipe = redis::pipe();
                pipe.hset_nx(&meta, "schema", known_schema::FIRST).ignore();
                pipe.hset_nx(&meta, "partitions", configured).ignore();
                pipe.hget(&meta, "schema").hget(&meta, "partitions");
                self.query::<(u32, u16)>(&pipe).await?
            }
        };
        if schema < known_schema::FIRST {
            return Err(MetaError::Unfit(UnfitServer::OlderSchema { stored: schema }));
        }
        if stored != configured {
            return Err(MetaError::Unfit(UnfitServer::WrongPartitions { stored, configured }));
        }
        self.enter().await
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

/// Repeats the same call until Redis answers or `deadline` passes. Returns `Unconfirmed` if an attempt was sent but
/// not answered, and a later error does not tell whether it has run.
pub async fn retry_until<T, F: Future<Output = Result<T, StoreError>>>(
    deadline: Option<Instant>,
    mut call: impl FnMut() -> F,
) -> Result<T, StoreError> {
    let mut pause = Duration::from_millis(20);
    let mut unconfirmed: Option<StoreError> = None;
    loop {
        let answer = call().await;
        // It can no longer be found out whether an earlier attempt has run.
        if let (Err(StoreError::LateCall(_)), Some(_), Some(earlier)) =
            (&answer, deadline, &unconfirmed)
        {
            return Err(earlier.clone());
        }
        let error = match answer {
            Err(error) if error.is_temporary() => error,
            Err(error) if error.did_not_run() => match (unconfirmed, deadline) {
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
