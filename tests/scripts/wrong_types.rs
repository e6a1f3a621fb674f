//! If a key has the wrong type, or the user lacks a right, a script must change nothing. Redis
//! has no rollback, so scripts read and check before they write.

use crate::scripts;
use crate::support;

use std::collections::BTreeSet;

use redis::{Value, aio::MultiplexedConnection};
use scripts::{Arrival, Call, Calls, FINAL, LONG, RECORD};
use store::{Keys, scripts::Scripts};
use support::{redis::TestRedis, source::root};

#[tokio::test]
async fn script_that_meets_a_wrong_type_changes_nothing() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    let count = calls_of(&populate(&mut connection).await).len();
    let (mut refused, mut unnoticed, mut wrong) = (0, Vec::new(), Vec::new());
    let mut named = Vec::new();
    for number in 0..count {
        let keys = calls_of(&populate(&mut connection).await).remove(number).keys;
        for (at, key) in keys.iter().enumerate().filter(|(_, key)| !key.contains(":wake:")) {
            let calls = populate(&mut connection).await;
            let call = prepared(calls, number, &mut connection).await;
            spoil(&mut connection, key).await;
            let before = digest(&mut connection).await;
            let answer = call.run(&mut connection).await;
            let what = format!("{} KEYS[{}] {key}", call.script, at + 1);
            match answer {
                Err(error) if !error.to_string().contains("WRONGTYPE") => {
                    wrong.push(format!("{what}: {error}"));
                }
                Err(_) if digest(&mut connection).await != before => {
                    wrong.push(format!("{what}: it wrote before it met the key"));
                }
                Err(_) => refused += 1,
                // These scripts report the damaged lane or message, and handle the others.
                Ok(answer) if says_damaged(&answer) => {
                    let scripts = ["release", "ingest", "complete", "withdraw"];
                    assert!(scripts.contains(&call.script), "{what}");
                    named.push(key.clone());
                }
                Ok(_) => unnoticed.push(what),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(refused > 80, "{refused} keys were met");
    assert_eq!(named.len(), 29, "{named:#?}");
    let unnoticed: Vec<&str> = unnoticed.iter().map(String::as_str).collect();
    assert_eq!(unnoticed, UNNOTICED);
}

/// Keys whose wrong type has no effect on the call: not needed by its arrivals, read only for a lost
/// lease, the key of the other claimers, used only by serial processing, checked only for existence,
/// repaired, or removed regardless of their type. Consumers skip a lane that they cannot read.
const UNNOTICED: &[&str] = &[
    "ingest KEYS[6] reseq:{p00}:active:builtin",
    "ingest KEYS[7] reseq:{p00}:releasable",
    "ingest KEYS[11] reseq:{p00}:delayed",
    "ingest KEYS[12] reseq:{p00}:d:erp:attempts",
    "ingest KEYS[13] reseq:{p00}:d:erp:idempotency-keys",
    "ingest KEYS[18] reseq:{p00}:d:erp:previous",
    "ingest KEYS[21] reseq:{p00}:d:erp:ready:a",
    "ingest KEYS[23] reseq:{p00}:d:erp:ready:b",
    "claim KEYS[9] reseq:{p00}:d:erp:bodies",
    "claim KEYS[10] reseq:{p00}:d:erp:withdrawn",
    "claim KEYS[11] reseq:{p00}:delayed",
    "claim KEYS[12] reseq:{p00}:d:erp:lanes",
    "complete KEYS[8] reseq:{p00}:d:erp:waiting",
    "complete KEYS[9] reseq:{p00}:delayed",
    "complete KEYS[10] reseq:{p00}:active:builtin",
    "complete KEYS[11] reseq:{p00}:active:worker",
    "extend KEYS[1] reseq:{p00}:d:erp:messages",
    "fail KEYS[4] reseq:{p00}:d:erp:messages",
    "fail KEYS[10] reseq:{p00}:active:worker",
    "requeue KEYS[4] reseq:{p00}:d:erp:messages",
    "requeue KEYS[7] reseq:{p00}:active:worker",
    "reap KEYS[9] reseq:{p00}:active:worker",
    "release KEYS[15] reseq:{p00}:d:erp:previous",
    "withdraw KEYS[15] reseq:{p00}:active:worker",
    "consume KEYS[15] reseq:{p00}:d:erp:in-progress:a",
    "consume KEYS[16] reseq:{p00}:d:erp:ready:a",
    "consume KEYS[17] reseq:{p00}:d:erp:in-progress:b",
    "consume KEYS[18] reseq:{p00}:d:erp:ready:b",
    "retry_head KEYS[10] reseq:{p00}:active:worker",
    "repair KEYS[18] reseq:{p00}:active:worker",
    "repair KEYS[23] reseq:{p00}:d:erp:in-progress:a",
    "repair KEYS[24] reseq:{p00}:d:erp:ready:a",
    "repair KEYS[25] reseq:{p00}:d:erp:in-progress:b",
    "repair KEYS[26] reseq:{p00}:d:erp:ready:b",
    "note_operation KEYS[3] reseq:{p00}:d:erp:operation:purge-1",
    "note_operation KEYS[4] reseq:{p00}:operations",
    "define KEYS[3] reseq:{p00}:d:erp:waiting",
    "define KEYS[6] reseq:{p00}:d:erp:withdrawn",
    "define KEYS[7] reseq:{p00}:d:erp:previous",
    "define KEYS[8] reseq:{p00}:d:erp:ids",
    "delete_destination KEYS[1] reseq:{p00}:d:erp",
    "delete_destination KEYS[5] reseq:{p00}:d:erp:dead-letters",
    "delete_destination_batch KEYS[6] reseq:{p00}:d:erp:in-progress:a",
    "delete_destination_batch KEYS[7] reseq:{p00}:d:erp:ready:a",
    "delete_destination_batch KEYS[8] reseq:{p00}:d:erp:in-progress:b",
    "delete_destination_batch KEYS[9] reseq:{p00}:d:erp:ready:b",
    "forget_destination KEYS[3] reseq:{p00}:d:erp:waiting",
    "forget_destination KEYS[4] reseq:{p00}:d:erp:messages",
    "forget_destination KEYS[5] reseq:{p00}:d:erp:attempts",
    "forget_destination KEYS[6] reseq:{p00}:d:erp:lanes",
    "forget_destination KEYS[7] reseq:{p00}:d:erp:in-progress",
    "forget_destination KEYS[8] reseq:{p00}:d:erp:ready",
    "forget_destination KEYS[12] reseq:{p00}:d:erp:halted",
    "forget_destination KEYS[13] reseq:{p00}:d:erp:withdrawals",
    "forget_destination KEYS[14] reseq:{p00}:d:erp:idempotency-keys",
    "forget_destination KEYS[15] reseq:{p00}:d:erp:dead-letters",
    "forget_destination KEYS[16] reseq:{p00}:d:erp:dead-letter-messages",
    "forget_destination KEYS[17] reseq:{p00}:d:erp:log",
    "forget_destination KEYS[18] reseq:{p00}:d:erp:log:order",
    "forget_destination KEYS[19] reseq:{p00}:d:erp:bodies",
    "forget_destination KEYS[20] reseq:{p00}:d:erp:dead-lettered-at",
    "forget_destination KEYS[21] reseq:{p00}:d:erp:withdrawn",
    "forget_destination KEYS[22] reseq:{p00}:d:erp:previous",
    "forget_destination KEYS[23] reseq:{p00}:d:erp:ids",
    "forget_destination KEYS[24] reseq:{p00}:d:erp:consumer-leases",
    "forget_destination KEYS[25] reseq:{p00}:d:erp:consumer-lease-ends",
    "ingest KEYS[4] reseq:{p00}:d:erp:waiting",
    "ingest KEYS[6] reseq:{p00}:active:builtin",
    "ingest KEYS[11] reseq:{p00}:delayed",
    "ingest KEYS[12] reseq:{p00}:d:erp:attempts",
    "ingest KEYS[13] reseq:{p00}:d:erp:idempotency-keys",
    "ingest KEYS[14] reseq:{p00}:d:erp:dead-letters",
    "ingest KEYS[15] reseq:{p00}:d:erp:dead-letter-messages",
    "ingest KEYS[17] reseq:{p00}:d:erp:dead-lettered-at",
    "ingest KEYS[18] reseq:{p00}:d:erp:previous",
];

/// Tests the cases that occur only with serial lanes, or if each message is a lane.
#[tokio::test]
async fn wrong_type_changes_nothing_in_serial_or_unordered_lanes() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    for (ordering, processing, expected) in [("key", "serial", 8), ("none", "parallel", 12)] {
        let calls = populate_few(&mut connection, ordering, processing).await;
        let count = few_calls_of(&calls).len();
        let (mut unnoticed, mut named) = (Vec::new(), 0);
        for number in 0..count {
            let keys = few_calls_of(&calls).remove(number).keys;
            for (at, key) in keys.iter().enumerate().filter(|(_, key)| !key.contains(":wake:")) {
                let calls = populate_few(&mut connection, ordering, processing).await;
                let call = few_calls_of(&calls).remove(number);
                spoil(&mut connection, key).await;
                let before = digest(&mut connection).await;
                let what = format!("{} KEYS[{}] {key}", call.script, at + 1);
                match call.run(&mut connection).await {
                    Err(error) => {
                        assert!(error.to_string().contains("WRONGTYPE"), "{what}: {error}");
                        assert_eq!(digest(&mut connection).await, before, "{what}: it wrote");
                    }
                    Ok(answer) if says_damaged(&answer) => named += 1,
                    Ok(_) => unnoticed.push(what),
                }
            }
        }
        assert!(named > 3, "{ordering}, {processing}: {named}");
        let other = |what: &&String| !what.contains(":active:worker");
        let unnoticed: Vec<&String> = unnoticed.iter().filter(other).collect();
        assert_eq!(unnoticed.len(), expected, "{ordering}, {processing}: {unnoticed:#?}");
    }
}

/// `ingest` writes the records first, and undoes this if a later key has another type.
#[tokio::test]
async fn first_message_meeting_a_wrong_type_leaves_nothing_behind() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    for ordering in ["destination", "key", "none"] {
        for (number, name) in [(4, "waiting"), (5, "messages"), (6, "active:builtin")] {
            redis::cmd("FLUSHALL").exec_async(&mut connection).await.unwrap();
            let mut calls = Calls::new(&Keys::new("reseq", 1), "erp");
            calls.ordering = ordering;
            run(&mut connection, &calls.init_epoch()).await;
            let defined = run(&mut connection, &calls.define("{}")).await;
            type Defined = (String, u8, u8, String, String);
            calls.version = redis::from_redis_value::<Defined>(defined).unwrap().0;
            let owned = run(&mut connection, &calls.acquire_partition("me")).await;
            calls.epoch = redis::from_redis_value::<(String, u64)>(owned).unwrap().0;
            let lane = if ordering == "key" { "a" } else { "" };
            let call = calls.ingest(&[lane], &[], &[Arrival::new(1, "", RECORD); 3]);
            let key = &call.keys[number - 1];
            assert!(key.ends_with(name), "{key}");
            spoil(&mut connection, key).await;
            let before = digest(&mut connection).await;
            let error = call.run(&mut connection).await.expect_err("a key has the wrong type");
            assert!(error.to_string().contains("WRONGTYPE"), "{ordering}, {name}: {error}");
            assert_eq!(digest(&mut connection).await, before, "{ordering}, {name}: it wrote");
        }
    }
}

/// Lane `a` has the odd sequences, lane `b` the even ones: 1 to 4. Claims at most two waiting messages.
async fn two_lanes(connection: &mut MultiplexedConnection, processing: &'static str) -> Calls {
    redis::cmd("FLUSHALL").exec_async(connection).await.unwrap();
    let mut calls = Calls::new(&Keys::new("reseq", 1), "erp");
    calls.processing = processing;
    run(connection, &calls.init_epoch()).await;
    let defined = run(connection, &calls.define("{}")).await;
    calls.version = redis::from_redis_value::<(String, u8, u8, String, String)>(defined).unwrap().0;
    let owned = run(connection, &calls.acquire_partition("me")).await;
    calls.epoch = redis::from_redis_value::<(String, u64)>(owned).unwrap().0;
    let arrivals: Vec<Arrival> =
        (0..4).map(|number| Arrival::new(1 + number % 2, "", RECORD)).collect();
    run(connection, &calls.ingest(&["a", "b"], &[], &arrivals)).await;
    run(connection, &calls.claim("s1", 2)).await;
    calls
}

/// True if an answer reports that a part of the call is damaged.
fn says_damaged(answer: &Value) -> bool {
    let text = format!("{answer:?}");
    text.contains("WRONGTYPE") || text.contains("damaged")
}

/// The words of a script's answer.
fn words(answer: &Value) -> Vec<String> {
    match answer {
        Value::Array(parts) => parts.iter().flat_map(words).collect(),
        Value::Int(number) => vec![number.to_string()],
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
        Value::SimpleString(text) => vec![text.clone()],
        other => panic!("{other:?}"),
    }
}

async fn members(connection: &mut MultiplexedConnection, key: &str) -> Vec<String> {
    redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).query_async(connection).await.unwrap()
}

#[tokio::test]
async fn a_call_that_meets_one_lane_of_another_type_serves_the_others() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    let lanes = ["a", "b"];
    for (processing, spoilt_set) in
        [("parallel", "in"), ("parallel", "ready"), ("serial", "in"), ("serial", "ready")]
    {
        let what = format!("{processing}, {spoilt_set}");
        let calls = two_lanes(&mut connection, processing).await;
        let of_b = [calls.keys.in_progress(Some("b")), calls.keys.ready(Some("b"))];
        let spoilt = &of_b[usize::from(spoilt_set == "ready")];
        spoil(&mut connection, spoilt).await;

        let completed = calls.complete("s1", &lanes, &[(1, 1), (2, 2)]);
        assert_eq!(words(&run(&mut connection, &completed).await), ["2", "damaged"], "{what}");
        let ready_of_a = members(&mut connection, &calls.keys.ready(Some("a"))).await;
        assert_eq!(ready_of_a, ["1"], "{what}");
        let leases = members(&mut connection, &calls.keys.partition.leases()).await;
        assert_eq!(leases, [calls.member(2, "s1")], "{what}: the other lease lasts");
        let counted = count_of(&mut connection, &calls, "ready").await;
        assert_eq!(counted, Some(1), "{what}");
        // A repeated call finds the first message settled.
        let again = words(&run(&mut connection, &completed).await);
        assert_eq!(again, ["1", "settled", "2", "damaged"], "{what}");

        // A message that is not ready on arrival needs only the in-progress set; with serial
        // processing the script compares both sets.
        let arrivals = [Arrival::new(1, "", RECORD), Arrival::new(2, "", RECORD)];
        let answer = words(&run(&mut connection, &calls.ingest(&lanes, &[], &arrivals)).await);
        if spoilt_set == "ready" && processing == "parallel" {
            assert_eq!(answer, ["5"], "{what}");
        } else {
            assert_eq!(answer, ["5", "2", "damaged", "0", "0", spoilt.as_str()], "{what}");
            let records: u64 = redis::cmd("HLEN")
                .arg(calls.keys.messages())
                .query_async(&mut connection)
                .await
                .unwrap();
            assert_eq!(records, 5, "{what}: nothing is stored of the other");
            assert_eq!(count_of(&mut connection, &calls, "last").await, Some(5), "{what}");
        }
        let processed = calls_that_arrive_ready(&calls);
        let answer = words(&run(&mut connection, &processed.ingest(&lanes, &[], &arrivals)).await);
        assert_eq!(answer[1..3], ["2", "damaged"], "{what}: {answer:?}");

        let withdrawn = calls.withdraw("c", "", &lanes, &[(2, 4), (1, 3)]);
        let answer = words(&run(&mut connection, &withdrawn).await);
        assert_eq!(answer, ["damaged", "done"], "{what}");
        let kind: String =
            redis::cmd("TYPE").arg(spoilt).query_async(&mut connection).await.unwrap();
        assert_eq!(kind, "string", "{what}: it stays as it is");
    }
}

async fn count_of(
    connection: &mut MultiplexedConnection,
    calls: &Calls,
    counter: &str,
) -> Option<u64> {
    redis::cmd("HGET").arg(calls.keys.hash()).arg(counter).query_async(connection).await.unwrap()
}

/// Ingest refuses an arrival that needs a damaged key, and stamps the others.
#[tokio::test]
async fn an_ingest_refuses_only_arrivals_that_need_what_is_damaged() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    let plain = || Arrival::new(1, "", RECORD);
    for (window, options, seen) in [
        (LONG, "", "1:digest"),
        ("0", "", "1:digest"),
        (LONG, "delay=9999;", ""),
        (LONG, "replaces=8,9000000000000000;", ""),
    ] {
        let mut calls = two_lanes(&mut connection, "parallel").await;
        calls.window = window;
        let keys = &calls.keys;
        let spoilt = match (options, window) {
            ("", "0") => keys.idempotency_keys(),
            ("", _) => keys.idempotency("once"),
            ("delay=9999;", _) => keys.delayed(),
            _ => keys.dead_letter_messages(),
        };
        if options.starts_with("replaces") {
            let mut dead = redis::cmd("ZADD");
            dead.arg(keys.dead_letters()).arg(8).arg(8).exec_async(&mut connection).await.unwrap();
        }
        spoil(&mut connection, &spoilt).await;
        let arrivals = [plain(), Arrival::new(1, seen, RECORD).with(options), plain()];
        let answer = run(&mut connection, &calls.ingest(&["a"], &["once"], &arrivals)).await;
        assert_eq!(words(&answer), ["5", "2", "damaged", "0", "0", spoilt.as_str()], "{spoilt}");
        let stamped = members(&mut connection, &calls.keys.in_progress(Some("a"))).await;
        assert_eq!(stamped, ["1", "3", "5", "6"], "{spoilt}");
    }
    // The first arrival of these calls has a body that is stored separately.
    let calls = two_lanes(&mut connection, "parallel").await;
    spoil(&mut connection, &calls.keys.bodies()).await;
    let answer = run(&mut connection, &calls.ingest(&["a"], &[], &[plain(), plain()])).await;
    assert_eq!(words(&answer), ["5", "1", "damaged", "0", "0", calls.keys.bodies().as_str()]);
}

/// Three messages in lane `a`. Two are claimed, or one if the lane is serial.
async fn populate_few(
    connection: &mut MultiplexedConnection,
    ordering: &'static str,
    processing: &'static str,
) -> Calls {
    redis::cmd("FLUSHALL").exec_async(connection).await.unwrap();
    let mut calls = Calls::new(&Keys::new("reseq", 1), "erp");
    (calls.ordering, calls.processing, calls.window) = (ordering, processing, "0");
    run(connection, &calls.init_epoch()).await;
    let defined = run(connection, &calls.define("{}")).await;
    calls.version = redis::from_redis_value::<(String, u8, u8, String, String)>(defined).unwrap().0;
    let owned = run(connection, &calls.acquire_partition("me")).await;
    calls.epoch = redis::from_redis_value::<(String, u64)>(owned).unwrap().0;
    let arrivals = [Arrival::new(1, "", RECORD); 3];
    run(connection, &calls.ingest(&["a"], &[], &arrivals)).await;
    run(connection, &calls.claim("s1", 2)).await;
    calls
}

fn few_calls_of(calls: &Calls) -> Vec<Call> {
    let arrival = Arrival::new(1, "1:digest", RECORD);
    vec![
        calls.ingest(
            &["a"],
            &["once"],
            &[arrival, Arrival::new(1, "", RECORD).with("delay=9999;priority=7;")],
        ),
        calls.complete("s1", &["a"], &[(1, 1)]),
        calls.withdraw("s", "", &["a"], &[(1, 3)]),
    ]
}

/// The commands of a script and of its includes, without its wake-ups.
fn commands_of(script: &str) -> BTreeSet<String> {
    let read = |path: &str| std::fs::read_to_string(root().join("lua").join(path)).unwrap();
    let text = read(&format!("{script}.lua"));
    let names = text.lines().filter_map(|line| line.strip_prefix("-- include: "));
    let includes = names.flat_map(|names| names.split(", ")).filter(|name| *name != "wake");
    let includes = includes.map(|name| read(&format!("include/{name}.lua")));
    let whole = [text.clone()].into_iter().chain(includes).collect::<Vec<_>>().join("\n");
    let code = whole.lines().filter(|line| !line.trim_start().starts_with("--"));
    let words = code.flat_map(|line| line.split('\'').skip(1).step_by(2).map(str::to_owned));
    let is_name = |word: &String| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase());
    let options = [
        "BYSCORE",
        "LIMIT",
        "WITHSCORES",
        "REV",
        "COUNT",
        "NOVALUES",
        "MAXLEN",
        "PXAT",
        "WITHVALUES",
    ];
    words.filter(is_name).filter(|word| !options.contains(&word.as_str())).collect()
}

#[tokio::test]
async fn a_script_whose_user_lacks_a_right_changes_nothing() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    redis.acl(&["~reseq*", "&reseq*", "+@all"]).await;
    let mut limited = redis.connection_as_svc().await;
    let (mut refused, mut unnoticed, mut wrong) = (0, BTreeSet::new(), Vec::new());
    let count = calls_of(&populate(&mut connection).await).len();
    for number in 0..count {
        let script = calls_of(&populate(&mut connection).await).remove(number).script;
        for command in commands_of(script) {
            let calls = populate(&mut connection).await;
            let call = prepared(calls, number, &mut connection).await;
            redis.acl(&[&format!("-{command}")]).await;
            let before = digest(&mut connection).await;
            let answer = call.run(&mut limited).await;
            redis.acl(&["+@all"]).await;
            let what = format!("{script} without {command}");
            match answer {
                Err(error) if digest(&mut connection).await != before => {
                    wrong.push(format!("{what}: it wrote before it failed: {error}"));
                }
                Err(_) => refused += 1,
                Ok(_) => drop(unnoticed.insert(what)),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(refused > 150, "{refused} missing rights were met");
    assert!(unnoticed.is_empty(), "not needed, it seems: {unnoticed:#?}");
}

#[tokio::test]
async fn missing_right_changes_nothing_in_serial_or_unordered_lanes() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    redis.acl(&["~reseq*", "&reseq*", "+@all"]).await;
    let mut limited = redis.connection_as_svc().await;
    for (ordering, processing) in [("key", "serial"), ("none", "parallel")] {
        let count = few_calls_of(&populate_few(&mut connection, ordering, processing).await).len();
        for number in 0..count {
            let calls = populate_few(&mut connection, ordering, processing).await;
            for command in commands_of(few_calls_of(&calls).remove(number).script) {
                let calls = populate_few(&mut connection, ordering, processing).await;
                let call = few_calls_of(&calls).remove(number);
                redis.acl(&[&format!("-{command}")]).await;
                let before = digest(&mut connection).await;
                let answer = call.run(&mut limited).await;
                redis.acl(&["+@all"]).await;
                let what = format!("{} without {command}, {ordering}, {processing}", call.script);
                assert!(answer.is_err(), "{what}: not needed, it seems");
                assert_eq!(digest(&mut connection).await, before, "{what}: it wrote");
            }
        }
    }
}

/// Wake-ups are only hints. A user made with `~reseq* +@all` may not publish; another user may
/// lack the commands.
#[tokio::test]
async fn a_script_works_without_the_right_to_publish() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    redis.acl(&["~reseq*", "resetchannels", "+@all", "-publish"]).await;
    let mut limited = redis.connection_as_svc().await;
    let count = calls_of(&populate(&mut connection).await).len();
    assert!(count > 20);
    for number in 0..count {
        let mut states = Vec::new();
        for connection_used in [&mut connection.clone(), &mut limited] {
            let calls = populate(&mut connection).await;
            let call = prepared(calls, number, &mut connection).await;
            let before = digest(&mut connection).await;
            let answer = call.run(connection_used).await;
            assert!(answer.is_ok(), "{}: {answer:?}", call.script);
            states.push(digest(&mut connection).await != before);
        }
        assert_eq!(states[0], states[1], "call {number}");
    }
}

#[test]
fn every_script_has_commands_to_lack() {
    for transition in Scripts::new().all() {
        assert!(!commands_of(transition.name).is_empty(), "{}", transition.name);
    }
}

/// A destination with messages in all states, in two lanes. Lane `a`: 1 is halted, 3 delayed, 5 and
/// 9 claimed, 7 ready. Lane `b`: 2 ready, 4 and 6 claimed, 8 a tombstone and a dead letter, 10 waiting.
/// There is a withdrawal for 6, and a bulk operation. A consumer holds 2.
async fn populate(connection: &mut MultiplexedConnection) -> Calls {
    redis::cmd("FLUSHALL").exec_async(connection).await.unwrap();
    let mut calls = Calls::new(&Keys::new("reseq", 1), "erp");
    run(connection, &calls.init_epoch()).await;
    let defined = run(connection, &calls.define("{}")).await;
    calls.version = redis::from_redis_value::<(String, u8, u8, String, String)>(defined).unwrap().0;
    let owned = run(connection, &calls.acquire_partition("me")).await;
    calls.epoch = redis::from_redis_value::<(String, u64)>(owned).unwrap().0;
    let lanes = ["a", "b"];
    let arrivals: Vec<Arrival> =
        (0..10).map(|number| Arrival::new(1 + number % 2, "", RECORD)).collect();
    run(connection, &calls.ingest(&lanes, &[], &arrivals)).await;
    run(connection, &calls.claim("s1", 9)).await;
    run(connection, &calls.complete("s1", &lanes, &[(1, 1), (2, 2), (1, 7)])).await;
    run(connection, &calls.fail("s1", &[(3, LONG), (8, FINAL)])).await;
    run(connection, &calls.postpone("me", "a", 1, "0")).await;
    run(connection, &calls.withdraw("s", "me", &lanes, &[(2, 8)])).await;
    run(connection, &calls.withdraw("c", "", &lanes, &[(2, 6)])).await;
    run(connection, &calls.halt("me", "a", 1)).await;
    run(connection, &calls.index("1 - {}")).await;
    run(connection, &calls.note_operation("purge-1", "{}")).await;
    run(connection, &calls.consume("c1", 1, &["b"])).await;
    let partition = &calls.keys.partition;
    let over = [(partition.leases(), calls.member(5, "s1")), (partition.delayed(), "erp/3".into())];
    for (key, member) in over {
        let past = redis::cmd("ZADD").arg(key).arg(1).arg(member).exec_async(connection).await;
        past.unwrap();
    }
    calls
}

/// One call of each script, each with work to do.
fn calls_of(calls: &Calls) -> Vec<Call> {
    let lanes = ["a", "b"];
    let newer = format!("{}9 - {{}}", calls.version);
    let arrival = |lane, seen| Arrival::new(lane, seen, RECORD);
    vec![
        calls.ingest(
            &lanes,
            &["once"],
            &[arrival(1, "1:digest"), arrival(2, "").with("replaces=8,9000000000000000;")],
        ),
        calls.claim("s2", 5),
        calls.complete("s1", &lanes, &[(2, 4), (1, 5)]),
        calls.extend("s1", &[4, 5]),
        calls.fail("s1", &[(4, "0"), (5, LONG), (9, FINAL)]),
        calls.requeue("s1", &[4, 5]),
        calls.reap(&[calls.member(5, "s1")], &["erp/3".to_owned()]),
        calls.step_back([
            &[(calls.member(5, "s1"), 1)],
            &[("erp/3".to_owned(), 1)],
            &[("a".to_owned(), 1)],
        ]),
        calls.acquire_partition("me"),
        calls.resign_partition("me"),
        calls.init_epoch(),
        calls.heartbeat(),
        calls.migrate(),
        calls.release("me", &[("a", 0, 9), ("b", 2, 9)]),
        calls.release("me", &[("a", 0, 9), ("b", 0, 9)]),
        calls.postpone("me", "b", 2, LONG),
        calls.halt("me", "b", 2),
        calls.withdraw("s", "me", &lanes, &[(1, 1), (1, 3), (2, 6), (2, 10)]),
        calls.consume("c2", 5, &lanes),
        calls.acknowledge("accept", &[("b", "c1", 2)]),
        calls.retry("a", 1, ""),
        calls.repair(&lanes, &[(1, 1), (1, 3), (2, 6), (1, 77)]),
        calls.discard(&[8]),
        calls.expire("0"),
        calls.pause("delivery"),
        calls.note_operation("purge-1", "{\"affected\":1}"),
        calls.cancel_operation("purge-1"),
        calls.define("{\"other\":1}"),
        calls.index(&newer),
        calls.remove(),
        calls.delete_destination_batch(
            &lanes,
            &[1, 2, 3],
            &[calls.member(4, "s1")],
            &["erp/3".to_owned()],
        ),
        calls.forget_destination(),
        calls_that_arrive_ready(calls).ingest(&lanes, &[], &[arrival(1, ""), arrival(2, "")]),
    ]
}

/// Calls of the same destination, for messages that arrive ready.
fn calls_that_arrive_ready(calls: &Calls) -> Calls {
    let mut again = Calls::new(&Keys::new("reseq", 1), calls.name.as_str());
    (again.version, again.epoch) = (calls.version.clone(), calls.epoch.clone());
    again.number_from(100);
    again.stand = "ready";
    again
}

/// The call with this number. If the call is a step of a removal, the removal has already begun.
async fn prepared(calls: Calls, number: usize, connection: &mut MultiplexedConnection) -> Call {
    let call = calls_of(&calls).remove(number);
    if ["delete_destination_batch", "forget_destination"].contains(&call.script) {
        run(connection, &calls.remove()).await;
    }
    call
}

async fn run(connection: &mut MultiplexedConnection, call: &Call) -> Value {
    call.run(connection).await.unwrap_or_else(|error| panic!("{}: {error}", call.script))
}

/// Replaces a key by a value of another type.
async fn spoil(connection: &mut MultiplexedConnection, key: &str) {
    let kind: String = redis::cmd("TYPE").arg(key).query_async(connection).await.unwrap();
    let is_text = kind == "string" || key.contains(":calls:") || key.contains(":idempotency:");
    redis::cmd("DEL").arg(key).exec_async(connection).await.unwrap();
    let command = if is_text { "SADD" } else { "SET" };
    redis::cmd(command).arg(key).arg("spoilt").exec_async(connection).await.unwrap();
}

async fn digest(connection: &mut MultiplexedConnection) -> String {
    redis::cmd("DEBUG").arg("DIGEST").query_async(connection).await.unwrap()
}
