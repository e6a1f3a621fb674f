//! The numbers of all destinations, and how fast messages arrive and leave. One read serves all views, at most once a
//! second.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde::Serialize;
use tokio::{sync::Mutex, time::Instant};

use crate::stats::sums;
use domain::DestinationName;
use store::{Catalog, CatalogEntry, Stats, Store, StoreError};

/// Destinations that are read in one round trip.
const AT_ONCE: usize = 500;
/// Views share numbers until they are this old.
const AGE_MAX: Duration = Duration::from_millis(900);
/// Rates are measured over at most this time.
const SPAN_MAX: Duration = Duration::from_secs(90);

/// The numbers of one destination.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) entry: Arc<CatalogEntry>,
    /// `None` if the numbers cannot be read.
    pub(super) stats: Option<Stats>,
    pub(super) in_per_second: f64,
    pub(super) out_per_second: f64,
}

/// All destinations, by name.
pub(super) struct Read {
    pub(super) rows: Vec<Row>,
    pub(super) at: Instant,
}

impl Row {
    /// How many messages have arrived and left since `earlier`. `None` if `earlier` is from another destination of this
    /// name, or if one of the two has unreadable numbers, which would count as 0.
    pub(super) fn moved_since(&self, earlier: &Row) -> Option<(u64, u64)> {
        let (now, then) = (self.readable()?, earlier.readable()?);
        let arrived = now.last_sequence.saturating_sub(then.last_sequence);
        let moved = (arrived, left(now).saturating_sub(left(then)));
        Some(moved).filter(|_| self.entry.born == earlier.entry.born)
    }

    fn readable(&self) -> Option<&Stats> {
        self.stats.as_ref().filter(|stats| stats.damaged.is_empty())
    }
}

impl Read {
    pub(super) fn by_name(&self) -> HashMap<&DestinationName, &Row> {
        self.rows.iter().map(|row| (&row.entry.destination.name, row)).collect()
    }
}

/// Reads the numbers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Numbers {
    store: Store,
    catalog: Catalog,
    last: Arc<Mutex<Option<Arc<Read>>>>,
}

impl Numbers {
    pub(super) fn new(store: Store, catalog: Catalog) -> Numbers {
        Numbers { store, catalog, last: Arc::default() }
    }

    /// The numbers, at most a second old. While they are read, other callers wait for the same numbers.
    pub(super) async fn all(&self) -> Result<Arc<Read>, StoreError> {
        let mut last = self.last.lock().await;
        if let Some(read) = last.as_ref().filter(|read| read.at.elapsed() < AGE_MAX) {
            return Ok(read.clone());
        }
        let before = last.as_ref().filter(|read| read.at.elapsed() < SPAN_MAX);
        let earlier = before.map(|read| read.by_name()).unwrap_or_default();
        let (at, entries) = (Instant::now(), self.catalog.all());
        let seconds = before.map_or(0.0, |read| (at - read.at).as_secs_f64());
        let mut rows = Vec::with_capacity(entries.len());
        for (entry, stats) in self.sums(entries).await? {
            let earlier = earlier.get(&entry.destination.name).copied();
            rows.push(row(entry, stats, earlier, seconds));
        }
        let read = Arc::new(Read { rows, at });
        *last = Some(read.clone());
        Ok(read)
    }

    /// The numbers of each destination, those of its shards together; `None` if they are damaged.
    async fn sums(
        &self,
        entries: Vec<Arc<CatalogEntry>>,
    ) -> Result<Vec<(Arc<CatalogEntry>, Option<Stats>)>, StoreError> {
        let mut sums: Vec<(Arc<CatalogEntry>, Option<Stats>)> = Vec::with_capacity(entries.len());
        let mut places: HashMap<String, usize> = HashMap::new();
        for some in entries.chunks(AT_ONCE) {
            let found = self.store.backlogs_each(some).await;
            for (entry, stats) in some.iter().zip(found) {
                let stats = match stats {
                    Err(error) if !error.is_damage() => return Err(error),
                    stats => stats.ok(),
                };
                let name = &entry.destination.name;
                // By name, the first shard comes before the others.
                let first =
                    places.get(name.base()).filter(|_| self.catalog.is_in_destination(name));
                match first {
                    Some(place) => {
                        let (_, sum) = &mut sums[*place];
                        *sum = sum.take().zip(stats).map(|(sum, stats)| sum.and(stats));
                    }
                    None => {
                        places.insert(name.as_str().to_owned(), sums.len());
                        sums.push((entry.clone(), stats));
                    }
                }
            }
        }
        Ok(sums)
    }
}

fn row(entry: Arc<CatalogEntry>, stats: Option<Stats>, earlier: Option<&Row>, seconds: f64) -> Row {
    let mut row = Row { entry, stats, in_per_second: 0.0, out_per_second: 0.0 };
    let moved = earlier.and_then(|earlier| row.moved_since(earlier));
    if let Some((arrived, left)) = moved.filter(|_| seconds > 0.0) {
        row.in_per_second = arrived as f64 / seconds;
        row.out_per_second = left as f64 / seconds;
    }
    row
}

sums! {
    /// The counts of messages by state, in one destination or summed over several.
    #[derive(Default, Serialize)]
    pub(super) struct Counts {
        pending waiting processing ready delivering halted delayed dead_letters;
    }
}

/// How many messages have left.
pub(super) fn left(stats: &Stats) -> u64 {
    stats.delivered_total + stats.dropped_total + stats.dead_lettered_total + stats.cancelled_total
}
