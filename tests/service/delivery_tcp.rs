//! Delivery over TCP to real receivers.

use crate::common;

use std::{sync::Arc, time::Duration};

use common::{clients, closed_port, message, message_with_everything};
use domain::{Ack, AttemptError, Destination, Envelope, ErrorKind, Framing, Stage, Stamped};
use sender::deliver::{Deliver, Finality, Verdict, connect};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const JSON_DEPTH_MAX: usize = 128;

struct Peer {
    listener: TcpListener,
    delivery: Arc<dyn Deliver>,
}

/// A receiver controlled by the test, and the transport to it.
async fn peer(change: impl FnOnce(&mut Destination)) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let mut destination = Destination::new("erp".parse().unwrap(), url);
    change(&mut destination);
    destination.validate().unwrap();
    Peer { listener, delivery: connect(&destination, &clients(), JSON_DEPTH_MAX) }
}

impl Peer {
    async fn accept(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    /// Delivers a message while the receiver reads `frame` and sends `answer`.
    async fn exchange(
        &self,
        stream: &mut TcpStream,
        body: &str,
        frame: &[u8],
        answer: &[u8],
    ) -> Verdict {
        let message = message(body);
        let receive = async {
            let mut read = vec![0; frame.len()];
            stream.read_exact(&mut read).await.unwrap();
            assert_eq!(read, frame);
            stream.write_all(answer).await.unwrap();
        };
        tokio::join!(deliver(&*self.delivery, message), receive).0
    }

    /// Like `exchange`, on the next connection that the sender opens.
    async fn first_exchange(
        &self,
        body: &str,
        frame: &[u8],
        answer: &[u8],
    ) -> (Verdict, TcpStream) {
        let message = message(body);
        let receive = async {
            let mut stream = self.accept().await;
            let mut read = vec![0; frame.len()];
            stream.read_exact(&mut read).await.unwrap();
            assert_eq!(read, frame);
            stream.write_all(answer).await.unwrap();
            stream
        };
        tokio::join!(deliver(&*self.delivery, message), receive)
    }
}

/// One attempt at one message.
async fn deliver(to: &dyn Deliver, message: Stamped) -> Verdict {
    to.deliver(&[Arc::new(message)], 1).await
}

fn refused(kind: ErrorKind, reason: &str, finality: Finality) -> Verdict {
    let error = AttemptError::new(Stage::Delivery, kind, reason);
    Verdict::Refused { accepted: 0, error, retry_after: None, finality }
}

fn rejected(reason: &str) -> Verdict {
    refused(ErrorKind::Rejected, reason, Finality::Permanent)
}

fn reason(verdict: Verdict) -> (String, ErrorKind, Finality) {
    match verdict {
        Verdict::Accepted(count) => panic!("{count} accepted"),
        Verdict::Refused { error, finality, .. } => (error.detail, error.kind, finality),
    }
}

async fn assert_closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    // A reset counts as a close: the sender had left bytes unread.
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn each_answer_has_its_verdict_and_the_connection_is_kept() {
    let peer = peer(|_| {}).await;
    let (verdict, mut stream) = peer.first_exchange("one", b"one\n", b"OK\n").await;
    assert_eq!(verdict, Verdict::Accepted(1));
    let again = |retry_after| {
        let reason = "the receiver answered RETRY";
        let error = AttemptError::new(Stage::Delivery, ErrorKind::Status, reason);
        Verdict::Refused { accepted: 0, error, retry_after, finality: Finality::Retryable }
    };
    let table: [(&[u8], Verdict); 5] = [
        (b"OK \r\n", Verdict::Accepted(1)),
        (b"RETRY\n", again(None)),
        (b"RETRY 250\n", again(Some(Duration::from_millis(250)))),
        (b"REJECT no such account\r\n", rejected("rejected: no such account")),
        (b"OK\n", Verdict::Accepted(1)),
    ];
    for (answer, verdict) in table {
        assert_eq!(peer.exchange(&mut stream, "two", b"two\n", answer).await, verdict);
    }
}

#[tokio::test]
async fn length_frames_carry_line_breaks_and_get_length_answers() {
    let peer = peer(|d| d.delivery.framing = Framing::Length).await;
    let (verdict, mut stream) =
        peer.first_exchange("a\nb", b"\0\0\0\x03a\nb", b"\0\0\0\x02OK").await;
    assert_eq!(verdict, Verdict::Accepted(1));
    let verdict = peer.exchange(&mut stream, "", b"\0\0\0\0", b"\0\0\0\x08REJECT x").await;
    assert_eq!(verdict, rejected("rejected: x"));
}

#[tokio::test]
async fn an_envelope_is_one_line_with_all_that_belongs_to_the_body() {
    let peer = peer(|d| d.delivery.envelope = Envelope::Json).await;
    let mut message = message_with_everything();
    message.message.body.content_type = "application/json".into();
    message.message.body.bytes = "{\"a\":\n1.0}".into();
    let receive = async {
        let mut stream = BufReader::new(peer.accept().await);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        stream.write_all(b"OK\n").await.unwrap();
        line
    };
    let (verdict, line) = tokio::join!(deliver(&*peer.delivery, message), receive);
    assert_eq!(verdict, Verdict::Accepted(1));
    assert!(line.contains("{\"a\": 1.0}"), "{line}");
    let shown: serde_json::Value = serde_json::from_str(&line).unwrap();
    let expected = serde_json::json!({
        "id": "order-7", "sequence": 42, "previous": 41, "epoch": 3, "key": " kontō 7%", "attempt": 1,
        "headers": {"x-tenant": "7, 8", "x-static": "travelling", "x-reseq-key": "no"},
        "content_type": "application/json", "body": {"a": 1.0},
    });
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_body_with_a_line_break_is_refused_before_anything_is_sent() {
    let peer = peer(|_| {}).await;
    let verdict = deliver(&*peer.delivery, message("a\nb")).await;
    let (reason, kind, finality) = reason(verdict);
    assert_eq!((kind, finality), (ErrorKind::Unsendable, Finality::Permanent));
    assert!(reason.contains(r#"use framing = "length""#), "{reason}");
    let (verdict, _) = peer.first_exchange("c", b"c\n", b"OK\n").await;
    assert_eq!(verdict, Verdict::Accepted(1));
}

#[tokio::test]
async fn odd_answers_refuse_and_close_the_connection() {
    let peer = peer(|_| {}).await;
    let long = [b'x'; 5000];
    let table: [(&[u8], &str); 4] = [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP/1.1 400 Bad Request"),
        (b"\n", "answered \"\""),
        (b"\xff\x00\n", "answered"),
        (&long, "the answer is longer than 4096 bytes"),
    ];
    for (answer, part) in table {
        let (verdict, stream) = peer.first_exchange("x", b"x\n", answer).await;
        let (reason, kind, finality) = reason(verdict);
        assert_eq!((kind, finality), (ErrorKind::Status, Finality::Retryable));
        assert!(reason.contains(part), "{reason}");
        assert_closed(stream).await;
    }
}

#[tokio::test]
async fn an_end_before_or_within_the_answer_refuses() {
    for (framing, frame, half) in [
        (Framing::Lines, &b"x\n"[..], &b"OK"[..]),
        (Framing::Length, b"\0\0\0\x01x", b"\0\0\0\x02O"),
        (Framing::Length, b"\0\0\0\x01x", b"\0\0\0\x02"),
        (Framing::Length, b"\0\0\0\x01x", b"\0\0"),
    ] {
        let peer = peer(|d| d.delivery.framing = framing).await;
        for (answer, expected) in [
            (half, "no answer: the connection ended in the middle of a frame"),
            (b"", "the receiver closed the connection without an answer"),
        ] {
            let message = message("x");
            let receive = async {
                let mut stream = peer.accept().await;
                stream.read_exact(&mut vec![0; frame.len()]).await.unwrap();
                stream.write_all(answer).await.unwrap();
            };
            let (verdict, ()) = tokio::join!(deliver(&*peer.delivery, message), receive);
            let kind = ErrorKind::Connection;
            assert_eq!(verdict, refused(kind, expected, Finality::Retryable));
        }
    }
}

#[tokio::test]
async fn a_greeting_before_any_frame_is_no_answer() {
    let peer = peer(|_| {}).await;
    let greeted = async |greeting: &[u8]| {
        let greet = async {
            let mut stream = peer.accept().await;
            stream.write_all(greeting).await.unwrap();
            assert_closed(stream).await;
        };
        reason(tokio::join!(deliver(&*peer.delivery, message("one")), greet).0)
    };
    for greeting in ["OK MPD 0.23\n", "OK\n", "OK with"] {
        let (detail, kind, finality) = greeted(greeting.as_bytes()).await;
        assert!(detail.contains("sent something before any frame"), "{detail}");
        assert_eq!((kind, finality), (ErrorKind::Status, Finality::Retryable));
    }
    // The sender believes an answer that comes after the frame.
    let (verdict, _stream) = peer.first_exchange("two", b"two\n", b"OK\n").await;
    assert_eq!(verdict, Verdict::Accepted(1));
}

#[tokio::test]
async fn second_answer_to_one_frame_closes_the_connection() {
    let peer = peer(|_| {}).await;
    let (verdict, stream) = peer.first_exchange("one", b"one\n", b"OK\nOK\n").await;
    assert_eq!(verdict, Verdict::Accepted(1));
    // The sender closes the connection at once, or when it writes the next frame.
    let (verdict, _) = peer.first_exchange("two", b"two\n", b"REJECT x\n").await;
    assert_eq!(verdict, rejected("rejected: x"));
    assert_closed(stream).await;
}

#[tokio::test]
async fn silent_receiver_times_out_and_loses_its_connection() {
    let peer = peer(|d| d.delivery.timeout_ms = 200).await;
    let (verdict, stream) = peer.first_exchange("x", b"x\n", b"O").await;
    let expected = refused(ErrorKind::Timeout, "timed out after 200 ms", Finality::Retryable);
    assert_eq!(verdict, expected);
    assert_closed(stream).await;
}

#[tokio::test]
async fn nobody_there_is_a_refusal() {
    let url = format!("tcp://{}", closed_port().await);
    let destination = Destination::new("erp".parse().unwrap(), url);
    let delivery = connect(&destination, &clients(), JSON_DEPTH_MAX);
    let (reason, kind, finality) = reason(deliver(&*delivery, message("x")).await);
    assert_eq!((kind, finality), (ErrorKind::Connection, Finality::Retryable));
    assert!(reason.starts_with("no connection: "), "{reason}");
}

#[tokio::test]
async fn a_connection_that_the_receiver_closed_meanwhile_is_replaced() {
    for ack in [Ack::Line, Ack::None] {
        let peer = peer(|d| d.delivery.ack = ack).await;
        let answer: &[u8] = if ack == Ack::Line { b"OK\n" } else { b"" };
        for _ in 0..3 {
            let (verdict, stream) = peer.first_exchange("x", b"x\n", answer).await;
            assert_eq!(verdict, Verdict::Accepted(1));
            drop(stream);
        }
    }
}

#[tokio::test]
async fn a_dropped_attempt_closes_its_connection() {
    let peer = peer(|_| {}).await;
    let message = message("x");
    let mut attempt = Box::pin(deliver(&*peer.delivery, message));
    let receive = async {
        let mut stream = peer.accept().await;
        stream.read_exact(&mut [0; 2]).await.unwrap();
        stream
    };
    let stream = tokio::select! {
        verdict = &mut attempt => panic!("{verdict:?}"),
        stream = receive => stream,
    };
    drop(attempt);
    assert_closed(stream).await;
    let (verdict, _) = peer.first_exchange("x", b"x\n", b"OK\n").await;
    assert_eq!(verdict, Verdict::Accepted(1));
}

#[tokio::test]
async fn without_answers_what_is_said_all_the_same_is_thrown_away() {
    let peer = peer(|d| d.delivery.ack = Ack::None).await;
    let (verdict, mut stream) = peer.first_exchange("one", b"one\n", b"OK\n").await;
    assert_eq!(verdict, Verdict::Accepted(1));
    for _ in 0..3 {
        let verdict = peer.exchange(&mut stream, "two", b"two\n", b"REJECT x\n").await;
        assert_eq!(verdict, Verdict::Accepted(1));
    }
}

#[tokio::test]
async fn without_answers_all_lanes_share_one_connection() {
    let peer = peer(|d| d.delivery.ack = Ack::None).await;
    // With two connections, the receiver could read a later frame before an earlier one.
    let receive = async {
        let mut stream = peer.accept().await;
        let mut read = vec![0; 12];
        stream.read_exact(&mut read).await.unwrap();
        (read, stream)
    };
    let deliver = async {
        let lane = async || {
            for _ in 0..3 {
                assert_eq!(deliver(&*peer.delivery, message("x")).await, Verdict::Accepted(1));
            }
        };
        tokio::join!(lane(), lane())
    };
    let both = async { tokio::join!(deliver, receive) };
    let (_, (read, _stream)) =
        timeout(Duration::from_secs(60), both).await.expect("one connection");
    assert_eq!(read, b"x\nx\nx\nx\nx\nx\n");
}

#[tokio::test]
async fn parallel_lanes_have_own_connections_up_to_the_limit() {
    let peer = peer(|d| d.delivery.lanes_max = 1).await;
    let messages = (message("x"), message("x"));
    let receive = async {
        let (mut a, mut b) = (peer.accept().await, peer.accept().await);
        for stream in [&mut a, &mut b] {
            stream.read_exact(&mut [0; 2]).await.unwrap();
            stream.write_all(b"OK\n").await.unwrap();
        }
        (a, b)
    };
    let deliver = async {
        tokio::join!(deliver(&*peer.delivery, messages.0), deliver(&*peer.delivery, messages.1))
    };
    let (verdicts, (a, b)) = tokio::join!(deliver, receive);
    assert_eq!(verdicts, (Verdict::Accepted(1), Verdict::Accepted(1)));
    // The pool keeps only one of the two connections.
    tokio::select! {
        () = assert_closed(a) => {}
        () = assert_closed(b) => {}
    }
}

/// Delivers several messages at once, while the receiver reads `frames` and sends `answers`.
async fn window(
    peer: &Peer,
    bodies: &[&str],
    frames: &[u8],
    answers: &[u8],
) -> (Verdict, TcpStream) {
    let messages: Vec<_> = bodies.iter().map(|body| Arc::new(message(body))).collect();
    let receive = async {
        let mut stream = peer.accept().await;
        let mut read = vec![0; frames.len()];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(read, frames);
        stream.write_all(answers).await.unwrap();
        stream
    };
    tokio::join!(peer.delivery.deliver(&messages, 1), receive)
}

#[tokio::test]
async fn frames_of_a_window_arrive_before_the_first_is_answered() {
    let peer = peer(|d| d.delivery.window_max = 4).await;
    let (verdict, mut stream) =
        window(&peer, &["1", "2", "3"], b"1\n2\n3\n", b"OK\nOK\nOK\n").await;
    assert_eq!(verdict, Verdict::Accepted(3));
    // The connection stays open.
    let next = peer.exchange(&mut stream, "4", b"4\n", b"OK\n").await;
    assert_eq!(next, Verdict::Accepted(1));
}

#[tokio::test]
async fn window_and_its_connection_end_at_the_first_refusal() {
    let peer = peer(|d| d.delivery.window_max = 4).await;
    for (answers, reason, finality) in [
        ("OK\nREJECT no\n", "rejected: no", Finality::Permanent),
        ("OK\nRETRY\nOK\n", "the receiver answered RETRY", Finality::Retryable),
        ("OK\nperhaps\n", "perhaps", Finality::Retryable),
    ] {
        let (verdict, stream) =
            window(&peer, &["1", "2", "3"], b"1\n2\n3\n", answers.as_bytes()).await;
        let Verdict::Refused { accepted, error, finality: found, .. } = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!((accepted, found), (1, finality));
        assert!(error.detail.contains(reason), "{}", error.detail);
        assert_closed(stream).await;
    }
}

#[tokio::test]
async fn a_window_goes_as_far_as_the_first_that_cannot_travel() {
    let peer = peer(|d| d.delivery.window_max = 4).await;
    let (verdict, _stream) = window(&peer, &["1", "a\nb", "3"], b"1\n", b"OK\n").await;
    assert_eq!(verdict, Verdict::Accepted(1));
}

#[tokio::test]
async fn neither_side_of_a_window_waits_for_the_other_to_read() {
    let peer = peer(|d| d.delivery.window_max = 1000).await;
    let body = "x".repeat(20_000);
    let messages: Vec<_> = (0..1000).map(|_| Arc::new(message(&body))).collect();
    let receive = async {
        let mut stream = tokio::io::BufStream::new(peer.accept().await);
        let (mut line, answer) = (Vec::new(), format!("OK {}\n", "y".repeat(3000)));
        for _ in 0..1000 {
            line.clear();
            tokio::io::AsyncBufReadExt::read_until(&mut stream, b'\n', &mut line).await.unwrap();
            // This blocks if the sender does not read.
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
    };
    let (verdict, ()) = tokio::join!(peer.delivery.deliver(&messages, 1), receive);
    assert_eq!(verdict, Verdict::Accepted(1000));
}
