//! Tests secrets: their sources, that no output shows them, their encryption in Redis, and a change of the key.

use std::{collections::BTreeSet, process::Output};

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::Method;
use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client, refused_start, without_settings},
    redis::TestRedis,
    source::program,
    wait::{eventually, within},
};
use tokio::process::Command;

use crate::{common, support};

const ADMIN: &str = "an-admin-token-that-comes-from-a-file";
/// A part of every secret of a destination here.
const PART: &str = "h1dden";
const ERP: &str = "/v1/destinations/erp";

fn key(byte: u8) -> String {
    BASE64_STANDARD.encode([byte; 32])
}

/// A secret of Standard Webhooks that contains [`PART`].
fn whsec() -> String {
    format!("whsec_{PART}{}", "A".repeat(26))
}

struct Service {
    redis: TestRedis,
    settings: Settings,
    receiver: common::Receiver,
    dir: tempfile::TempDir,
}

impl Service {
    /// One destination whose secrets are all references, and a key file with these keys.
    async fn new(keys: &[u8]) -> Service {
        let (redis, receiver) = (TestRedis::start().await, common::receiver(|| "").await);
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("{text}\n")).unwrap();
            format!("{{ file = {:?} }}", path.display().to_string())
        };
        let (sign, admin) = (file("sign", &whsec()), dir.path().join("admin"));
        std::fs::write(&admin, ADMIN).unwrap();
        let fields = format!(
            "url = \"{}\"\nheaders = {{ authorization = {{ env = \"ERP_AUTHORIZATION\" }}, x-plain = \"itself {PART}\" }}\n\
             sign = {{ secrets = [{sign}, \"{}\"] }}\n\
             verify = {{ kind = \"github\", secrets = [{}] }}",
            receiver.url(),
            whsec().replace("AA", "BB"),
            file("verify", &format!("a {PART} of GitHub")),
        );
        let mut settings = Settings::new(redis.url()).destination("erp", &fields);
        settings.destinations += &format!(
            "[destination.transform]\nkind = \"http\"\nurl = \"{}\"\nheaders.x-token.file = {:?}\n",
            receiver.url(),
            dir.path().join("verify").display().to_string(),
        );
        settings.environment = vec![
            ("ERP_AUTHORIZATION".into(), format!("Bearer {PART}")),
            ("RESEQ_AUTH_ADMIN_TOKEN_FILE".into(), admin.display().to_string()),
        ];
        let mut service = Service { redis, settings, receiver, dir };
        service.set_keys(keys);
        service
    }

    /// Processes that start from now on get these keys.
    fn set_keys(&mut self, keys: &[u8]) {
        let path = self.dir.path().join("keys");
        self.settings.environment.retain(|(name, _)| name != "RESEQ_SECRETS_KEY_FILE");
        if !keys.is_empty() {
            let lines: Vec<String> = keys.iter().map(|byte| key(*byte)).collect();
            std::fs::write(&path, lines.join("\n")).unwrap();
            let file = path.display().to_string();
            self.settings.environment.push(("RESEQ_SECRETS_KEY_FILE".into(), file));
        }
    }

    async fn start(&self) -> Pod {
        Pod::start("reseq", "ingest,processor,sender", &self.settings).await
    }

    /// The stored definition, in its partition and in the index.
    async fn stored(&self, name: &str) -> (String, String) {
        let keys: Vec<String> =
            self.redis.ask(&["KEYS", &format!("reseq:{{p*}}:d:{name}")]).await.unwrap();
        let stored: String = self.redis.ask(&["HGET", &keys[0], "definition"]).await.unwrap();
        let index: String =
            self.redis.ask(&["HGET", "reseq:{index}:destinations", name]).await.unwrap();
        (stored, index.splitn(3, ' ').nth(2).unwrap().to_owned())
    }

    /// All data in Redis, as text.
    async fn dump(&self) -> String {
        let keys: Vec<String> = self.redis.ask(&["KEYS", "*"]).await.unwrap();
        let mut text = String::new();
        for key in keys {
            let kind: String = self.redis.ask(&["TYPE", &key]).await.unwrap();
            if kind == "hash" {
                let fields: Vec<String> =
                    self.redis.ask(&["HGETALL", &key]).await.unwrap_or_default();
                text += &fields.join(" ");
            }
        }
        text
    }

    /// Runs `reseq check` with these settings. Returns whether it succeeded, and its output.
    async fn check(&self) -> (bool, String) {
        let mut command = Command::new(program());
        without_settings(&mut command);
        command.args(["check"]).env("RESEQ_REDIS_URL", self.redis.url());
        command.envs(self.settings.environment.clone()).kill_on_drop(true);
        let Output { status, stdout, stderr } =
            within("it checks", command.output()).await.unwrap();
        let text = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
        (status.success(), text)
    }
}

async fn ask(pod: &Pod, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let mut request = client().request(method, pod.url(path)).bearer_auth(ADMIN);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn version(pod: &Pod, path: &str) -> u64 {
    let (status, shown) = ask(pod, Method::GET, path, None).await;
    assert_eq!(status, 200, "{shown}");
    shown["version"].as_u64().unwrap()
}

#[tokio::test]
async fn secrets_come_from_files_and_variables_and_nobody_sees_them() {
    let mut service = Service::new(&[1]).await;
    let pod = service.start().await;
    let body = json!({"name": "crm", "url": service.receiver.url(), "headers": {"x-key": PART},
        "verify": {"kind": "stripe", "secrets": [format!("{PART} of Stripe")]}});
    let crm = "/v1/destinations/crm";
    assert_eq!(ask(&pod, Method::PUT, crm, Some(body.clone())).await.0, 201);

    // The pod uses the secrets.
    let sent = ask(&pod, Method::POST, &format!("{ERP}/messages"), Some(json!(1))).await;
    assert_eq!(sent.0, 202, "{}", sent.1);
    let transformed = within("it is transformed", service.receiver.seen.recv()).await.unwrap();
    assert_eq!(transformed.headers["x-token"], format!("a {PART} of GitHub"));
    let delivered = within("it is delivered", service.receiver.seen.recv()).await.unwrap();
    assert_eq!(delivered.headers["authorization"], format!("Bearer {PART}"));
    assert_eq!(delivered.headers["x-plain"], format!("itself {PART}"));
    assert_eq!(delivered.headers["webhook-signature"].matches("v1,").count(), 2);

    // Answers, errors, metrics, the log, Redis and arguments never show the secrets.
    let mut seen = Vec::new();
    for path in [
        "/v1/destinations",
        ERP,
        crm,
        "/v1/stats",
        "/metrics",
        "/readyz",
        "/v1/pods",
        "/v1/audit",
        "/v1/destinations/erp/why",
        "/v1/destinations/erp/log",
        "/v1/destinations/erp/stats",
    ] {
        let (status, answer) = ask(&pod, Method::GET, path, None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        seen.push((path.to_owned(), answer.to_string()));
    }
    for (method, path, body) in [
        (Method::PATCH, crm, json!({"headers": {"x-key\n": PART}})),
        (Method::PATCH, crm, json!({"verify": {"secrets": [PART]}})),
        (Method::PATCH, crm, json!({"sign": {"secrets": [PART]}})),
        (Method::PATCH, crm, json!({"headers": {"x-key": {"file": "/etc/hostname"}}})),
        (Method::PATCH, crm, json!({"verify": {"secrets": [{"env": "ERP_AUTHORIZATION"}]}})),
        (Method::PUT, crm, json!({"url": service.receiver.url(), "headers": {"x": [PART]}})),
    ] {
        let (status, answer) = ask(&pod, method, path, Some(body)).await;
        assert_eq!((status, &answer["code"]), (400, &json!("invalid_field")), "{answer}");
        seen.push((path.to_owned(), answer.to_string()));
    }
    seen.push(("the log".into(), pod.log()));
    seen.push(("Redis".into(), service.dump().await));
    let arguments = std::fs::read(format!("/proc/{}/cmdline", pod.id())).unwrap();
    seen.push(("the arguments".into(), String::from_utf8_lossy(&arguments).into_owned()));
    for (place, text) in &seen {
        for secret in [PART, ADMIN, &key(1)] {
            assert!(!text.contains(secret), "{place} has {secret}: {text}");
        }
    }

    // `apply` resolves references itself, and applying the same file again changes nothing.
    let file = service.dir.path().join("crm.json");
    let mut applied = body;
    applied["headers"]["x-key"] = json!({"file": service.dir.path().join("verify")});
    std::fs::write(&file, applied.to_string()).unwrap();
    let apply = async || {
        let mut command = Command::new(program());
        without_settings(&mut command);
        command.args(["destinations", "apply"]).arg(&file).env("RESEQ_URL", pod.url(""));
        command.env("RESEQ_TOKEN", ADMIN).kill_on_drop(true);
        let output = within("it applies", command.output()).await.unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!((&*apply().await, &*apply().await), ("crm changed\n", "crm unchanged\n"));
    applied["headers"]["x-key"] = json!({"env": "NOT_THERE"});
    std::fs::write(&file, applied.to_string()).unwrap();
    let refused = apply().await;
    assert!(refused.contains("headers") && refused.contains("NOT_THERE is not set"), "{refused}");
}

#[tokio::test]
async fn redis_has_them_encrypted_and_a_new_key_changes_no_version() {
    let mut service = Service::new(&[]).await;
    let id = |text: &str| serde_json::from_str::<Value>(text).unwrap()["sealed"]["key"].clone();
    // Without a key, Redis holds the secrets in plain text, and `check` reports that.
    let pod = service.start().await;
    let body = json!({"url": service.receiver.url(), "headers": {"x-key": PART}});
    let (status, made) = ask(&pod, Method::PUT, "/v1/destinations/crm", Some(body.clone())).await;
    assert_eq!(status, 201, "{made}");
    let none = json!({"url": service.receiver.url()});
    assert_eq!(ask(&pod, Method::PUT, "/v1/destinations/none", Some(none)).await.0, 201);
    let versions = (version(&pod, ERP).await, version(&pod, "/v1/destinations/crm").await);
    assert!(service.dump().await.contains(PART));
    assert!(pod.log().contains("stored in Redis in plain text: set secrets.key"), "{}", pod.log());
    let (is_fine, said) = service.check().await;
    assert!(
        is_fine && said.contains("the secrets of 2 destinations are in Redis in plain text"),
        "{said}"
    );
    drop(pod);

    // With a key, the next start encrypts the secrets. Unchanged secrets are not encrypted again.
    let mut earlier = BTreeSet::new();
    for (keys, advice) in [(&[1][..], false), (&[1, 2], false), (&[2, 1], false), (&[2], false)] {
        service.set_keys(keys);
        let pod = service.start().await;
        let current = eventually("all are encrypted with the first key", async || {
            let (is_fine, said) = service.check().await;
            assert!(is_fine, "{said}");
            let all = said.contains("those of 2 destinations are encrypted with the current key");
            if all && said.contains("the secrets of") == advice { Ok(said) } else { Err(said) }
        })
        .await;
        for name in ["erp", "crm"] {
            let (stored, index) = service.stored(name).await;
            assert_eq!(stored, index, "the index has the same");
            let id = id(&stored);
            assert!(current.contains(id.as_str().unwrap()), "{current}: {stored}");
            earlier.insert(id.to_string());
            // Each secret is encrypted separately.
            assert!(stored.contains("\"***\"") && !stored.contains(PART), "{stored}");
        }
        assert!(!service.dump().await.contains(PART));
        // The same definition again: from another process, and by a request.
        let before = service.stored("crm").await;
        let (status, same) =
            ask(&pod, Method::PUT, "/v1/destinations/crm", Some(body.clone())).await;
        assert_eq!(status, 200, "{same}");
        let again = Pod::start("again", "ingest", &service.settings).await;
        for pod in [&pod, &again] {
            assert_eq!(
                (version(pod, ERP).await, version(pod, "/v1/destinations/crm").await),
                versions
            );
        }
        assert_eq!(service.stored("crm").await, before, "nothing was written");
        // A different secret counts as a change.
        if keys == [2] {
            let other = json!({"headers": {"x-key": format!("{PART}-2")}});
            let (status, _) = ask(&pod, Method::PATCH, "/v1/destinations/crm", Some(other)).await;
            assert_eq!(status, 200);
            assert!(version(&pod, "/v1/destinations/crm").await > versions.1);
        }
    }
    assert_eq!(earlier.len(), 2, "two keys: {earlier:?}");

    // A process without the key reports that, and does not treat the destination as missing.
    service.set_keys(&[3]);
    let (is_fine, said) = service.check().await;
    assert!(!is_fine && said.contains("secrets.key does not have the key"), "{said}");
    assert!(said.contains("(crm, erp)"), "{said}");
    let all = std::mem::take(&mut service.settings.destinations);
    let pod = service.start().await;
    let sent = ask(&pod, Method::POST, "/v1/destinations/crm/messages", Some(json!(1))).await;
    assert_eq!((sent.0, &sent.1["code"]), (503, &json!("no_secrets_key")), "{}", sent.1);
    assert!(pod.log().contains("secrets.key does not have the key"), "{}", pod.log());
    let sent = ask(&pod, Method::POST, "/v1/destinations/none/messages", Some(json!(1))).await;
    assert_eq!(sent.0, 202, "{}", sent.1);
    // A client can set the secrets again.
    let (status, made) = ask(&pod, Method::PUT, "/v1/destinations/crm", Some(body)).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(
        ask(&pod, Method::POST, "/v1/destinations/crm/messages", Some(json!(1))).await.0,
        202
    );
    drop(pod);
    // Plain text never replaces an encrypted secret.
    service.settings.destinations = all;
    service.set_keys(&[]);
    let config = std::mem::take(&mut service.settings.destinations);
    let path = service.dir.path().join("env");
    std::fs::write(&path, format!("Bearer {PART}")).unwrap();
    let config = config.replace(
        "env = \"ERP_AUTHORIZATION\"",
        &format!("file = {:?}", path.display().to_string()),
    );
    let text = format!(
        "[redis]\nurl = \"{}\"\n[outgoing]\nallow = [\"127.0.0.0/8\"]\n{config}",
        service.redis.url()
    );
    let (status, said) = refused_start(&text).await;
    assert!(!status.success() && said.contains("which secrets.key does not have"), "{said}");
    assert!(!said.contains(PART), "{said}");
}

#[tokio::test]
async fn wrong_references_and_keys_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        dir.path().join(name).display().to_string()
    };
    let (empty, long, binary) =
        (file("empty", b" \n"), file("long", &[b'x'; 65_537]), file("binary", &[0xff, 0xfe]));
    let good = file("good", b"a h1dden of 16 bytes");
    let destination = |fields: &str| {
        format!(
            "[redis]\nurl = \"embedded\"\n[[destination]]\nname = \"erp\"\nurl = \"http://192.0.2.1/\"\n{fields}\n"
        )
    };
    let header = |value: &str| destination(&format!("headers = {{ x-a = {value} }}"));
    let secrets = |fields: &str| format!("[redis]\nurl = \"embedded\"\n[secrets]\n{fields}\n");
    let cases = [
        (header("{ file = \"/nonexistent\" }"), "(x-a): the file /nonexistent cannot be read"),
        (header(&format!("{{ file = {empty:?} }}")), "is empty"),
        (header(&format!("{{ file = {long:?} }}")), "more than 65536 bytes"),
        (header(&format!("{{ file = {binary:?} }}")), "cannot be read"),
        (header(&format!("{{ file = {:?} }}", dir.path().display().to_string())), "cannot be read"),
        (header("{ env = \"NOT_THERE\" }"), "(x-a): the environment variable NOT_THERE is not set"),
        (header("{ env = \"RESEQ_SECRET\" }"), "must not begin with RESEQ_"),
        (header("{ vault = \"x\" }"), "{ file = \"…\" } or { env = \"…\" }"),
        (header(&format!("{{ file = {good:?}, env = \"A\" }}")), "write the text itself"),
        (header("{}"), "write the text itself"),
        (header("7"), "expected a string"),
        (destination(&format!("url = {{ file = {good:?} }}")), "duplicate key"),
        (destination(&format!("sign = {{ secrets = [{{ file = {good:?} }}] }}")), "sign.secrets"),
        (
            destination(&format!(
                "verify = {{ kind = \"github\", secrets = {{ file = {good:?} }} }}"
            )),
            "expected a sequence",
        ),
        (
            "[redis]\nurl = { env = \"NOT_THERE\" }\n".into(),
            "(url): the environment variable NOT_THERE",
        ),
        (
            "[redis]\nurl = \"embedded\"\n[auth]\nadmin_token = { file = \"/nonexistent\" }\n"
                .into(),
            "(admin_token): the file",
        ),
        (secrets("key = \"abc\""), "secrets.key is not valid: key 1: is not base64"),
        (secrets(&format!("key = \"{} QUJD\"", key(1))), "key 2: must have 32 bytes"),
        (secrets(&format!("key = \"{0} {0}\"", key(1))), "key 2: is there twice"),
        (
            secrets(&format!("key = {:?}", (1..12).map(key).collect::<Vec<_>>().join(" "))),
            "more than 10 keys",
        ),
        (secrets("required = true"), "secrets.required is not valid"),
        (secrets(&format!("key = {{ file = {good:?} }}")), "key 1: is not base64"),
    ];
    let starts = cases.iter().map(|(text, named)| async move {
        let (status, said) = refused_start(text).await;
        assert!(!status.success() && said.contains(named), "{text} must name {named}: {said}");
        assert!(!said.contains(PART) && !said.contains(&key(1)), "{said}");
    });
    futures::future::join_all(starts).await;
}
