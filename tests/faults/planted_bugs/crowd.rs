//! A scenario about shares: destinations take as much as they can from a pod with few file descriptors.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    scenario::{Anomaly, SOON, Verdict},
    scenarios::Ended,
};
use crate::support::{
    dns::Dns,
    holding::Holding,
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::{LOOK_EVERY, PATIENCE},
};

/// More messages than the connections that a destination of such a pod may have.
const MESSAGES: usize = 60;

struct Crowd {
    pod: Pod,
    patience: Duration,
}

impl Crowd {
    async fn define(&self, name: &str, url: &str) {
        let put = client().put(self.pod.url(&format!("/v1/destinations/{name}")));
        let delivery = json!({"lanes_max": 1000, "timeout_ms": 3_600_000});
        let definition = json!({"url": url, "ordering": "none", "delivery": delivery});
        assert_eq!(put.json(&definition).send().await.unwrap().status(), 201);
        let line = |number| json!({"destinations": [name], "body": number}).to_string() + "\n";
        let lines: String = (0..MESSAGES).map(line).collect();
        let post = client().post(self.pod.url("/v1/messages")).body(lines);
        let answer = post.header("content-type", "application/x-ndjson").send().await.unwrap();
        assert_eq!(answer.status(), 202);
    }

    async fn until(&self, mut is_so: impl AsyncFnMut() -> bool) -> Verdict {
        let begun = Instant::now();
        while !is_so().await {
            if begun.elapsed() > self.patience {
                return Err(Anomaly::Stuck);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn places(&self, what: &str, of: &str) -> f64 {
        self.pod.metric(&format!("reseq_places_{what}{{of=\"{of}\"}}")).await
    }
}

/// One destination has a receiver that never answers. Other destinations must still be served. A
/// name needed by many deliveries is looked up only once at a time.
pub async fn hogs(bug: Option<String>) -> Ended {
    let (redis, dns) = (TestRedis::start().await, Dns::start([127, 0, 0, 1]).await);
    let mut settings = Settings { descriptors: Some(256), ..Settings::new(redis.url()) };
    settings.outgoing = format!("{}\n{}", settings.outgoing, dns.setting());
    settings.environment.extend(bug.iter().map(|bug| ("RESEQ_PLANTED_BUG".into(), bug.clone())));
    let inbox = Arc::new(Inbox::default());
    let (receiver, holding) = (Receiver::http(&inbox).await, Holding::start().await);
    let pod = Pod::start("pod", "ingest,processor,sender", &settings).await;
    let crowd = Crowd { pod, patience: if bug.is_some() { SOON } else { PATIENCE } };
    let got = |name: &str| inbox.journal.messages_of(name);
    let verdict = async {
        crowd.define("before", &receiver.url()).await;
        crowd.until(async || got("before") == MESSAGES).await?;
        crowd.define("hog", &holding.url()).await;
        crowd
            .until(async || {
                let why = client().get(crowd.pod.url("/v1/destinations/hog/why")).send().await;
                let why: Value = why.unwrap().json().await.unwrap();
                why["cause"] == "awaiting_connection"
            })
            .await?;
        crowd.define("after", &receiver.url()).await;
        crowd.until(async || got("after") == MESSAGES).await?;
        crowd.define("unresolved", "http://silent.example.:9/").await;
        // The pod repeats its questions for both kinds of addresses.
        crowd.until(async || dns.ignored() >= 6).await?;
        let (taken, waiting) =
            (crowd.places("taken", "lookups").await, crowd.places("waiting", "lookups").await);
        if taken + waiting > 1.0 { Err(Anomaly::Repeated) } else { Ok(()) }
    };
    (verdict.await, 3 * MESSAGES)
}
