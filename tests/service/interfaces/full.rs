//! Tests TCP producers of a destination with a full backlog: they wait, without an answer.

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use super::{Service, said};
use crate::support::{
    checker::stats,
    gate::Point,
    http::text,
    wait::{eventually, within},
};

const ROOM: usize = 5;
const COUNT: usize = 50;

/// A service whose destination `small` delivers nothing, and a producer that has written [`COUNT`]
/// frames for it, of which [`ROOM`] were accepted.
async fn filled() -> (Service, BufReader<TcpStream>) {
    let service = Service::start().await;
    service.define("small", json!({"backlog_max": ROOM})).await;
    service.inbox.gate.hold(Point::Arrived);
    let mut stream = TcpStream::connect(service.pod.addresses.tcp(2)).await.unwrap();
    let frames: String = (0..COUNT).map(|number| format!("{number}\n")).collect();
    stream.write_all(frames.as_bytes()).await.unwrap();
    let mut stream = BufReader::new(stream);
    for number in 1..=ROOM {
        assert_eq!(line(&mut stream).await, format!("OK {number}\n"));
    }
    waiting(&service, 1.0).await;
    (service, stream)
}

async fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    within("the frame is answered", stream.read_line(&mut line)).await.unwrap();
    line
}

/// Waits until this many connections wait.
async fn waiting(service: &Service, count: f64) {
    eventually("connections wait", async || {
        let now = service.pod.metric("reseq_ingest_tcp_paused").await;
        if now == count { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
}

async fn last(service: &Service) -> u64 {
    stats(&service.pod, "small").await.unwrap()["last_sequence"].as_u64().unwrap()
}

#[tokio::test]
async fn tcp_frames_wait_for_room_and_are_taken_once_in_order() {
    let (service, mut stream) = filled().await;
    // Meanwhile the pod submits the frames again, and Redis still refuses them.
    let refused = "reseq_refused_total{destination=\"small\",code=\"backlog_full\"}";
    let before = service.pod.metric(refused).await;
    eventually("it is tried again", async || {
        let now = service.pod.metric(refused).await;
        if now >= before + 3.0 { Ok(()) } else { Err(format!("{before}, {now}")) }
    })
    .await;
    assert_eq!(last(&service).await, ROOM as u64);
    // HTTP producers get an answer.
    let path = "/v1/destinations/small/messages";
    said(service.post(path, "", "x")).await.is_problem(429, "backlog_full", "backlog_bytes_max");

    service.inbox.gate.let_go();
    for number in ROOM + 1..=COUNT {
        assert_eq!(line(&mut stream).await, format!("OK {number}\n"));
    }
    waiting(&service, 0.0).await;
    // The pod reads the connection again.
    stream.write_all(format!("{COUNT}\n").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = String::new();
    within("the connection is closed", stream.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, format!("OK {}\n", COUNT + 1));
    service.inbox.journal.reaches(COUNT + 1).await;
    let bodies: Vec<String> = service.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, (0..=COUNT).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn invalid_frame_is_answered_in_place_while_frames_wait() {
    let service = Service::start().await;
    service.define("small", json!({"backlog_max": ROOM})).await;
    service.inbox.gate.hold(Point::Arrived);
    let stream = TcpStream::connect(service.pod.addresses.tcp(3)).await.unwrap();
    let mut stream = BufReader::new(stream);
    let frames = |from: usize| -> String {
        (from..from + COUNT).map(|n| format!("{{\"body\": {n}}}\n{{\"body\": {n}\n")).collect()
    };
    stream.write_all(frames(0).as_bytes()).await.unwrap();
    waiting(&service, 1.0).await;
    stream.write_all(frames(COUNT).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    service.inbox.gate.let_go();
    for number in 1..=2 * COUNT {
        assert_eq!(line(&mut stream).await, format!("OK {number}\n"));
        let told = line(&mut stream).await;
        assert!(told.starts_with("ERR invalid_json "), "{told:?}");
    }
    service.inbox.journal.reaches(2 * COUNT).await;
    let bodies: Vec<String> = service.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, (0..2 * COUNT).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn too_fast_producers_lose_nothing_and_keep_their_order() {
    const EACH: usize = 150;
    let service = Service::start().await;
    service.define("small", json!({"backlog_max": ROOM})).await;
    let send = async |name: &str| {
        let stream = TcpStream::connect(service.pod.addresses.tcp(2)).await.unwrap();
        let (read, mut write) = stream.into_split();
        let frames: String = (0..EACH).map(|number| format!("{name} {number:03}\n")).collect();
        write.write_all(frames.as_bytes()).await.unwrap();
        drop(write);
        let mut told = String::new();
        let read = BufReader::new(read).read_to_string(&mut told).await;
        read.unwrap();
        let sequences = told.lines().map(|line| line.strip_prefix("OK ").expect(line));
        let sequences: Vec<u64> = sequences.map(|text| text.parse().unwrap()).collect();
        assert!(sequences.is_sorted() && sequences.len() == EACH, "{told}");
    };
    within("all is taken", async { tokio::join!(send("a"), send("b")) }).await;
    service.inbox.journal.reaches(2 * EACH).await;
    let bodies: Vec<String> = service.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies.len(), 2 * EACH);
    for name in ["a", "b"] {
        let of: Vec<&String> = bodies.iter().filter(|body| body.starts_with(name)).collect();
        assert!(of.is_sorted() && of.len() == EACH, "{of:?}");
    }
}

#[tokio::test]
async fn a_pod_that_stops_tells_the_tcp_producers_that_wait() {
    let (mut service, mut stream) = filled().await;
    service.pod.terminate();
    let mut told = Vec::new();
    // With unread frames, closing resets the connection; earlier answers count.
    let _ = within("the connection is closed", stream.read_to_end(&mut told)).await;
    let told = text(told);
    let told: Vec<&str> = told.lines().collect();
    assert!((1..=COUNT - ROOM).contains(&told.len()), "{told:?}");
    assert!(told[0].starts_with("ERR draining "), "{told:?}");
    assert!(told[1..].iter().all(|line| line.starts_with("ERR aborted ")), "{told:?}");
    service.inbox.gate.let_go();
    service.pod.ended().await;
    let bodies: Vec<String> = service.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert!(bodies.len() <= ROOM, "{bodies:?}");
}

#[tokio::test]
async fn a_tcp_producer_that_is_gone_does_not_keep_its_place() {
    let (service, stream) = filled().await;
    // With a linger time of zero, closing resets the connection, so answers are not read.
    let socket = socket2::SockRef::from(stream.get_ref());
    socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
    waiting(&service, 0.0).await;
    service.inbox.gate.let_go();
    service.inbox.journal.reaches(ROOM).await;
    assert_eq!(last(&service).await, ROOM as u64);
}
