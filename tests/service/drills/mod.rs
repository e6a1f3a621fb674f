//! Drills: each test begins an incident, then asks every tool as an operator would: `why`, doctor, `status --check`, what
//! the console lists first, and the log. Each has to name the cause or what to do, and none may say that all is well.
//! Other tests have the rest of the incidents: `topologies` a dead primary, `tls` certificates, `interfaces::redis_gone`
//! a Redis that refuses writes, `command_line::attention` the causes side by side.

mod lanes;
mod pods;
mod work;

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    logs::{LINES_MAX, lines_of},
    operations::commands::run_at,
    policies::scenario::{ERP, Scenario},
    support::{
        pods::{Pod, client},
        wait::eventually,
    },
};

/// Words that each tool says in an incident.
#[derive(Default)]
struct Says<'a> {
    why: &'a [&'a str],
    doctor: &'a [&'a str],
    status: &'a [&'a str],
    /// Causes of [attention](store::Attention), with which the console begins.
    console: &'a [&'a str],
    log: &'a [&'a str],
}

impl Says<'_> {
    /// Asks all tools until they say all of it; then none says that all is well.
    async fn by(&self, pod: &Pod) {
        eventually("all tools name the incident", async || {
            let url = pod.url("");
            let run = async |args: &[&str]| run_at(&url, args, &[], "").await;
            let (why, doctor) = (run(&["why", ERP]).await, run(&["doctor"]).await);
            let status = run(&["status", "--check"]).await;
            let console = causes(pod).await;
            let told = [
                ("why", why.all(), self.why),
                ("doctor", doctor.all(), self.doctor),
                ("status", status.all(), self.status),
                ("console", console, self.console),
                ("log", pod.log(), self.log),
            ];
            let mut missing = Vec::new();
            for (tool, text, words) in told {
                for word in words.iter().filter(|word| !text.contains(**word)) {
                    let end = text.lines().rev().take(12).collect::<Vec<_>>();
                    let end = end.into_iter().rev().collect::<Vec<_>>().join("\n");
                    missing.push(format!("{tool} does not say {word:?}:\n{end}\n"));
                }
            }
            if !self.doctor.is_empty() && doctor.is_well() {
                missing.push("doctor exits with 0".to_owned());
            }
            if !self.status.is_empty() && status.is_well() {
                missing.push("status --check exits with 0".to_owned());
            }
            if missing.is_empty() { Ok(()) } else { Err(missing.join("\n")) }
        })
        .await;
    }
}

/// The causes that `GET /v1/stats?attention=true` lists; the console shows them on top.
async fn causes(pod: &Pod) -> String {
    let answer = client().get(pod.url("/v1/stats?attention=true")).send().await;
    match answer {
        Ok(answer) => answer.text().await.unwrap_or_default(),
        Err(error) => error.to_string(),
    }
}

/// The log got at most this many lines since it had `before`.
fn is_quiet(pod: &Pod, before: usize) {
    let added = lines_of(pod) - before;
    assert!(added <= LINES_MAX, "{added} lines:\n{}", pod.log());
}

/// Gives Redis a clock that the test moves, and waits until the pod uses Redis again.
async fn give_clock(scenario: &Scenario) {
    scenario.redis.give_clock().await;
    eventually("Redis is back", async || {
        let (status, answer) = scenario.ask("PUT", "/v1/destinations/spare", spare()).await;
        if status < 300 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
}

fn spare() -> Value {
    json!({"delivery": {"kind": "pull"}})
}

fn step(scenario: &Scenario, seconds: u64) {
    scenario.redis.clock().step(Duration::from_secs(seconds), true);
}

/// Sends this many messages in few requests.
async fn send_many(scenario: &Scenario, count: usize) {
    let line = json!({"destinations": [ERP], "body": "x"}).to_string() + "\n";
    let request = client().post(scenario.pod.url("/v1/messages"));
    let request = request.header("content-type", "application/x-ndjson").body(line.repeat(count));
    let text = request.send().await.unwrap().text().await.unwrap();
    assert_eq!(text.matches("\"sequence\":").count(), count, "{text}");
}
