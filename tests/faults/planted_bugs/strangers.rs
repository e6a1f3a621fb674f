//! Scenarios of security: refused callers, and forbidden addresses.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use futures::future::join_all;
use reqwest::{Certificate, Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    scenario::{Anomaly, SOON, Verdict},
    scenarios::Ended,
};
use crate::support::{
    certificates::Authority,
    checker::stats,
    dns::Dns,
    http,
    pods::{Pod, Settings, client},
    ports::free_address,
    redis::TestRedis,
    wait::{LOOK_EVERY, PATIENCE, eventually},
};

const ADMIN: &str = "an-admin-token-from-the-environment";

fn settings(redis: &TestRedis, bug: Option<&str>) -> Settings {
    let mut settings = Settings::new(redis.url());
    settings.partitions = 1;
    let planted = bug.map(|bug| ("RESEQ_PLANTED_BUG".to_owned(), bug.to_owned()));
    settings.environment.extend(planted);
    settings
}

/// Waits until a condition holds. Otherwise returns this anomaly.
async fn until(
    bug: Option<&str>,
    otherwise: Anomaly,
    mut is_so: impl AsyncFnMut() -> bool,
) -> Verdict {
    let deadline = Instant::now() + if bug.is_some() { SOON } else { PATIENCE };
    while !is_so().await {
        if Instant::now() > deadline {
            return Err(otherwise);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

/// Two pods that require tokens. One token lists another destination, one has expired, and the
/// other pod revoked one.
pub async fn tokens(bug: Option<String>) -> Ended {
    let bug = bug.as_deref();
    let redis = TestRedis::start().await;
    let mut settings = settings(&redis, bug).destination("erp", "url = \"http://127.0.0.1:9/\"");
    settings.environment.push(("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into()));
    settings.environment.push(("RESEQ_AUDIT_ENTRIES_MAX".into(), "10".into()));
    let one = Pod::start("one", "ingest,processor,sender", &settings).await;
    let other = Pod::start("other", "ingest", &settings).await;
    let ask = |pod: &Pod, token: &str, method: Method, path: &str| {
        client().request(method, pod.url(path)).bearer_auth(token)
    };
    let make = async |request: Value| {
        let made = ask(&one, ADMIN, Method::POST, "/v1/tokens").json(&request).send().await;
        let made: Value = made.unwrap().json().await.unwrap();
        let word = |field: &str| made[field].as_str().unwrap().to_owned();
        (word("token"), format!("/v1/tokens/{}", word("id")))
    };
    let send = async |pod: &Pod, token: &str| {
        let path = "/v1/destinations/erp/messages";
        status(ask(pod, token, Method::POST, path).body("x")).await
    };
    let verdict = async {
        let ends = json!({"name": "ends", "scopes": ["ingest"], "expires_in_ms": 1000});
        let (expired, its_path) = make(ends).await;
        let of_crm = json!({"name": "x", "scopes": ["ingest"], "destinations": ["crm"]});
        if send(&one, &make(of_crm).await.0).await != 403 {
            return Err(Anomaly::Admitted);
        }
        let of_crm = json!({"name": "y", "scopes": ["read"], "destinations": ["crm"]});
        let (reader, _) = make(of_crm).await;
        if status(ask(&one, &reader, Method::GET, "/v1/topics/none")).await != 403 {
            return Err(Anomaly::Admitted);
        }
        // More actions than the audit log accepts from one token at once.
        let (operator, _) = make(json!({"name": "z", "scopes": ["operate"]})).await;
        let pause = || {
            let path = "/v1/destinations/erp/pause";
            status(ask(&one, &operator, Method::POST, path).json(&json!({"what": "delivery"})))
        };
        if !join_all((0..10).map(|_| pause())).await.contains(&429) {
            return Err(Anomaly::Admitted);
        }
        let (revoked, path) = make(json!({"name": "x", "scopes": ["ingest"]})).await;
        eventually("the other pod knows the token", async || match send(&other, &revoked).await {
            202 => Ok(()),
            status => Err(status.to_string()),
        })
        .await;
        assert_eq!(status(ask(&one, ADMIN, Method::DELETE, &path)).await, 200);
        until(bug, Anomaly::Admitted, async || send(&other, &revoked).await == 401).await?;
        eventually("the token ends", async || {
            let shown = ask(&one, ADMIN, Method::GET, &its_path).send().await.unwrap();
            let shown: Value = shown.json().await.unwrap();
            if shown["expired"] == true { Ok(()) } else { Err(shown.to_string()) }
        })
        .await;
        if send(&one, &expired).await != 401 { Err(Anomaly::Admitted) } else { Ok(()) }
    }
    .await;
    (verdict, 1)
}

/// A pod without tokens. A web page of another host sends requests, also to a TCP listener. So does a
/// client without the required certificate. A definition names the Redis of the pod as a receiver.
pub async fn callers_without_tokens(bug: Option<String>) -> Ended {
    let (redis, authority) = (TestRedis::start_on_tcp(&[]).await, Authority::new("ours"));
    let mut settings =
        settings(&redis, bug.as_deref()).destination("erp", "url = \"http://127.0.0.1:9/\"");
    let (address, server, ca) = (free_address(), authority.issue("server"), authority.ca_file());
    settings.destinations += &format!(
        "[admin]\nlisten = '{address}'\n[admin.tls]\ncertificate_file = {:?}\nkey_file = {:?}\n\
         client_ca_file = {ca:?}\n",
        server.certificate, server.key
    );
    settings.tcp = vec![("erp", "lines")];
    let pod = Pod::start("pod", "ingest,processor,sender", &settings).await;
    // Change definitions at a listener that this client may use.
    let mut open = self::settings(&redis, bug.as_deref());
    open.outgoing = "allow = [\"127.0.0.0/8\", \"::1\"]".to_owned();
    let open = Pod::start("open", "ingest", &open).await;
    let verdict = async {
        let mut page = TcpStream::connect(pod.addresses.tcp(0)).await.unwrap();
        page.write_all(b"POST / HTTP/1.1\r\nhost: a\r\n").await.unwrap();
        let mut answer = [0; 3];
        page.read_exact(&mut answer).await.unwrap();
        if &answer != b"ERR" {
            return Err(Anomaly::Admitted);
        }
        let own = json!({"url": format!("tcp://localhost:{}", redis.port())});
        if status(client().put(open.url("/v1/destinations/own")).json(&own)).await != 422 {
            return Err(Anomaly::LetOut);
        }
        let page = client().post(pod.url("/v1/destinations/erp/messages")).body("x");
        if status(page.header("host", "evil.example")).await != 403 {
            return Err(Anomaly::Admitted);
        }
        let root = Certificate::from_pem(authority.pem().as_bytes()).unwrap();
        let stranger = Client::builder().no_proxy().add_root_certificate(root).build().unwrap();
        let answer = stranger.get(format!("https://{address}/healthz")).send().await;
        if answer.is_ok() { Err(Anomaly::Admitted) } else { Ok(()) }
    }
    .await;
    (verdict, 0)
}

/// A user signs in to the console, and out again.
pub async fn sessions(bug: Option<String>) -> Ended {
    let redis = TestRedis::start().await;
    let mut settings = settings(&redis, bug.as_deref());
    settings.environment.push(("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into()));
    let pod = Pod::start("pod", "ingest", &settings).await;
    let (session, origin) = (pod.url("/console/session"), pod.url(""));
    let begun = client().post(&session).header("origin", &origin).json(&json!({"token": ADMIN}));
    let begun = begun.send().await.unwrap();
    let cookie =
        begun.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let said: Value = begun.json().await.unwrap();
    let shown = |request: RequestBuilder| {
        let secret = said["secret"].as_str().unwrap();
        request.header("cookie", &cookie).header("reseq-session", secret).header("origin", &origin)
    };
    assert_eq!(status(shown(client().get(pod.url("/v1/stats")))).await, 200);
    assert_eq!(status(shown(client().delete(&session))).await, 204);
    let verdict = match status(shown(client().get(pod.url("/v1/stats")))).await {
        401 => Ok(()),
        _ => Err(Anomaly::Admitted),
    };
    (verdict, 0)
}

/// A pod that requires tokens. Clients without a token take all its connections.
pub async fn without_credentials(bug: Option<String>) -> Ended {
    let (bug, redis) = (bug.as_deref(), TestRedis::start().await);
    let verify = "verify = { kind = \"github\", secrets = [\"a-secret-of-the-sender\"] }";
    let mut settings = settings(&redis, bug)
        .destination("signed", &format!("url = \"http://127.0.0.1:9/\"\n{verify}"));
    settings.http = "connections_max = 2".into();
    settings.tcp = vec![("signed", "lines")];
    settings.environment.push(("RESEQ_AUTH_ADMIN_TOKEN".into(), ADMIN.into()));
    let pod = Pod::start("pod", "ingest", &settings).await;
    let mut idle = TcpStream::connect(pod.addresses.tcp(0)).await.unwrap();
    let slow = "POST /v1/destinations/signed/messages HTTP/1.1\r\nhost: localhost\r\n\
                x-hub-signature-256: sha256=0000000000000000000000000000000000000000000000000000000000000000\r\nx-github-delivery: 1\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    let mut slow_ones = Vec::new();
    for _ in 0..2 {
        slow_ones.push(first_answer(&pod, slow).await);
    }
    let verdict = async {
        until(bug, Anomaly::Stuck, async || {
            status(client().get(pod.url("/v1/stats")).bearer_auth(ADMIN)).await == 200
        })
        .await?;
        let patience = if bug.is_some() { 2 * SOON } else { PATIENCE };
        match timeout(patience, idle.read_to_end(&mut Vec::new())).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Anomaly::Stuck),
        }
    }
    .await;
    (verdict, 0)
}

/// The first 12 bytes of the answer to these bytes, or fewer if the connection ends.
async fn first_answer(pod: &Pod, bytes: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(pod.addresses.http().unwrap()).await.unwrap();
    // The pod may have closed the connection at once.
    let _ = stream.write_all(bytes.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = (&mut stream).take(12).read_to_end(&mut answer).await;
    (stream, String::from_utf8_lossy(&answer).into_owned())
}

/// A pod with limits, and clients that exceed each of them.
pub async fn beyond_limits(bug: Option<String>) -> Ended {
    let (bug, redis) = (bug.as_deref(), TestRedis::start().await);
    let mut settings = settings(&redis, bug)
        .destination("calm", "url = \"http://127.0.0.1:9/\"\ningest_rate_per_second_max = 1");
    settings.http = "connections_per_address_max = 8\nbody_window_ms = 50".to_owned();
    let pod = Pod::start("pod", "ingest", &settings).await;
    let path = "/v1/destinations/calm/messages";
    let verdict = async {
        // At one message per second, twenty messages delay the next one for longer than this scenario takes.
        let lines = "{\"destinations\": [\"calm\"], \"body\": 1}\n".repeat(20);
        let batch = client().post(pod.url("/v1/messages")).body(lines);
        assert_eq!(status(batch.header("content-type", "application/x-ndjson")).await, 202);
        if status(client().post(pod.url(path)).body("x")).await != 429 {
            return Err(Anomaly::Admitted);
        }
        // A proxy may read another length than the pod.
        let smuggled = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\
             transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        );
        if first_answer(&pod, &smuggled).await.1 != "HTTP/1.1 400" {
            return Err(Anomaly::Admitted);
        }
        // The pod does not wait long for a body that does not arrive.
        let slow = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx");
        let patience = if bug.is_some() { SOON } else { PATIENCE };
        match timeout(patience, first_answer(&pod, &slow)).await {
            Ok((_, answer)) => assert_eq!(answer, "HTTP/1.1 408"),
            Err(_) => return Err(Anomaly::Stuck),
        }
        let mut open = Vec::new();
        for _ in 0..12 {
            let asked = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
            let (stream, answer) = first_answer(&pod, asked).await;
            match answer.as_str() {
                "HTTP/1.1 200" => open.push(stream),
                _ => return Ok(()),
            }
        }
        Err(Anomaly::Admitted)
    }
    .await;
    (verdict, 0)
}

/// A receiver that counts its connections, and never answers.
async fn counted_receiver() -> (SocketAddr, Arc<AtomicUsize>, AbortOnDropHandle<()>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let (receiver, server) = http::accept(move |mut stream| {
        count.fetch_add(1, Ordering::Relaxed);
        async move { drop(stream.read(&mut [0; 1]).await) }
    })
    .await;
    (receiver, connections, server)
}

/// A name has a public address when receivers are defined, and the address of this machine when pods connect.
pub async fn rebound_receiver(bug: Option<String>) -> Ended {
    let (redis, dns) = (TestRedis::start().await, Dns::start([203, 0, 114, 1]).await);
    let closed = Settings { outgoing: dns.setting(), ..settings(&redis, bug.as_deref()) };
    let pod = Pod::start("pod", "ingest,processor,sender", &closed).await;
    let (receiver, connections, _server) = counted_receiver().await;
    let few = json!({"attempts_max": 2, "backoff_ms": 1});
    for scheme in ["http", "tcp"] {
        let url = format!("{scheme}://rebinding.example:{}", receiver.port());
        let path = pod.url(&format!("/v1/destinations/{scheme}"));
        let definition = json!({"url": url, "delivery": few});
        assert_eq!(status(client().put(&path).json(&definition)).await, 201);
    }
    dns.turn_to([127, 0, 0, 1]);
    let came = || connections.load(Ordering::Relaxed) > 0;
    for name in ["http", "tcp"] {
        let path = pod.url(&format!("/v1/destinations/{name}/messages"));
        assert_eq!(status(client().post(path).body("x")).await, 202);
        let is_halted =
            async || stats(&pod, name).await.is_ok_and(|stats| stats["head"]["state"] == "halted");
        let halts = until(bug.as_deref(), Anomaly::LetOut, async || came() || is_halted().await);
        if halts.await.is_err() || came() {
            return (Err(Anomaly::LetOut), 2);
        }
    }
    (Ok(()), 2)
}

/// One pod may connect to this machine, and defines a destination on it. The pod that delivers may not connect to it.
pub async fn forbidden_receiver(bug: Option<String>) -> Ended {
    let redis = TestRedis::start().await;
    let open = settings(&redis, bug.as_deref());
    let closed = Settings { outgoing: String::new(), ..open.clone() };
    let ingest = Pod::start("ingest", "ingest", &open).await;
    let _sender = Pod::start("sender", "processor,sender", &closed).await;
    let (receiver, connections, _server) = counted_receiver().await;
    let path = ingest.url("/v1/destinations/erp");
    // The delivering pod checks a name when it resolves it.
    let url = format!("http://localhost:{}/", receiver.port());
    let definition = json!({"url": url, "delivery": {"attempts_max": 2, "backoff_ms": 1}});
    assert_eq!(status(client().put(&path).json(&definition)).await, 201);
    assert_eq!(status(client().post(format!("{path}/messages")).body("x")).await, 202);
    let came = || connections.load(Ordering::Relaxed) > 0;
    let halts = until(bug.as_deref(), Anomaly::LetOut, async || {
        came() || stats(&ingest, "erp").await.is_ok_and(|stats| stats["head"]["state"] == "halted")
    });
    let verdict = halts.await.and(if came() { Err(Anomaly::LetOut) } else { Ok(()) });
    (verdict, 1)
}
