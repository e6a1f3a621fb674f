//! Tests the cost of destinations: none once they are removed, and constant per change,
//! independent of their number.

use std::sync::Arc;

use futures::{StreamExt, stream};
use serde_json::json;

use super::said;
use crate::support::{
    pods::{Pod, Settings, client},
    receiver::{Fault, Inbox, Receiver},
    redis::TestRedis,
    wait::eventually,
};

/// A URL without a listener.
const URL: &str = "http://127.0.0.1:9/";
/// Requests in flight at once.
const AT_ONCE: usize = 16;

/// Runs `act` for each of these names, in parallel.
async fn each<F: Future<Output = ()>>(names: &[String], act: impl Fn(String) -> F) {
    stream::iter(names.iter().cloned().map(act)).buffer_unordered(AT_ONCE).collect::<()>().await;
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// The visible resources of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    series: usize,
    tasks: usize,
    resident_kib: usize,
}

async fn held(pod: &Pod) -> Held {
    let metrics = client().get(pod.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let series = metrics.lines().filter(|line| line.contains("destination=")).count();
    let tasks = pod.metric("reseq_tasks").await as usize;
    let status = std::fs::read_to_string(format!("/proc/{}/status", pod.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident_kib = line.split_whitespace().next().unwrap().parse().unwrap();
    Held { series, tasks, resident_kib }
}

#[tokio::test]
async fn removed_destinations_leave_no_series_task_or_memory() {
    const COUNT: usize = 500;
    let redis = TestRedis::start().await;
    let inbox = Arc::new(Inbox::default());
    // Otherwise the pod would keep as many idle connections to the receiver as it once needed at a time.
    inbox.always(Some(Fault::CutAnswered));
    let receiver = Receiver::http(&inbox).await;
    // A request on a connection that is just ending fails, so keep its backoff short.
    let delivery = json!({"backoff_ms": 1, "backoff_max_ms": 10});
    let plain = json!({"url": receiver.url(), "ordering": "key", "delivery": delivery});
    let transform = json!({"kind": "worker"});
    let worker = json!({"url": receiver.url(), "transform": transform, "delivery": delivery});
    // Otherwise the allocator would keep a varying reserve, and one arena per CPU.
    let no_reserve = "dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1,thp:never".to_owned();
    let environment = vec![("_RJEM_MALLOC_CONF".into(), no_reserve)];
    let settings = Settings { environment, ..Settings::new(redis.url()) };
    let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
    let client = client();
    let before = held(&pod).await;
    let mut rounds = Vec::new();
    for round in 0..4 {
        let names = names(&format!("round-{round}"), COUNT);
        // Workers process some destinations, Reseq processes others, and some need no processing.
        each(&names, async |name| {
            let number: usize = name.rsplit('-').next().unwrap().parse().unwrap();
            let definition = if number.is_multiple_of(3) { &worker } else { &plain };
            let path = pod.url(&format!("/v1/destinations/{name}"));
            assert_eq!(said(client.put(&path).json(definition)).await.status, 201);
            let sent = client.post(format!("{path}/messages")).body("x").header("reseq-key", "k");
            assert_eq!(said(sent).await.status, 202);
            if number.is_multiple_of(3) {
                let lease = json!({"destinations": [name], "max": 1, "wait_ms": 60_000});
                let leased = said(client.post(pod.url("/v1/leases")).json(&lease)).await;
                let token = &leased.body["leases"][0]["token"];
                let done = json!({"items": [{"token": token, "body": "y"}]});
                let done = said(client.post(pod.url("/v1/leases/complete")).json(&done)).await;
                assert_eq!(
                    done.body["results"][0]["status"], "ok",
                    "{} {}",
                    leased.body, done.body
                );
            }
        })
        .await;
        let is_drained = async || {
            let stats = said(client.get(pod.url("/v1/stats"))).await.body;
            let pending = stats["totals"]["pending"].as_u64();
            if pending == Some(0) { Ok(()) } else { Err(format!("{pending:?} pending")) }
        };
        eventually("all are delivered", is_drained).await;
        let used = held(&pod).await;
        assert!(used.series > before.series + COUNT, "{used:?} after {before:?}");
        assert!(used.tasks > before.tasks + COUNT, "{used:?} after {before:?}");
        each(&names, async |name| {
            let path = pod.url(&format!("/v1/destinations/{name}"));
            assert_eq!(said(client.delete(&path)).await.status, 200);
        })
        .await;
        let after = eventually("what belonged to them is gone", async || {
            let after = held(&pod).await;
            // Connections to this test are kept for reuse.
            let is_gone =
                after.series <= before.series && after.tasks <= before.tasks + 4 * AT_ONCE;
            if is_gone { Ok(after) } else { Err(format!("{after:?}; before: {before:?}")) }
        })
        .await;
        println!("round {round}: before {before:?}, used {used:?}, after {after:?}");
        rounds.push(after.resident_kib);
    }
    let (early, late) = (rounds[0].max(rounds[1]), rounds[2].min(rounds[3]));
    assert!(late as f64 <= early as f64 * 1.1, "{rounds:?} KiB resident after each round");
}

#[tokio::test]
async fn quiet_destinations_hold_no_task_and_share_call_keys() {
    let redis = TestRedis::start().await;
    let settings = Settings { partitions: 4, ..Settings::new(redis.url()) };
    let pod = Pod::start("first", "ingest", &settings).await;
    let client = client();
    let before = held(&pod).await;
    each(&names("quiet", 200), async |name| {
        let path = pod.url(&format!("/v1/destinations/{name}"));
        assert_eq!(said(client.put(&path).json(&json!({"url": URL}))).await.status, 201);
        for _ in 0..2 {
            let sent = client.post(format!("{path}/messages")).body("x");
            assert_eq!(said(sent).await.status, 202);
        }
    })
    .await;
    let calls: Vec<String> = redis.ask(&["KEYS", "reseq:*:calls:*"]).await.unwrap();
    // A caller for each call at once.
    assert!((1..=4 * AT_ONCE).contains(&calls.len()), "{calls:?}");
    eventually("no task is left", async || {
        let after = held(&pod).await;
        // Connections to this test are kept for reuse.
        let is_quiet = after.tasks <= before.tasks + 4 * AT_ONCE;
        if is_quiet { Ok(()) } else { Err(format!("{after:?}; before: {before:?}")) }
    })
    .await;
}

/// The average cost of a definition change in Redis: commands, and bytes sent.
async fn cost(redis: &TestRedis, pods: [&Pod; 2], names: &[String], url: &str) -> (f64, f64) {
    let client = client();
    let before = usage(redis).await;
    let change = async |name: String| {
        let definition = json!({"url": url});
        let path = pods[0].url(&format!("/v1/destinations/{name}"));
        assert_eq!(said(client.put(&path).json(&definition)).await.status, 200);
    };
    // Change them one by one, so that two changes share no cost.
    for name in names {
        change(name.clone()).await;
    }
    follow(pods[1], names.last().unwrap(), Some(url)).await;
    let after = usage(redis).await;
    let each = |at: fn(&(f64, f64)) -> f64| (at(&after) - at(&before)) / names.len() as f64;
    (each(|usage| usage.0), each(|usage| usage.1))
}

/// Waits until this pod knows this URL of a destination; `None`: until it knows that the destination is gone.
async fn follow(pod: &Pod, name: &str, url: Option<&str>) {
    let client = client();
    // The list is in the order of names: a page that begins shortly before this one has it.
    let before = &name[..name.len() - 1];
    let path = format!("/v1/destinations?limit=1000&cursor={before}");
    eventually("a pod follows", async || {
        // The list shows the pod's catalog; it does not ask Redis.
        let list = said(client.get(pod.url(&path))).await.body;
        let items = list["items"].as_array().unwrap();
        let known = items.iter().find(|item| item["name"] == name);
        let is_so = match url {
            None => known.is_none(),
            Some(url) => known.is_some_and(|known| known["url"] == url),
        };
        if is_so { Ok(()) } else { Err(format!("{known:?}")) }
    })
    .await;
}

async fn usage(redis: &TestRedis) -> (f64, f64) {
    let number = |text: String| text.parse::<f64>().unwrap();
    let commands = number(redis.info("total_commands_processed").await);
    (commands, number(redis.info("total_net_output_bytes").await))
}

#[tokio::test]
async fn a_change_costs_the_same_however_many_destinations_there_are() {
    let redis = TestRedis::start().await;
    let settings = Settings::new(redis.url());
    // No senders: they would cause other commands meanwhile.
    let first = Pod::start("first", "ingest", &settings).await;
    let second = Pod::start("second", "ingest", &settings).await;
    let client = client();
    let all = names("d", 4000);
    let mut costs = Vec::new();
    let mut from = 0;
    for count in [400, 4000] {
        each(&all[from..count], async |name| {
            let path = first.url(&format!("/v1/destinations/{name}"));
            let definition = json!({"url": URL});
            assert_eq!(said(client.put(&path).json(&definition)).await.status, 201);
        })
        .await;
        from = count;
        follow(&second, &all[count - 1], Some(URL)).await;
        costs.push(
            cost(&redis, [&first, &second], &all[count - 100..count], "http://127.0.0.1:9/changed")
                .await,
        );
    }
    println!("commands and bytes of a change: {costs:?}");
    let [few, many] = costs[..] else { unreachable!() };
    assert!(many.0 < few.0 * 1.2, "commands: {costs:?}");
    assert!(many.1 < few.1 * 1.2, "bytes: {costs:?}");
}

/// The polls for work that Redis has answered: a pod makes some each second.
async fn polls(redis: &TestRedis) -> u64 {
    let stats: String = redis.ask(&["INFO", "commandstats"]).await.unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_exists:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn idle_destinations_are_not_asked_about_one_by_one() {
    let redis = TestRedis::start().await;
    let pod = Pod::start("pod", "ingest,processor,sender", &Settings::new(redis.url())).await;
    let client = client();
    let all = names("d", 900);
    let (mut costs, mut from) = (Vec::new(), 0);
    for count in [20, 900] {
        each(&all[from..count], async |name| {
            let path = pod.url(&format!("/v1/destinations/{name}"));
            let definition = json!({"url": URL, "on_exhausted": "dead_letter"});
            assert_eq!(said(client.put(&path).json(&definition)).await.status, 201);
        })
        .await;
        from = count;
        eventually("all are reported", async || {
            let metrics = client.get(pod.url("/metrics")).send().await.unwrap().text().await;
            let metrics = metrics.unwrap();
            let is_one = |line: &&str| line.starts_with("reseq_pending{");
            let reported = metrics.lines().filter(is_one).count();
            if reported == count { Ok(()) } else { Err(format!("{reported} of {count}")) }
        })
        .await;
        // A new destination is read more than once, so the first intervals may cost more.
        let most = costs.last().map_or(f64::INFINITY, |few| few * 1.5);
        let cost = eventually("destinations become quiet", async || {
            let (begin, before) = (polls(&redis).await, usage(&redis).await.0);
            let made = eventually("the pod polls", async || {
                let made = polls(&redis).await - begin;
                if made >= 30 { Ok(made) } else { Err(format!("{made} polls")) }
            })
            .await;
            let cost = (usage(&redis).await.0 - before) / made as f64;
            if cost < most { Ok(cost) } else { Err(format!("{cost} commands a poll")) }
        })
        .await;
        costs.push(cost);
    }
    println!("commands for each poll, with few and many destinations: {costs:?}");
}

/// A pod was suspended while destinations were created and removed, and Redis no longer knows these changes.
#[tokio::test]
async fn a_pod_that_cannot_follow_the_changes_reads_everything() {
    let redis = TestRedis::start().await;
    let settings = Settings::new(redis.url());
    let first = Pod::start("first", "ingest", &settings).await;
    let second = Pod::start("second", "ingest", &settings).await;
    let client = client();
    let put = async |name: &str| {
        let path = first.url(&format!("/v1/destinations/{name}"));
        said(client.put(path).json(&json!({"url": URL}))).await.status
    };
    let (index, changes, removed) = (
        "reseq:{index}:destinations",
        "reseq:{index}:destinations:changes",
        "reseq:{index}:destinations:removed",
    );
    for (round, forget) in ["floor", "history", "changes"].into_iter().enumerate() {
        let [gone, stays, new] = ["gone", "stays", "new"].map(|what| format!("{what}-{round}"));
        assert_eq!((put(&gone).await, put(&stays).await), (201, 201));
        follow(&second, &gone, Some(URL)).await;
        follow(&second, &stays, Some(URL)).await;
        second.freeze();
        assert_eq!(put(&new).await, 201);
        let path = first.url(&format!("/v1/destinations/{gone}"));
        assert_eq!(said(client.delete(path)).await.status, 200);
        match forget {
            // The state after more removals than Redis remembers.
            "floor" => {
                let revision: String = redis.ask(&["HGET", index, "*"]).await.unwrap();
                let () = redis.ask(&["HSET", index, "*floor", &revision]).await.unwrap();
                let () = redis.ask(&["ZREM", changes, &gone]).await.unwrap();
                let () = redis.ask(&["ZREM", removed, &gone]).await.unwrap();
            }
            // The state after a takeover by a replica that continued from an older revision.
            "history" => {
                let other = "0".repeat(40);
                let () = redis.ask(&["HSET", index, "*history", &other]).await.unwrap();
                let () = redis.ask(&["ZREM", changes, &gone, &new]).await.unwrap();
            }
            _ => {
                let () = redis.ask(&["DEL", changes]).await.unwrap();
            }
        }
        second.thaw();
        follow(&second, &gone, None).await;
        follow(&second, &new, Some(URL)).await;
        follow(&second, &stays, Some(URL)).await;
    }
    let list = said(client.get(second.url("/v1/destinations"))).await.body;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(6));
}
