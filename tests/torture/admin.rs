//! Interventions over the HTTP API during faults. Repeats them, each time at another pod, until they succeed.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    support::{
        pods::{Addresses, client},
        wait::LOOK_EVERY,
    },
    world::World,
};

/// A request that has not succeeded within this time is given up.
const DONE_MAX: Duration = Duration::from_secs(300);
/// A pod that does not answer within this time is frozen or cut off.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The time limit of reads, which are repeated.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// The time limit of a purge, whose answer waits some time for its end.
const ALL_MAX: Duration = Duration::from_secs(60);

/// Sends a request once, to one pod. Returns the status and the answer.
async fn once(
    world: &World,
    pod: usize,
    method: &Method,
    path: &str,
    body: &Value,
) -> Result<(u16, Value), String> {
    let url = world.addresses[pod].url(path);
    let is_all = path.contains("purge");
    let max = if is_all { ALL_MAX } else { ANSWER_MAX };
    let mut request = client().request(method.clone(), url).timeout(max);
    if !body.is_null() {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    let answer = request.send().await.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let text = answer.text().await.map_err(|error| error.to_string())?;
    Ok((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
}

/// Sends a request once, to one pod. It may fail.
pub async fn tried(world: &World, method: Method, path: &str, body: Value) {
    let _ = once(world, 0, &method, path, &body).await;
}

/// Reads once from one pod.
pub async fn look(pod: &Addresses, path: &str) -> Option<Value> {
    let request = client().get(pod.url(path)).timeout(LOOK_MAX);
    let answer = request.send().await.ok().filter(|answer| answer.status() == 200)?;
    serde_json::from_str(&answer.text().await.ok()?).ok()
}

/// Repeats a request until `is_done` accepts a status. Each attempt goes to the next pod.
pub async fn ask(
    world: &World,
    method: Method,
    path: &str,
    body: Value,
    is_done: impl Fn(u16, &Value) -> bool,
) -> Result<Value, String> {
    let begun = Instant::now();
    let mut last = String::new();
    for round in 0.. {
        match once(world, round % world.addresses.len(), &method, path, &body).await {
            Ok((status, answer)) if is_done(status, &answer) => return Ok(answer),
            Ok((status, answer)) => last = format!("{status} {answer}"),
            Err(problem) => last = problem,
        }
        if begun.elapsed() > DONE_MAX {
            break;
        }
        sleep(LOOK_EVERY * 5).await;
    }
    Err(format!("not within {DONE_MAX:?}: {method} {path}: {last}"))
}

/// Repeats a request until a pod answers with success.
pub async fn done(world: &World, method: Method, path: &str, body: Value) -> Result<Value, String> {
    ask(world, method, path, body, |status, _| (200..300).contains(&status)).await
}
