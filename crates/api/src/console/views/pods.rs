//! The live pods, and the owner of each partition.

use serde::Serialize;

use super::ReadError;
use crate::console::Sources;
use store::{PodInfo, server_clock_ms};

#[derive(Serialize)]
pub(super) struct Pods {
    at_ms: u64,
    pods: Vec<Pod>,
    partitions: Vec<Partition>,
}

#[derive(Serialize)]
struct Pod {
    pod: String,
    host: String,
    roles: Vec<String>,
    schema: u32,
    version: String,
    address: String,
    /// When the pod started, in ms since 1970; 0: not known yet.
    started_ms: u64,
    /// How long the pod counts as live without another heartbeat.
    expires_in_ms: u64,
    partitions: Vec<u16>,
    /// True for the pod that answers.
    is_self: bool,
}

#[derive(Serialize)]
struct Partition {
    partition: usize,
    /// The pod that owns the partition; `null`: no sender owns it.
    owner: Option<String>,
    destinations: usize,
}

pub(super) async fn read(sources: &Sources) -> Result<Pods, ReadError> {
    let pods = sources.store.pods().await?;
    let now_ms = server_clock_ms();
    let count = usize::from(sources.store.keys().partitions());
    let mut partitions: Vec<Partition> =
        (0..count).map(|partition| Partition { partition, owner: None, destinations: 0 }).collect();
    for entry in sources.catalog.all() {
        if let Some(found) = partitions.get_mut(usize::from(entry.partition)) {
            found.destinations += 1;
        }
    }
    for pod in &pods {
        for owned in &pod.partitions {
            if let Some(found) = partitions.get_mut(usize::from(*owned)) {
                found.owner = Some(pod.pod.clone());
            }
        }
    }
    let shown = |pod: PodInfo| Pod {
        is_self: pod.pod == sources.store.pod(),
        expires_in_ms: pod.expires_ms.saturating_sub(now_ms),
        pod: pod.pod,
        host: pod.host,
        roles: pod.roles,
        schema: pod.schema,
        version: pod.version,
        address: pod.address,
        started_ms: pod.started_ms,
        partitions: pod.partitions,
    };
    Ok(Pods { at_ms: now_ms, pods: pods.into_iter().map(shown).collect(), partitions })
}
