//! Versions of what is stored, and how a deployment goes from one to the next.
//!
//! Each partition notes its schema. Every script that changes a partition refuses a pod that does not
//! know it (`NEWER_SCHEMA`), and refuses records of another one (`STALE_SCHEMA`): then the pod learns
//! which it is. A version reads the records of all schemas that it knows. It writes those of the
//! partition's, so that the pods of two versions work side by side, until `reseq migrate` raises it.

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
/// The oldest schema that this version reads, and that of a partition that notes none. Schema 1 had
/// other names of keys and fields; it was never released.
pub(super) const FIRST: u32 = 2;
/// The role under which a pod says which schema it knows.
const ROLE: &str = "schema";
/// How long a pod that says nothing more is taken to live.
const PRESENCE: Duration = Duration::from_secs(5);
/// How often it says so.
const PRESENCE_EVERY: Duration = Duration::from_secs(1);
/// How often a call is made again in the schema that its refusal names.
const AGAIN_MAX: usize = 2;
/// How often a refusal by a newer schema is logged at most.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The newest schema that this process knows: [`SCHEMA`]. A build for tests can be told to be the
/// next version.
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

/// Why this version cannot go on, and what to do.
pub(super) fn newer_sentence(stored: u32) -> String {
    let known = known();
    format!(
        "Redis holds schema {stored} of Reseq, and this version knows {known}: start a newer version"
    )
}

/// Why this version cannot read what an older one wrote, and what to do.
pub(super) fn older_sentence(stored: u32) -> String {
    format!(
        "Redis holds schema {stored} of Reseq, and this version reads schema {FIRST} and later: use an \
         empty Redis, another redis.prefix, or the version that wrote it"
    )
}

/// What this pod has heard of the partitions' schemas. A hint: the scripts check.
pub(super) struct Schemas {
    of_partitions: Vec<AtomicU32>,
    /// When it was last said that Redis holds a newer one.
    told: Mutex<Option<Instant>>,
}

impl Schemas {
    pub(super) fn new(partitions: u16) -> Schemas {
        let of_partitions = (0..partitions).map(|_| AtomicU32::new(FIRST)).collect();
        Schemas { of_partitions, told: Mutex::default() }
    }

    /// Says why nothing goes on, not too often.
    pub(super) fn tell(&self, error: &StoreError) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            *told = Some(Instant::now());
            tracing::error!("{error}");
        }
    }
}

/// A pod that lives, and does not know the schema to migrate to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OlderPod {
    /// Its name among all pods.
    pub name: String,
    /// The newest schema that it knows.
    pub known: u32,
}

impl Store {
    /// The schema in which records of this partition are to be written, as far as this pod knows.
    fn schema_of(&self, partition: u16) -> u32 {
        let found = self.inner.schemas.of_partitions.get(usize::from(partition));
        found.map_or(FIRST, |schema| schema.load(Ordering::Relaxed))
    }

    /// Makes a call that writes records, in the partition's schema.
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

    /// Says that this pod lives and what it knows; then refuses if what Redis holds is newer. In this
    /// order, so that a migration that begins meanwhile sees the pod, or the pod the migration.
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
        // What the time is by the clock of Redis is heard here, too.
        self.server_time_ms().await?;
        self.heartbeat(&role(), PRESENCE).await.map(drop)
    }

    /// Goes on saying that this pod lives, until `stop`.
    pub async fn stay(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(PRESENCE_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(tick.tick()).await.is_some() {
            if let Err(error) = self.say_presence().await {
                tracing::debug!(%error, "cannot say that this pod lives");
            }
        }
        if let Err(error) = self.leave(&role()).await {
            tracing::debug!(%error, "cannot leave the list of pods");
        }
    }

    /// True when Redis answers, holds nothing newer than this version knows, and allows what a pod
    /// cannot do without.
    pub async fn check_ready(&self) -> Result<(), StoreError> {
        self.check_rights_now().await?;
        match self.meta_schema().await? {
            newer if newer > known() => Err(StoreError::NewerSchema(newer)),
            _ => Ok(()),
        }
    }

    /// The schema that the deployment has or is being migrated to: no older pod may start.
    async fn meta_schema(&self) -> Result<u32, StoreError> {
        let (schema,): (Option<u32>,) =
            self.query(redis::pipe().hget(self.keys().meta(), "schema")).await?;
        Ok(schema.unwrap_or(FIRST))
    }

    /// The schema of each partition; this pod goes by it from here on.
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

    /// The pods that live and do not know the newest schema that this one knows.
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
                // A sender of a version that did not say what it knows.
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

    /// Sets the schema that no older pod may start on. Returns the one before.
    pub async fn set_meta_schema(&self, schema: u32) -> Result<u32, StoreError> {
        let before = self.meta_schema().await?;
        let mut pipe = redis::pipe();
        pipe.hset(self.keys().meta(), "schema", schema).ignore();
        self.query::<()>(&pipe).await?;
        Ok(before)
    }

    /// Raises the schema of a partition to the newest that this version knows. Returns the one
    /// before.
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
