//! Tests that another process removes a destination or topic of a pod's configuration file.

use serde_json::json;

use super::said;
use crate::support::{
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::eventually,
};

/// A pod whose file has the destination `erp` and the topic `orders`, and one without them; both
/// have the role ingest.
struct Two {
    _redis: TestRedis,
    inbox: std::sync::Arc<Inbox>,
    receiver: Receiver,
    with_file: Pod,
    without: Pod,
}

const ERP: &str = "/v1/destinations/erp";
const ORDERS: &str = "/v1/topics/orders";

impl Two {
    async fn start() -> Two {
        let redis = TestRedis::start().await;
        let inbox = std::sync::Arc::new(Inbox::default());
        let receiver = Receiver::http(&inbox).await;
        let bare = Settings::new(redis.url());
        let fields = format!("url = \"{}\"", receiver.url());
        let mut settings = bare.clone().destination("erp", &fields);
        settings.destinations += "[[topic]]\nname = \"orders\"\ndestinations = [\"erp\"]\n";
        let with_file = Pod::start("with-file", "ingest,processor,sender", &settings).await;
        let without = Pod::start("without", "ingest,processor,sender", &bare).await;
        Two { _redis: redis, inbox, receiver, with_file, without }
    }

    /// Sends a message through the pod with the file; returns the status.
    async fn send(&self) -> u16 {
        let request = client().post(self.with_file.url(&format!("{ERP}/messages"))).body("x");
        said(request).await.status
    }

    async fn the_log_says(&self, words: &str) {
        eventually("the pod says what has happened", async || {
            let log = self.with_file.log();
            let line = log.lines().find(|line| line.contains("WARN") && line.contains(words));
            line.map(|_| ()).ok_or_else(|| "not yet".to_owned())
        })
        .await;
    }
}

#[tokio::test]
async fn any_pod_can_recreate_file_destination_removed_elsewhere() {
    let mut two = Two::start().await;
    let definition = json!({"url": two.receiver.url(), "weight": 7});
    let put = |pod: &Pod| client().put(pod.url(ERP)).json(&definition);
    said(put(&two.with_file)).await.is_problem(409, "defined_in_file", "erp");
    let removed = said(client().delete(two.without.url(ERP))).await;
    assert_eq!(
        (removed.status, &removed.body["removed_messages"]),
        (200, &json!(0)),
        "{}",
        removed.body
    );
    two.the_log_says("a destination of the configuration file is no longer in Redis").await;
    assert_eq!(two.send().await, 404);
    said(client().delete(two.with_file.url(ERP))).await.is_problem(
        404,
        "unknown_destination",
        "erp",
    );

    // No pod is stuck: the file applies again from the next start.
    let made = said(put(&two.with_file)).await;
    assert_eq!((made.status, &made.body["defined_in_file"]), (201, &json!(false)), "{}", made.body);
    assert_eq!(two.send().await, 202);
    two.inbox.journal.reaches(1).await;
    assert_eq!(said(put(&two.with_file)).await.status, 200);
    let removed = client().delete(two.with_file.url(&format!("{ERP}?force=true")));
    assert_eq!(said(removed).await.status, 200);

    two.with_file.terminate();
    two.with_file.ended().await;
    two.with_file.restart().await;
    let shown = said(client().get(two.with_file.url(ERP))).await.body;
    assert_eq!((&shown["defined_in_file"], &shown["weight"]), (&json!(true), &json!(1)), "{shown}");
    said(put(&two.with_file)).await.is_problem(409, "defined_in_file", "erp");
    assert_eq!(two.send().await, 202);
}

#[tokio::test]
async fn destination_matching_the_file_again_belongs_to_it_again() {
    let two = Two::start().await;
    assert_eq!(said(client().delete(two.without.url(ERP))).await.status, 200);
    two.the_log_says("a destination of the configuration file is no longer in Redis").await;
    // This call does the same as a starting pod with this file.
    let same = json!({"url": two.receiver.url()});
    assert_eq!(said(client().put(two.without.url(ERP)).json(&same)).await.status, 201);
    let refused = said(client().put(two.with_file.url(ERP)).json(&same)).await;
    refused.is_problem(409, "defined_in_file", "erp");
    eventually("messages are taken in", async || match two.send().await {
        202 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
}

#[tokio::test]
async fn any_pod_can_recreate_file_topic_removed_elsewhere() {
    let two = Two::start().await;
    let put = || client().put(two.with_file.url(ORDERS)).json(&json!({"destinations": ["erp"]}));
    said(put()).await.is_problem(409, "defined_in_file", "orders");
    assert_eq!(said(client().delete(two.without.url(ORDERS))).await.status, 200);
    two.the_log_says("a topic of the configuration file is no longer in Redis").await;
    let gone = said(client().delete(two.with_file.url(ORDERS))).await;
    gone.is_problem(404, "unknown_topic", "orders");
    let made = said(put()).await;
    // The definition matches the file, so it belongs to the file.
    assert_eq!((made.status, &made.body["defined_in_file"]), (201, &json!(true)), "{}", made.body);
    said(put()).await.is_problem(409, "defined_in_file", "orders");
}
