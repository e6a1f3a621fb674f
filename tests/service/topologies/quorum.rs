//! Tests that messages acknowledged at `quorum` survive a failover, and that ingest continues.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};

use crate::{
    alerts::{Scrape, Timeline},
    support::{
        pods::{Pod, Settings, client},
        ports::free_port,
        receiver::{Inbox, Receiver},
        sentinel::{SERVICE, TestSentinel},
        wait::eventually,
    },
};

const COUNT: usize = 20;

struct Deployment {
    redis: TestSentinel,
    pod: Pod,
    _receiver: Receiver,
}

impl Deployment {
    /// Three servers, and a pod that delivers no messages, so that losses show.
    async fn start() -> Deployment {
        let redis = TestSentinel::start(2).await;
        let inbox = Arc::new(Inbox::default());
        let receiver = Receiver::http(&inbox).await;
        let mut settings = Settings {
            partitions: 1,
            redis: "replicas = 2\ntimeout_ms = 2000".into(),
            ingest: "retry_ms = 500".into(),
            ..Settings::new(&redis.url())
        };
        for level in ["quorum", "replicated"] {
            let fields = format!(
                "url = \"{}\"\ntransform = {{ kind = \"worker\" }}\ndurability = \"{level}\"",
                receiver.url()
            );
            settings = settings.destination(level, &fields);
        }
        let pod = Pod::start("reseq", "ingest,sender", &settings).await;
        Deployment { redis, pod, _receiver: receiver }
    }

    async fn send(&self, level: &str) -> (u16, Value) {
        let body = json!({"destinations": [level], "body": "one"}).to_string();
        let request = client().post(self.pod.url("/v1/messages"));
        let request = request.header("content-type", "application/json").body(body);
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    }

    /// Sends until a message is accepted. Returns its sequence.
    async fn taken(&self, level: &str) -> u64 {
        eventually("a message is taken", async || match self.send(level).await {
            (202, said) => Ok(said["deliveries"][0]["sequence"].as_u64().unwrap()),
            (status, said) => Err(format!("{status} {said}")),
        })
        .await
    }

    /// The sequences at `quorum` that this server has.
    async fn has(&self, node: usize) -> Vec<u64> {
        self.redis.nodes[node].ask(&["HKEYS", "reseq:{p00}:d:quorum:messages"]).await.unwrap()
    }

    /// Stops the replication to a live replica. Sentinels see that, and its priority.
    async fn lags(&self, replica: usize, priority: u32) {
        let node = &self.redis.nodes[replica];
        let priority = priority.to_string();
        node.ask::<()>(&["CONFIG", "SET", "replica-priority", &priority]).await.unwrap();
        let nowhere = free_port().to_string();
        node.ask::<()>(&["REPLICAOF", "127.0.0.1", &nowhere]).await.unwrap();
        let port = node.port().to_string();
        for sentinel in &self.redis.sentinels {
            eventually("a sentinel sees that it lags", async || {
                let said = sentinel.ask(&["SENTINEL", "REPLICAS", SERVICE]).await;
                let said: Vec<HashMap<String, String>> = said.map_err(|error| error.to_string())?;
                let is_seen = |one: &HashMap<String, String>| {
                    one["port"] == port
                        && one["slave-priority"] == priority
                        && one["master-link-status"] == "err"
                };
                if said.iter().any(is_seen) { Ok(()) } else { Err(format!("{said:?}")) }
            })
            .await;
        }
    }
}

#[tokio::test]
async fn death_of_one_of_three_stops_replicated_but_not_quorum() {
    let deployment = Deployment::start().await;
    for level in ["quorum", "replicated"] {
        let (status, said) = deployment.send(level).await;
        let told = &said["deliveries"][0]["durability"];
        assert_eq!((status, told), (202, &json!(level)), "{said}");
    }
    deployment.redis.nodes[2].kill();
    for _ in 0..COUNT {
        assert_eq!(deployment.send("quorum").await.0, 202);
    }
    let (status, said) = deployment.send("replicated").await;
    assert_eq!((status, &said["code"]), (503, &json!("not_confirmed")), "{said}");
    // The primary alone is not a majority.
    deployment.redis.nodes[1].kill();
    let (status, said) = deployment.send("quorum").await;
    assert_eq!((status, &said["code"]), (503, &json!("not_confirmed")), "{said}");
    deployment.redis.nodes[1].restart().await;
    deployment.taken("quorum").await;
    deployment.redis.nodes[2].restart().await;
    deployment.taken("replicated").await;
}

#[tokio::test]
async fn failover_keeps_quorum_writes_unless_priority_interferes() {
    let deployment = Deployment::start().await;
    deployment.taken("quorum").await;
    deployment.redis.in_sync().await;
    deployment.lags(2, 100).await;
    let mut taken = Vec::new();
    for _ in 0..COUNT {
        taken.push(deployment.taken("quorum").await);
    }
    deployment.redis.nodes[0].kill();
    assert_eq!(deployment.redis.other_primary(0).await, 1, "it had more");
    let kept = deployment.has(1).await;
    assert!(taken.iter().all(|sequence| kept.contains(sequence)), "{kept:?} of {taken:?}");
    // The other replica follows the new primary now. Ingest continues with two of three servers.
    assert!(deployment.taken("quorum").await > COUNT as u64);
    assert_eq!(deployment.pod.metric("reseq_redis_confirmed_lost_total").await, 0.0);
}

#[tokio::test]
async fn loss_is_told_if_priority_promotes_a_lagging_replica() {
    let deployment = Deployment::start().await;
    let first = deployment.taken("quorum").await;
    deployment.redis.in_sync().await;
    deployment.lags(2, 1).await;
    for _ in 0..COUNT {
        deployment.taken("quorum").await;
    }
    let epoch = |node: usize| {
        let node = &deployment.redis.nodes[node];
        async move { node.ask::<u64>(&["HGET", "reseq:{p00}:epoch", "epoch"]).await.unwrap() }
    };
    let before = epoch(0).await;
    let healthy = Scrape::of(&[("all", &deployment.pod)]).await;
    deployment.redis.nodes[0].kill();
    assert_eq!(deployment.redis.other_primary(0).await, 2, "its priority is lower");
    assert_eq!(deployment.has(2).await, [first], "the rest is lost");
    let again = deployment.taken("quorum").await;
    assert!(again > first, "ingest goes on");
    assert!(epoch(2).await > before);
    eventually("the loss is told", async || {
        let count = deployment.pod.metric("reseq_redis_confirmed_lost_total").await;
        let is_logged = deployment.pod.log().contains("lacks writes that replicas had confirmed");
        if count == 1.0 && is_logged { Ok(()) } else { Err(format!("{count}, {is_logged}")) }
    })
    .await;
    let lossy = Scrape::of(&[("all", &deployment.pod)]).await;
    let mut timeline = Timeline::default();
    timeline.lasts(&healthy, &healthy);
    timeline.lasts(&lossy, &lossy);
    timeline.fires("ReseqConfirmedWritesLost");
    timeline.holds();
}
