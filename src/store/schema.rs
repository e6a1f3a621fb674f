//! Versions of the storage format, and how a deployment migrates to the next.
//!
//! Each partition stores its schema. Every script that changes a partition refuses a pod that does
//! not know that schema (`NEWER_SCHEMA`), and records in another one (`STALE_SCHEMA`): the pod then
//! learns the right one. A version reads all schemas that it knows, and writes the partition's. So
//! pods of two versions work side by side, until `reseq migrate` raises the schema.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{MetaError, Store, StoreError, UnfitServer, ask};

/// The newest schema that this version knows.
pub const SCHEMA: u32 = 2;
/// The oldest schema that this version reads, and that of a partition that stores none. Schema 1
/// had other names of keys and fields; it was never released.
pub(super) const FIRST: u32 = 2;
/// The role under which a pod reports the schema it knows.
const ROLE: &str = "schema";
/// A pod counts as alive for this long after its last report.
const PRESENCE: Duration = Duration::from_secs(5);
/// How often a pod reports.
const PRESENCE_EVERY: Duration = Duration::from_secs(1);
/// How often to repeat a call in the schema that its refusal names.
const AGAIN_MAX: usize = 2;
/// The shortest time between two log lines about a newer schema.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The newest schema that this process knows: [`SCHEMA`]. A test build can pretend to be the next
/// version.
pub fn known() -> u32 {
    #[cfg(feature = "next-schema")]
    {
        static IS_NEXT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        let is_next = IS_NEXT.get_or_init(|| std::env::var_os("RESEQ_NEXT_SCHEMA").is_some());
        if *is_next {
            return SCHEMA + 1;
        }
    }
    SCHEMA
}

/// Why this version cannot continue, and what to do.
pub(super) fn newer_sentence(stored: u32) -> String {
    let known = known();
    format!(
        "Redis holds schema {stored} of Reseq, and this version knows {known}: start a newer version"
    )
}

/// Why this version cannot read the data, and what to do.
pub(super) fn older_sentence(stored: u32) -> String {
    format!(
        "Redis holds schema {stored} of Reseq, and this version reads schema {FIRST} and later: use an \
         empty Redis, another redis.prefix, or the version that wrote it"
    )
}

/// The schemas of the partitions that this pod knows. A hint: the scripts check.
pub(super) struct Schemas {
    of_partitions: Vec<AtomicU32>,
    /// When the newer schema was last logged.
    told: Mutex<Option<Instant>>,
}

impl Schemas {
    pub(super) fn new(partitions: u16) -> Schemas {
        let of_partitions = (0..partitions).map(|_| AtomicU32::new(FIRST)).collect();
        Schemas { of_partitions, told: Mutex::default() }
    }

    /// Logs the error, not too often.
    pub(super) fn tell(&self, error: &StoreError) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            *told = Some(Instant::now());
            tracing::error!("{error}");
        }
    }
}

/// A live pod that does not know the schema to migrate to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OlderPod {
    /// Its unique name.
    pub name: String,
    /// The newest schema that it knows.
    pub known: u32,
}

impl Store {
    /// The schema for records of this partition, as far as this pod knows.
    fn schema_of(&self, partition: u16) -> u32 {
        let found = self.inner.schemas.of_partitions.get(usize::from(partition));
        found.map_or(FIRST, |schema| schema.load(Ordering::Relaxed))
    }

    /// Makes a call that writes records, and repeats it if the partition has another schema.
    pub(super) async fn in_schema<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        partition: u16,
        call: impl Fn(u32) -> F,
    ) -> Result<T, StoreError> {
        let mut answer = call(self.schema_of(partition)).await;
        for _ in 0..AGAIN_MAX {
            let Err(StoreError::StaleSchema(now)) = answer else { break };
            tracing::info!(partition, schema = now, "the schema of a partition has changed");
            if let Some(noted) = self.inner.schemas.of_partitions.get(usize::from(partition)) {
                noted.store(now, Ordering::Relaxed);
            }
            answer = call(now).await;
        }
        answer
    }

    /// Reports that this pod is alive and which schema it knows; then fails if the data is newer. In
    /// this order, so that a concurrent migration sees the pod, or the pod sees the migration.
    pub(super) async fn enter(&self) -> Result<(), MetaError> {
        self.say_presence().await?;
        let noted = self.schemas().await?.into_iter().max();
        let newest = self.meta_schema().await?.max(noted.unwrap_or(FIRST));
        if newest > known() {
            self.leave(&role()).await?;
            let unfit = UnfitServer::NewerSchema { stored: newest };
            return Err(MetaError::Unfit(unfit));
        }
        Ok(())
    }

    async fn say_presence(&self) -> Result<(), StoreError> {
        // This also samples Redis's clock.
        self.server_time_ms().await?;
        self.heartbeat(&role(), PRESENCE).await.map(drop)
    }

    /// Reports that this pod is alive, until `stop`.
    pub async fn stay(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(PRESENCE_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(tick.tick()).await.is_some() {
            if let Err(error) = self.say_presence().await {
                tracing::debug!(%error, "cannot report that this pod is alive");
            }
        }
        if let Err(error) = self.leave(&role()).await {
            tracing::debug!(%error, "cannot leave the list of pods");
        }
    }

    /// Succeeds if Redis answers, holds no newer schema, and grants the rights that a pod needs.
    pub async fn check_ready(&self) -> Result<(), StoreError> {
        self.check_rights_now().await?;
        match self.meta_schema().await? {
            newer if newer > known() => Err(StoreError::NewerSchema(newer)),
            _ => Ok(()),
        }
    }

    /// The schema that the deployment has or is migrating to: no older pod may start.
    async fn meta_schema(&self) -> Result<u32, StoreError> {
        let (schema,): (Option<u32>,) =
            self.query(redis::pipe().hget(self.keys().meta(), "schema")).await?;
        Ok(schema.unwrap_or(FIRST))
    }

    /// Reads the schema of each partition, and remembers it.
    pub async fn schemas(&self) -> Result<Vec<u32>, StoreError> {
        let looks = (0..self.keys().partitions()).map(|partition| {
            let mut pipe = redis::pipe();
            pipe.hget(self.keys().partition(partition).epoch(), "schema");
            pipe
        });
        let mut all = Vec::new();
        for answer in self.query_each(&looks.collect::<Vec<_>>()).await {
            let schema: Option<u32> = ask::read(answer?.pop(), "a partition's schema")?;
            all.push(schema.unwrap_or(FIRST));
        }
        for (noted, schema) in self.inner.schemas.of_partitions.iter().zip(&all) {
            noted.store(*schema, Ordering::Relaxed);
        }
        Ok(all)
    }

    /// The live pods that do not know this version's newest schema.
    pub async fn older_pods(&self) -> Result<Vec<OlderPod>, StoreError> {
        let now_ms = self.server_time_ms().await?;
        let mut pipe = redis::pipe();
        pipe.zrangebyscore(self.keys().pods(), now_ms, "+inf");
        let (members,): (Vec<String>,) = self.query(&pipe).await?;
        let mut said = BTreeMap::new();
        let mut names = BTreeSet::new();
        for member in &members {
            let parts: Vec<&str> = member.split(':').collect();
            match parts.as_slice() {
                [ROLE, schema, name] => drop(said.insert(*name, schema.parse().unwrap_or(FIRST))),
                // A sender of a version that does not report its schema.
                [_, name] => drop(names.insert(*name)),
                _ => {}
            }
        }
        for name in names {
            said.entry(name).or_insert(FIRST);
        }
        let older = said.into_iter().filter(|(_, schema)| *schema < known());
        Ok(older.map(|(name, known)| OlderPod { name: name.to_owned(), known }).collect())
    }

    /// Sets the schema below which no pod may start. Returns the previous one.
    pub async fn set_meta_schema(&self, schema: u32) -> Result<u32, StoreError> {
        let before = self.meta_schema().await?;
        let mut pipe = redis::pipe();
        pipe.hset(self.keys().meta(), "schema", schema).ignore();
        self.query::<()>(&pipe).await?;
        Ok(before)
    }

    /// Raises the schema of a partition to the newest that this version knows. Returns the previous
    /// one.
    pub async fn migrate(&self, partition: u16) -> Result<u32, StoreError> {
        let keys = self.keys().partition(partition);
        let (name, mut call) = self.script(|scripts| &scripts.migrate);
        call.key(keys.epoch());
        call.arg(known());
        self.run(name, &call).await
    }
}

fn role() -> String {
    format!("{ROLE}:{}", known())
}
