//! Reads the numbers of all destinations.

use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    client::{Service, problem_of},
    paths::{path_of, query, text},
};

/// Destinations queried at once.
const ASKED_MAX: usize = 16;
/// The most pages of destinations, in case a broken service never ends the list.
const PAGES_MAX: usize = 1_000;
/// Destinations of a page.
const PAGE: usize = 1_000;

/// A destination and its numbers.
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) stats: Stats,
    /// The numbers as the service wrote them.
    pub(super) json: Value,
}

/// The numbers of a destination in the table. A field that an older service lacks is shown as zero.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stats {
    pub(super) last_sequence: u64,
    pub(super) waiting: u64,
    pub(super) processing: u64,
    pub(super) ready: u64,
    pub(super) delivering: u64,
    pub(super) delayed: u64,
    pub(super) halted: u64,
    pub(super) dead_letters: u64,
    pub(super) delivered_total: u64,
    pub(super) paused: Paused,
    /// What cannot be read.
    pub(super) damaged: Vec<String>,
    pub(super) head: Option<Head>,
    pub(super) heads: Vec<Head>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Paused {
    pub(super) ingest: bool,
    pub(super) processing: bool,
    pub(super) delivery: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Head {
    pub(super) sequence: u64,
    pub(super) key: Option<String>,
    pub(super) state: String,
    pub(super) age_ms: u64,
    pub(super) blocked_by: Option<String>,
    attempts: u32,
    stalls: u32,
}

impl Stats {
    /// True if a lane is halted, or data is damaged.
    pub(super) fn needs_repair(&self) -> bool {
        self.halted > 0 || !self.damaged.is_empty()
    }
}

impl Paused {
    pub(super) fn parts(&self) -> Vec<&'static str> {
        let Paused { ingest, processing, delivery } = *self;
        let parts = [(ingest, "ingest"), (processing, "processing"), (delivery, "delivery")];
        parts.into_iter().filter(|part| part.0).map(|part| part.1).collect()
    }

    pub(super) fn shown(&self) -> String {
        let parts = self.parts();
        if parts.is_empty() { "-".to_owned() } else { parts.join(",") }
    }
}

impl Head {
    /// Failed attempts.
    pub(super) fn failures(&self) -> u32 {
        self.attempts + self.stalls
    }

    pub(super) fn is_halted(&self) -> bool {
        self.state == "halted"
    }

    /// The state in which `messages list` shows it. Redis does not know which ready messages are in delivery.
    pub(super) fn listed_state(&self) -> &str {
        if self.state == "delivering" { "ready" } else { &self.state }
    }
}

/// A page of definitions.
#[derive(Deserialize)]
struct Page {
    items: Vec<Value>,
    next_cursor: Option<String>,
}

/// Every destination with its numbers, in the service's order.
pub(super) async fn read_all(service: &Service) -> anyhow::Result<Vec<Seen>> {
    let mut names = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let fields = [("limit", Some(PAGE.into())), ("cursor", text(cursor.as_deref()))];
        let path = format!("/v1/destinations{}", query(&fields));
        let Some(page) = service.find::<Page>(&path).await? else {
            anyhow::bail!("{} has no destinations: is it Reseq?", service.url());
        };
        let name = |item: &Value| item["name"].as_str().map(str::to_owned);
        names.extend(page.items.iter().filter_map(name));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let asked = stream::iter(names).map(|name| read(service, name));
    let all: Vec<Option<Seen>> = asked.buffered(ASKED_MAX).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

/// The numbers of one destination; `None` if it has just been removed.
async fn read(service: &Service, name: String) -> anyhow::Result<Option<Seen>> {
    let json = match service.find::<Value>(&path_of(&name, "stats")).await {
        Ok(Some(json)) => json,
        Ok(None) => return Ok(None),
        // Damage of one destination must not hide the others.
        Err(error) => match problem_of(&error) {
            Some(problem) if problem.status == 500 && !problem.code.is_empty() => {
                json!({"damaged": [problem.detail]})
            }
            _ => return Err(error),
        },
    };
    let stats = Stats::deserialize(&json)?;
    Ok(Some(Seen { name, stats, json }))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use axum::{
        Json, Router,
        extract::{Path, Query},
        http::StatusCode,
        response::{IntoResponse, Response},
        routing::get,
    };

    use super::*;
    use tls::Pem;

    /// Four destinations on two pages. The second is damaged, and the third has just been removed.
    async fn list(Query(query): Query<HashMap<String, String>>) -> Json<Value> {
        assert_eq!(query["limit"], "1000");
        Json(match query.get("cursor").map(String::as_str) {
            None => json!({"items": [{"name": "a"}, {"name": "b"}], "next_cursor": "b"}),
            Some("b") => json!({"items": [{"name": "c"}, {"name": "d"}], "next_cursor": null}),
            Some(other) => panic!("{other}"),
        })
    }

    async fn stats(Path(name): Path<String>) -> Response {
        let problem = |status, code| json!({"status": status, "code": code, "detail": "its lane"});
        match name.as_str() {
            "b" => {
                let problem = Json(problem(500, "damaged"));
                (StatusCode::INTERNAL_SERVER_ERROR, problem).into_response()
            }
            "c" => {
                let problem = Json(problem(404, "unknown_destination"));
                (StatusCode::NOT_FOUND, problem).into_response()
            }
            _ => Json(json!({"waiting": 2, "halted": 0})).into_response(),
        }
    }

    #[tokio::test]
    async fn status_reads_all_pages_despite_one_damaged_destination() {
        let routes = Router::new()
            .route("/v1/destinations", get(list))
            .route("/v1/destinations/{name}/stats", get(stats));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, routes).into_future());
        let all = read_all(&Service::at(&url, &[], &Pem::default()).unwrap()).await.unwrap();
        let seen = all.iter().map(|one| (one.name.as_str(), one.stats.waiting));
        assert_eq!(seen.collect::<Vec<_>>(), [("a", 2), ("b", 0), ("d", 2)]);
        assert_eq!(all[1].stats.damaged, ["its lane"]);
        let unhealthy = all.iter().map(|one| one.stats.needs_repair());
        assert_eq!(unhealthy.collect::<Vec<_>>(), [false, true, false]);
    }
}
