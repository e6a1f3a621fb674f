//! A drill: a receiver with a thousand lanes refuses everything for a minute, and then works. Prints how many requests
//! it got meanwhile, and how soon all lanes moved. Fails if these are more or later than promised, or out of order.
//!
//! `make drill-breaker`, or `cargo run --release --example breaker_drill -- 60 1000`. The arguments are the seconds
//! that the receiver is dead, and the number of lanes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use axum::{Router, extract::State, http::StatusCode, routing::post};
use config::Config;
use domain::{Destination, Ordering as Lanes};
use redis_client::embedded::EmbeddedRedis;
use reseq::{Reseq, Role};
use tokio::net::TcpListener;

/// Messages in each lane.
const EACH: usize = 3;
/// The most requests in a second to a dead receiver.
const REQUESTS_MAX: usize = 5;
/// All lanes move within this time of the first success.
const RESUME_MAX: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Receiver {
    works: AtomicBool,
    /// When a request arrived, and what it brought: `lane number`.
    refused: Mutex<Vec<Instant>>,
    accepted: Mutex<Vec<(Instant, String)>>,
}

async fn receive(State(receiver): State<Arc<Receiver>>, body: String) -> StatusCode {
    let now = Instant::now();
    if !receiver.works.load(Ordering::Relaxed) {
        receiver.refused.lock().unwrap_or_else(PoisonError::into_inner).push(now);
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    receiver.accepted.lock().unwrap_or_else(PoisonError::into_inner).push((now, body));
    StatusCode::OK
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let dead_s = numbers.next().transpose().context("not a number of seconds")?.unwrap_or(60);
    let lanes = numbers.next().transpose().context("not a number of lanes")?.unwrap_or(1_000);
    let directory = tempfile::tempdir()?;
    let redis = EmbeddedRedis::start(&directory.path().join("redis")).await?;
    let (receiver, listener) =
        (Arc::<Receiver>::default(), TcpListener::bind("127.0.0.1:0").await?);
    let url = format!("http://{}/", listener.local_addr()?);
    let app = Router::new().route("/", post(receive)).with_state(receiver.clone());
    tokio::spawn(async { axum::serve(listener, app).await });

    let mut destination = Destination::new("drill".parse()?, url);
    destination.ordering = Lanes::Key;
    let mut config = Config { destinations: vec![destination], ..Config::default() };
    config.http.listen = "127.0.0.1:0".parse()?;
    config.redis.url = redis.url();
    config.outgoing.allow = vec!["127.0.0.1".parse().map_err(anyhow::Error::msg)?];
    let pod = Reseq::new(config).roles([Role::Ingest, Role::Sender]).start().await?;
    let begun = Instant::now();
    send(&format!("http://{}/v1/messages", pod.http), lanes).await?;
    tokio::time::sleep_until((begun + Duration::from_secs(dead_s as u64)).into()).await;
    receiver.works.store(true, Ordering::Relaxed);
    let works = Instant::now();
    let all = lanes * EACH;
    let taken = || receiver.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone();
    while taken().len() < all && works.elapsed() < 12 * RESUME_MAX {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    pod.stop().await?;
    redis.stop().await?;
    report(&receiver.refused.lock().unwrap_or_else(PoisonError::into_inner), taken(), lanes, works)
}

/// Sends the first message of each lane, then the second of each.
async fn send(url: &str, lanes: usize) -> anyhow::Result<()> {
    let of = |number| {
        move |lane| {
            format!(r#"{{"destinations":["drill"],"key":"{lane}","body":"{lane} {number}"}}"#)
        }
    };
    let lines: Vec<String> = (0..EACH).flat_map(|number| (0..lanes).map(of(number))).collect();
    for some in lines.chunks(1_000) {
        let request = reqwest::Client::new().post(url);
        let request = request.header("content-type", "application/x-ndjson").body(some.join("\n"));
        let answer = request.send().await?.error_for_status()?.text().await?;
        ensure!(!answer.contains("\"code\""), "refused: {answer:.300}");
    }
    Ok(())
}

fn report(
    refused: &[Instant],
    accepted: Vec<(Instant, String)>,
    lanes: usize,
    works: Instant,
) -> anyhow::Result<()> {
    let (first, success) = (refused.first().context("no request")?, accepted.first());
    let (success, _) = success.context("nothing was accepted")?;
    // In its first second, the receiver begins to fail: requests are in flight.
    let later: Vec<_> =
        refused.iter().filter(|at| **at - *first >= Duration::from_secs(1)).collect();
    let in_second = |from: Instant| {
        later.iter().filter(|at| ***at >= from && ***at - from < Duration::from_secs(1)).count()
    };
    let most = later.iter().map(|at| in_second(**at)).max().unwrap_or(0);
    let mut next: HashMap<&str, usize> = HashMap::new();
    let (mut moved, mut is_exact) = (Duration::ZERO, true);
    for (at, body) in &accepted {
        let (lane, number) = body.trim_matches('"').split_once(' ').context("another body")?;
        let wanted = next.entry(lane).or_default();
        is_exact &= number.parse::<usize>()? == *wanted;
        if *wanted == 0 {
            moved = *at - *success;
        }
        *wanted += 1;
    }
    let last = accepted.last().map_or(Duration::ZERO, |(at, _)| *at - *success);
    println!("lanes, each with {EACH} messages              {lanes}");
    println!("requests while dead, first second      {}", refused.len() - later.len());
    println!("requests while dead, afterwards        {}", later.len());
    println!("most of them in any second             {most}");
    println!("first success after it works           {:.1?}", *success - works);
    println!("all lanes have moved after that        {moved:.1?}");
    println!("all messages are delivered after that  {last:.1?}");
    println!("delivered                              {}", accepted.len());
    println!("in order, each once                    {}", if is_exact { "yes" } else { "no" });
    ensure!(accepted.len() == lanes * EACH && is_exact, "messages are missing or out of order");
    ensure!(most <= REQUESTS_MAX, "too many requests to a dead receiver");
    ensure!(next.len() == lanes && moved <= RESUME_MAX, "lanes resume too late");
    Ok(())
}
