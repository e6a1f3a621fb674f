//! Tests TLS on the listeners: required certificates, certificates that change, and clients that are gone.

use std::{net::SocketAddr, process::Stdio, sync::Arc};

use config::Config;
use reqwest::{Certificate, Client, ClientBuilder, Identity as ClientIdentity};
use reseq::{Reseq, Running};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::{
    certificates::{Authority, Identity, replace},
    pods::without_settings,
    redis::TestRedis,
    source::program,
    wait::{eventually, within},
};

const ADMIN: &str = "an-admin-token-from-the-environment";

/// Starts Reseq in this process, with these lines and a destination `work` for workers.
pub(super) async fn start(redis: &TestRedis, lines: &str) -> Running {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("reseq.toml");
    let text = format!(
        "{lines}\n[outgoing]\nallow = ['127.0.0.0/8']\n[redis]\nurl = {:?}\n[[destination]]\nname = 'work'\nurl = 'http://127.0.0.1:1/'\n\
         transform = {{ kind = 'worker' }}\n",
        redis.url()
    );
    std::fs::write(&file, text).unwrap();
    Reseq::new(Config::load(Some(&file), []).unwrap()).start().await.unwrap()
}

/// The section with this name.
pub(super) fn section(name: &str, identity: &Identity, client_ca: Option<&Authority>) -> String {
    let Identity { certificate, key } = identity;
    let client_ca = client_ca.map(|ca| format!("client_ca_file = {:?}\n", ca.ca_file()));
    format!(
        "[{name}]\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n{}",
        client_ca.unwrap_or_default()
    )
}

pub(super) fn trusting(authority: &Authority) -> ClientBuilder {
    let root = Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    Client::builder().no_proxy().tls_built_in_root_certs(false).add_root_certificate(root)
}

pub(super) fn shown(identity: &Identity) -> ClientIdentity {
    let read = |path| std::fs::read(path).unwrap();
    let pem = [read(&identity.certificate), read(&identity.key)].concat();
    ClientIdentity::from_pem(&pem).unwrap()
}

/// A connection over TLS, with a certificate if there is one.
pub(super) async fn connect(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<&Identity>,
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_with(address, authority, identity, &[]).await
}

/// Like `connect`, with one of these protocols.
async fn connect_with(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<&Identity>,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut settings = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
            let key = rustls::pki_types::PrivateKeyDer::from_pem_file(key).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    settings.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(settings)).connect(name, stream).await
}

/// The status of `GET /healthz` on an open connection.
async fn status(stream: &mut BufStream<TlsStream<TcpStream>>) -> String {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    stream.flush().await.unwrap();
    let (mut status, mut length) = (String::new(), 0);
    stream.read_line(&mut status).await.unwrap();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    status.trim().to_owned()
}

#[tokio::test]
async fn listener_wanting_certificates_serves_only_who_shows_one() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let (redis, mine) = (TestRedis::start().await, ours.issue("client"));
    let lines = format!(
        "[http]\nlisten = '127.0.0.1:0'\n{}",
        section("http.tls", &ours.issue("server"), Some(&ours))
    );
    let running = start(&redis, &lines).await;
    let url = format!("https://{}", running.http);
    let send = async |client: ClientBuilder| {
        let path = format!("{url}/v1/destinations/work/messages");
        let answer = client.build().unwrap().post(path).body("x").send().await;
        answer.map(|answer| answer.status().as_u16())
    };
    assert_eq!(send(trusting(&ours).identity(shown(&mine))).await.unwrap(), 202);
    assert!(send(trusting(&ours)).await.is_err());
    assert!(send(trusting(&ours).identity(shown(&other.issue("client")))).await.is_err());
    assert!(send(trusting(&other).identity(shown(&mine))).await.is_err());
    let plain = format!("http://{}/healthz", running.http);
    assert!(Client::builder().no_proxy().build().unwrap().get(plain).send().await.is_err());

    // The audit log names the certificate.
    let client = trusting(&ours).identity(shown(&mine)).build().unwrap();
    let pause = client.post(format!("{url}/v1/destinations/work/pause"));
    assert_eq!(pause.json(&json!({"what": "delivery"})).send().await.unwrap().status(), 200);
    let audit = client.get(format!("{url}/v1/audit")).send().await.unwrap();
    let audit: Value = audit.json().await.unwrap();
    let first = &audit["items"][0];
    let expected = ("pause", "loopback_without_token", "CN=client");
    let found = ["action", "actor", "certificate"].map(|field| first[field].as_str().unwrap());
    assert!(found[0] == expected.0 && found[1] == expected.1, "{first}");
    assert!(found[2].contains(expected.2), "{first}");

    // The commands of the program.
    let status = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(program());
        without_settings(&mut command);
        command.args(["status", "--url", &url]).args(arguments);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = within("status", command.output()).await.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let file = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (ca, certificate, key) = (file(&ours.ca_file()), file(&mine.certificate), file(&mine.key));
    let all = ["--ca-file", &ca, "--certificate-file", &certificate, "--key-file", &key];
    let (code, said) = status(&all).await;
    assert!(code == Some(0) && said.contains("work"), "{code:?} {said}");
    assert_eq!(status(&all[..2]).await.0, Some(4));
    assert_eq!(status(&all[2..]).await.0, Some(4));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn the_listener_of_operators_has_certificates_of_its_own() {
    let (ours, operators) = (Authority::new("ours"), Authority::new("operators"));
    let redis = TestRedis::start().await;
    let lines = format!(
        "[http]\nlisten = '127.0.0.1:0'\n{}[admin]\nlisten = '127.0.0.1:0'\n{}",
        section("http.tls", &ours.issue("server"), None),
        section("admin.tls", &operators.issue("admin"), Some(&operators))
    );
    let running = start(&redis, &lines).await;
    let admin = format!("https://{}/v1/destinations/work/stats", running.admin.unwrap());
    let get = async |client: ClientBuilder, url: &str| {
        let answer = client.build().unwrap().get(url).send().await;
        answer.map(|answer| answer.status().as_u16())
    };
    let operator = || trusting(&operators).identity(shown(&operators.issue("operator")));
    assert_eq!(get(operator(), &admin).await.unwrap(), 200);
    // Refused: clients without a certificate or with one of producers, and clients at the wrong listener.
    assert!(get(trusting(&operators), &admin).await.is_err());
    let producer = trusting(&operators).identity(shown(&ours.issue("producer")));
    assert!(get(producer, &admin).await.is_err());
    assert!(get(trusting(&ours), &admin).await.is_err());
    let public = format!("https://{}/v1/destinations/work/stats", running.http);
    assert_eq!(get(trusting(&ours), &public).await.unwrap(), 404);
    let health = format!("https://{}/healthz", running.http);
    assert_eq!(get(trusting(&ours), &health).await.unwrap(), 200);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn doctor_names_certificates_and_tokens_that_end() {
    let authority = Authority::new("ours");
    let (redis, identity) = (TestRedis::start().await, authority.issue("server"));
    let lines = format!("[http]\nlisten = '127.0.0.1:0'\n{}", section("http.tls", &identity, None));
    let running = start(&redis, &lines).await;
    let client = trusting(&authority).build().unwrap();
    let url = |path: &str| format!("https://{}/v1/{path}", running.http);
    let found = async |token: &str| {
        let asked = client.get(url("doctor"));
        let asked = if token.is_empty() { asked } else { asked.bearer_auth(token) };
        let answer = asked.send().await.unwrap().text().await.unwrap();
        let report: Value = serde_json::from_str(&answer).unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        let findings = findings.filter(|finding| finding["check"] == "expiry");
        let said = findings.map(|finding| {
            ["severity", "subject", "summary"].map(|name| finding[name].as_str().unwrap()).join(" ")
        });
        said.collect::<Vec<String>>()
    };
    assert_eq!(found("").await, [""; 0]);
    let soon = time::OffsetDateTime::now_utc() + time::Duration::days(3);
    for (end, said) in [
        ((soon.year(), u8::from(soon.month()), soon.day()), "warning http.tls.certificate_file"),
        ((2020, 2, 29), "error http.tls.certificate_file"),
    ] {
        authority.issue_until("server", &identity, Some(end));
        let found = found("").await;
        assert!(found.len() == 1 && found[0].starts_with(said), "{found:?}");
        let date = format!("at {:04}-{:02}-{:02}T00:00:00Z", end.0, end.1, end.2);
        assert!(found[0].contains(&date), "{found:?}");
    }
    authority.issue_into("server", &identity);
    let body = json!({"name": "short", "scopes": ["read"], "expires_in_ms": 86_400_000});
    let answer = client.post(url("tokens")).json(&body).send().await.unwrap();
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    let found = found(answer["token"].as_str().unwrap()).await;
    assert!(
        found.len() == 1 && found[0].contains("warning  Tokens end within 14 days"),
        "{found:?}"
    );
    assert!(found[0].contains("short ("), "{found:?}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn new_certificates_serve_new_connections_and_open_ones_stay() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (redis, identity) = (TestRedis::start().await, old.issue("server"));
    let lines = format!("[http]\nlisten = '127.0.0.1:0'\n{}", section("http.tls", &identity, None));
    let running = start(&redis, &lines).await;
    let mut open = BufStream::new(connect(running.http, &old, None).await.unwrap());
    assert_eq!(status(&mut open).await, "HTTP/1.1 200 OK");
    let accepted = async |authority: &Authority| {
        eventually("a new connection is accepted", async || {
            connect(running.http, authority, None).await.map_err(|error| error.to_string())
        })
        .await
    };
    new.issue_into("server", &identity);
    let mut fresh = BufStream::new(accepted(&new).await);
    assert_eq!(status(&mut fresh).await, "HTTP/1.1 200 OK");
    assert_eq!(status(&mut open).await, "HTTP/1.1 200 OK");
    // A key without its certificate: the earlier pair stays in use until the next valid pair.
    replace(&identity.key, "no key");
    let mut fresh = BufStream::new(accepted(&new).await);
    assert_eq!(status(&mut fresh).await, "HTTP/1.1 200 OK");
    old.issue_into("server", &identity);
    accepted(&old).await;
    assert_eq!(status(&mut open).await, "HTTP/1.1 200 OK");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn producer_needs_certificate_or_token_as_listener_says() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let (redis, server) = (TestRedis::start().await, ours.issue("server"));
    let listener = |auth: &str| {
        format!(
            "[[tcp]]\nlisten = '127.0.0.1:0'\ndestination = 'work'\nauth = '{auth}'\n{}",
            section("tcp.tls", &server, Some(&ours))
        )
    };
    let lines = format!(
        "[auth]\nadmin_token = '{ADMIN}'\n[http]\nlisten = '127.0.0.1:0'\n{}{}",
        listener("certificate"),
        listener("token")
    );
    let running = start(&redis, &lines).await;
    let identity = ours.issue("producer");
    let said = async |index: usize, identity: Option<&Identity>, frames: &str| {
        let stream = connect(running.tcp[index], &ours, identity).await;
        let Ok(mut stream) = stream else { return String::new() };
        // In TLS 1.3 the client has finished before the server checks its certificate.
        if stream.write_all(frames.as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return String::new();
        }
        let mut lines = tokio::io::BufReader::new(stream).lines();
        let mut answers = Vec::new();
        for _ in frames.lines() {
            match within("an answer", lines.next_line()).await {
                Ok(Some(line)) => answers.push(line),
                _ => break,
            }
        }
        answers.join("; ")
    };
    assert_eq!(said(0, Some(&identity), "one\ntwo\n").await, "OK 1; OK 2");
    // The pod ignores the token, and does not store it as a message.
    assert_eq!(said(0, Some(&identity), "AUTH whatever\nthree\n").await, "OK; OK 3");
    assert_eq!(said(0, None, "four\n").await, "");
    // A browser shows a certificate on its own.
    let page = said(0, Some(&identity), "POST / HTTP/1.1\nhost: a\n").await;
    assert!(page.starts_with("ERR invalid_frame") && !page.contains("OK"), "{page}");
    assert_eq!(said(0, Some(&other.issue("producer")), "five\n").await, "");
    // Here neither a certificate nor a token is enough on its own.
    let refused = said(1, Some(&identity), "six\n").await;
    assert!(refused.contains("unauthorized"), "{refused}");
    let accepted = said(1, Some(&identity), &format!("AUTH {ADMIN}\nseven\n")).await;
    assert_eq!(accepted, "OK; OK 4");
    assert_eq!(said(1, None, &format!("AUTH {ADMIN}\neight\n")).await, "");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn stuck_or_failed_handshake_ends_the_connection() {
    let (ours, redis) = (Authority::new("ours"), TestRedis::start().await);
    let lines = format!(
        "[http]\nlisten = '127.0.0.1:0'\nheader_timeout_ms = 200\nidle_timeout_ms = 600000\n{}",
        section("http.tls", &ours.issue("server"), None)
    );
    let running = start(&redis, &lines).await;
    // The beginning of a handshake, and bytes that are not a handshake.
    for begun in [&b"\x16\x03\x01\x02\x00\x01"[..], b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        let mut stream = TcpStream::connect(running.http).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut rest = Vec::new();
        let _ = within("the connection is closed", stream.read_to_end(&mut rest)).await;
        assert!(!rest.starts_with(b"HTTP"), "plain text");
    }
    // A head that does not end.
    let mut stream = connect(running.http, &ours, None).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    let mut said = String::new();
    within("the connection is closed", stream.read_to_string(&mut said)).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("request_timeout"), "{said}");
    // The same over HTTP/2: settings, and headers without their end.
    let mut stream = connect_with(running.http, &ours, None, &[b"h2"]).await.unwrap();
    let begun =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x01\0\0\0\x01\x82";
    stream.write_all(begun).await.unwrap();
    let mut said = Vec::new();
    let _ = within("the connection is closed", stream.read_to_end(&mut said)).await;
    running.stop().await.unwrap();
}

/// Leases last far longer than the test.
#[tokio::test]
async fn messages_for_a_worker_that_is_gone_go_to_another() {
    let (ours, redis) = (Authority::new("ours"), TestRedis::start().await);
    let lines = format!(
        "[http]\nlisten = '127.0.0.1:0'\n{}",
        section("http.tls", &ours.issue("server"), None)
    );
    let running = start(&redis, &lines).await;
    let client = trusting(&ours).build().unwrap();
    let url = |path: &str| format!("https://{}{path}", running.http);
    let body = json!({
        "destinations": ["work"], "max": 16, "lease_ms": 3_600_000, "wait_ms": 60_000
    });
    for round in 0..5 {
        let text = body.to_string();
        let request = format!(
            "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{text}",
            text.len()
        );
        let mut worker = connect(running.http, &ours, None).await.unwrap();
        worker.write_all(request.as_bytes()).await.unwrap();
        worker.flush().await.unwrap();
        // Workers close TLS properly in one round, and not in the next.
        match round % 2 {
            0 => worker.shutdown().await.unwrap(),
            _ => drop(worker.into_inner().0),
        }
        let sent = client.post(url("/v1/destinations/work/messages")).body("x").send().await;
        assert_eq!(sent.unwrap().status(), 202);
    }
    let mut tokens: Vec<Value> = Vec::new();
    let mut at_once = body.clone();
    at_once["wait_ms"] = json!(0);
    eventually("all five are there", async || {
        let answer = client.post(url("/v1/leases")).json(&at_once).send().await.unwrap();
        if answer.status() == 200 {
            let said: Value = answer.json().await.unwrap();
            tokens.extend(said["leases"].as_array().unwrap().iter().cloned());
        }
        if tokens.len() == 5 { Ok(()) } else { Err(format!("{} are", tokens.len())) }
    })
    .await;
    assert!(tokens.iter().all(|lease| lease["attempt"] == 1), "{tokens:?}");
    running.stop().await.unwrap();
}
