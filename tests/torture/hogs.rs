//! Destinations that take as much of the pods as they can: connections to a receiver that never
//! answers, transforms that hang, look-ups without an answer.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::sleep};

use crate::{
    admin, bulk,
    inject::heals,
    kind::Hog,
    plan::{PODS, Planned},
    support::pods::{Addresses, client},
    world::World,
};

/// Messages for each destination: more than the descriptors of a pod.
const MESSAGES: usize = 300;
/// Number of host names that the DNS server ignores.
const NAMES: usize = 20;
/// A fault waits for the end of the previous fault of its kind.
static TURNS: [Mutex<()>; 3] = [const { Mutex::const_new(()) }; 3];
/// If the messages have not taken all places within this time, they are sent again.
const AGAIN: Duration = Duration::from_secs(5);
/// A pod that does not answer within this time has no resources left for the request.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// The destinations of this kind, and their definitions.
fn destinations(world: &World, hog: Hog) -> Vec<(String, Value)> {
    let (url, hour_ms) = (world.holding.url(), 3_600_000);
    // A look-up always ends after 5 s. The removal of a destination waits for that.
    let timeout_ms = if hog == Hog::Dns { 2000 } else { hour_ms };
    let delivery = json!({"lanes_max": 1000, "timeout_ms": timeout_ms});
    let to = |url: &str| json!({"url": url, "ordering": "none", "delivery": delivery});
    match hog {
        Hog::Receiver => vec![("hog-receiver".into(), to(&url))],
        Hog::Transform => {
            let mut definition = to(world.backlog_url());
            definition["transform"] =
                json!({"kind": "http", "url": url, "timeout_ms": hour_ms, "concurrency": 1000});
            vec![("hog-transform".into(), definition)]
        }
        Hog::Dns => {
            let of = |number| to(&format!("http://silent-{number}.example.:9/"));
            (0..NAMES).map(|number| (format!("hog-dns-{number}"), of(number))).collect()
        }
    }
}

/// Creates the destinations, sends them messages, and finally removes them. Meanwhile some deliveries or
/// transforms must wait for places, all pods must answer, and other destinations must deliver.
pub async fn inject(world: &World, planned: Planned, hog: Hog) -> Result<Instant, String> {
    let _alone = TURNS[hog as usize].lock().await;
    let all = destinations(world, hog);
    let struck = || match hog {
        Hog::Dns => world.dns.ignored(),
        Hog::Receiver | Hog::Transform => world.holding.accepted(),
    };
    let before = struck();
    let defined = all.iter().map(|(name, definition)| async move {
        admin::done(world, Method::PUT, &bulk::path(name), definition.clone()).await.map(drop)
    });
    try_join_all(defined).await?;
    let names: Vec<&String> = all.iter().map(|(name, _)| name).collect();
    let line = json!({"destinations": names, "body": 1}).to_string();
    let body = vec![line; MESSAGES.div_ceil(all.len())].join("\n");
    let mut sent: Option<Instant> = None;
    // Another fault may refuse these messages for a while.
    let fired = heals("deliveries or transforms wait for a place", async || {
        if struck() > before && waiting(world, hog).await {
            return Some(());
        }
        // Send them again: a pod may have been killed, or a failover may have lost them.
        if sent.is_none_or(|sent| sent.elapsed() > AGAIN) && send(world, &body).await {
            sent = Some(Instant::now());
        }
        None
    })
    .await;
    let delivered = world.journal.messages();
    sleep(planned.lasts).await;
    let goes_on = heals("all pods answer, and others are delivered", async || {
        for pod in &world.addresses {
            let request = client().get(pod.url("/healthz")).timeout(ANSWER_MAX);
            request.send().await.ok().filter(|answer| answer.status() == 200)?;
        }
        (world.journal.messages() > delivered).then_some(())
    })
    .await;
    // Each removal waits for the deliveries in flight of its destination.
    try_join_all(names.iter().map(|name| bulk::remove(world, name))).await?;
    fired.and(goes_on).map(|()| Instant::now())
}

async fn send(world: &World, body: &str) -> bool {
    for pod in &world.addresses[..PODS] {
        let request = client().post(pod.url("/v1/messages")).timeout(ANSWER_MAX);
        let request = request.header("content-type", "application/x-ndjson").body(body.to_owned());
        if request.send().await.is_ok_and(|answer| answer.status().is_success()) {
            return true;
        }
    }
    false
}

async fn waiting(world: &World, hog: Hog) -> bool {
    let of = if hog == Hog::Dns { "lookups" } else { "connections" };
    for pod in &world.addresses {
        if places_waiting(pod, of).await.unwrap_or_default() > 0.0 {
            return true;
        }
    }
    false
}

async fn places_waiting(pod: &Addresses, of: &str) -> Option<f64> {
    let request = client().get(pod.url("/metrics")).timeout(ANSWER_MAX);
    let text = request.send().await.ok()?.text().await.ok()?;
    let name = format!("reseq_places_waiting{{of=\"{of}\"}}");
    text.lines().find(|line| line.starts_with(&name))?.rsplit(' ').next()?.parse().ok()
}
