//! Writes the definitions of the configuration file into Redis when a process starts.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
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

/// Defines the destinations of the file. Returns those whose partition is not available now, such as that of a
/// dead primary of a cluster: they must not keep the process from serving the others.
pub(super) async fn define_destinations(
    store: &Store,
    all: &[Destination],
) -> Result<Vec<Destination>, AppError> {
    let mut later = Vec::new();
    // Reports the first in the file that is refused.
    let mut defined = pin!(define_all(store, all.to_vec()));
    while let Some((destination, defined)) = defined.next().await {
        match defined {
            Defined::Now => {}
            Defined::Later => later.push(destination),
            Defined::Refused(problem) => {
                return Err(AppError::Definition { name: destination.name, problem });
            }
        }
    }
    if !later.is_empty() {
        tracing::warn!(
            destinations = later.len(),
            "some destinations cannot be defined yet: their partitions are not available; tried again every second"
        );
    }
    Ok(later)
}

/// Defines the others once their partitions are available.
pub(super) async fn retry(store: Store, mut later: Vec<Destination>, stop: CancellationToken) {
    while !later.is_empty() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RETRY_EVERY) => {}
        }
        let mut still = Vec::new();
        let mut defined = pin!(define_all(&store, later));
        while let Some((destination, defined)) = defined.next().await {
            let name = &destination.name;
            match defined {
                Defined::Now => {
                    tracing::info!(destination = %name, "defined, as in the configuration file");
                }
                Defined::Later => still.push(destination),
                Defined::Refused(error) => tracing::error!(
                    destination = %name, %error,
                    "the destination of the configuration file was refused; correct it and restart"
                ),
            }
        }
        later = still;
    }
}

enum Defined {
    Now,
    Later,
    Refused(StoreError),
}

/// Tries to define each, some in parallel. Yields them in order.
fn define_all(store: &Store, all: Vec<Destination>) -> impl Stream<Item = (Destination, Defined)> {
    // An unavailable partition is not tried for each of its destinations: every attempt takes as long as Redis
    // has to answer.
    let unavailable = Arc::new(Mutex::new(HashSet::new()));
    let attempts = all.into_iter().map(move |destination| {
        let unavailable = unavailable.clone();
        async move {
            let lock = || unavailable.lock().unwrap_or_else(PoisonError::into_inner);
            let partition = destination.name.partition(store.keys().partitions());
            if lock().contains(&partition) {
                return (destination, Defined::Later);
            }
            let defined = match store.define(&destination).await {
                Ok(_) => Defined::Now,
                Err(error) if error.is_temporary() => {
                    lock().insert(partition);
                    Defined::Later
                }
                Err(error) => Defined::Refused(error),
            };
            (destination, defined)
        }
    });
    stream::iter(attempts).buffered(DEFINED_AT_ONCE)
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
