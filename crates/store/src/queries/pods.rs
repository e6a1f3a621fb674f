//! The live pods, and which partitions each owns.

use std::collections::BTreeMap;

use crate::{Store, StoreError, presence::Presence};

/// A live pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodInfo {
    /// Its unique name.
    pub pod: String,
    /// The name of its machine or container; empty before its first complete heartbeat.
    pub host: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// The newest schema that it knows.
    pub schema: u32,
    /// Without another heartbeat it counts as dead from then on, in ms since 1970.
    pub expires_ms: u64,
    /// The partitions that it owns.
    pub partitions: Vec<u16>,
}

/// Who owns a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The pod that may release, if it is alive.
    pub owner: Option<String>,
    /// Releases wait for at most this long (the takeover wait).
    pub takeover_wait_ms: u64,
}

impl Store {
    /// The heartbeats that have not expired, each with the time when it does.
    pub(crate) async fn heartbeats(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let now_ms = self.server_time_ms().await?;
        let mut pipe = redis::pipe();
        pipe.cmd("ZRANGEBYSCORE").arg(self.keys().pods()).arg(now_ms).arg("+inf").arg("WITHSCORES");
        let (found,): (Vec<(String, f64)>,) = self.query(&pipe).await?;
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

    /// Who owns this partition.
    pub async fn ownership(&self, partition: u16) -> Result<Ownership, StoreError> {
        self.owners(&[partition]).await.pop().unwrap_or_else(|| Ok(Ownership::default()))
    }

    /// Who owns these partitions, in order.
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
            Ok(Ownership {
                owner: owner.and_then(|value| live_owner(&value, &live)),
                takeover_wait_ms: waits.and_then(|ms| ms.parse().ok()).unwrap_or_default(),
            })
        };
        let found = self.query_each(&looks.collect::<Vec<_>>()).await;
        found.into_iter().map(read).collect()
    }
}

impl PodInfo {
    /// True if it has this role.
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
            expires_ms,
            partitions: Vec::new(),
        }
    }
}

/// The pod in the value of an owner key (`<pod>.<random> …`), if one of these heartbeats is its own.
fn live_owner(value: &str, heartbeats: &[(String, u64)]) -> Option<String> {
    let (pod, _) = value.split_once('.')?;
    let is_live = heartbeats.iter().any(|(member, _)| member.split(':').any(|part| part == pod));
    is_live.then(|| pod.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_tell_roles_and_host_and_which_owners_live() {
        let of = |member| Presence::read(member).map(|presence| PodInfo::of(presence, 9));
        let pod = of("schema:3:ab12:ingest,sender:host-7").unwrap();
        assert_eq!((pod.pod.as_str(), pod.host.as_str(), pod.schema), ("ab12", "host-7", 3));
        assert_eq!(pod.roles, ["ingest", "sender"]);
        assert!(of("schema:3:ab12").unwrap().roles.is_empty());
        assert_eq!(of("sender:ab12"), None);
        let live = [("sender:ab12".to_owned(), 9), ("schema:3:cd34::host".to_owned(), 9)];
        assert_eq!(live_owner("ab12.5eed 5000 7", &live).as_deref(), Some("ab12"));
        assert_eq!(live_owner("cd34.5eed 5000 7", &live).as_deref(), Some("cd34"));
        assert_eq!(live_owner("ef56.5eed 5000 7", &live), None);
        assert_eq!(live_owner("5eed 5000 7", &live), None);
    }
}
