//! Tests Reseq as a library: a transform written in Rust, in this process.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use config::Config;
use domain::{Body, Destination, TransformKind};
use reseq::{Failure, Output, Reseq, Running, Stamped, Transform};
use support::{
    journal::Delivery,
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    wait::within,
};

use crate::support;

/// Puts messages in capitals; panics at the first attempt at each.
#[derive(Default)]
struct Shout {
    panics: bool,
    seen: Mutex<HashSet<u64>>,
}

#[async_trait::async_trait]
impl Transform for Shout {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        let is_first = self.seen.lock().unwrap().insert(message.position.sequence);
        assert!(!(self.panics && is_first), "as planned");
        let bytes = message.message.body.bytes.to_ascii_uppercase().into();
        Ok(Output::Deliver(Body { content_type: "text/plain".into(), bytes }))
    }
}

/// Panics outside of any attempt, when the processor asks how many attempts may run at once.
struct Broken;

#[async_trait::async_trait]
impl Transform for Broken {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        Ok(Output::Deliver(message.message.body.clone()))
    }

    fn at_once_max(&self) -> Option<usize> {
        panic!("as planned")
    }
}

/// Two attempts at once, so that the test notices a lost slot.
fn destination(receiver: &Receiver) -> Destination {
    let mut destination = Destination::new("erp".parse().unwrap(), receiver.url());
    destination.transform.kind = TransformKind::Native;
    destination.transform.name = Some("shout".into());
    destination.transform.concurrency = 2;
    destination.transform.backoff_ms = 2;
    destination
}

async fn start(redis: &TestRedis, destinations: Vec<Destination>, panics: bool) -> Running {
    start_with(redis, destinations, Shout { panics, ..Shout::default() }).await
}

async fn start_with(
    redis: &TestRedis,
    destinations: Vec<Destination>,
    shout: impl Transform + 'static,
) -> Running {
    let mut config = Config { destinations, ..Config::default() };
    config.http.listen = "127.0.0.1:0".parse().unwrap();
    config.outgoing.allow = vec!["127.0.0.0/8".parse().unwrap()];
    config.redis.url = redis.url().to_owned();
    Reseq::new(config).transform("shout", shout).start().await.unwrap()
}

async fn send(running: &Running, number: usize) {
    let url = format!("http://{}/v1/destinations/erp/messages", running.http);
    let answer = reqwest::Client::new().post(url).body(format!("message {number}")).send().await;
    assert_eq!(answer.unwrap().status(), 202);
}

fn bodies(inbox: &Inbox) -> Vec<String> {
    inbox.journal.all().into_iter().map(|Delivery { body, .. }| body).collect()
}

fn expected(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("MESSAGE {number}")).collect()
}

#[tokio::test]
async fn panicking_transform_fails_an_attempt_and_frees_its_slot() {
    let (redis, inbox) = (TestRedis::start().await, Arc::new(Inbox::default()));
    let receiver = Receiver::http(&inbox).await;
    let running = start(&redis, vec![destination(&receiver)], true).await;
    for number in 0..20 {
        send(&running, number).await;
    }
    inbox.journal.reaches(20).await;
    assert_eq!(bodies(&inbox), expected(20));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_definition_that_changes_under_load_costs_no_slot() {
    let (redis, inbox) = (TestRedis::start().await, Arc::new(Inbox::default()));
    let receiver = Receiver::http(&inbox).await;
    let running = start(&redis, Vec::new(), false).await;
    let url = format!("http://{}/v1/destinations/erp", running.http);
    for number in 0..200 {
        if number % 4 == 0 {
            let mut changed = destination(&receiver);
            changed.transform.timeout_ms += number as u64;
            let put = reqwest::Client::new().put(&url).json(&changed).send().await.unwrap();
            assert!(put.status().is_success(), "{}", put.status());
        }
        send(&running, number).await;
    }
    inbox.journal.reaches(200).await;
    assert_eq!(bodies(&inbox), expected(200));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn whole_ends_if_a_role_ends_by_itself_and_another_goes_on() {
    let (redis, inbox) = (TestRedis::start().await, Arc::new(Inbox::default()));
    let receiver = Receiver::http(&inbox).await;
    let mut broken = start_with(&redis, vec![destination(&receiver)], Broken).await;
    send(&broken, 0).await;
    let ended = within("it ends by itself", broken.ended()).await.unwrap_err();
    assert!(ended.to_string().contains("the processor of this process ended"), "{ended}");
    broken.stop().await.unwrap();
    // The first run has given back its partitions and leases.
    let running = start(&redis, Vec::new(), false).await;
    send(&running, 1).await;
    inbox.journal.reaches(2).await;
    assert_eq!(bodies(&inbox), expected(2));
    running.stop().await.unwrap();
}
