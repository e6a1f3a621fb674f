//! Reads the numbers of destinations.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::output::text_of;
use client::{
    Call, Problem, Service, pages,
    paths::{flag, path_of},
    problem_of,
};

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
    pub(super) pending: u64,
    pub(super) waiting: u64,
    pub(super) processing: u64,
    pub(super) ready: u64,
    pub(super) delivering: u64,
    pub(super) delayed: u64,
    pub(super) halted: u64,
    pub(super) dead_letters: u64,
    pub(super) delivered_total: u64,
    pub(super) paused: Paused,
    /// Parts of the data that cannot be read.
    pub(super) damaged: Vec<String>,
    /// Why no numbers were read: the server of the destination does not answer.
    pub(super) not_read: Option<String>,
    /// The causes for which the destination needs attention, according to the service.
    pub(super) attention: Vec<Attention>,
    pub(super) head: Option<Head>,
    pub(super) heads: Vec<Head>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attention {
    pub(super) cause: String,
    pub(super) count: u64,
    pub(super) error: Option<String>,
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
    /// The shard of the head, if the destination has several.
    pub(super) shard: Option<String>,
    pub(super) sequence: u64,
    pub(super) key: Option<String>,
    pub(super) state: String,
    pub(super) age_ms: u64,
    pub(super) blocked_by: Option<String>,
    pub(super) halted_for_ms: Option<u64>,
    attempts: u32,
    stalls: u32,
    pub(super) last_error: Value,
}

impl Stats {
    /// True if the service says that it needs attention, or if no numbers were read.
    pub(super) fn needs_attention(&self) -> bool {
        !self.attention.is_empty() || !self.is_known()
    }

    /// True if the numbers were read.
    pub(super) fn is_known(&self) -> bool {
        self.damaged.is_empty() && self.not_read.is_none()
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
    /// The number of failed attempts.
    pub(super) fn failures(&self) -> u32 {
        self.attempts + self.stalls
    }

    pub(super) fn is_halted(&self) -> bool {
        self.state == "halted"
    }

    /// The state in which `messages list` shows the head. Redis does not know which ready messages are in delivery.
    pub(super) fn listed_state(&self) -> &str {
        if self.state == "delivering" { "ready" } else { &self.state }
    }
}

/// The destinations with these names; all destinations, in the service's order, if `names` is empty. With `check`, only
/// destinations that need attention.
pub(super) async fn read(
    service: &Service,
    names: &[String],
    check: bool,
) -> anyhow::Result<Vec<Seen>> {
    let mut all = Vec::new();
    if names.is_empty() {
        let no = Some(Value::Bool(false));
        let fields = [("heads", flag(true)), ("totals", no), ("attention", flag(check))];
        let page = pages::read(service, "/v1/stats", &fields, usize::MAX, None).await?;
        for item in page["items"].as_array().into_iter().flatten() {
            all.push(Seen::of(text_of(item, "name"), item.clone())?);
        }
    }
    for name in names {
        all.push(Seen::of(name.clone(), read_one(service, name).await?)?);
    }
    all.retain(|seen| !check || seen.stats.needs_attention());
    Ok(all)
}

/// The numbers of one destination, or why they cannot be read.
async fn read_one(service: &Service, name: &str) -> anyhow::Result<Value> {
    let read = service.call(Call::get(&path_of(name, "stats"))).await;
    match read {
        Ok(stats) => Ok(Value::clone(&stats)),
        Err(error) => match problem_of(&error) {
            Some(Problem { status: 500, detail, .. }) => Ok(json!({"damaged": [detail]})),
            Some(Problem { status: 503, detail, .. }) => Ok(json!({"not_read": detail})),
            _ => Err(error),
        },
    }
}

impl Seen {
    fn of(name: String, mut json: Value) -> anyhow::Result<Seen> {
        if let Some(fields) = json.as_object_mut() {
            fields.remove("name");
        }
        Ok(Seen { name, stats: Stats::deserialize(&json)?, json })
    }
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

    /// Three destinations on three pages, of which one is empty. The second destination is damaged.
    async fn list(Query(query): Query<HashMap<String, String>>) -> Json<Value> {
        assert_eq!(
            (&*query["limit"], &*query["heads"], &*query["totals"]),
            ("1000", "true", "false")
        );
        Json(match query.get("cursor").map(String::as_str) {
            None => {
                json!({"items": [{"name": "a", "waiting": 2}, {"name": "b", "damaged": ["its lane"]}],
                "next_cursor": "b"})
            }
            Some("b") => json!({"items": [], "next_cursor": "c"}),
            Some("c") => json!({"items": [{"name": "d", "not_read": "gone"}], "next_cursor": null}),
            Some(other) => panic!("{other}"),
        })
    }

    async fn stats(Path(name): Path<String>) -> Response {
        let problem =
            |status, code| json!({"status": status, "code": code, "detail": "its server"});
        match name.as_str() {
            "b" => (StatusCode::SERVICE_UNAVAILABLE, Json(problem(503, "redis_unavailable")))
                .into_response(),
            "c" => {
                (StatusCode::NOT_FOUND, Json(problem(404, "unknown_destination"))).into_response()
            }
            _ => Json(json!({"waiting": 2, "halted": 0})).into_response(),
        }
    }

    #[tokio::test]
    async fn status_reads_all_pages_and_shows_what_was_not_read() {
        let routes = Router::new()
            .route("/v1/stats", get(list))
            .route("/v1/destinations/{name}/stats", get(stats));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, routes).into_future());
        let service = Service::at(&url, &[], &Pem::default()).unwrap();
        let all = read(&service, &[], false).await.unwrap();
        let seen = all.iter().map(|one| (one.name.as_str(), one.stats.waiting));
        assert_eq!(seen.collect::<Vec<_>>(), [("a", 2), ("b", 0), ("d", 0)]);
        let unwell = read(&service, &[], true).await.unwrap();
        let names = unwell.iter().map(|one| one.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["b", "d"]);

        let two = ["a".to_owned(), "b".to_owned()];
        let named = read(&service, &two, false).await.unwrap();
        assert_eq!((named.len(), named[0].stats.waiting), (2, 2));
        assert_eq!(named[1].stats.not_read.as_deref(), Some("its server"));
        assert!(read(&service, &["c".to_owned()], false).await.is_err());
    }
}
