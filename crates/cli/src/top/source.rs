//! Reads what the pages show, again and again, and only for the page that is shown.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::{
    Arriving,
    state::{Page, SHOWN_MAX, Sort},
};
use crate::output::count_of;
use client::{
    Call, Service,
    paths::{path_of, query, text},
};

/// After a read, the service rests for at least this many times as long as it took.
const REST: u32 = 10;
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(30);
/// Destinations whose heads are read each time: those at the top.
const HEADS_MAX: usize = 20;
/// Pending messages of a lane that are shown.
const PENDING_MAX: usize = 120;
/// Messages that left a lane that are shown.
const LEFT_MAX: usize = 30;

/// What was read for a page.
pub(super) enum Read {
    /// The numbers of destinations with their totals, and the stats of the first ones with their heads.
    Destinations { all: Value, heads: Vec<(String, Value)>, at: Instant },
    /// A lane.
    Lane(Box<LaneRead>),
    /// The pods.
    Pods(Value),
}

/// What was read of a lane.
pub(super) struct LaneRead {
    pub(super) stats: Value,
    pub(super) why: Value,
    pub(super) messages: Value,
    pub(super) log: Value,
}

/// The service.
pub(super) struct Source {
    service: Service,
    interval: Duration,
}

impl Source {
    pub(super) fn new(service: Service, interval: Duration) -> Source {
        Source { service, interval }
    }

    /// Reads the wanted page until nobody wants it any more.
    pub(super) async fn follow(
        self,
        mut wanted: watch::Receiver<Page>,
        reads: mpsc::Sender<Arriving>,
    ) {
        loop {
            let page = wanted.borrow_and_update().clone();
            let begun = Instant::now();
            let read = tokio::select! {
                changed = wanted.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                read = self.read(&page) => read,
            };
            let rest = self.interval.max((begun.elapsed() * REST).min(REST_MAX));
            if reads.send((page, read)).await.is_err() {
                return;
            }
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    /// Reads a page once.
    pub(super) async fn read(&self, page: &Page) -> anyhow::Result<Read> {
        match page {
            Page::Destinations { sort } => self.destinations(*sort).await,
            Page::Lane { destination, key } => self.lane(destination, key.as_deref()).await,
            Page::Pods => self.get("/v1/pods?limit=1000").await.map(Read::Pods),
        }
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok((*self.service.call(Call::get(path)).await?).clone())
    }

    async fn destinations(&self, sort: Sort) -> anyhow::Result<Read> {
        let fields = [("limit", Some(SHOWN_MAX.into())), ("sort", text(Some(sort.word())))];
        let all = self.get(&format!("/v1/stats{}", query(&fields))).await?;
        let at = Instant::now();
        let items = all["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let pending = items.iter().filter(|item| count_of(item, "pending") > 0);
        let names = pending.filter_map(|item| item["name"].as_str().map(str::to_owned));
        let names: Vec<String> = names.take(HEADS_MAX).collect();
        let stats = names.iter().map(|name| async move { self.get(&path_of(name, "stats")).await });
        // A destination may have just been removed.
        let stats = join_all(stats).await.into_iter().map(Result::unwrap_or_default);
        let heads = names.iter().cloned().zip(stats).collect();
        Ok(Read::Destinations { all, heads, at })
    }

    async fn lane(&self, destination: &str, key: Option<&str>) -> anyhow::Result<Read> {
        let path = |rest: &str, fields: &[client::paths::Field]| {
            path_of(destination, &format!("{rest}{}", query(fields)))
        };
        let of_key = ("key", text(key));
        let limit = |max: usize| ("limit", Some(max.into()));
        let paths = [
            path("stats", &[]),
            path("why", std::slice::from_ref(&of_key)),
            path("messages", &[of_key.clone(), limit(PENDING_MAX)]),
            path("log", &[of_key, limit(LEFT_MAX)]),
        ];
        let [stats, why, messages, log] = paths.each_ref().map(|path| self.get(path));
        let (stats, why, messages, log) = tokio::join!(stats, why, messages, log);
        // Without a log, nothing is shown of it.
        let log = log.unwrap_or_default();
        let lane = LaneRead { stats: stats?, why: why?, messages: messages?, log };
        Ok(Read::Lane(Box::new(lane)))
    }
}
