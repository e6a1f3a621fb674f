//! Tests TLS to receivers that require a certificate, over HTTP and TCP, while certificates change; and HTTP/2.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::{Response, Version, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::Client;
use reseq::Running;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::listeners::{section, shown, start, trusting};
use crate::support::{
    certificates::{Authority, Identity, replace},
    http,
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    tls::{Party, Relay},
    transformer::Transformer,
    wait::{eventually, within},
};

const COUNT: usize = 20;

/// The section with the certificates that Reseq shows and trusts.
fn outgoing(authority: &Authority, identity: &Identity) -> String {
    format!("ca_file = {:?}\n{}", authority.ca_file(), section("outgoing.tls", identity, None))
        .split_once("\n[outgoing.tls]\n")
        .map(|(ca, rest)| format!("[outgoing.tls]\n{ca}\n{rest}"))
        .unwrap()
}

async fn send(sender: &Running, destination: &str, phase: &str) {
    for number in 0..COUNT {
        let url = format!("http://{}/v1/destinations/{destination}/messages", sender.http);
        let sent = client().post(url).body(format!("{destination} {phase} {number}")).send().await;
        assert_eq!(sent.unwrap().status(), 202);
    }
}

/// Claims the received messages, until all of these bodies have arrived.
async fn arrive(receiver: &Running, client: &Client, phase: &str) {
    let wanted: BTreeSet<String> = ["web", "frames"]
        .iter()
        .flat_map(|name| (0..COUNT).map(move |number| format!("{name} {phase} {number}")))
        .collect();
    let mut got = BTreeSet::new();
    let url = format!("https://{}/v1/leases", receiver.http);
    let claim = json!({"destinations": ["work"], "max": 100, "lease_ms": 3_600_000});
    eventually("everything has arrived", async || {
        let answer = client.post(&url).json(&claim).send().await;
        let answer = answer.map_err(|error| format!("{error:?}"))?;
        if answer.status() == 200 {
            let said: Value = answer.json().await.unwrap();
            for lease in said["leases"].as_array().unwrap() {
                let body = match lease["body_base64"].as_str() {
                    Some(text) => {
                        use base64::{Engine, prelude::BASE64_STANDARD};
                        String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
                    }
                    None => lease["body"].as_str().unwrap().to_owned(),
                };
                got.insert(body);
            }
        }
        if got == wanted { Ok(()) } else { Err(format!("{got:?}")) }
    })
    .await;
}

#[tokio::test]
async fn mutual_tls_receivers_get_messages_as_certificates_change() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (of_receiver, of_sender) = (TestRedis::start().await, TestRedis::start().await);
    let (server, identity) = (old.issue("server"), old.issue("reseq"));
    let receiver = format!(
        "[http]\nlisten = '127.0.0.1:0'\n{}[[tcp]]\nlisten = '127.0.0.1:0'\ndestination = 'work'\n\
         auth = 'certificate'\n{}",
        section("http.tls", &server, Some(&old)),
        section("tcp.tls", &server, Some(&old))
    );
    let receiver = start(&of_receiver, &receiver).await;
    let sender = format!(
        "[http]\nlisten = '127.0.0.1:0'\n{}[[destination]]\nname = 'web'\n\
         url = 'https://{}/v1/destinations/work/messages'\ndelivery = {{ backoff_max_ms = 500 }}\n\
         [[destination]]\nname = 'frames'\nurl = 'tls://{}'\n\
         delivery = {{ window_max = 4, backoff_max_ms = 500 }}\n",
        outgoing(&old, &identity),
        receiver.http,
        receiver.tcp[0]
    );
    let sender = start(&of_sender, &sender).await;
    let worker = trusting(&old).identity(shown(&old.issue("worker"))).build().unwrap();
    for destination in ["web", "frames"] {
        send(&sender, destination, "before").await;
    }
    arrive(&receiver, &worker, "before").await;

    // Change the files of both sides, one by one. Open connections stay.
    new.issue_into("server", &server);
    new.issue_into("reseq", &identity);
    replace(&old.ca_file(), &new.pem());
    let worker = trusting(&new).identity(shown(&new.issue("worker"))).build().unwrap();
    let health = format!("https://{}/healthz", receiver.http);
    eventually("the receiver has its new certificates", async || {
        worker.get(&health).send().await.map(drop).map_err(|error| format!("{error:?}"))
    })
    .await;
    for destination in ["web", "frames"] {
        send(&sender, destination, "after").await;
    }
    arrive(&receiver, &worker, "after").await;
    sender.stop().await.unwrap();
    receiver.stop().await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_offers_http_2_is_spoken_to_in_it() {
    let (ours, redis) = (Authority::new("ours"), TestRedis::start().await);
    let server = ours.issue("server");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let chain = vec![CertificateDer::from_pem_file(&server.certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&server.key).unwrap();
    let mut settings = builder.with_single_cert(chain, key).unwrap();
    settings.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    let (seen, mut versions) = mpsc::unbounded_channel();
    let (address, _server) = http::accept(move |stream| {
        let (acceptor, seen) = (acceptor.clone(), seen.clone());
        async move {
            let stream = acceptor.accept(stream).await.unwrap();
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let _ = seen.send(request.version());
                async { Ok::<_, std::convert::Infallible>(Response::new(Empty::<Bytes>::new())) }
            });
            let builder = http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await;
    let lines = format!(
        "[http]\nlisten = '127.0.0.1:0'\n{}[[destination]]\nname = 'web'\nurl = 'https://{address}/'\n",
        outgoing(&ours, &ours.issue("reseq")),
    );
    let sender = start(&redis, &lines).await;
    send(&sender, "web", "all").await;
    for _ in 0..COUNT {
        assert_eq!(within("a delivery", versions.recv()).await, Some(Version::HTTP_2));
    }
    sender.stop().await.unwrap();
}

/// The transform and the receiver have certificates of a private authority, and require one from Reseq.
#[tokio::test]
async fn transform_and_receiver_of_private_authority_need_trust() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let redis = TestRedis::start().await;
    let inbox = Arc::new(Inbox::default());
    let (web, frames) = (Receiver::http(&inbox).await, Receiver::lines(&inbox, "frames").await);
    let transformer = Transformer::start(1, 5).await;
    let party = Party { identity: ours.issue("receiver"), ca_file: ours.ca_file() };
    let before = |address| Relay::terminating(Arc::new(move || Some(address)), party.clone());
    let relays = [web.address, frames.address, transformer.address].map(before);
    let [to_web, to_frames, to_transformer] = relays.each_ref().map(|relay| relay.address);
    let again = "backoff_ms = 20, backoff_max_ms = 100, attempts_max = 0";
    // Reseq does not know the authority yet.
    let identity = ours.issue("reseq");
    let sender = format!(
        "[http]\nlisten = '127.0.0.1:0'\n{}[[destination]]\nname = 'web'\n\
         url = 'https://{to_web}/in'\ndelivery = {{ {again} }}\n\
         [[destination]]\nname = 'frames'\nurl = 'tls://{to_frames}'\ndelivery = {{ {again} }}\n\
         [[destination]]\nname = 'shouted'\nurl = 'https://{to_web}/in'\ndelivery = {{ {again} }}\n\
         transform = {{ kind = 'http', url = 'https://{to_transformer}/', {again} }}\n",
        outgoing(&other, &identity),
    );
    let sender = start(&redis, &sender).await;
    let names = ["web", "frames", "shouted"];
    for name in names {
        send(&sender, name, "all").await;
        let stats = format!("http://{}/v1/destinations/{name}/stats", sender.http);
        let error = eventually("the first attempt fails", async || {
            let stats: Value = client().get(&stats).send().await.unwrap().json().await.unwrap();
            match &stats["head"]["last_error"] {
                Value::Null => Err(stats.to_string()),
                error => Ok(error.clone()),
            }
        })
        .await;
        assert_eq!(error["kind"], "connection", "{name}: {error}");
        let detail = error["detail"].as_str().unwrap();
        assert!(detail.contains("UnknownIssuer; no authority"), "{name}: {detail}");
    }
    assert_eq!(inbox.journal.messages(), 0, "nothing was sent to who is not known");

    // From now on Reseq trusts the authority. No message is lost.
    replace(&other.ca_file(), &ours.pem());
    for name in names {
        eventually("all is delivered", async || match inbox.journal.messages_of(name) {
            COUNT => Ok(()),
            count => Err(format!("{name}: {count}")),
        })
        .await;
    }
    let shouted = inbox.journal.all().into_iter().filter(|one| one.destination == "shouted");
    assert!(shouted.into_iter().all(|one| one.body.starts_with("{\"transformed\":shouted all")));
    sender.stop().await.unwrap();
}

#[tokio::test]
async fn ends_of_certificates_that_others_show_are_reported() {
    let ours = Authority::new("ours");
    let (redis, identity) = (TestRedis::start_over_tls(&ours).await, ours.issue("reseq"));
    let inbox = Arc::new(Inbox::default());
    let web = Receiver::http(&inbox).await;
    let party = Party { identity: ours.issue("receiver"), ca_file: ours.ca_file() };
    let soon = time::OffsetDateTime::now_utc() + time::Duration::days(3);
    let end = (soon.year(), u8::from(soon.month()), soon.day());
    ours.issue_until("receiver", &party.identity, Some(end));
    let relay = Relay::terminating(Arc::new(move || Some(web.address)), party.clone());
    let mut settings = Settings::new(redis.url());
    let Identity { certificate, key } = &identity;
    let tls = format!(
        "\ntls = {{ ca_file = {:?}, certificate_file = {certificate:?}, key_file = {key:?} }}",
        ours.ca_file()
    );
    settings.redis += &tls;
    settings.outgoing += &tls;
    settings.destinations = format!(
        "[[destination]]\nname = 'web'\nurl = 'https://localhost:{}/'\n",
        relay.address.port()
    );
    let pod = Pod::start("all", "ingest,processor,sender", &settings).await;
    let post = client().post(pod.url("/v1/destinations/web/messages")).body("one");
    assert_eq!(post.send().await.unwrap().status(), 202);
    let get = async |path: &str| client().get(pod.url(path)).send().await.unwrap().text().await;
    let of = |host| format!("reseq_peer_certificate_expiry_timestamp_seconds{{host=\"{host}\"}} ");
    let at_s = soon.replace_time(time::Time::MIDNIGHT).unix_timestamp();
    eventually("both servers have shown theirs", async || {
        let text = get("/metrics").await.unwrap();
        let receiver = format!("{}{at_s}\n", of("localhost"));
        let all = text.contains(&receiver) && text.contains(&of("127.0.0.1"));
        if all { Ok(()) } else { Err(text) }
    })
    .await;
    let report: Value = serde_json::from_str(&get("/v1/doctor").await.unwrap()).unwrap();
    let mut findings = report["findings"].as_array().unwrap().iter();
    let found = findings.find(|finding| finding["check"] == "expiry").unwrap();
    assert_eq!((&found["severity"], &found["subject"]), (&json!("warning"), &json!("localhost")));
    let date = format!(": localhost. The first ends at {:04}-{:02}-{:02}T", end.0, end.1, end.2);
    assert!(found["summary"].as_str().unwrap().contains(&date), "{found}");
}
