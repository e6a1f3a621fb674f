//! The live pods, and the partitions that each of them owns.

use std::collections::BTreeMap;

use crate::{
    Store, StoreError,
    presence::{PRESENCE, Presence},
};

/// A live pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodInfo {
    /// The unique name of the pod.
    pub pod: String,
    /// The name of the pod's machine or container; empty before its first complete heartbeat.
    pub host: String,
    /// The roles of the pod.
    pub roles: Vec<String>,
    /// The newest schema that the pod knows.
    pub schema: u32,
    /// How far the pod's clock is ahead of the clock of Redis, in seconds; 0 up to one second.
    pub clock_ahead_s: i64,
    /// The version of the pod; empty before its first complete heartbeat.
    pub version: String,
    /// When the pod started, in ms since 1970; 0 before its first complete heartbeat.
    pub started_ms: u64,
    /// The address at which the pod listens for HTTP, as configured; empty before its first complete heartbeat.
    pub address: String,
    /// When the pod begins to count as dead, unless it sends another heartbeat, in ms since 1970.
    pub expires_ms: u64,
    /// The partitions that the pod owns.
    pub partitions: Vec<u16>,
}

/// The owner of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The pod that may release messages, if it is alive.
    pub owner: Option<String>,
    /// When the owner last reported that it is alive, in ms since 1970, if known.
    pub seen_ms: Option<u64>,
    /// If there is no owner: the last owner, whose heartbeat has expired.
    pub former: Option<String>,
    /// The longest time that releases still wait (the takeover wait).
    pub takeover_wait_ms: u64,
}

impl Store {
    /// The heartbeats that have not expired, each with the time at which it expires.
    pub(crate) async fn heartbeats(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let now_ms = self.server_time_ms().await?;
        let found: Vec<(String, f64)> = self
            .ask(&redis::Cmd::zrangebyscore_withscores(self.keys().pods(), now_ms, "+inf"))
            .await?;
        Ok(found.into_iter().map(|(member, deadline)| (member, deadline as u64)).collect())
    }

    /// The live pods, by name, without their partitions.
    pub async fn live_pods(&self) -> Result<Vec<PodInfo>, StoreError> {
        let mut pods: BTreeMap<String, PodInfo> = BTreeMap::new();
        for (member, expires_ms) in self.heartbeats().await? {
            let Some(found) = Presence::read(&member) else { continue };
            // The first heartbeat of a pod does not name its roles.
            if found.roles.is_empty() && pods.contains_key(found.pod) {
                continue;
            }
            pods.insert(found.pod.to_owned(), PodInfo::of(found, expires_ms));
        }
        Ok(pods.into_values().collect())
    }

    /// The live pods, by name, with the partitions that they own.
    pub async fn pods(&self) -> Result<Vec<PodInfo>, StoreError> {
        let mut pods = self.live_pods().await?;
        let partitions: Vec<u16> = (0..self.keys().partitions()).collect();
        for (partition, owner) in partitions.iter().zip(self.owners(&partitions).await) {
            let Some(owner) = owner.ok().and_then(|found| found.owner) else { continue };
            if let Ok(at) = pods.binary_search_by(|pod| pod.pod.cmp(&owner)) {
                pods[at].partitions.push(*partition);
            }
        }
        Ok(pods)
    }

    /// The owner of this partition.
    pub async fn ownership(&self, partition: u16) -> Result<Ownership, StoreError> {
        self.owners(&[partition]).await.pop().unwrap_or_else(|| Ok(Ownership::default()))
    }

    /// The owners of these partitions, in order.
    pub async fn owners(&self, partitions: &[u16]) -> Vec<Result<Ownership, StoreError>> {
        let live = match self.heartbeats().await {
            Ok(live) => live,
            Err(error) => return vec![Err(error); partitions.len()],
        };
        let looks = partitions.iter().map(|partition| {
            let keys = self.keys().partition(*partition);
            let mut pipe = redis::pipe();
            pipe.get(keys.owner()).hget(keys.epoch(), "takeover_wait_ms");
            pipe
        });
        let read = |found: Result<Vec<redis::Value>, StoreError>| {
            let mut found = found?.into_iter();
            let mut next =
                || redis::from_redis_value::<Option<String>>(found.next()?).ok().flatten();
            let (owner, waits) = (next(), next());
            let wait_ms = waits.and_then(|ms| ms.parse().ok()).unwrap_or_default();
            Ok(ownership_of(owner.as_deref().unwrap_or_default(), wait_ms, &live))
        };
        let found = self.query_each(&looks.collect::<Vec<_>>()).await;
        found.into_iter().map(read).collect()
    }
}

impl PodInfo {
    /// True if the pod has this role.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|of_pod| of_pod == role)
    }

    fn of(presence: Presence<'_>, expires_ms: u64) -> PodInfo {
        let roles = presence.roles.split(',').filter(|role| !role.is_empty());
        PodInfo {
            pod: presence.pod.to_owned(),
            host: presence.host.to_owned(),
            roles: roles.map(str::to_owned).collect(),
            schema: presence.schema,
            clock_ahead_s: presence.ahead_s,
            version: presence.version.to_owned(),
            started_ms: presence.started_ms,
            address: presence.address.to_owned(),
            expires_ms,
            partitions: Vec::new(),
        }
    }
}

/// Finds the owner from the value of an owner key (`<pod>.<random> …`; empty if there is no owner) and the live
/// heartbeats.
fn ownership_of(value: &str, takeover_wait_ms: u64, heartbeats: &[(String, u64)]) -> Ownership {
    let pod = value.split_once('.').map(|(pod, _)| pod);
    let is_of = |(member, _): &&(String, u64)| member.split(':').any(|part| Some(part) == pod);
    let is_live = heartbeats.iter().any(|heartbeat| is_of(&heartbeat));
    let reports = heartbeats.iter().filter(is_of);
    let reports = reports.filter(|(member, _)| Presence::read(member).is_some());
    let until_ms = reports.map(|(_, until_ms)| *until_ms).max();
    let pod = pod.map(str::to_owned);
    Ownership {
        owner: pod.clone().filter(|_| is_live),
        seen_ms: until_ms.map(|ms| ms.saturating_sub(PRESENCE.as_millis() as u64)),
        former: pod.filter(|_| !is_live),
        takeover_wait_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_tell_roles_and_host_and_which_owners_live() {
        let of = |member| Presence::read(member).map(|presence| PodInfo::of(presence, 9));
        let pod = of("schema:3:ab12:ingest,sender:0:host-7:0.1.0:5:0.0.0.0:8080").unwrap();
        assert_eq!((pod.version.as_str(), pod.address.as_str()), ("0.1.0", "0.0.0.0:8080"));
        assert_eq!((pod.pod.as_str(), pod.host.as_str(), pod.schema), ("ab12", "host-7", 3));
        assert_eq!(pod.roles, ["ingest", "sender"]);
        assert!(of("schema:3:ab12").unwrap().roles.is_empty());
        assert_eq!(of("sender:ab12"), None);
        let live = [("sender:ab12".to_owned(), 9), ("schema:3:cd34::0:host".to_owned(), 6_000)];
        let of = |value| {
            let Ownership { owner, seen_ms, former, .. } = ownership_of(value, 0, &live);
            (owner, seen_ms, former)
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(of("ab12.5eed 5000 7"), (named("ab12"), None, None));
        assert_eq!(of("cd34.5eed 5000 7"), (named("cd34"), Some(1_000), None));
        assert_eq!(of("ef56.5eed 5000 7"), (None, None, named("ef56")));
        assert_eq!((of("5eed 5000 7"), of("")), ((None, None, None), (None, None, None)));
    }
}
