//! Interventions over the HTTP API during faults: repeated, at another pod, until they succeed.

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

/// A request that has not succeeded by then is given up.
const DONE_MAX: Duration = Duration::from_secs(300);
/// A pod that does not answer by then is frozen or cut off.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The same for what is only looked at, again and again.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// The same for a purge, whose answer waits for its end for a while.
const ALL_MAX: Duration = Duration::from_secs(60);

/// Asks one pod, once. Returns the status and the answer.
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

/// Asks one pod, once, for something that may fail.
pub async fn tried(world: &World, method: Method, path: &str, body: Value) {
    let _ = once(world, 0, &method, path, &body).await;
}

/// Asks one pod, once, for something to read.
pub async fn look(pod: &Addresses, path: &str) -> Option<Value> {
    let request = client().get(pod.url(path)).timeout(LOOK_MAX);
    let answer = request.send().await.ok().filter(|answer| answer.status() == 200)?;
    serde_json::from_str(&answer.text().await.ok()?).ok()
}

/// Asks until `is_done` accepts a status. Each attempt goes to the next pod.
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

/// Asks until a pod answers with success.
pub async fn done(world: &World, method: Method, path: &str, body: Value) -> Result<Value, String> {
    ask(world, method, path, body, |status, _| (200..300).contains(&status)).await
}
