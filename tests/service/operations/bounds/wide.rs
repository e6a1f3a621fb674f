//! Tests calls that read a lot: over 256 lanes, over many leases, and damage in long lists.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use store::{CatalogEntry, LaneRequest, LogEntry, Owner, Settled};

use super::{BATCH, Watched, arrival, known};

/// Lanes of one call.
const LANES: usize = 256;
/// Messages of each lane.
const LONG: usize = 256;
/// The most leases of a partition that a withdrawal searches for its messages (`LEASES_MAX` in
/// `lua/withdraw.lua`).
const LEASES: usize = 20_000;

/// The key of a lane. In every second lane, the head is not processed yet.
fn key_of(lane: usize) -> String {
    if lane.is_multiple_of(2) { format!("stuck-{lane}") } else { format!("open-{lane}") }
}

impl Watched {
    /// Lanes with many messages each. Half of them may release nothing, because their head is not
    /// processed. The others release all their messages, in order.
    pub async fn wide(&mut self) -> (std::sync::Arc<CatalogEntry>, Owner) {
        let name = "wide";
        let definition = json!({"ordering": "key", "log_max": 5_000, "log_bodies": true, "backlog_max": 10_000_000});
        self.service.define(name, definition).await;
        let at = known(&self.service.store, name).await;
        let of_lane = |n: usize| arrival(key_of(n % LANES), json!({"n": n}).to_string());
        self.load(&at, LANES * LONG, of_lane, BATCH).await;
        let keys = self.service.store.keys().destination(&at.destination.name);
        for lane in (0..LANES).step_by(2) {
            let ready = keys.ready(Some(&key_of(lane)));
            let _: Vec<String> = self.service.redis.ask(&["ZPOPMIN", &ready]).await.unwrap();
        }
        self.watch().await;
        for lane in 0..LANES {
            let key = key_of(lane);
            self.holds(&keys.ready(Some(&key)), LONG);
            self.holds(&keys.in_progress(Some(&key)), LONG);
        }
        let owner = self.own(name).await;
        self.pass().await;
        let left = self.drain(&at, &owner).await;
        self.note("release and settle 256 lanes").await;
        for lane in 0..LANES {
            let all = left.get(&key_of(lane)).cloned().unwrap_or_default();
            let count = if lane.is_multiple_of(2) { 0 } else { LONG };
            let wanted: Vec<u64> = (0..count).map(|n| (n * LANES + lane + 1) as u64).collect();
            assert_eq!(all, wanted, "lane {}", key_of(lane));
        }
        (at, owner)
    }

    /// Releases and settles until no lane is releasable. Returns the messages that left each lane.
    async fn drain(&mut self, at: &CatalogEntry, owner: &Owner) -> BTreeMap<String, Vec<u64>> {
        let store = self.service.store.clone();
        let mut left: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        // Each call serves at least one lane and at most `LANES`.
        for calls in 0.. {
            let found = store.releasable_lanes(at, LANES).await.unwrap();
            let lanes = [found.due, found.waiting].concat();
            if lanes.is_empty() {
                break;
            }
            assert!(calls < LANES, "lanes are named again and again: {lanes:?}");
            let request = |key: &String, settled| LaneRequest {
                key: Some(key.clone()),
                settled,
                held_upto: 0,
                limit: 1024,
            };
            let asked: Vec<_> = lanes.iter().map(|key| request(key, Settled::default())).collect();
            let runs = store.release(owner, at, &asked).await.unwrap().runs;
            let mut settled = Vec::new();
            for (key, run) in lanes.iter().zip(runs) {
                assert!(!run.is_too_long);
                let mut gone = Settled::default();
                for message in &run.messages {
                    gone.add(message, Some(LogEntry::of(message, 1, 1, true)));
                    left.entry(key.clone()).or_default().push(message.position.sequence);
                }
                if gone.count > 0 {
                    settled.push(LaneRequest { limit: 0, ..request(key, gone) });
                }
            }
            if !settled.is_empty() {
                store.release(owner, at, &settled).await.unwrap();
            }
        }
        left
    }

    /// Requests one call to settle more than it can. The answer must report that the lanes beyond
    /// its limit settled nothing.
    pub async fn settle_too_much(&mut self, at: &CatalogEntry, owner: &Owner) {
        let store = self.service.store.clone();
        let keys = store.keys().destination(&at.destination.name);
        let settled = Settled { upto: 1 << 40, ..Settled::default() };
        let request = |lane| LaneRequest {
            key: Some(key_of(lane)),
            settled: settled.clone(),
            held_upto: 0,
            limit: 0,
        };
        let asked: Vec<_> = (0..LANES).step_by(2).map(request).collect();
        let before = self.count_ready(&asked, &keys).await;
        let runs = store.release(owner, at, &asked).await.unwrap().runs;
        self.note("settle more than there is room for").await;
        let after = self.count_ready(&asked, &keys).await;
        let mut refused = 0;
        for ((run, before), after) in runs.iter().zip(before).zip(after) {
            match run.is_too_long {
                true => {
                    assert_eq!(after, before, "nothing of it is settled");
                    refused += 1;
                }
                false => assert_eq!(after, 0, "all of it is settled"),
            }
        }
        assert!((1..LANES / 2).contains(&refused), "{refused} lanes were refused");
        self.pass().await;
    }

    async fn count_ready(
        &self,
        asked: &[LaneRequest],
        keys: &store::keys::DestinationKeys,
    ) -> Vec<usize> {
        let mut counts = Vec::new();
        for request in asked {
            let key = keys.ready(request.key.as_deref());
            counts.push(self.service.redis.ask(&["ZCARD", &key]).await.unwrap());
        }
        counts
    }

    /// Creates this many leases of other destinations of the partition, or removes them.
    pub async fn foreign_leases(&mut self, at: &CatalogEntry, are_there: bool) {
        let key = self.service.store.keys().partition(at.partition).leases();
        let members: Vec<String> =
            (0..LEASES - 3_000).map(|n| format!("another/{n}/secret")).collect();
        for some in members.chunks(1_000) {
            let mut words = vec![if are_there { "ZADD" } else { "ZREM" }, &key];
            for member in some {
                words.extend(are_there.then_some("99999999999999"));
                words.push(member);
            }
            let _: u64 = self.service.redis.ask(&words).await.unwrap();
        }
        self.pass().await;
    }

    /// Every kind of damage whose repair needs the list of waiting messages, far from both of its
    /// ends. `repair` finds and repairs all of it.
    pub async fn damage(&mut self, name: &str, at: &CatalogEntry) {
        let keys = self.service.store.keys().destination(&at.destination.name);
        let redis = &self.service.redis;
        let is_list = at.destination.ordering != domain::Ordering::None;
        let all: Vec<String> = match is_list {
            true => redis.ask(&["LRANGE", &keys.waiting(), "1500", "1520"]).await.unwrap(),
            false => redis.ask(&["ZRANGE", &keys.waiting(), "1500", "1520"]).await.unwrap(),
        };
        let delayed = keys.partition.delayed();
        let twice = format!("{name}/{}", all[2]);
        let mut commands = vec![
            ["HDEL", &keys.messages(), &all[0], &all[1]].map(str::to_owned).to_vec(),
            vec!["ZADD".to_owned(), delayed, "99999999999999".to_owned(), twice],
            vec!["HINCRBY".to_owned(), keys.hash(), "delayed".to_owned(), "1".to_owned()],
        ];
        for lost in [&all[3], &all[4]] {
            commands.push(match is_list {
                true => vec!["LREM".to_owned(), keys.waiting(), "0".to_owned(), lost.clone()],
                false => vec!["ZREM".to_owned(), keys.waiting(), lost.clone()],
            });
        }
        // A message that does not exist, in the middle of the list.
        commands.push(match is_list {
            true => ["LINSERT", &keys.waiting(), "BEFORE", &all[5], "777777777"]
                .map(str::to_owned)
                .to_vec(),
            false => {
                ["ZADD", &keys.waiting(), "777777777", "777777777"].map(str::to_owned).to_vec()
            }
        });
        for command in &commands {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let _: redis::Value = self.service.redis.ask(&words).await.unwrap();
        }
        self.post(&format!("destinations/{name}/pause"), json!({})).await;
        self.pass().await;
        let done = self.post(&format!("destinations/{name}/repair"), json!({})).await;
        self.note("repair").await;
        self.post(&format!("destinations/{name}/resume"), json!({})).await;
        self.pass().await;
        let found = |kind: &str| {
            let items = done.body["items"].as_array().unwrap();
            let item = items.iter().find(|item| item["kind"] == kind);
            item.map_or((Value::Null, Value::Null), |i| {
                (i["matched"].clone(), i["affected"].clone())
            })
        };
        let two = || (json!(2), json!(2));
        assert_eq!(found("damaged"), two(), "{}", done.body);
        assert_eq!(found("nowhere"), two(), "{}", done.body);
        assert_eq!(found("twice"), (json!(1), json!(1)), "{}", done.body);
        assert_eq!(found("left_over"), (json!(1), json!(1)), "{}", done.body);
        assert_eq!(done.body["counters_verified"], true, "{}", done.body);
    }
}
