//! `/console/hour`: the last hour of the deployment, and of each active destination, so that charts show data when a
//! page opens. Each process keeps its own charts, from the numbers of all processes.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension, Json,
    extract::{Query, State, rejection::QueryRejection},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    hub::Hub,
    numbers::{Numbers, Read, Row},
};
use domain::DestinationName;
use http_server::{principal::Principal, problem::Problem};
use store::server_clock_ms;

const HOUR_MS: u64 = 3_600_000;
/// The time between two points.
const EVERY: Duration = Duration::from_secs(30);
/// The pause between two points is also at least this many times as long as reading the numbers took.
const REST: u32 = 300;
/// The most points of a chart.
const POINTS_MAX: usize = 120;
/// The most destinations with charts of their own.
const DESTINATIONS_MAX: usize = 200;

/// The numbers at one point in time.
#[derive(Debug, Clone, Copy, Default)]
struct Point {
    at_ms: u64,
    /// How many messages have arrived since the first point.
    arrived: u64,
    /// How many messages have left since the first point.
    left: u64,
    pending: u64,
    retrying: u64,
}

/// The points of an hour, the oldest first.
#[derive(Default)]
struct Points(VecDeque<Point>);

/// The charts, as the page draws them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Charts {
    at_ms: Vec<u64>,
    /// The rates since the point before.
    in_per_second: Vec<Option<f64>>,
    out_per_second: Vec<Option<f64>>,
    pending: Vec<u64>,
    /// Pending messages with stored attempts: most of them have failed before.
    retrying: Vec<u64>,
}

impl Point {
    /// Adds the numbers of a destination, and how many messages have arrived and left there since the point before.
    fn add(&mut self, row: &Row, (arrived, left): (u64, u64)) {
        self.arrived += arrived;
        self.left += left;
        if let Some(stats) = &row.stats {
            self.pending += stats.pending;
            self.retrying += stats.with_attempts;
        }
    }
}

impl Points {
    /// The next point: its totals continue those of the last point.
    fn next(&self, at_ms: u64) -> Point {
        let before = self.0.back().copied().unwrap_or_default();
        Point { at_ms, pending: 0, retrying: 0, ..before }
    }

    fn push(&mut self, point: Point) {
        let is_old = |old: &Point| old.at_ms + HOUR_MS < point.at_ms;
        while self.0.len() >= POINTS_MAX || self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        self.0.push_back(point);
    }

    /// True if nothing was pending and nothing has arrived.
    fn is_idle(&self) -> bool {
        let first = self.0.front().map(|point| point.arrived);
        self.0.iter().all(|point| point.pending == 0 && Some(point.arrived) == first)
    }

    fn charts(&self) -> Charts {
        let mut charts = Charts::default();
        let mut before: Option<&Point> = None;
        for point in &self.0 {
            let per_second = |number: fn(&Point) -> u64| {
                let earlier = before.filter(|earlier| earlier.at_ms < point.at_ms)?;
                let more = number(point).saturating_sub(number(earlier));
                Some(more as f64 * 1e3 / (point.at_ms - earlier.at_ms) as f64)
            };
            charts.at_ms.push(point.at_ms);
            charts.in_per_second.push(per_second(|point| point.arrived));
            charts.out_per_second.push(per_second(|point| point.left));
            charts.pending.push(point.pending);
            charts.retrying.push(point.retrying);
            before = Some(point);
        }
        charts
    }
}

#[derive(Default)]
struct Kept {
    all: Points,
    /// For each destination: when it was created, and its points.
    each: HashMap<DestinationName, (u64, Points)>,
    /// The numbers of the last point.
    before: Option<Arc<Read>>,
}

impl Kept {
    fn add(&mut self, read: &Arc<Read>, at_ms: u64) {
        let before = self.before.replace(read.clone());
        let before = before.as_ref().map(|read| read.by_name()).unwrap_or_default();
        let mut earlier = std::mem::take(&mut self.each);
        // Destinations come and go, so this adds the changes of each destination, not the totals.
        let mut all = self.all.next(at_ms);
        let mut fresh = Vec::new();
        for row in &read.rows {
            let name = &row.entry.destination.name;
            let moved = before.get(name).and_then(|earlier| row.moved_since(earlier));
            let known = earlier.remove(name).filter(|(born, _)| *born == row.entry.born);
            let first = Point { at_ms, ..Point::default() };
            let mut point = known.as_ref().map_or(first, |(_, points)| points.next(at_ms));
            for point in [&mut all, &mut point] {
                point.add(row, moved.unwrap_or_default());
            }
            let moves = row.in_per_second + row.out_per_second > 0.0 || point.pending > 0;
            match known {
                Some((born, mut points)) => {
                    if row.stats.is_some() {
                        points.push(point);
                    }
                    if moves || !points.is_idle() {
                        self.each.insert(name.clone(), (born, points));
                    }
                }
                None if moves => fresh.push((name, row.entry.born, point)),
                None => {}
            }
        }
        for (name, born, point) in fresh {
            if self.each.len() < DESTINATIONS_MAX {
                self.each.insert(name.clone(), (born, Points([point].into())));
            }
        }
        self.all.push(all);
    }
}

/// Keeps the hour. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Hour(Arc<Mutex<Kept>>);

impl Hour {
    /// Adds a point at each interval, until `stop`.
    pub(super) async fn keep(self, numbers: Numbers, stop: CancellationToken) {
        loop {
            let begun = Instant::now();
            let point = async {
                match numbers.all().await {
                    Ok(read) => self.0.lock().add(&read, server_clock_ms()),
                    Err(error) => tracing::debug!(%error, "the charts get no point"),
                }
                tokio::time::sleep(EVERY.max(begun.elapsed() * REST)).await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = point => {}
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// `None`: the charts of all destinations together.
    destination: Option<String>,
}

/// `GET /console/hour`. A caller whose token lists destinations gets no charts of all destinations together.
pub(super) async fn hour(
    State(hub): State<Hub>,
    Extension(caller): Extension<Principal>,
    query: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Charts>, Problem> {
    let Query(wanted) = query.map_err(|error| Problem::invalid_parameter(error.body_text()))?;
    let charts = match wanted.destination {
        Some(text) => {
            let name = text.parse().map_err(|_| Problem::unknown_destination(&text))?;
            caller.check(&name)?;
            hub.hour.0.lock().each.get(&name).map(|(_, points)| points.charts())
        }
        None if caller.grant().destinations.is_some() => None,
        None => Some(hub.hour.0.lock().all.charts()),
    };
    Ok(Json(charts.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{CatalogEntry, Stats};

    fn points(numbers: &[(u64, u64, u64)]) -> Points {
        let mut points = Points::default();
        for &(at_s, arrived, pending) in numbers {
            let left = arrived - pending;
            points.push(Point { at_ms: at_s * 1_000, arrived, left, pending, retrying: 0 });
        }
        points
    }

    #[test]
    fn charts_have_rates_between_points() {
        let charts = points(&[(0, 100, 0), (30, 160, 30), (60, 160, 0)]).charts();
        assert_eq!(charts.in_per_second, [None, Some(2.0), Some(0.0)]);
        assert_eq!(charts.out_per_second, [None, Some(1.0), Some(1.0)]);
        assert_eq!((charts.at_ms, charts.pending), (vec![0, 30_000, 60_000], vec![0, 30, 0]));
    }

    #[test]
    fn points_are_those_of_an_hour_and_at_most_120() {
        let every_30_s: Vec<_> = (0..1_000).map(|number| (30 * number, number, 0)).collect();
        assert_eq!(points(&every_30_s).0.len(), POINTS_MAX);
        let kept = points(&[(0, 1, 0), (100, 2, 0), (3_601, 3, 0)]);
        assert_eq!(kept.0.front().map(|point| point.at_ms), Some(100_000));
    }

    #[test]
    fn after_an_hour_without_messages_a_destination_is_idle() {
        let mut kept = points(&[(0, 1, 0), (30, 5, 0)]);
        assert!(!kept.is_idle());
        kept.push(Point { at_ms: 3_605_000, arrived: 5, left: 5, ..Point::default() });
        assert!(kept.is_idle());
    }

    /// One destination: its name, when it was made, and its last sequence, `None` if that cannot be read. One message
    /// is pending in each.
    type One = (&'static str, u64, Option<u64>);

    fn read(all: &[One]) -> Arc<Read> {
        let row = |&(name, born, last): &One| {
            let definition = serde_json::json!({"name": name, "url": "http://receiver/"});
            let destination = serde_json::from_value(definition).unwrap();
            let paused = Default::default();
            let entry = CatalogEntry {
                destination,
                of_all_shards: None,
                version: 1,
                partition: 0,
                paused,
                born,
            };
            let last_sequence = last.unwrap_or_default();
            let delivered_total = last_sequence.saturating_sub(1);
            let damaged = last.is_none().then_some("last").into_iter().collect();
            let stats =
                Stats { last_sequence, delivered_total, pending: 1, damaged, ..Stats::default() };
            Row { entry: entry.into(), stats: Some(stats), in_per_second: 0.0, out_per_second: 0.0 }
        };
        Arc::new(Read { rows: all.iter().map(row).collect(), at: Instant::now() })
    }

    #[test]
    fn a_destination_that_comes_or_goes_changes_no_rate() {
        let reads: [&[One]; 7] = [
            &[("a", 1, Some(100)), ("b", 1, Some(9_000))],
            &[("a", 1, Some(130))],
            &[("a", 1, Some(160)), ("b", 1, Some(9_000))],
            &[("a", 1, Some(190)), ("b", 1, None)],
            &[("a", 1, Some(220)), ("b", 1, Some(9_000))],
            &[("a", 1, Some(250)), ("b", 2, Some(20_000))],
            &[("a", 1, Some(280)), ("b", 2, Some(20_060))],
        ];
        let mut kept = Kept::default();
        for (number, all) in (0..).zip(reads) {
            kept.add(&read(all), number * 30_000);
        }
        let charts = kept.all.charts();
        let one = Some(1.0);
        assert_eq!(charts.in_per_second, [None, one, one, one, one, one, Some(3.0)]);
        assert_eq!(charts.out_per_second, charts.in_per_second);
        assert_eq!(charts.pending, [2, 1, 2, 2, 2, 2, 2]);
        let of_b = kept.each["b"].1.charts();
        assert_eq!(of_b.in_per_second, [None, Some(2.0)]);
    }
}
