//! Tests the TCP listeners, and bytes that are not HTTP on the HTTP listener.

use std::net::SocketAddr;

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use super::{BODY_MAX, Service};
use crate::support::{
    checker::stats,
    http::text,
    journal::Delivery,
    pods::{Pod, Settings},
    redis::TestRedis,
    wait::within,
};

/// Writes these bytes, closes the writing side if `ends`, and reads until the pod closes the connection.
async fn say(address: SocketAddr, bytes: &[u8], ends: bool) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    if ends {
        stream.shutdown().await.unwrap();
    }
    let mut answer = Vec::new();
    // A reset also closes the connection; earlier answers count.
    let _ = within("the connection is closed", stream.read_to_end(&mut answer)).await;
    text(answer)
}

#[tokio::test]
async fn unacceptable_line_gets_error_line_and_connection_ends() {
    let service = Service::start().await;
    let lines = service.pod.addresses.tcp(0);
    let long = vec![b'x'; BODY_MAX + 1];
    let before = service.holds().await;
    // The limit applies even before the frame ends.
    let said = say(lines, &long, false).await;
    assert!(said.starts_with("ERR body_too_large the frame is longer than 1000 bytes"), "{said:?}");
    let said = say(lines, &[&long[..], b"\n"].concat(), false).await;
    assert!(said.starts_with("ERR body_too_large "), "{said:?}");
    let said = say(lines, b"half a line", true).await;
    assert!(said.starts_with("ERR invalid_frame "), "{said:?}");
    assert_eq!(said.matches('\n').count(), 1, "{said:?}");
    assert_eq!(say(lines, b"", true).await, "");
    assert_eq!(service.holds().await, before);

    // Earlier frames are stored and answered in order; later ones are not.
    let said = say(lines, &[b"one\ntwo\n", &long[..], b"\nthree\n"].concat(), false).await;
    let answers: Vec<&str> = said.lines().collect();
    assert_eq!((answers.len(), &answers[..2]), (3, &["OK 1", "OK 2"][..]), "{said:?}");
    assert!(answers[2].starts_with("ERR body_too_large "), "{said:?}");
    // Frames are bytes: an empty line, carriage returns, invalid UTF-8.
    let said = say(lines, b"\n\r\n\x00\xFF\xFE\nGET / HTTP/1.1\r\n", true).await;
    assert_eq!(said, "OK 3\nOK 4\nOK 5\nOK 6\n");
    service.inbox.journal.reaches(6).await;
    let bodies: Vec<String> = service.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, ["one", "two", "", "\r", "\\x00\\xff\\xfe", "GET / HTTP/1.1\r"]);
}

#[tokio::test]
async fn http_in_a_first_frame_ends_the_connection() {
    let service = Service::start().await;
    let before = service.holds().await;
    let lines = "\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n\r\n{\"body\":\"forged\"}\n";
    for first in [
        "POST / HTTP/1.1",
        "GET /a%20b?c HTTP/1.0",
        "PRI * HTTP/2.0",
        "chicken / HTTP/1.1",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2",
        "PROXY UNKNOWN",
    ] {
        for listener in [0, 1, 3] {
            let address = service.pod.addresses.tcp(listener);
            let said = say(address, format!("{first}{lines}").as_bytes(), true).await;
            let expected = if listener == 1 {
                "ERR body_too_large "
            } else {
                "ERR invalid_frame the connection"
            };
            assert!(
                said.contains(expected) && !said.contains("OK"),
                "{listener} {first}: {said:?}"
            );
        }
    }
    assert_eq!(service.holds().await, before);
    // Text that only resembles a request is a message.
    let said = say(service.pod.addresses.tcp(0), b"GET HTTP/1.1\nPOST / HTTP/1.1\n", true).await;
    assert_eq!(said, "OK 1\nOK 2\n");
}

#[tokio::test]
async fn unacceptable_length_gets_error_frame_and_connection_ends() {
    let service = Service::start().await;
    let address = service.pod.addresses.tcp(1);
    let frame = |body: &[u8]| [&(body.len() as u32).to_be_bytes(), body].concat();
    let before = service.holds().await;
    let too_long = [(BODY_MAX as u32 + 1).to_be_bytes(), u32::MAX.to_be_bytes()];
    for length in too_long {
        let said = say(address, &length, false).await;
        assert!(said.contains("ERR body_too_large "), "{said:?}");
    }
    for truncated in [&b"\0\0"[..], &b"\0\0\0\x0Ahalf"[..], &b"\0\0\0\x01"[..]] {
        let said = say(address, truncated, true).await;
        assert!(said.contains("ERR invalid_frame "), "{said:?}");
    }
    // Read as a length, the text announces a frame that is far too long.
    let said = say(address, b"GET / HTTP/1.1\r\n\r\n", false).await;
    assert!(said.contains("ERR body_too_large "), "{said:?}");
    assert_eq!(service.holds().await, before);

    let said = say(address, &[frame(b""), frame(b"\xFF\n"), frame(b"three")].concat(), true).await;
    assert_eq!(said, "\0\0\0\x04OK 1\0\0\0\x04OK 2\0\0\0\x04OK 3");
    service.inbox.journal.reaches(3).await;
    let bodies: Vec<String> = service.inbox.journal.all().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, ["", "\\xff\\n", "three"]);
    assert_eq!(stats(&service.pod, "erp").await.unwrap()["last_sequence"], 3);
}

#[tokio::test]
async fn envelope_describes_its_body_and_a_bad_one_fails_in_place() {
    let service = Service::start().await;
    service.define("small", json!({"ordering": "key"})).await;
    let lines = service.pod.addresses.tcp(3);
    let good = [
        r#"{"key": "acct-7", "id": "order-1", "idempotency_key": "k1", "body": {"a": 1.0}}"#,
        r#"{"key": "acct-8", "id": "order-2", "body_base64": "/wo="}"#,
        r#"{"key": "acct-7", "id": "order-3", "body": null}"#,
    ];
    let bad = [
        ("a line that is no envelope", "ERR invalid_json "),
        (r#"{"key": "acct-7"}"#, "ERR invalid_field body: missing"),
        (
            r#"{"destinations": ["erp"], "body": 1}"#,
            "ERR invalid_field destinations: this listener",
        ),
        (r#"{"body": 1, "priority": 9}"#, "ERR invalid_field priority"),
    ];
    let sent = [good[0], bad[0].0, bad[1].0, good[1], bad[2].0, good[0], bad[3].0, good[2]];
    let said = say(lines, (sent.join("\n") + "\n").as_bytes(), true).await;
    let told: Vec<&str> = said.lines().collect();
    let expected = ["OK 1", bad[0].1, bad[1].1, "OK 2", bad[2].1, "OK 1", bad[3].1, "OK 3"];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told:?}, not {expected:?}");
    }
    // The same key with another body is another message.
    let other = r#"{"key": "acct-7", "idempotency_key": "k1", "body": 2}"#;
    let said = say(lines, format!("{other}\n").as_bytes(), true).await;
    assert!(said.starts_with("ERR idempotency_conflict "), "{said:?}");

    service.inbox.journal.reaches(3).await;
    let mut delivered = service.inbox.journal.all();
    let headers = |one: &Delivery| one.headers.clone().unwrap();
    delivered.sort_by_key(|one| headers(one).sequence);
    let shown = |one: &Delivery| (headers(one).id, headers(one).key.unwrap(), one.body.clone());
    let expected = [
        ("order-1", "acct-7", "{\"a\": 1.0}"),
        ("order-2", "acct-8", "\\xff\\n"),
        ("order-3", "acct-7", "null"),
    ];
    let expected = expected.map(|(id, key, body)| (id.into(), key.into(), body.into()));
    assert_eq!(delivered.iter().map(shown).collect::<Vec<(String, String, String)>>(), expected);
}

#[tokio::test]
async fn what_is_not_http_is_refused_and_the_connection_ends() {
    let service = Service::start().await;
    let address = service.pod.url("")["http://".len()..].parse().unwrap();
    for garbage in
        [&b"\x16\x03\x01\x02\x00\n\n"[..], &b"POST\r\n\r\n"[..], &b"GET / HTTP/9.9\r\n\r\n"[..]]
    {
        let said = say(address, garbage, false).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said:?}");
    }
    assert_eq!(stats(&service.pod, "erp").await.unwrap()["last_sequence"], 0);
}

#[tokio::test]
async fn a_listener_without_connections_takes_no_place_from_another() {
    let redis = TestRedis::start().await;
    let settings = Settings {
        ingest: "connections_max = 1".into(),
        tcp: vec![("erp", "lines"), ("erp", "lines")],
        ..Settings::new(redis.url())
    };
    let settings = settings.destination("erp", "url = \"http://127.0.0.1:1/\"");
    let pod = Pod::start("reseq", "ingest", &settings).await;
    assert_eq!(say(pod.addresses.tcp(1), b"one\n", true).await, "OK 1\n");
    assert_eq!(say(pod.addresses.tcp(0), b"two\n", true).await, "OK 2\n");
    // At the limit, new connections wait for a free slot.
    let open = TcpStream::connect(pod.addresses.tcp(0)).await.unwrap();
    let mut open = BufReader::new(open);
    open.write_all(b"three\n").await.unwrap();
    let mut answer = String::new();
    within("it is answered", open.read_line(&mut answer)).await.unwrap();
    assert_eq!(answer, "OK 3\n");
    let waits = tokio::spawn(say(pod.addresses.tcp(1), b"four\n", true));
    open.write_all(b"five\n").await.unwrap();
    answer.clear();
    within("it is answered", open.read_line(&mut answer)).await.unwrap();
    assert_eq!(answer, "OK 4\n");
    drop(open);
    assert_eq!(waits.await.unwrap(), "OK 5\n");
}
