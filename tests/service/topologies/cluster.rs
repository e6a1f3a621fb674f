//! Tests journeys on a cluster: primaries die, replicas take over, slots move.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};
use store::{Keys, scripts::Scripts};

use crate::{
    operations::commands::run_at,
    support::{
        cluster::TestCluster,
        pods::{Pod, Settings, refused_start},
        redis::{PASSWORD, minimal_rules},
        wait::eventually,
    },
    topologies::journey::Journey,
};

const COUNT: usize = 150;
const NAMES: [&str; 12] =
    ["erp", "crm", "log", "shop", "stock", "mail", "bank", "fax", "plan", "desk", "cash", "ship"];

/// The slot of each of these destinations.
async fn slots(cluster: &TestCluster) -> BTreeMap<&'static str, u16> {
    let keys = Keys::new("reseq", 64);
    let mut slots = BTreeMap::new();
    for name in NAMES {
        let key = keys.destination(&name.parse().unwrap()).hash();
        slots.insert(name, cluster.nodes[0].ask(&["CLUSTER", "KEYSLOT", &key]).await.unwrap());
    }
    slots
}

/// One destination on each primary, in the primaries' order, with its slot.
async fn one_of_each(cluster: &TestCluster) -> Vec<(&'static str, u16)> {
    let slots = slots(cluster).await;
    let mut found = Vec::new();
    for primary in 0..3 {
        let url = cluster.nodes[primary].url();
        let on_it = slots.iter().find(|(_, slot)| cluster.node_for_slot(**slot).url() == url);
        let (name, slot) = on_it.expect("a destination on each primary");
        found.push((*name, *slot));
    }
    found
}

/// The most bytes of a script that only reads.
const SMALL_SCRIPT: usize = 500;

#[tokio::test]
async fn journey_survives_death_failover_and_slot_moves_in_order() {
    let cluster = TestCluster::start_with_replicas().await;
    let places = one_of_each(&cluster).await;
    let names: Vec<_> = places.iter().map(|(name, _)| *name).collect();
    let journey = Journey::start(&cluster.url(), &names).await;
    journey.produce("before", COUNT).await;
    let wakes = journey.wakes_of(names[1], 10).await;
    assert!(wakes >= 1.0, "{wakes} wake-ups a message");

    // A takeover loses writes that the replica does not have yet. Here there are none.
    let (name, slot) = places[0];
    in_sync(&cluster, 0).await;
    cluster.nodes[0].kill();
    let death =
        async { tokio::join!(cluster.other_primary(slot, 0), journey.produce("death", COUNT)) };
    let stall = journey.stall(name, death).await;
    println!("a primary was killed: the longest time without a delivery was {stall:?}");
    cluster.nodes[0].restart().await;
    cluster.wait_until_ok().await;

    // Under load no message is lost either: the primary waits until its replica has all data.
    tokio::join!(cluster.failover(1), journey.produce("failover", COUNT));

    let (name, slot) = places[2];
    let other = cluster.primary_of(places[0].1).await;
    let home = cluster.primary_of(slot).await;
    for to in [other, home, other] {
        // Load before, during and after the move.
        let is_moved = AtomicBool::new(false);
        let moving = async {
            cluster.move_slot(slot, to).await;
            is_moved.store(true, Ordering::Relaxed);
        };
        let load = async {
            for round in 0.. {
                let was_moved = is_moved.load(Ordering::Relaxed);
                journey.produce(&format!("to {to} {round} {}", journey.ledger.count()), 20).await;
                if was_moved {
                    break;
                }
            }
        };
        let stall = journey.stall(name, async { tokio::join!(moving, load) }).await;
        println!("a slot was moved under load: the longest time without a delivery was {stall:?}");
    }
    journey.end().await;
    let wakes = journey.wakes_of(name, 10).await;
    assert!(wakes >= 1.0, "{wakes} wake-ups a message");
}

/// Waits until the replica of a primary has all data of the primary.
async fn in_sync(cluster: &TestCluster, primary: usize) {
    let replica = cluster.replica_of(primary).await;
    eventually("the replica is in sync", async || {
        let sent = cluster.nodes[primary].info("master_repl_offset").await;
        let got = cluster.nodes[replica].info("slave_repl_offset").await;
        if got == sent { Ok(()) } else { Err(format!("{got} of {sent}")) }
    })
    .await;
}

#[tokio::test]
async fn a_dead_primary_stops_only_its_own_partitions() {
    let cluster = TestCluster::start().await;
    let places = one_of_each(&cluster).await;
    let names: Vec<_> = places.iter().map(|(name, _)| *name).collect();
    let journey = Journey::start(&cluster.url(), &names).await;
    journey.produce("before", COUNT).await;
    for name in &names {
        journey.reaches(name, COUNT).await;
    }
    for (round, primary) in [0, 1, 2].into_iter().enumerate() {
        let node = &cluster.nodes[primary];
        // A dead primary refuses connections; a frozen one accepts them and never answers.
        let is_frozen = round == 1;
        if is_frozen {
            node.freeze()
        } else {
            node.kill()
        }
        let (status, wait) = journey.attempt(names[primary], json!(round)).await;
        assert_eq!(status, 503);
        assert!(wait.is_some(), "a 503 says when to try again");
        let others: Vec<_> = names.iter().filter(|name| **name != names[primary]).collect();
        for name in &others {
            let before = journey.delivered(name);
            journey.produce_to(name, &format!("round {round}"), COUNT).await;
            journey.reaches(name, before + COUNT).await;
        }
        if is_frozen {
            node.thaw()
        } else {
            node.restart().await
        }
        cluster.wait_until_ok().await;
        journey.produce_to(names[primary], &format!("round {round}"), COUNT).await;
    }
    for name in &names {
        journey.reaches(name, 4 * COUNT).await;
    }
}

#[tokio::test]
async fn doctor_and_status_name_a_dead_primary_and_the_rest() {
    let cluster = TestCluster::start().await;
    let places = one_of_each(&cluster).await;
    let mut settings =
        Settings { redis: "timeout_ms = 1500".into(), ..Settings::new(&cluster.url()) };
    for (name, _) in &places {
        settings = settings.destination(name, "url = \"http://127.0.0.1:9/\"");
    }
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    for (primary, (name, _)) in places.iter().enumerate() {
        let node = &cluster.nodes[primary];
        node.kill();
        let ran = run_at(&pod.url(""), &["doctor", "-o", "json"], &[], "").await;
        let report: Value = serde_json::from_str(&ran.ended(5)).unwrap();
        let found = &report["findings"][0];
        let server = format!("127.0.0.1:{}", node.port());
        assert_eq!(
            (&found["check"], &found["subject"]),
            (&json!("redis_reachable"), &json!(server))
        );
        assert!(found["summary"].as_str().unwrap().contains(name), "{report}");
        let findings = report["findings"].as_array().unwrap();
        assert!(findings.iter().all(|one| one["check"] != "damage"), "{report}");
        let unknown = report["not_checked"].as_array().unwrap();
        for check in ["redis_memory", "schema", "partitions", "damage", "backlogs"] {
            assert!(unknown.iter().any(|one| one["check"] == check), "{check}: {report}");
        }
        let text = run_at(&pod.url(""), &["doctor"], &[], "").await.ended(5);
        assert!(
            text.contains("unknown  not checked: ") && text.contains(" not checked; "),
            "{text}"
        );

        let ran = run_at(&pod.url(""), &["status", "-o", "json"], &[], "").await;
        let status: Value = serde_json::from_str(&ran.ended(0)).unwrap();
        for item in status["items"].as_array().unwrap() {
            let (stats, is_dead) = (&item["stats"], item["destination"] == *name);
            assert_eq!(stats["not_read"].is_string(), is_dead, "{status}");
            assert_eq!(stats["pending"].is_u64(), !is_dead, "{status}");
        }
        run_at(&pod.url(""), &["status", "--check"], &[], "").await.ended(5);
        run_at(&pod.url(""), &["status", name], &[], "").await.ended(0);
        node.restart().await;
        cluster.wait_until_ok().await;
    }
}

/// The owner of each of these partitions, and the number of renewals of its lease.
async fn owners(cluster: &TestCluster, but: usize) -> BTreeMap<u16, (String, u64)> {
    let keys = Keys::new("reseq", 64);
    let mut owners = BTreeMap::new();
    for partition in 0..64 {
        let key = keys.partition(partition).owner();
        let slot: u16 =
            cluster.nodes[(but + 1) % 3].ask(&["CLUSTER", "KEYSLOT", &key]).await.unwrap();
        let node = cluster.node_for_slot(slot);
        if node.url() != cluster.nodes[but].url() {
            let owner: Option<String> = node.ask(&["GET", &key]).await.unwrap();
            let owner = owner.unwrap_or_default();
            let mut words = owner.split(' ');
            let token = words.next().unwrap_or_default().to_owned();
            let renewals = words.nth(1).and_then(|renewals| renewals.parse().ok());
            owners.insert(partition, (token, renewals.unwrap_or_default()));
        }
    }
    owners
}

/// The frozen primary holds the heartbeats (`reseq:pods`), so every sender also waits for this primary.
#[tokio::test]
async fn frozen_primary_stops_no_lease_renewal_at_the_others() {
    const LEASE_MS: u64 = 3000;
    let cluster = TestCluster::start().await;
    let settings = Settings {
        redis: "timeout_ms = 20000".into(),
        sender_lease_ms: LEASE_MS,
        ..Settings::new(&cluster.url())
    };
    let _pod = Pod::start("sender", "sender", &settings).await;
    let pods: u16 = cluster.nodes[0].ask(&["CLUSTER", "KEYSLOT", "reseq:pods"]).await.unwrap();
    let counts = cluster.primary_of(pods).await;
    let before = eventually("all are owned", async || {
        let owners = owners(&cluster, counts).await;
        let all = owners.values().all(|(token, _)| !token.is_empty());
        if all { Ok(owners) } else { Err(format!("{owners:?}")) }
    })
    .await;
    cluster.nodes[counts].freeze();
    let after = eventually("three leases later", async || {
        let owners = owners(&cluster, counts).await;
        // A lease is renewed four times.
        let is_later = |(partition, (_, renewals)): (&u16, &(String, u64))| {
            *renewals > before[partition].1 + 3 * 4
        };
        if owners.iter().all(is_later) { Ok(owners) } else { Err(format!("{owners:?}")) }
    })
    .await;
    let lost = |partition: &&u16| before[*partition].0 != after[*partition].0;
    assert_eq!(before.keys().filter(lost).count(), 0, "their leases ran out and were taken anew");
    cluster.nodes[counts].thaw();
}

#[tokio::test]
async fn slot_on_its_way_is_answered_503_and_goes_on_once_arrived() {
    let cluster = TestCluster::start().await;
    let places = one_of_each(&cluster).await;
    let names: Vec<_> = places.iter().map(|(name, _)| *name).collect();
    let journey = Journey::start(&cluster.url(), &names).await;
    journey.produce("before", COUNT).await;
    let (name, slot) = places[0];
    let moving = cluster.begin_move(slot, 1).await;
    while moving.move_keys().await > 0 {}
    let (status, wait) = journey.attempt(name, json!("on its way")).await;
    assert_eq!(status, 503);
    assert!(wait.is_some(), "a 503 says when to try again");
    // Destinations on other primaries do not wait.
    journey.produce_to(names[2], "meanwhile", COUNT).await;
    moving.end().await;
    journey.produce("after", COUNT).await;
    assert_eq!(cluster.primary_of(slot).await, 1);
    journey.end().await;
}

#[tokio::test]
async fn script_forgotten_by_one_node_is_sent_to_that_node_only() {
    let cluster = TestCluster::start().await;
    let places = one_of_each(&cluster).await;
    let names: Vec<_> = places.iter().map(|(name, _)| *name).collect();
    let journey = Journey::start(&cluster.url(), &names).await;
    journey.produce("before", COUNT).await;
    journey.end().await;
    // Load all scripts, so that no node needs the source of a script later.
    for transition in Scripts::new().all() {
        for node in &cluster.nodes {
            transition.script.load_async(&mut node.connection().await).await.unwrap();
        }
    }
    for node in &cluster.nodes {
        node.ask::<()>(&["CONFIG", "SET", "slowlog-max-len", "100000"]).await.unwrap();
        node.ask::<()>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await.unwrap();
    }
    let sent = async || {
        let mut counts = Vec::new();
        for node in &cluster.nodes {
            let loads = calls(&node.info("cmdstat_script|load").await);
            let noted: Vec<SlowCall> = node.ask(&["SLOWLOG", "GET", "-1"]).await.unwrap();
            counts.push((sources(&noted), loads));
        }
        counts
    };
    let before = sent().await;
    cluster.nodes[1].ask::<()>(&["SCRIPT", "FLUSH"]).await.unwrap();
    journey.produce("after", COUNT).await;
    journey.end().await;
    let after = sent().await;
    assert_eq!((after[0], after[2]), (before[0], before[2]));
    assert!(after[1].0 > before[1].0 && after[1].1 == before[1].1, "{before:?} {after:?}");
}

/// The number of calls, from `calls=12,usec=…`.
fn calls(line: &str) -> u64 {
    let number = line.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

type SlowCall = (u64, u64, u64, Vec<Vec<u8>>, String, String);

/// Counts the calls that sent the source of a transition, from a node's log of all calls. The log
/// cuts texts, and states the length of the rest. Small scripts, which only read, are always sent.
fn sources(noted: &[SlowCall]) -> usize {
    let rest = |text: &[u8]| -> Option<usize> {
        let text = String::from_utf8_lossy(text).into_owned();
        text.rsplit_once("... (")?.1.strip_suffix(" more bytes)")?.parse().ok()
    };
    let is_source = |call: &&SlowCall| {
        call.3[0] == b"EVAL" && rest(&call.3[1]).is_some_and(|rest| rest > SMALL_SCRIPT)
    };
    noted.iter().filter(is_source).count()
}

#[tokio::test]
async fn plain_url_of_cluster_node_is_refused_with_the_right_one() {
    let cluster = TestCluster::start().await;
    let url = cluster.nodes[0].url();
    let config = format!("[http]\nlisten = \"127.0.0.1:0\"\n[redis]\nurl = \"{url}\"\n");
    let (status, said) = refused_start(&config).await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("redis+cluster://"), "{said}");
}

#[tokio::test]
async fn each_cluster_node_is_asked_for_the_rights_of_its_users() {
    let cluster = TestCluster::start().await;
    let rules = minimal_rules();
    let mut rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let url = cluster.url().replace("://", &format!("://svc:{PASSWORD}@"));
    let config = format!("[redis]\nurl = \"{url}\"\n");
    for node in &cluster.nodes {
        node.acl(&rules).await;
    }
    let (_, said) = refused_start(&config).await;
    assert!(said.contains("+cluster|info"), "{said}");
    rules.extend(["+cluster|slots", "+cluster|info", "+asking", "+config|get"]);
    for node in &cluster.nodes {
        node.acl(&rules).await;
    }
    for missing in ["hset", "asking"] {
        cluster.nodes[1].acl(&[&format!("-{missing}")]).await;
        let (_, said) = refused_start(&config).await;
        assert!(said.contains(&format!(" +{missing}.")) && !said.contains(PASSWORD), "{said}");
        cluster.nodes[1].acl(&[&format!("+{missing}")]).await;
    }
    let places = one_of_each(&cluster).await;
    let names: Vec<_> = places.iter().map(|(name, _)| *name).collect();
    for node in &cluster.nodes {
        node.ask::<()>(&["ACL", "LOG", "RESET"]).await.unwrap();
    }
    let journey = Journey::start(&url, &names).await;
    tokio::join!(journey.produce("rights", 20), cluster.move_slot(places[0].1, 1));
    journey.end().await;
    for node in &cluster.nodes {
        let refused: Vec<redis::Value> = node.ask(&["ACL", "LOG"]).await.unwrap();
        assert!(refused.is_empty(), "{refused:?}");
    }
}

/// Pods start while `name` is not available. Their configuration file names destinations of all partitions.
async fn pods_start_without(name: &'static str, other: &'static str, journey: &mut Journey) {
    for pod in &mut journey.pods {
        pod.kill();
    }
    for pod in &mut journey.pods {
        pod.restart().await;
    }
    journey.produce_to(other, "meanwhile", COUNT).await;
    let (status, wait) = journey.attempt(name, json!("not yet")).await;
    assert_eq!(status, 503);
    assert!(wait.is_some(), "a 503 says when to try again");
}

#[tokio::test]
async fn pods_start_despite_moving_slot_and_serve_other_partitions() {
    let cluster = TestCluster::start().await;
    let places = one_of_each(&cluster).await;
    let names: Vec<_> = places.iter().map(|(name, _)| *name).collect();
    let mut journey = Journey::start(&cluster.url(), &names).await;
    journey.produce("before", COUNT).await;
    let moving = cluster.begin_move(places[0].1, 1).await;
    while moving.move_keys().await > 0 {}
    pods_start_without(names[0], names[2], &mut journey).await;
    moving.end().await;
    journey.produce("after", COUNT).await;
    journey.end().await;
}

#[tokio::test]
async fn pods_start_despite_dead_primary_and_serve_other_partitions() {
    let cluster = TestCluster::start().await;
    let places = one_of_each(&cluster).await;
    let names: Vec<_> = places.iter().map(|(name, _)| *name).collect();
    let mut journey = Journey::start(&cluster.url(), &names).await;
    journey.produce("before", COUNT).await;
    for name in &names {
        journey.reaches(name, COUNT).await;
    }
    // The keys needed for a start are on the other primaries.
    cluster.nodes[2].written().await;
    cluster.nodes[2].kill();
    pods_start_without(names[2], names[0], &mut journey).await;
    cluster.nodes[2].restart().await;
    cluster.wait_until_ok().await;
    journey.produce("after", COUNT).await;
    journey.end().await;
}
