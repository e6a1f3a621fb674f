//! Sends a table of bad inputs over raw sockets, each with its exact answer. Afterwards the pod
//! uses no more memory than before, and a message passes.
//!
//! `inputs.tsv` has a line for each input: its kind, its name, the answer, and the bytes. In the bytes `\\r`, `\\n`, `\\t`,
//! `\\0`, `\\xff` and `\\\\` stand for one byte, `<a*100>` for a hundred `a`, `<auth>` for the headers of a request with the
//! admin token, `<token>` for that token, and `<session>` for it as the console stores it. An answer is a status and
//! the code of its problem, or over TCP the words that matter; `|` is between several, and `closed` means none.

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::Service;
use crate::support::{pods::client, wait::eventually};

const INPUTS: &str = include_str!("inputs.tsv");
const ADMIN: &str = "an-admin-token-for-hostile-inputs";
/// The number of inputs sent at the same time.
const AT_ONCE: usize = 8;
/// The number of times the whole table is sent, to see whether memory grows.
const ROUNDS: usize = 4;
/// The allowed growth, in KiB: memory that an allocator keeps for bodies and buffers.
const GROWTH_MAX_KIB: u64 = 16 << 10;
/// Time limit for each answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

struct Input {
    kind: &'static str,
    name: &'static str,
    expected: &'static str,
    bytes: Vec<u8>,
}

fn inputs() -> Vec<Input> {
    let read = |line: &'static str| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_else(|| panic!("a column is missing: {line}"));
        Input { kind: next(), name: next(), expected: next(), bytes: bytes_of(next()) }
    };
    INPUTS.lines().map(read).collect()
}

/// Converts a text of the table to bytes.
fn bytes_of(text: &str) -> Vec<u8> {
    let auth = "Host: localhost\\r\\nAuthorization: Bearer <token>\\r\\n";
    let text = text.replace("<auth>", auth).replace("<token>", ADMIN);
    let text = text.replace("<session>", &URL_SAFE_NO_PAD.encode(ADMIN));
    let (mut bytes, mut rest) = (Vec::new(), text.as_str());
    while let Some(begin) = rest.find('<') {
        let repeated = rest[begin + 1..].split_once('>').and_then(|(inside, after)| {
            let (part, count) = inside.rsplit_once('*')?;
            Some((unescaped(part), count.parse::<usize>().ok()?, after))
        });
        match repeated {
            Some((part, count, after)) => {
                bytes.extend(unescaped(&rest[..begin]));
                bytes.extend(part.repeat(count));
                rest = after;
            }
            None => {
                bytes.extend(unescaped(&rest[..=begin]));
                rest = &rest[begin + 1..];
            }
        }
    }
    bytes.extend(unescaped(rest));
    bytes
}

fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'r') => b'\r',
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'0') => 0,
                Some(b'x') => {
                    let digits: Vec<u8> = rest.by_ref().take(2).collect();
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other.unwrap(),
            },
            byte => byte,
        });
    }
    bytes
}

impl Input {
    /// The whole request or stream.
    fn wire(&self) -> Vec<u8> {
        let request = |method: &str, path: &[u8], media_type: &str| {
            let mut head = [method.as_bytes(), b" ", path, b" HTTP/1.1\r\n"].concat();
            head.extend(bytes_of("<auth>"));
            if !media_type.is_empty() {
                head.extend(format!("Content-Type: {media_type}\r\n").bytes());
            }
            head
        };
        let with_body = |head: Vec<u8>| {
            let length = format!("Content-Length: {}\r\n\r\n", self.bytes.len());
            [&head, length.as_bytes(), &self.bytes].concat()
        };
        let (kind, more) = self.kind.split_once(':').unwrap_or((self.kind, ""));
        match kind {
            "get" => [&request("GET", &self.bytes, "")[..], b"\r\n"].concat(),
            "delete" => [&request("DELETE", &self.bytes, "")[..], b"\r\n"].concat(),
            "auth" => {
                let head = b"GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nAuthorization: ";
                [&head[..], &self.bytes, b"\r\n\r\n"].concat()
            }
            "send" => {
                let head = request("POST", b"/v1/destinations/erp/messages", "");
                [&head, &self.bytes[..], b"\r\nContent-Length: 1\r\n\r\nx"].concat()
            }
            "json" => with_body(request("POST", b"/v1/messages", "application/json")),
            "ndjson" => with_body(request("POST", b"/v1/messages", "application/x-ndjson")),
            "put" => with_body(request("PUT", more.as_bytes(), "application/json")),
            "post" => {
                let (path, media_type) = more.split_once(':').unwrap();
                with_body(request("POST", path.as_bytes(), media_type))
            }
            "raw" | "lines" | "length" | "envelope" => self.bytes.clone(),
            other => panic!("{}: {other} is no kind of input", self.name),
        }
    }

    fn address(&self, service: &Service) -> SocketAddr {
        match self.kind {
            "lines" => service.pod.addresses.tcp(0),
            "length" => service.pod.addresses.tcp(1),
            "envelope" => service.pod.addresses.tcp(2),
            _ => service.pod.addresses.http().unwrap(),
        }
    }

    /// Sends the input on a new connection. Returns the answer in short form.
    async fn answer(&self, service: &Service) -> String {
        let mut stream = TcpStream::connect(self.address(service)).await.unwrap();
        let mut said = Vec::new();
        let (mut read, mut write) = stream.split();
        // The service may close the connection before it has read everything.
        let writing = async {
            let _ = write.write_all(&self.wire()).await;
            let _ = write.shutdown().await;
        };
        let reading = async {
            let mut part = vec![0; 64 << 10];
            while let Ok(count @ 1..) = read.read(&mut part).await {
                said.extend_from_slice(&part[..count]);
            }
        };
        let both = async { tokio::join!(writing, reading) };
        if timeout(ANSWER_MAX, both).await.is_err() {
            return "the connection stays open".to_owned();
        }
        match self.kind {
            "lines" | "envelope" => {
                let text = String::from_utf8_lossy(&said).into_owned();
                text.lines().map(short).collect::<Vec<_>>().join("|")
            }
            "length" => of_frames(&said),
            _ => of_answers(&said),
        }
    }
}

/// `OK`, or `ERR` and the code.
fn short(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let count = if words[0] == "ERR" { 2 } else { 1 };
    words[..count.min(words.len())].join(" ")
}

fn of_frames(mut bytes: &[u8]) -> String {
    let mut all = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<4>() {
        let length = (u32::from_be_bytes(*head) as usize).min(rest.len());
        all.push(short(&String::from_utf8_lossy(&rest[..length])));
        bytes = &rest[length..];
    }
    all.join("|")
}

/// The status and the code of each answer.
fn of_answers(mut bytes: &[u8]) -> String {
    let mut all = Vec::new();
    while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.trim().parse().unwrap());
        let body = &bytes[end + 4..];
        let first = body[..length].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let problem: Value = serde_json::from_slice(first).unwrap_or_default();
        let status = head.split(' ').nth(1).unwrap_or("no status").to_owned();
        all.push(match problem["code"].as_str() {
            Some(code) => format!("{status} {code}"),
            None => status,
        });
        bytes = &body[length..];
    }
    if all.is_empty() { "closed".to_owned() } else { all.join("|") }
}

/// The memory of a process, in KiB.
fn memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn bad_input_gets_its_exact_answer_and_leaves_nothing_behind() {
    let service = Service::start_with(|mut settings| {
        settings.environment = vec![("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into())];
        settings.tcp = vec![("erp", "lines"), ("erp", "length"), ("erp", "lines json")];
        settings
    })
    .await;
    let inputs = inputs();
    assert!(inputs.len() >= 300, "only {} inputs", inputs.len());
    let stats = async || -> Value {
        let path = service.pod.url("/v1/destinations/erp/stats");
        client().get(path).bearer_auth(ADMIN).send().await.unwrap().json().await.unwrap()
    };
    let mut before = 0;
    for round in 0..=ROUNDS {
        let service = &service;
        let answers =
            stream::iter(&inputs).map(|input| async move { (input, input.answer(service).await) });
        let answers: Vec<_> = answers.buffer_unordered(AT_ONCE).collect().await;
        let wrong = answers.iter().filter(|(input, answer)| input.expected != answer);
        let wrong: Vec<String> = wrong
            .map(|(Input { name, expected, .. }, answer)| {
                format!("{name}: {answer}, not {expected}")
            })
            .collect();
        assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong.join("\n"));
        // The first round warms up: connections to Redis, buffers, the allocator.
        if round == 0 {
            before = memory_kib(service.pod.id());
        }
    }
    let grown = memory_kib(service.pod.id()).saturating_sub(before);
    assert!(grown < GROWTH_MAX_KIB, "{grown} KiB more after {ROUNDS} rounds, from {before} KiB");
    // No message was stored.
    let stats_now = stats().await;
    assert_eq!(stats_now["last_sequence"], 0, "{stats_now}");
    let send = client().post(service.pod.url("/v1/destinations/erp/messages")).bearer_auth(ADMIN);
    let begun = std::time::Instant::now();
    assert_eq!(send.json(&json!("a message")).send().await.unwrap().status(), 202);
    eventually("a message passes", async || {
        let stats = stats().await;
        if stats["delivered_total"] == 1 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
