//! Redis comes near its `maxmemory`: ingest refuses, and pending messages drain.

use ::redis::aio::MultiplexedConnection;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use super::{Service, position, said};
use crate::support::{
    checker::stats,
    gate::Point,
    wait::{eventually, within},
};

const RAW: &str = "/v1/destinations/erp/messages";
/// So much that the service's own use does not matter, in bytes.
const FILLER: u64 = 64 << 20;

async fn last(service: &Service) -> Value {
    stats(&service.pod, "erp").await.unwrap()["last_sequence"].clone()
}

async fn used_memory(redis: &mut MultiplexedConnection) -> u64 {
    let info: String = ::redis::cmd("INFO").arg("memory").query_async(redis).await.unwrap();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    used.parse().unwrap()
}

async fn set_maxmemory(redis: &mut MultiplexedConnection, bytes: u64) {
    let mut command = ::redis::cmd("CONFIG");
    command.arg("SET").arg("maxmemory").arg(bytes).exec_async(redis).await.unwrap();
}

#[tokio::test]
async fn above_the_mark_nothing_is_taken_and_what_is_there_is_delivered() {
    let service = Service::start().await;
    service.inbox.gate.hold(Point::Arrived);
    assert_eq!(said(service.post(RAW, "text/plain", "first")).await.status, 202);
    service.inbox.gate.holds(1).await;

    let mut redis = service.redis.connection().await;
    let mut fill = ::redis::cmd("SETRANGE");
    fill.arg("filler").arg(FILLER).arg("x").exec_async(&mut redis).await.unwrap();
    let max = used_memory(&mut redis).await * 100 / 95;
    set_maxmemory(&mut redis, max).await;
    let mut stored = 1;
    eventually("arrivals are refused", async || {
        let said = said(service.post(RAW, "text/plain", format!("{stored}"))).await;
        if said.status == 202 {
            stored += 1;
            return Err(said.body.to_string());
        }
        said.is_problem(503, "memory_high", "memory_high_percent");
        Ok(())
    })
    .await;
    let limit = service.pod.metric("reseq_redis_memory_max_bytes").await;
    let used = service.pod.metric("reseq_redis_memory_used_bytes").await;
    assert!(used > limit * 0.9 && limit as u64 == max, "{used} of {limit}");

    // Over TCP there is no answer: the connection waits.
    let mut stream = TcpStream::connect(service.pod.addresses.tcp(0)).await.unwrap();
    stream.write_all(b"over tcp\n").await.unwrap();
    eventually("the connection waits", async || {
        let now = service.pod.metric("reseq_ingest_tcp_paused").await;
        if now == 1.0 { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
    service.inbox.gate.let_go();
    service.inbox.journal.reaches(stored).await;
    said(service.post(RAW, "text/plain", "no")).await.is_problem(503, "memory_high", "");
    assert_eq!(last(&service).await, stored);

    set_maxmemory(&mut redis, 0).await;
    let mut answer = String::new();
    let mut stream = BufReader::new(stream);
    within("the frame is taken", stream.read_line(&mut answer)).await.unwrap();
    assert_eq!(answer, format!("OK {}\n", stored + 1));
    let taken = said(service.post(RAW, "text/plain", "again")).await;
    assert_eq!((taken.status, position(&taken.body)), (202, (stored as u64 + 2, false)));
    service.inbox.journal.reaches(stored + 2).await;
}
