//! Writes the definitions of the configuration file into Redis when a process starts.

use std::{collections::HashSet, sync::Mutex, time::Duration};

use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{Destination, Topic},
    store::{Catalog, Store, StoreError},
};

use super::AppError;

/// How many destinations are defined in parallel.
const DEFINED_AT_ONCE: usize = 16;
/// How often to try again where Redis was not available.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Defines the destinations of the file, some in parallel. Returns those whose partition is not available
/// now, such as that of a dead master of a cluster: they must not keep the process from serving the others.
pub(super) async fn define_destinations(
    store: &Store,
    all: &[Destination],
) -> Result<Vec<Destination>, AppError> {
    // One attempt for each partition: each may take as long as Redis has to answer.
    let unavailable = Mutex::new(HashSet::new());
    let lock = || unavailable.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let defined = stream::iter(all).map(async |destination| {
        let partition = destination.name.partition(store.keys().partitions());
        if lock().contains(&partition) {
            return Ok(Some(destination.clone()));
        }
        match store.define(destination).await {
            Ok(_) => Ok(None),
            Err(error) if error.is_temporary() => {
                if lock().insert(partition) {
                    tracing::warn!(
                        destination = %destination.name, partition, %error,
                        "cannot define the destinations of this partition yet; tried again every second"
                    );
                }
                Ok(Some(destination.clone()))
            }
            Err(problem) => Err(AppError::Definition { name: destination.name.clone(), problem }),
        }
    });
    // Reports the first in the file that is refused.
    let mut defined = std::pin::pin!(defined.buffered(DEFINED_AT_ONCE));
    let mut later = Vec::new();
    while let Some(outcome) = defined.next().await {
        later.extend(outcome?);
    }
    Ok(later)
}

/// Defines the others once their partitions are available.
pub(super) async fn retry(
    store: Store,
    catalog: Catalog,
    mut later: Vec<Destination>,
    stop: CancellationToken,
) {
    while !later.is_empty() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RETRY_EVERY) => {}
        }
        let mut unavailable = HashSet::new();
        let mut still = Vec::new();
        for destination in later {
            let partition = destination.name.partition(store.keys().partitions());
            if unavailable.contains(&partition) {
                still.push(destination);
                continue;
            }
            let name = &destination.name;
            match store.define(&destination).await {
                Ok(_) => {
                    tracing::info!(destination = %name, "defined, as in the configuration file");
                    // The change also comes by the index; this only spares the first sender the wait.
                    let _ = catalog.refresh(name).await;
                }
                Err(error) if error.is_temporary() => {
                    unavailable.insert(partition);
                    still.push(destination);
                }
                Err(error) => tracing::error!(
                    destination = %name, %error,
                    "the destination of the configuration file was refused; correct it and restart"
                ),
            }
        }
        later = still;
    }
}

/// Defines the topics of the file. Their destinations may be created over HTTP, even later.
pub(super) async fn define_topics(
    store: &Store,
    catalog: &Catalog,
    topics: &[Topic],
) -> Result<(), StoreError> {
    for topic in topics {
        for name in topic.destinations.iter().filter(|name| catalog.get(name.as_str()).is_none()) {
            let topic = &topic.name;
            tracing::warn!(%topic, destination = %name, "the topic names a destination that does not exist");
        }
        store.define_topic(topic).await?;
        catalog.refresh_topic(&topic.name).await?;
    }
    Ok(())
}
