//! Tests invalid input over HTTP and TCP: each input gets its documented answer, and nothing changes in Redis.

use std::{collections::BTreeMap, sync::Arc};

use formats::code::Code;
use reqwest::{RequestBuilder, header::HeaderMap};
use serde_json::Value;
use support::{
    checker::keys,
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
};

use crate::support;

mod connections;
mod definitions;
mod depth;
mod destinations;
mod full;
mod growth;
mod headers;
mod hostile;
mod in_file;
mod ingest;
mod limits;
mod memory;
mod older_file;
mod problems;
mod redis_gone;
mod reload;
mod repeats;
mod rights;
mod routes;
mod sources;
mod start;
mod tcp;
mod webhooks;
mod workers;
mod workers_gone;

/// The longest body and the longest batch, in bytes.
const BODY_MAX: usize = 1000;
const BATCH_MAX: usize = 4000;

/// One pod with all roles, a destination `erp` of its file, two TCP listeners for it, and two for
/// `small`, which a test may define: the second accepts envelopes.
struct Service {
    redis: TestRedis,
    pod: Pod,
    inbox: Arc<Inbox>,
    receiver: Receiver,
}

impl Service {
    async fn start() -> Service {
        Service::start_with(|settings| settings).await
    }

    /// Like `start`, with other settings.
    async fn start_with(other: impl FnOnce(Settings) -> Settings) -> Service {
        let redis = TestRedis::start().await;
        let inbox = Arc::new(Inbox::default());
        let receiver = Receiver::http(&inbox).await;
        let settings = Settings {
            http: format!("body_bytes_max = {BODY_MAX}\nbatch_bytes_max = {BATCH_MAX}"),
            redis: "timeout_ms = 1000".into(),
            ingest: "retry_ms = 300".into(),
            tcp: vec![
                ("erp", "lines"),
                ("erp", "length"),
                ("small", "lines"),
                ("small", "lines json"),
            ],
            ..Settings::new(redis.url())
        };
        let settings = other(settings).destination("erp", &format!("url = \"{}\"", receiver.url()));
        let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
        Service { redis, pod, inbox, receiver }
    }

    fn post(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<reqwest::Body>,
    ) -> RequestBuilder {
        let request = client().post(self.pod.url(path)).body(body);
        if content_type.is_empty() { request } else { request.header("content-type", content_type) }
    }

    fn json(&self, path: &str, body: &Value) -> RequestBuilder {
        self.post(path, "application/json", body.to_string())
    }

    fn put(&self, name: &str, definition: &Value) -> RequestBuilder {
        client().put(self.pod.url(&format!("/v1/destinations/{name}"))).json(definition)
    }

    fn get(&self, path: &str) -> RequestBuilder {
        client().get(self.pod.url(path))
    }

    fn delete(&self, path: &str) -> RequestBuilder {
        client().delete(self.pod.url(path))
    }

    /// Creates a destination with these additional fields.
    async fn define(&self, name: &str, mut fields: Value) {
        fields["url"] = self.receiver.url().into();
        let made = said(self.put(name, &fields)).await;
        assert_eq!(made.status, 201, "{:?}", made.body);
    }

    /// All data in Redis that does not change on its own.
    async fn holds(&self) -> BTreeMap<String, Vec<Vec<u8>>> {
        let mut redis = self.redis.connection().await;
        let changing = |key: &str| {
            // Ignore the audit log: a refused action has an entry too.
            [":owner", ":pods", ":epoch", ":audit"].iter().any(|end| key.ends_with(end))
                || key.contains(":calls:")
                || key.ends_with(":delivering")
        };
        let mut held = BTreeMap::new();
        for key in keys(&mut redis).await.into_iter().filter(|key| !changing(key)) {
            // The order in a dump of a hash changes on its own.
            let fields = ::redis::cmd("HGETALL").arg(&key).query_async(&mut redis).await;
            let value = match fields.map(|fields: BTreeMap<Vec<u8>, Vec<u8>>| fields) {
                Ok(fields) => fields.into_iter().flat_map(|(name, value)| [name, value]).collect(),
                Err(_) => {
                    let dump = ::redis::cmd("DUMP").arg(&key).query_async(&mut redis).await;
                    dump.map(|dump: Option<Vec<u8>>| vec![dump.unwrap_or_default()]).unwrap()
                }
            };
            held.insert(key, value);
        }
        held
    }
}

/// An answer.
struct Said {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

/// Sends a request. A problem must have the common shape.
async fn said(request: RequestBuilder) -> Said {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.clone()));
    let said = Said { status, headers, body };
    if status >= 400 {
        assert_eq!(said.headers["content-type"], "application/problem+json", "{status} {text}");
        assert_eq!(said.body["status"], status, "{text}");
        has_shape(&said.body);
        let id = said.body["request_id"].as_str().expect("a problem names its request");
        assert_eq!(said.headers["x-request-id"], id, "{text}");
        let is_temporary = status == 429 || status == 503;
        assert_eq!(said.headers.contains_key("retry-after"), is_temporary, "{text}");
    }
    said
}

/// Asserts that a problem has the common shape, and names what is invalid in the request.
fn has_shape(problem: &Value) {
    let text =
        |field: &str| problem[field].as_str().unwrap_or_else(|| panic!("{field}: {problem}"));
    let code = Code::ALL.iter().find(|code| code.as_str() == text("code"));
    let code = code.unwrap_or_else(|| panic!("an unknown code: {problem}"));
    assert_eq!((text("type"), text("title")), (&*code.page(), code.title()), "{problem}");
    assert!(!text("detail").is_empty(), "{problem}");
    let errors = problem["errors"].as_array();
    let names_parts = matches!(code, Code::InvalidField | Code::RefusedAddress);
    assert_eq!(errors.is_some(), names_parts, "{problem}");
    for error in errors.into_iter().flatten() {
        let parts = ["pointer", "parameter", "header"].map(|part| error[part].is_string());
        assert!(parts.into_iter().filter(|is_named| *is_named).count() <= 1, "{problem}");
        let detail = error["detail"].as_str().unwrap_or_default();
        assert!(!detail.is_empty() && text("detail").ends_with(detail), "{problem}");
    }
}

impl Said {
    /// Asserts that the answer is this problem, and that its detail contains `named`.
    fn is_problem(&self, status: u16, code: &str, named: &str) {
        let seen = (self.status, self.body["code"].as_str().unwrap_or("no code"));
        assert_eq!(seen, (status, code), "{}", self.body);
        let detail = self.body["detail"].as_str().unwrap();
        assert!(detail.contains(named), "{detail:?} does not name {named:?}");
    }
}

/// Sequence and duplicate flag of the only delivery in an answer.
fn position(answer: &Value) -> (u64, bool) {
    let delivery = &answer["deliveries"][0];
    let sequence = delivery["sequence"].as_u64();
    (sequence.unwrap_or_else(|| panic!("{answer}")), delivery["duplicate"].as_bool().unwrap())
}
