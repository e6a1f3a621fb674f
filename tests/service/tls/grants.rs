//! Tests client certificates with grants.

use reqwest::{Client, Method};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::listeners::{connect, section, shown, start, trusting};
use crate::support::{
    certificates::{Authority, Identity},
    redis::TestRedis,
    wait::within,
};

const ADMIN: &str = "an-admin-token-from-the-environment";

/// An HTTP and a TCP listener, which require certificates of this authority, and the grants.
fn lines(ours: &Authority, grants: &str) -> String {
    let server = ours.issue("server");
    format!(
        "[auth]\nadmin_token = '{ADMIN}'\n{grants}[http]\nlisten = '127.0.0.1:0'\n{}\
         [[tcp]]\nlisten = '127.0.0.1:0'\ndestination = 'work'\nauth = 'certificate'\n{}",
        section("http.tls", &server, Some(ours)),
        section("tcp.tls", &server, Some(ours))
    )
}

fn grant(name: &str, more: &str) -> String {
    format!("[[auth.certificate]]\nname = '{name}'\n{more}\n")
}

#[tokio::test]
async fn a_certificate_may_do_what_its_name_allows_and_nothing_else() {
    let (ours, redis) = (Authority::new("ours"), TestRedis::start().await);
    let grants = grant("CN=ada", "scopes = ['ingest']\ndestinations = ['work']")
        + &grant("CN=bob", "scopes = ['ingest', 'read']\ndestinations = ['other']");
    let running = start(&redis, &lines(&ours, &grants)).await;
    let [ada, bob, carl] = ["ada", "bob", "carl"].map(|name| ours.issue(name));
    let client = |identity: &Identity| -> Client {
        trusting(&ours).identity(shown(identity)).build().unwrap()
    };
    let ask = async |identity: &Identity, method: Method, path: &str, headers: &[(&str, &str)]| {
        let mut request =
            client(identity).request(method, format!("https://{}{path}", running.http));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body("x").send().await.unwrap().status().as_u16()
    };
    let (messages, stats) = ("/v1/destinations/work/messages", "/v1/destinations/work/stats");
    assert_eq!(ask(&ada, Method::POST, messages, &[]).await, 202);
    // The grant allows no other scope, no other destination, and no tokens.
    assert_eq!(ask(&ada, Method::GET, stats, &[]).await, 403);
    assert_eq!(ask(&ada, Method::POST, "/v1/destinations/other/messages", &[]).await, 403);
    assert_eq!(ask(&ada, Method::GET, "/v1/tokens", &[]).await, 403);
    assert_eq!(ask(&bob, Method::POST, messages, &[]).await, 403);
    assert_eq!(ask(&bob, Method::GET, stats, &[]).await, 403);
    // A certificate with an unlisted name may do nothing.
    assert_eq!(ask(&carl, Method::POST, messages, &[]).await, 401);
    // A token replaces the certificate, even if the token is wrong.
    let (right, wrong) = (format!("Bearer {ADMIN}"), "Bearer rsq_wrong");
    assert_eq!(ask(&carl, Method::GET, stats, &[("authorization", &right)]).await, 200);
    assert_eq!(ask(&ada, Method::POST, messages, &[("authorization", wrong)]).await, 401);
    // A browser shows its certificate for pages of other origins too.
    for page in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        assert_eq!(ask(&ada, Method::POST, messages, &[page]).await, 403, "{page:?}");
    }

    let say = async |identity: &Identity, frames: &str| {
        let stream = connect(running.tcp[0], &ours, Some(identity)).await.unwrap();
        let mut stream = BufReader::new(stream);
        stream.write_all(frames.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut answers = Vec::new();
        for _ in frames.lines() {
            let mut line = String::new();
            within("an answer", stream.read_line(&mut line)).await.unwrap();
            answers.push(line.trim_end().to_owned());
        }
        answers
    };
    assert_eq!(say(&ada, "one\ntwo\n").await, ["OK 2", "OK 3"]);
    for refused in [&bob, &carl] {
        let said = say(refused, "three\n").await;
        assert!(said[0].starts_with("ERR forbidden"), "{said:?}");
    }
    assert_eq!(say(&carl, &format!("AUTH {ADMIN}\nfour\n")).await, ["OK", "OK 4"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn alternative_names_count_too() {
    let (ours, redis) = (Authority::new("ours"), TestRedis::start().await);
    // All certificates of the tests have this name.
    let grants =
        grant("DNS:localhost", "scopes = ['read']") + &grant("CN=localhost", "scopes = ['admin']");
    let running = start(&redis, &lines(&ours, &grants)).await;
    let client = trusting(&ours).identity(shown(&ours.issue("ada"))).build().unwrap();
    let url = |path: &str| format!("https://{}{path}", running.http);
    let read = client.get(url("/v1/destinations/work/stats")).send().await.unwrap();
    assert_eq!(read.status(), 200);
    let sent = client.post(url("/v1/destinations/work/messages")).body("x").send().await.unwrap();
    assert_eq!(sent.status(), 403);
    running.stop().await.unwrap();
}
