//! The overview of the deployment.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde::Serialize;

use super::{Only, ReadError, covers};
use crate::console::{
    Sources, measure,
    numbers::{Counts, Numbers, Row, left},
};
use domain::DestinationName;
use store::{Paused, Stats, server_clock_ms};

/// The most destinations whose logs are read for the latency: the busiest ones.
const BUSY_MAX: usize = 8;
/// The last messages of each of these destinations.
const LAST_MAX: usize = 50;

#[derive(Serialize)]
pub(super) struct Overview {
    at_ms: u64,
    destinations: usize,
    paused: usize,
    /// Destinations whose numbers cannot be read.
    damaged: usize,
    in_per_second: f64,
    out_per_second: f64,
    totals: Totals,
    latency: Latency,
    /// How many destinations have a lane that waits for an operator.
    stuck_destinations: usize,
    busiest: Vec<Busy>,
    redis: Redis,
    pods: Option<Pods>,
}

#[derive(Serialize)]
struct Totals {
    #[serde(flatten)]
    counts: Counts,
    pending_bytes: u64,
    retrying: u64,
    left: u64,
}

/// The latency of the last messages of the busiest destinations, in ms.
#[derive(Default, Serialize)]
struct Latency {
    messages: usize,
    p50_ms: Option<u64>,
    p99_ms: Option<u64>,
    overhead_p50_ms: Option<u64>,
    overhead_p99_ms: Option<u64>,
}

#[derive(Serialize)]
struct Busy {
    name: DestinationName,
    in_per_second: f64,
    out_per_second: f64,
    pending: u64,
}

#[derive(Serialize)]
struct Redis {
    /// The number of partitions whose server does not answer.
    silent_partitions: usize,
    /// The servers of the deployment.
    servers: Vec<Server>,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Server {
    used_bytes: u64,
    /// 0: no limit.
    max_bytes: u64,
}

/// Live pods. One pod can have several roles.
#[derive(Serialize)]
struct Pods {
    all: usize,
    by_role: BTreeMap<String, usize>,
}

pub(super) async fn read(
    sources: &Sources,
    numbers: &Numbers,
    only: &Only,
) -> Result<Overview, ReadError> {
    let read = numbers.all().await?;
    let rows: Vec<&Row> = read.rows.iter().filter(|row| covers(only, &row.entry)).collect();
    let (latency, redis, pods) =
        futures::join!(latency(sources, &rows), redis(sources), pods(sources));
    let is_stuck = |row: &&&Row| row.stats.as_ref().is_some_and(|stats| stats.halted > 0);
    let is_paused = |row: &&&Row| row.entry.paused != Paused::default();
    let busiest = busiest(&rows).into_iter().map(|row| Busy {
        name: row.entry.destination.name.clone(),
        in_per_second: row.in_per_second,
        out_per_second: row.out_per_second,
        pending: row.stats.as_ref().map_or(0, |stats| stats.pending),
    });
    Ok(Overview {
        at_ms: server_clock_ms(),
        destinations: rows.len(),
        paused: rows.iter().filter(is_paused).count(),
        damaged: rows.iter().filter(|row| row.stats.is_none()).count(),
        in_per_second: rows.iter().map(|row| row.in_per_second).sum(),
        out_per_second: rows.iter().map(|row| row.out_per_second).sum(),
        totals: totals(rows.iter().filter_map(|row| row.stats.as_ref())),
        latency,
        stuck_destinations: rows.iter().filter(is_stuck).count(),
        busiest: busiest.collect(),
        redis,
        pods,
    })
}

fn totals<'a>(all: impl Iterator<Item = &'a Stats> + Clone) -> Totals {
    Totals {
        counts: all.clone().fold(Counts::default(), Counts::and),
        pending_bytes: all.clone().map(|stats| stats.pending_bytes).sum(),
        retrying: all.clone().map(|stats| stats.with_attempts).sum(),
        left: all.map(left).sum(),
    }
}

/// The destinations that deliver most now.
fn busiest<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let mut busy: Vec<&Row> =
        rows.iter().copied().filter(|row| row.in_per_second + row.out_per_second > 0.0).collect();
    busy.sort_by(|a, b| b.out_per_second.total_cmp(&a.out_per_second));
    busy.truncate(BUSY_MAX);
    busy
}

async fn latency(sources: &Sources, rows: &[&Row]) -> Latency {
    let busy = busiest(rows);
    let logs = busy.iter().map(|row| measure::last_entries(&sources.store, &row.entry, LAST_MAX));
    let (mut latencies, mut overheads) = (Vec::new(), Vec::new());
    for (row, entries) in busy.iter().zip(join_all(logs).await) {
        // If a log cannot be read, the other destinations still count.
        let entries = entries.unwrap_or_default();
        measure::add_latencies(&row.entry, &entries, (&mut latencies, &mut overheads));
    }
    latencies.sort_unstable();
    overheads.sort_unstable();
    Latency {
        messages: latencies.len(),
        p50_ms: measure::quantile(&latencies, 50),
        p99_ms: measure::quantile(&latencies, 99),
        overhead_p50_ms: measure::quantile(&overheads, 50),
        overhead_p99_ms: measure::quantile(&overheads, 99),
    }
}

async fn redis(sources: &Sources) -> Redis {
    let all = sources.store.memory_of_all().await;
    let silent_partitions = all.iter().filter(|memory| memory.is_none()).count();
    let found = all.into_iter().flatten();
    let mut servers: Vec<Server> =
        found.map(|memory| Server { used_bytes: memory.used, max_bytes: memory.max }).collect();
    // Each partition repeats the numbers of its server.
    servers.sort();
    servers.dedup();
    Redis { silent_partitions, servers }
}

async fn pods(sources: &Sources) -> Option<Pods> {
    let found = sources.store.live_pods().await.ok()?;
    let mut by_role = BTreeMap::new();
    for role in found.iter().flat_map(|pod| &pod.roles) {
        *by_role.entry(role.clone()).or_insert(0) += 1;
    }
    Some(Pods { all: found.len(), by_role })
}
