//! Tests the bounds of calls with the longest bodies that Reseq accepts.

use serde_json::{Value, json};
use store::CatalogEntry;

use super::{Watched, arrival, known};
use crate::operations::each;

/// Bytes of a body without its quotes. With quotes, it has nearly the maximum length.
const LONG: usize = (1 << 20) - 64;
/// Number of messages with such a body.
const COUNT: usize = 24;

fn long(n: usize) -> String {
    format!("\"{n:06}{}\"", "x".repeat(LONG))
}

impl Watched {
    /// Calls everything that reads, moves or removes bodies.
    pub async fn bulky(&mut self) {
        let name = "bulky";
        let definition =
            json!({"transform": {"kind": "worker"}, "log_max": 100, "log_bodies": true});
        self.service.define(name, definition).await;
        let at = known(&self.service.store, name).await;
        self.load(&at, COUNT, |n| arrival("k".to_owned(), long(n)), 4).await;
        self.watch().await;
        self.post("messages", json!({"destinations": [name], "body": "x".repeat(LONG)})).await;
        self.note("ingest one message").await;
        self.get(&format!("destinations/{name}/messages?limit=1000")).await;
        self.note("messages").await;
        self.get(&format!("destinations/{name}/messages/3")).await;
        self.note("a message").await;
        self.deliver(name, &at).await;
        self.set_aside(name).await;
        self.post(
            &format!("destinations/{name}/replay"),
            json!({"from_sequence": 1, "to_sequence": 2}),
        )
        .await;
        self.note("replay").await;
        self.checkpoints(name).await;
        self.post(&format!("destinations/{name}/purge"), json!({})).await;
        self.note("purge").await;
        self.delete(&format!("destinations/{name}?force=true")).await;
        self.note("remove").await;
        self.quiet().await;
    }

    /// Uses the fast paths: one ordinary message at a time.
    async fn quiet(&mut self) {
        for kind in ["none", "worker"] {
            let name = format!("quiet-{kind}");
            self.service.define(&name, json!({"transform": {"kind": kind}})).await;
            self.post("messages", json!({"destinations": [name], "body": 1})).await;
            self.note("ingest one short message").await;
        }
        let leases = self.lease("quiet-worker").await;
        self.complete(&leases).await;
        self.note("complete one message").await;
    }

    /// Leases messages, completes them with other bodies, and delivers them.
    async fn deliver(&mut self, name: &str, at: &CatalogEntry) {
        let leases = self.lease(name).await;
        self.note("claim").await;
        assert!((4..=9).contains(&leases.len()), "{}", leases.len());
        for some in leases[..4].chunks(4) {
            let item = |lease: &Value| json!({"token": lease["token"], "body": "y".repeat(LONG)});
            let items: Vec<Value> = some.iter().map(item).collect();
            self.post("leases/complete", json!({"items": items})).await;
            self.note("complete").await;
        }
        let item = |lease: &Value| json!({"token": lease["token"]});
        let items: Vec<Value> = leases[4..].iter().map(item).collect();
        self.post("leases/requeue", json!({"items": items})).await;
        self.note("requeue").await;
        let owner = self.own(name).await;
        assert!(self.release(at, &owner, vec![None]).await == 4);
        self.service.store.resign_partition(at.partition, &owner.token, None).await.unwrap();
        self.get(&format!("destinations/{name}/log?limit=1000")).await;
        self.note("log").await;
    }

    /// Turns heads into dead letters; lists, redrives and discards them.
    async fn set_aside(&mut self, name: &str) {
        for _ in 0..6 {
            let head =
                self.get(&format!("destinations/{name}/stats")).await["head"]["sequence"].clone();
            let path = format!("destinations/{name}/skip-head");
            assert_eq!(self.post(&path, json!({"sequence": head})).await.status, 200);
            self.service.hand_again(name).await;
        }
        self.note("skip heads").await;
        let letters = format!("destinations/{name}/dead-letters");
        let page = self.get(&format!("{letters}?error=nothing")).await;
        assert_eq!(each(&page, "sequence").len(), 0);
        let page = self.get(&letters).await;
        self.note("dead letters").await;
        let all = each(&page, "sequence");
        assert_eq!(all.len(), 6);
        self.post(&format!("{letters}/redrive"), json!({"sequences": all[..5]})).await;
        self.note("redrive").await;
        self.post(&format!("{letters}/discard"), json!({"all": true})).await;
        self.note("discard").await;
    }

    /// Short messages with the longest checkpoints and errors that Reseq accepts.
    async fn checkpoints(&mut self, name: &str) {
        let many = format!("{name}-checkpoints");
        self.service.define_worker(&many, "destination").await;
        let at = known(&self.service.store, &many).await;
        self.load(&at, 160, |n| arrival("k".to_owned(), n.to_string()), 160).await;
        let leases = self.lease(&many).await;
        self.pass().await;
        let checkpoint = "x".repeat((64 << 10) - 2);
        for some in leases.chunks(100) {
            let item = |lease: &Value| json!({"token": lease["token"], "lease_ms": 3_600_000, "checkpoint": checkpoint});
            let items: Vec<Value> = some.iter().map(item).collect();
            self.post("leases/extend", json!({"items": items})).await;
        }
        self.note("extend with long checkpoints").await;
        self.get(&format!("destinations/{many}/messages?limit=1000")).await;
        self.note("messages with long checkpoints").await;
        let item = |lease: &Value| json!({"token": lease["token"], "error": "x".repeat(2_000), "retry_ms": 3_600_000});
        let items: Vec<Value> = leases.iter().map(item).collect();
        self.post("leases/fail", json!({"items": items})).await;
        self.note("fail with long checkpoints").await;
        let keys = self.service.store.keys().partition(at.partition);
        let key = keys.delayed();
        let all: Vec<String> = self.service.redis.ask(&["ZRANGE", &key, "0", "-1"]).await.unwrap();
        let mut words = vec!["ZADD", &*key, "XX"];
        all.iter().for_each(|member| words.extend(["1", &**member]));
        let _: u64 = self.service.redis.ask(&words).await.unwrap();
        self.pass().await;
        self.service.store.recover(&[at.partition]).await.unwrap();
        self.lease(&many).await;
        self.note("claim with long checkpoints").await;
        let leases = keys.leases();
        let all: Vec<String> =
            self.service.redis.ask(&["ZRANGE", &leases, "0", "-1"]).await.unwrap();
        let mut words = vec!["ZADD", &*leases, "XX"];
        all.iter().for_each(|member| words.extend(["1", &**member]));
        let _: u64 = self.service.redis.ask(&words).await.unwrap();
        self.pass().await;
        self.service.store.recover(&[at.partition]).await.unwrap();
        self.note("reap with long checkpoints").await;
        self.delete(&format!("destinations/{many}?force=true")).await;
        self.pass().await;
    }
}
