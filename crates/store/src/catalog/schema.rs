//! The schema of the deployment, and which pods know it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redis::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    MetaError, Store, StoreError,
    known_schema::{FIRST, known},
    presence::{self, About, PRESENCE, Presence},
    unfit::UnfitServer,
};
use redis_client::{read, server_clock_ms};

/// Clocks that differ by at most this count as equal, in ms.
const CLOCK_MS_MAX: i64 = 1_000;

/// How often a pod reports that it is alive.
const PRESENCE_EVERY: Duration = Duration::from_secs(1);

/// A live pod that does not know the schema to migrate to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OlderPod {
    /// The unique name of the pod.
    pub name: String,
    /// The newest schema that the pod knows.
    pub known: u32,
}

impl Store {
    /// Reports that this pod is alive and which schema it knows. Then fails if the data has a newer schema. With this
    /// order, either a concurrent migration sees the pod, or the pod sees the migration.
    pub(crate) async fn enter(&self) -> Result<(), MetaError> {
        self.say_presence("").await?;
        let (mut noted, mut unavailable) = (None, 0);
        for schema in self.schema_of_each().await {
            match schema {
                Ok(schema) => noted = noted.max(Some(schema)),
                // Each script checks the schema of its partition again.
                Err(error) if error.is_temporary() => unavailable += 1,
                Err(error) => return Err(error.into()),
            }
        }
        if unavailable > 0 {
            tracing::warn!(
                partitions = unavailable,
                "some partitions are not available; the others are served"
            );
        }
        let newest = self.meta_schema().await?.max(noted.unwrap_or(FIRST));
        if newest > known() {
            self.leave(&presence::role()).await?;
            let unfit = UnfitServer::NewerSchema { stored: newest };
            return Err(MetaError::Unfit(unfit));
        }
        Ok(())
    }

    /// How far the clock of this machine is ahead of the clock of Redis, in seconds; 0 if the difference may be a
    /// second or less.
    async fn ahead_s(&self) -> Result<i64, StoreError> {
        let asked = SystemTime::now();
        // This call also records a sample of Redis's clock.
        let of_redis_ms = self.server_time_ms().await? as i64;
        let ms = |time: SystemTime| {
            time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
        };
        let (before, after) = (ms(asked), ms(SystemTime::now()));
        let ahead_ms =
            if of_redis_ms < before { before - of_redis_ms } else { (after - of_redis_ms).min(0) };
        Ok(if ahead_ms.abs() > CLOCK_MS_MAX { ahead_ms / 1_000 } else { 0 })
    }

    async fn say_presence(&self, about: &str) -> Result<(), StoreError> {
        self.heartbeat_as(&presence::role(), about, PRESENCE).await.map(drop)
    }

    /// Removes this process from the list of live pods: it only read data or migrated.
    pub async fn leave_pods(&self) {
        if let Err(error) = self.leave(&presence::role()).await {
            tracing::debug!(%error, "cannot leave the list of pods");
        }
    }

    /// Reports until `stop` that this pod is alive, with its description.
    pub async fn stay(self, of_pod: About, stop: CancellationToken) {
        let (host, started_ms) = (host(), server_clock_ms());
        let (mut about, mut is_wrong) = (of_pod.member(0, &host, started_ms), false);
        let mut tick = tokio::time::interval(PRESENCE_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(tick.tick()).await.is_some() {
            let said = async {
                let ahead_s = self.ahead_s().await?;
                say_clock(&mut is_wrong, ahead_s);
                let now = of_pod.member(ahead_s, &host, started_ms);
                if now != about {
                    self.leave_as(&presence::role(), &about).await?;
                    about = now;
                }
                self.say_presence(&about).await
            };
            if let Err(error) = said.await {
                tracing::debug!(%error, "cannot report that this pod is alive");
            }
        }
        if let Err(error) = self.leave_as(&presence::role(), &about).await {
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

    /// The schema that the deployment has or is migrating to. A pod that does not know it must not start.
    async fn meta_schema(&self) -> Result<u32, StoreError> {
        let (schema,): (Option<u32>,) =
            self.query(redis::pipe().hget(self.keys().meta(), "schema")).await?;
        Ok(schema.unwrap_or(FIRST))
    }

    /// Reads the schema of each partition, and remembers it.
    pub async fn schemas(&self) -> Result<Vec<u32>, StoreError> {
        self.schema_of_each().await.into_iter().collect()
    }

    /// Like `schemas`, but if a server does not answer, only its own partitions fail.
    pub async fn schema_of_each(&self) -> Vec<Result<u32, StoreError>> {
        let looks = (0..self.keys().partitions()).map(|partition| {
            let mut pipe = redis::pipe();
            pipe.hget(self.keys().partition(partition).epoch(), "schema");
            pipe
        });
        let answers = self.query_each(&looks.collect::<Vec<_>>()).await;
        let noted = &self.inner.schemas.of_partitions;
        let schema_of = |(answer, noted): (Result<Vec<Value>, StoreError>, &AtomicU32)| {
            let schema: Option<u32> = read(answer?.pop(), "a partition's schema")?;
            let schema = schema.unwrap_or(FIRST);
            noted.store(schema, Ordering::Relaxed);
            Ok(schema)
        };
        answers.into_iter().zip(noted).map(schema_of).collect()
    }

    /// The live pods that do not know this version's newest schema.
    pub async fn older_pods(&self) -> Result<Vec<OlderPod>, StoreError> {
        let heartbeats = self.heartbeats().await?;
        let (mut said, mut names) = (BTreeMap::new(), BTreeSet::new());
        for (member, _) in &heartbeats {
            match (Presence::read(member), member.split_once(':')) {
                (Some(found), _) => {
                    said.insert(found.pod, found.schema);
                }
                // This is a sender of a version that does not report its schema.
                (None, Some((_, name))) if !name.contains(':') => drop(names.insert(name)),
                _ => {}
            }
        }
        for name in names {
            said.entry(name).or_insert(FIRST);
        }
        let older = said.into_iter().filter(|(_, schema)| *schema < known());
        Ok(older.map(|(name, known)| OlderPod { name: name.to_owned(), known }).collect())
    }

    /// Sets the schema that a pod must know to start. Returns the previous schema.
    pub async fn set_meta_schema(&self, schema: u32) -> Result<u32, StoreError> {
        let before = self.meta_schema().await?;
        let mut pipe = redis::pipe();
        pipe.hset(self.keys().meta(), "schema", schema).ignore();
        self.query::<()>(&pipe).await?;
        Ok(before)
    }
}

/// Logs when the clocks of this machine and of Redis begin to differ, and when they agree again.
fn say_clock(was_wrong: &mut bool, ahead_s: i64) {
    let is_wrong = ahead_s != 0;
    if is_wrong && !*was_wrong {
        tracing::warn!(
            ahead_s,
            "the clock of this machine differs from that of Redis; synchronise both with NTP"
        );
    } else if *was_wrong && !is_wrong {
        tracing::info!("the clock of this machine agrees with that of Redis again");
    }
    *was_wrong = is_wrong;
}

/// The name of this machine or container.
fn host() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    name.chars().filter(|c| c.is_ascii_alphanumeric() || "-._".contains(*c)).take(64).collect()
}
