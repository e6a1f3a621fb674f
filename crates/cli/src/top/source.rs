//! Reads the data of the page that is shown, again and again.

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

/// The pause after a read is at least this many times as long as the read took.
const REST: u32 = 10;
/// The longest such pause.
const REST_MAX: Duration = Duration::from_secs(30);
/// How many destinations have their heads read each time: the first ones on the page.
const HEADS_MAX: usize = 20;
/// The most pending messages of a lane to show.
const PENDING_MAX: usize = 120;
/// The most messages that left a lane to show.
const LEFT_MAX: usize = 30;

/// The data of a page.
pub(super) enum Read {
    /// The numbers and totals of the destinations, and the heads of the first destinations.
    Destinations { all: Value, heads: Vec<(String, Value)>, at: Instant },
    /// The data of a lane.
    Lane(Box<LaneRead>),
    /// The list of pods.
    Pods(Value),
}

/// The answers about a lane.
pub(super) struct LaneRead {
    pub(super) stats: Value,
    pub(super) why: Value,
    pub(super) messages: Value,
    pub(super) log: Value,
}

/// Reads from the service.
pub(super) struct Source {
    service: Service,
    interval: Duration,
}

impl Source {
    pub(super) fn new(service: Service, interval: Duration) -> Source {
        Source { service, interval }
    }

    /// Reads the wanted page again and again, until the view ends.
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
        // If a destination was just removed, skip it.
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
        // If there is no log, show no messages that left.
        let log = log.unwrap_or_default();
        let lane = LaneRead { stats: stats?, why: why?, messages: messages?, log };
        Ok(Read::Lane(Box::new(lane)))
    }
}
