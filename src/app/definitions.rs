//! Writes the definitions of the configuration file into Redis when a process starts.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use config::{Config, FileRule, invalid};
use domain::{Destination, Topic};
use outbound::outgoing::Outgoing;
use store::{Author, Catalog, FromFile, InFile, Store, StoreError};

use super::AppError;

/// How many destinations are defined in parallel.
const DEFINED_AT_ONCE: usize = 16;
/// The most names to resolve in parallel, and the time limit for all names.
const NAMES_AT_ONCE: usize = 64;
const NAMES_MAX: Duration = Duration::from_secs(10);
/// The pause before the next attempt to define destinations whose Redis was not available.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// The most destinations of one kind that the log and the audit log name at the start of a process.
const NAMED_MAX: usize = 20;

/// Writes the definitions of the configuration file. Cheap to clone.
#[derive(Clone)]
pub(super) struct FileWriter {
    store: Store,
    rule: FileRule,
    audit_entries_max: usize,
    by: Author,
    /// How many destinations the writer changed, and how many it left unchanged.
    changed: Arc<AtomicUsize>,
    kept: Arc<AtomicUsize>,
}

impl FileWriter {
    pub(super) fn new(store: Store, config: &Config) -> FileWriter {
        FileWriter {
            rule: config.definitions.file,
            audit_entries_max: config.audit.entries_max,
            by: author(&store),
            store,
            changed: Arc::default(),
            kept: Arc::default(),
        }
    }

    async fn define(&self, destination: &Destination) -> Result<(), StoreError> {
        let written = self.store.define_from_file(destination, self.rule, &self.by).await?;
        let FromFile { defined, changes } = &written;
        let is_changed = defined.is_some_and(|defined| defined.changed && !defined.created);
        let (count, outcome) = match defined {
            None => (&self.kept, "not_written"),
            Some(_) if is_changed => (&self.changed, "succeeded"),
            Some(_) => return Ok(()),
        };
        if count.fetch_add(1, Ordering::Relaxed) >= NAMED_MAX {
            return Ok(());
        }
        let name = &destination.name;
        let fields = changes.iter().map(|change| change.field.as_str()).collect::<Vec<_>>();
        let fields = fields.join(", ");
        match defined {
            Some(_) => tracing::info!(
                destination = %name, fields,
                "the configuration file has changed a destination"
            ),
            None => tracing::warn!(
                destination = %name, fields,
                "a destination runs otherwise than the configuration file says, and stays so: the file had this form \
                 before, and the destination was changed since. Correct the file; or see reseq destinations versions \
                 and rollback; or set definitions.file = \"always\""
            ),
        }
        api::record_of_file(&self.store, self.audit_entries_max, &self.by, name, outcome).await;
        Ok(())
    }

    /// Logs how many destinations there were, if the log did not name them all.
    fn sum_up(&self) {
        let [changed, kept] =
            [&self.changed, &self.kept].map(|count| count.load(Ordering::Relaxed));
        if changed.max(kept) > NAMED_MAX {
            tracing::warn!(
                changed,
                kept,
                "the configuration file has changed destinations, and others run otherwise than it says; not all were \
                 named"
            );
        }
    }
}

/// The author of what processes define on their own.
pub(super) fn author(store: &Store) -> Author {
    let pod = Some(store.pod().to_owned());
    Author { actor: "configuration_file".to_owned(), actor_name: pod }
}

/// Checks the addresses in the URLs of the file's destinations, then the names, each name only once.
pub(super) async fn check_addresses(
    outgoing: &Outgoing,
    all: &[Destination],
) -> Result<(), AppError> {
    let mut names = HashMap::new();
    for destination in all {
        for (field, url) in destination.urls() {
            let field = format!("destination {:?}: {field}", destination.name);
            match outgoing.check_without_lookup(url) {
                Ok(None) => {}
                Ok(Some(name)) => drop(names.entry(name).or_insert((field, url))),
                Err(error) => return Err(invalid(&field, error.to_string()).into()),
            }
        }
    }
    let checks = names.into_values().map(|(field, url)| async move {
        let checked = outgoing.check_url(url).await;
        checked.map_err(|error| invalid(&field, error.to_string()))
    });
    let mut checked = pin!(stream::iter(checks).buffer_unordered(NAMES_AT_ONCE));
    let checking = async {
        while let Some(checked) = checked.next().await {
            checked?;
        }
        Ok(())
    };
    // Names that are not checked in time are checked when Reseq connects to them.
    tokio::time::timeout(NAMES_MAX, checking).await.unwrap_or_else(|_| {
        tracing::warn!(
            "not all hosts of the configuration file could be resolved in {NAMES_MAX:?}"
        );
        Ok(())
    })
}

/// Defines the destinations of the file. Returns the destinations whose partition is not available now,
/// for example because a primary of the cluster is down: the process must still serve the others.
pub(super) async fn define_destinations(
    writer: &FileWriter,
    all: &[Destination],
) -> Result<Vec<Destination>, AppError> {
    let mut later = Vec::new();
    // Returns the error of the first refused destination in the file.
    let mut defined = pin!(define_all(writer, all.to_vec()));
    while let Some((destination, defined)) = defined.next().await {
        match defined {
            Defined::Now => {}
            Defined::Later => later.push(destination),
            Defined::Refused(problem) => {
                return Err(AppError::Definition { name: destination.name, problem });
            }
        }
    }
    writer.sum_up();
    if !later.is_empty() {
        tracing::warn!(
            destinations = later.len(),
            "some destinations cannot be defined yet: their partitions are not available; tried again every second"
        );
    }
    Ok(later)
}

/// Encrypts secrets that are not encrypted yet, defines the remaining destinations, and then
/// checks which definitions of the file are in force, until `stop`.
pub(super) async fn keep_in_force(
    writer: FileWriter,
    later: Vec<Destination>,
    in_file: InFile,
    stop: CancellationToken,
) {
    seal_secrets(writer.store.clone(), stop.clone()).await;
    // Retry first: `watch` would report a destination that is not defined yet as removed.
    retry(writer, later, stop.clone()).await;
    in_file.watch(stop).await;
}

/// Defines the remaining destinations once their partitions are available.
async fn retry(writer: FileWriter, mut later: Vec<Destination>, stop: CancellationToken) {
    while !later.is_empty() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RETRY_EVERY) => {}
        }
        let mut still = Vec::new();
        let mut defined = pin!(define_all(&writer, later));
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

/// Tries to define the destinations, some in parallel. Yields the results in order.
fn define_all(
    writer: &FileWriter,
    all: Vec<Destination>,
) -> impl Stream<Item = (Destination, Defined)> {
    // Tries an unavailable partition only once, not for each of its destinations: every attempt
    // waits for the whole time limit.
    let unavailable = Arc::new(Mutex::new(HashSet::new()));
    let attempts = all.into_iter().map(move |destination| {
        let unavailable = unavailable.clone();
        async move {
            let lock = || unavailable.lock();
            let partition = writer.store.keys().partition_of(&destination.name);
            if lock().contains(&partition) {
                return (destination, Defined::Later);
            }
            let defined = match writer.define(&destination).await {
                Ok(()) => Defined::Now,
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

/// Encrypts the secrets of definitions stored without a key or with an earlier key. Logs the keys
/// that are missing for it.
async fn seal_secrets(store: Store, stop: CancellationToken) {
    let found = match store.secrets_found().await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "cannot check how the secrets of destinations are stored");
            return;
        }
    };
    found.missing_keys().for_each(|problem| tracing::error!("{problem}"));
    if !store.has_keys() {
        found.advice().into_iter().for_each(|advice| tracing::warn!("{advice}"));
        return;
    }
    if found.plain == 0 && found.earlier.is_empty() {
        return;
    }
    match store.seal_again(&stop).await {
        Ok(changed) => tracing::info!(
            changed,
            "the secrets of destinations are encrypted with the current key"
        ),
        Err(error) => tracing::warn!(
            %error,
            "not all secrets of destinations could be encrypted with the current key; the next start tries again"
        ),
    }
}

/// Defines the topics of the file. Their destinations need not exist yet: clients may create them over HTTP later.
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
