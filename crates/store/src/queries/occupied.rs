//! Which partitions hold anything of a kind: one command asks for all of them, so an idle pod hardly asks Redis.

use redis::Value;

use crate::{Store, keys::PartitionKeys};
use redis_client::{Deployment, read};

/// The most keys that one command asks for.
const KEYS_MAX: usize = 1_000;

impl Store {
    /// Those of these partitions in which one of these keys exists. A partition whose server does not answer is among
    /// them: the query that follows finds that out.
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
        // The keys of several partitions are in several slots of a cluster.
        if asked.len() > 1 && self.client().deployment() != Deployment::Cluster {
            let chunks: Vec<_> = asked.chunks((KEYS_MAX / N).max(1)).collect();
            let looks = chunks.iter().filter_map(|some| {
                Some(exist(&keys[*some.first()?..=*some.last()?]))
            });
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

/// True unless the answer is zero.
fn holds_any<E>(answer: &Result<Vec<Value>, E>) -> bool {
    let Ok(answer) = answer else { return true };
    read(answer.first().cloned(), "how many keys exist").map_or(true, |count: u64| count > 0)
}
