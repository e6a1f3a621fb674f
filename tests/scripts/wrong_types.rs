//! A key has the wrong type: a script that meets it changes nothing, because it checks before it writes. Redis has no
//! rollback.

use crate::scripts;
use crate::support;

use redis::{Value, aio::MultiplexedConnection};
use scripts::{Arrival, Call, Calls, HALTS, LEAVES, LONG, RECORD};
use store::{Keys, scripts::CHECK_THEMSELVES};
use support::redis::TestRedis;

#[tokio::test]
async fn script_that_meets_a_wrong_type_changes_nothing() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    let count = calls_of(&populate(&mut connection).await).len();
    let (mut refused, mut unnoticed, mut wrong) = (0, Vec::new(), Vec::new());
    for number in 0..count {
        let keys = calls_of(&populate(&mut connection).await).remove(number).keys;
        for (at, key) in keys.iter().enumerate().filter(|(_, key)| !key.contains(":wake:")) {
            let calls = populate(&mut connection).await;
            let hash = calls.keys.hash();
            let call = prepared(calls, number, &mut connection).await;
            spoil(&mut connection, key).await;
            let before = digest(&mut connection).await;
            let answer = call.run(&mut connection).await;
            // The mark that halts the destination.
            redis::cmd("HDEL").arg(hash).arg("wrong_type").exec_async(&mut connection).await.ok();
            let what = format!("{} KEYS[{}] {key}", call.script, at + 1);
            let checks_itself = CHECK_THEMSELVES.contains(&call.script);
            match answer {
                Err(_) if digest(&mut connection).await != before => {
                    wrong.push(format!("{what}: it wrote before it met the key"));
                }
                Err(error) if error.code() == Some("WRONG_TYPE") && !checks_itself => {
                    let detail = error.detail().unwrap_or_default();
                    assert!(detail.ends_with(&format!(" {key}")), "{what}: {detail}");
                    refused += 1;
                }
                Err(error) if error.to_string().contains("WRONGTYPE") && checks_itself => {}
                Err(error) => wrong.push(format!("{what}: {error}")),
                Ok(_) => unnoticed.push(what),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(refused > 200, "{refused} keys were met");
    let unnoticed: Vec<&str> = unnoticed.iter().map(String::as_str).collect();
    assert_eq!(unnoticed, UNNOTICED);
}

/// Keys whose wrong type goes unnoticed: checked only for existence; repaired; or removed whatever
/// their type.
const UNNOTICED: &[&str] = &[
    "complete KEYS[21] reseq:{p00}:d:erp:result:4",
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
    "forget_destination KEYS[28] reseq:{p00}:d:erp:sources",
];

/// A key of one lane has another type: no call of the destination succeeds, also one that needs another lane only.
#[tokio::test]
async fn wrong_type_halts_its_destination_until_the_key_is_right() {
    let redis = TestRedis::start().await;
    let mut connection = redis.connection().await;
    for ordering in ["key", "none"] {
        let mut calls = populate_few(&mut connection, ordering).await;
        let of_lane = (ordering == "key").then_some("a");
        let spoilt = calls.keys.ready(of_lane);
        spoil(&mut connection, &spoilt).await;
        let refusal = format!("string zset {spoilt}");
        // It meets the key.
        let completed = calls.complete("s1", &["a"], &[(1, 1)]);
        for call in [&completed, &calls.claim("s2", 5), &completed] {
            let error = call.run(&mut connection).await.expect_err("the destination is halted");
            assert_eq!(error.code(), Some("WRONG_TYPE"), "{error}");
            assert_eq!(error.detail(), Some(refusal.as_str()), "{}", call.script);
        }
        // What people do goes on.
        run(&mut connection, &calls.pause("delivery")).await;
        let kind: String =
            redis::cmd("TYPE").arg(&spoilt).query_async(&mut connection).await.unwrap();
        assert_eq!(kind, "string", "it stays as it is");

        redis::cmd("DEL").arg(&spoilt).exec_async(&mut connection).await.unwrap();
        calls.version = version_of(&mut connection, &calls).await;
        run(&mut connection, &calls.claim("s2", 5)).await;
        run(&mut connection, &completed).await;
        let ready: Vec<String> = redis::cmd("ZRANGE")
            .arg(&spoilt)
            .arg(0)
            .arg(-1)
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!(ready, ["1"], "{ordering}: the lease lasted");
        let marked: Option<String> = redis::cmd("HGET")
            .arg(calls.keys.hash())
            .arg("wrong_type")
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!(marked, None);
    }
}

async fn version_of(connection: &mut MultiplexedConnection, calls: &Calls) -> String {
    redis::cmd("HGET").arg(calls.keys.hash()).arg("version").query_async(connection).await.unwrap()
}

/// Three messages in lane `a`; two are claimed.
async fn populate_few(connection: &mut MultiplexedConnection, ordering: &'static str) -> Calls {
    redis::cmd("FLUSHALL").exec_async(connection).await.unwrap();
    let mut calls = Calls::new(&Keys::new("reseq", 1), "erp");
    calls.ordering = ordering;
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

/// Wake-ups are only hints. A user made with `~reseq* +@all` may not publish; another may lack the
/// commands.
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
    run(connection, &calls.fail("s1", "b", &[(3, LONG), (8, HALTS)])).await;
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
            &[
                arrival(1, "1:digest").with("processed;"),
                arrival(2, "").with("replaces=8,9000000000000000;processed;"),
            ],
        ),
        calls.claim("s2", 5),
        calls.complete("s1", &lanes, &[(2, 4), (1, 5)]),
        calls.extend("s1", &[4, 5]),
        calls.fail("s1", "a", &[(4, "0"), (5, LONG), (9, LEAVES)]),
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
