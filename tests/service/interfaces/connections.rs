//! Tests slow clients, many clients, and clients that send nothing: the pod still serves others.

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use super::{Service, position, said};
use crate::support::{
    gate::Point,
    http::text,
    pods::{Settings, client},
    wait::{eventually, within},
};

const RAW: &str = "/v1/destinations/erp/messages";

#[cfg(feature = "pause-points")]
use crate::support::control::Control;

async fn connect(service: &Service) -> TcpStream {
    TcpStream::connect(service.pod.addresses.http().unwrap()).await.unwrap()
}

/// A connection after sending these bytes.
async fn begun(service: &Service, bytes: &str) -> TcpStream {
    let mut stream = connect(service).await;
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream
}

/// The head of a request with a body of this many bytes.
fn head(length: usize) -> String {
    format!("POST {RAW} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n")
}

/// A connection whose request has been read up to its body of this many bytes, so the pod waits
/// for the body. A connection with an unread head would count as idle, and could lose its slot.
async fn at_work(service: &Service, length: usize) -> TcpStream {
    let head = head(length).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    let mut stream = begun(service, &head).await;
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut answer = vec![0; expected.len()];
    within("the body is asked for", stream.read_exact(&mut answer)).await.unwrap();
    assert_eq!(text(answer).as_bytes(), expected);
    stream
}

/// Reads all input until the pod closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = within("the connection is closed", stream.read_to_end(&mut answer)).await;
    text(answer)
}

async fn service(http: &str) -> Service {
    let http = http.to_owned();
    Service::start_with(|settings| Settings { http: settings.http + "\n" + &http, ..settings })
        .await
}

#[tokio::test]
async fn endless_head_gets_408_and_silent_connection_is_closed() {
    let service = service("header_timeout_ms = 100\nidle_timeout_ms = 200").await;
    for begun_with in ["P", "POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nhost: localhost\r\nx: "] {
        let answer = rest(begun(&service, begun_with).await).await;
        assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer:?}");
        assert!(answer.contains("\"code\":\"request_timeout\""), "{answer:?}");
    }
    // The second request on a connection.
    let mut stream = connect(&service).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET").await.unwrap();
    let answer = rest(stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer:?}");
    assert_eq!(rest(connect(&service).await).await, "");
    let closed = |reason| format!("reseq_connections_closed_total{{reason=\"{reason}\"}}");
    assert!(service.pod.metric(&closed("slow_head")).await >= 3.0);
    assert!(service.pod.metric(&closed("idle")).await >= 1.0);
}

#[tokio::test]
async fn a_head_of_more_than_64_kib_is_refused() {
    let service = service("").await;
    let head = |length: usize| {
        let begun = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        let headers = format!("{begun}x: {}\r\ny: ", "a".repeat(60_000));
        let left = length - headers.len() - 4;
        headers + &"b".repeat(left) + "\r\n\r\n"
    };
    for (length, expected) in [(64 << 10, "200 OK"), ((64 << 10) + 1, "431 "), (70_000, "431 ")] {
        let answer = rest(begun(&service, &head(length)).await).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{length}: {answer:?}");
    }
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_answered_408_on_every_route() {
    let service = service("body_window_ms = 100\nbody_bytes_per_second_min = 50").await;
    let before = service.holds().await;
    let chunked =
        format!("POST {RAW} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    let put = "PUT /v1/destinations/erp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{";
    let requests =
        [head(10), head(10) + "abc", chunked.clone(), chunked + "2\r\nab\r\n", put.into()];
    for request in requests {
        let answer = rest(begun(&service, &request).await).await;
        assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{request}: {answer:?}");
        assert!(answer.contains("\"code\":\"body_timeout\""), "{request}: {answer:?}");
        assert!(answer.contains("\"request_id\":"), "{request}: {answer:?}");
    }
    assert_eq!(service.holds().await, before);
    let seen = service.pod.metric("reseq_connections_closed_total{reason=\"slow_body\"}").await;
    assert_eq!(seen, 5.0);
}

#[tokio::test]
async fn unfinished_frame_times_out_but_silent_connection_stays() {
    let service = service("body_window_ms = 100").await;
    let silent = TcpStream::connect(service.pod.addresses.tcp(0)).await.unwrap();
    for (listener, bytes) in [(0, &b"half a line"[..]), (1, b"\0\0"), (1, b"\0\0\0\x0Ahalf")] {
        let mut stream = TcpStream::connect(service.pod.addresses.tcp(listener)).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let answer = rest(stream).await;
        assert!(answer.contains("ERR frame_timeout "), "{answer:?}");
    }
    let mut silent = BufReader::new(silent);
    silent.write_all(b"a line\n").await.unwrap();
    let mut answer = String::new();
    within("it is answered", silent.read_line(&mut answer)).await.unwrap();
    assert_eq!(answer, "OK 1\n");
}

#[cfg(feature = "pause-points")]
#[tokio::test]
async fn client_closing_its_direction_still_gets_its_answer() {
    let control = Control::start();
    let service = Service::start_with(|mut settings| {
        settings.environment.push(control.environment());
        settings
    })
    .await;
    for (sequence, over_http) in [(1, true), (2, false)] {
        // The client closes its direction before its message is in Redis.
        control.catch("ingest.gathered");
        let mut stream = match over_http {
            true => begun(&service, &(head(3) + "abc")).await,
            false => {
                let address = service.pod.addresses.tcp(0);
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(b"a line\n").await.unwrap();
                stream
            }
        };
        let held = control.caught().await;
        stream.shutdown().await.unwrap();
        for _ in 0..10 {
            let answer = client().get(service.pod.url("/healthz")).send().await.unwrap();
            assert_eq!(answer.status(), 200);
        }
        held.go();
        let answer = rest(stream).await;
        if over_http {
            assert!(answer.starts_with("HTTP/1.1 202 Accepted\r\n"), "{answer:?}");
            assert!(answer.contains(&format!("\"sequence\":{sequence}")), "{answer:?}");
        } else {
            assert_eq!(answer, format!("OK {sequence}\n"));
        }
    }
}

#[tokio::test]
async fn what_is_only_announced_takes_no_room_from_others() {
    let service = Service::start_with(|settings| Settings {
        http: "body_bytes_max = 1048576".into(),
        ingest: settings.ingest + "\nbytes_in_flight_max = 1048576",
        ..settings
    })
    .await;
    let mut slow = Vec::new();
    for _ in 0..300 {
        slow.push(begun(&service, &(head(1 << 20) + "and no more")).await);
    }
    // Some have sent enough to need a memory permit.
    for _ in 0..8 {
        slow.push(begun(&service, &(head(1 << 20) + &"x".repeat(100 << 10))).await);
    }
    for (sequence, length) in [(1, 10), (2, 60 << 10), (3, 10)] {
        let sent = said(service.post(RAW, "text/plain", "y".repeat(length)));
        let sent = within("a short body is taken", sent).await;
        assert_eq!((sent.status, position(&sent.body)), (202, (sequence, false)), "{}", sent.body);
    }
    drop(slow);
    let long = said(service.post(RAW, "text/plain", "z".repeat(1 << 20)));
    assert_eq!(within("a long body is taken", long).await.status, 202);
}

#[tokio::test]
async fn connection_without_a_request_yields_to_one_with_a_request() {
    let service = service("connections_max = 3").await;
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(connect(&service).await);
    }
    let half = begun(&service, "POST / HTTP/1.1\r\n").await;
    for sequence in 1..=5 {
        // Each message uses its own connection.
        let sent = said(service.post(RAW, "text/plain", "x")).await;
        assert_eq!((sent.status, position(&sent.body)), (202, (sequence, false)));
    }
    // The oldest connections are closed.
    for stream in silent.into_iter().take(2) {
        assert_eq!(rest(stream).await, "");
    }
    drop(half);
}

#[tokio::test]
async fn server_with_all_connections_busy_tells_health_only() {
    let service = service("connections_max = 2").await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        busy.push(at_work(&service, 10).await);
    }
    let refused = eventually("there is no place", async || {
        let said = said(service.post(RAW, "text/plain", "x")).await;
        if said.status == 503 { Ok(said) } else { Err(said.body.to_string()) }
    });
    assert_eq!(refused.await.headers["connection"], "close");
    // Idle connections do not block a health check.
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(connect(&service).await);
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = client().get(service.pod.url(path)).send().await.unwrap();
        let status = answer.status();
        assert_eq!(status, 200, "{path}: {:?}", answer.text().await);
    }
    let said_now = said(service.post(RAW, "text/plain", "x")).await;
    said_now.is_problem(503, "connections_full", "http.connections_max");
    // Busy connections were not closed.
    for mut stream in busy {
        stream.write_all(b"abcdefghij").await.unwrap();
        let mut answer = [0; 12];
        within("it is answered", stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 202");
    }
    eventually("there are places again", async || {
        let said = said(service.post(RAW, "text/plain", "x")).await;
        if said.status == 202 { Ok(()) } else { Err(said.body.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn connections_beyond_descriptors_stop_no_health_or_delivery() {
    let service =
        Service::start_with(|settings| Settings { descriptors: Some(256), ..settings }).await;
    service.inbox.gate.hold(Point::Arrived);
    for number in 0..3 {
        let sent = said(service.post(RAW, "text/plain", format!("{number}"))).await;
        assert_eq!(sent.status, 202);
    }
    service.inbox.gate.holds(1).await;
    let addresses =
        [(service.pod.addresses.http().unwrap(), 400), (service.pod.addresses.tcp(0), 100)];
    let mut flood = Vec::new();
    for (address, count) in addresses {
        for _ in 0..count {
            flood.push(TcpStream::connect(address).await.unwrap());
        }
    }
    for _ in 0..100 {
        flood.push(begun(&service, &(head(10) + "abc")).await);
    }
    for path in ["/healthz", "/readyz"] {
        let answer = client().get(service.pod.url(path)).send();
        let answer = within("health is told", answer).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
    }
    service.inbox.gate.let_go();
    service.inbox.journal.reaches(3).await;
    assert_eq!(service.pod.metric("reseq_accept_errors_total").await, 0.0);
    drop(flood);
    eventually("messages are taken", async || {
        let said = said(service.post(RAW, "text/plain", "x")).await;
        if said.status == 202 { Ok(()) } else { Err(said.body.to_string()) }
    })
    .await;
    service.inbox.journal.reaches(4).await;
}
