//! Which partitions have any entries of a kind, and for which destinations. One command covers all partitions, so an
//! idle pod rarely queries Redis.

use std::collections::HashSet;

use redis::Value;

use crate::{Store, StoreError, calls::answered, keys::PartitionKeys};
use domain::DestinationName;
use redis_client::{Deployment, read, texts};

/// The most keys that one command asks for.
const KEYS_MAX: usize = 1_000;
/// The most members of a set of a partition that one query returns.
const MEMBERS_MAX: isize = 1_000;

/// The destinations of some partitions that have messages which wait, are being processed, or are about to leave.
#[derive(Debug, Default)]
pub struct InMotion {
    /// The names of the destinations.
    pub names: HashSet<DestinationName>,
    /// Partitions with more entries than one query returns. In these, each destination may be in motion.
    pub cut: HashSet<u16>,
}

/// The sets of a partition whose members are names of destinations, or begin with one.
fn sets(keys: &PartitionKeys) -> [String; 7] {
    [
        keys.active_builtin(),
        keys.active_worker(),
        keys.releasable(),
        keys.withdrawing(),
        keys.consumers(),
        keys.leases(),
        keys.delayed(),
    ]
}

impl Store {
    /// Returns the partitions in which one of these keys exists. Also returns a partition if its server does not
    /// answer: the next query finds that out.
    pub(crate) async fn occupied<const N: usize>(
        &self,
        partitions: &[u16],
        keys_of: impl Fn(&PartitionKeys) -> [String; N],
    ) -> Vec<u16> {
        let keys: Vec<_> =
            partitions.iter().map(|one| keys_of(&self.keys().partition(*one))).collect();
        let exist = |keys: &[[String; N]]| {
            let mut pipe = redis::pipe();
            pipe.exists(keys.as_flattened());
            pipe
        };
        let mut asked: Vec<usize> = (0..keys.len()).collect();
        // In a cluster, the keys of different partitions are in different slots.
        if asked.len() > 1 && self.client().deployment() != Deployment::Cluster {
            let chunks: Vec<_> = asked.chunks((KEYS_MAX / N).max(1)).collect();
            let looks =
                chunks.iter().filter_map(|some| Some(exist(&keys[*some.first()?..=*some.last()?])));
            let found = self.query_each(&looks.collect::<Vec<_>>()).await;
            let chunks = chunks.into_iter().zip(found).filter(|(_, found)| holds_any(found));
            asked = chunks.flat_map(|(some, _)| some.to_vec()).collect();
        }
        let looks = asked.iter().map(|at| exist(&keys[*at..=*at]));
        let found = self.query_each(&looks.collect::<Vec<_>>()).await;
        let found = asked.into_iter().zip(found).filter(|(_, found)| holds_any(found));
        found.map(|(at, _)| partitions[at]).collect()
    }
}

impl Store {
    /// The destinations of these partitions that have messages in motion. Other destinations may have messages, too:
    /// halted messages, and messages that wait behind them. Returns an error if no server answers.
    pub async fn in_motion(&self, partitions: &[u16]) -> Result<InMotion, StoreError> {
        let partitions = self.occupied(partitions, sets).await;
        let looks = partitions.iter().map(|partition| {
            let mut pipe = redis::pipe();
            for key in sets(&self.keys().partition(*partition)) {
                pipe.zrange(key, 0, MEMBERS_MAX - 1);
            }
            pipe
        });
        let found = answered(self.query_each(&looks.collect::<Vec<_>>()).await)?;
        let mut all = InMotion::default();
        for (partition, found) in partitions.into_iter().zip(found) {
            for members in found.into_iter().flatten() {
                let members = texts(Some(members), "a set of a partition").unwrap_or_default();
                if members.len() as isize == MEMBERS_MAX {
                    all.cut.insert(partition);
                }
                let names = members.iter().filter_map(|one| one.split('/').next()?.parse().ok());
                all.names.extend(names);
            }
        }
        Ok(all)
    }
}

/// True unless the answer is zero.
fn holds_any<E>(answer: &Result<Vec<Value>, E>) -> bool {
    let Ok(answer) = answer else { return true };
    read(answer.first().cloned(), "how many keys exist").map_or(true, |count: u64| count > 0)
}
