//! Runs each example of the reference (`docs/reference/`): sends the requests unchanged, and
//! checks that answers and deliveries have the shown shape, and that commands succeed.

use std::{collections::BTreeSet, fs, path::Path, process::Stdio};

use axum::{
    Router,
    extract::{Json, State},
    http::StatusCode,
    routing::post,
};
use config::Config;
use reqwest::Method;
use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client},
    redis::TestRedis,
    source::{files, root, shown},
    wait::{eventually, within},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::mpsc,
};

use crate::support;

/// A code block of the reference.
struct Example {
    /// The file and the line in which it begins.
    place: String,
    language: String,
    text: String,
}

/// The examples of the reference that have not run yet.
struct Examples(Vec<Example>);

impl Examples {
    fn read() -> Examples {
        let mut all = Vec::new();
        for path in files("docs/reference", "md") {
            let text = fs::read_to_string(&path).unwrap();
            let mut block: Option<Example> = None;
            for (number, line) in text.lines().enumerate() {
                match (line.strip_prefix("```"), &mut block) {
                    (Some(language), None) => {
                        let place = format!("{}:{}", shown(&path), number + 1);
                        let language = language.to_owned();
                        block = Some(Example { place, language, text: String::new() });
                    }
                    (Some(_), Some(_)) => all.extend(block.take()),
                    (None, Some(block)) => block.text += &format!("{line}\n"),
                    (None, None) => {}
                }
            }
        }
        Examples(all)
    }

    /// Takes the next example of a page.
    fn next(&mut self, page: &str, language: &str) -> Example {
        let at = self.0.iter().position(|one| one.place.contains(&format!("/{page}.md:")));
        let one = self.0.remove(at.unwrap_or_else(|| panic!("{page} has no more examples")));
        assert_eq!(one.language, language, "{}: another example was expected", one.place);
        one
    }

    fn next_json(&mut self, page: &str) -> (String, Value) {
        let Example { place, text, .. } = self.next(page, "json");
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
        (place, value)
    }
}

/// Checks that a value has the fields of the example, with the same types. Fields that are empty
/// or null in the example may have any value.
fn assert_shape(at: &str, example: &Value, value: &Value) {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    match (example, value) {
        (Value::Object(fields), Value::Object(actual)) => {
            for (name, example) in fields {
                let value = actual.get(name);
                let value = value.unwrap_or_else(|| panic!("{at}.{name} is missing in {actual:?}"));
                assert_shape(&format!("{at}.{name}"), example, value);
            }
        }
        (Value::Array(items), Value::Array(actual)) => {
            if let Some(example) = items.first() {
                let first = actual.first().unwrap_or_else(|| panic!("{at} is empty"));
                assert_shape(&format!("{at}[0]"), example, first);
            }
        }
        (Value::Null, _) => {}
        _ => assert_eq!(kind(example), kind(value), "{at}: {value}"),
    }
}

/// The service, and the deliveries to its receivers.
struct Service {
    redis: TestRedis,
    pod: Pod,
    batches: mpsc::UnboundedReceiver<Value>,
    receiver: String,
}

/// Records a delivery.
async fn take(State(seen): State<mpsc::UnboundedSender<Value>>, Json(body): Json<Value>) {
    // The test may have ended.
    let _ = seen.send(body);
}

impl Service {
    async fn start() -> Service {
        let (seen, batches) = mpsc::unbounded_channel();
        let routes = Router::new()
            .route("/in", post(take))
            .route("/refuse", post(async || (StatusCode::UNPROCESSABLE_ENTITY, "no such account")))
            .with_state(seen);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, routes).into_future());
        let redis = TestRedis::start().await;
        let mut settings = Settings::new(redis.url());
        settings.tcp = vec![("erp", "lines json")];
        // One of the examples creates a token. Without this, all other examples would then need a token.
        settings.environment = vec![("RESEQ_AUTH_MODE".into(), "none".into())];
        let pod = Pod::start("reseq", "ingest,processor,sender", &settings).await;
        Service { redis, pod, batches, receiver }
    }

    /// Sends a request, whose answer must have this status.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>, status: u16) -> Value {
        let mut request = client().request(method.clone(), self.pod.url(path));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let (answered, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        assert_eq!(answered, status, "{method} {path}: {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let status = if path.ends_with("messages") { 202 } else { 200 };
        self.ask(Method::POST, path, Some(&body), status).await
    }

    /// Creates or changes a destination. Without a URL, its messages are not delivered.
    async fn define(&self, name: &str, mut definition: Value) {
        let has_receiver = definition["delivery"]["kind"].is_null();
        if has_receiver && definition["url"].is_null() {
            definition["url"] = "http://127.0.0.1:9/".into();
        }
        let put = client().put(self.pod.url(&format!("/v1/destinations/{name}")));
        let answer = put.json(&definition).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    /// Runs commands of the reference unchanged, in a directory with the files that they name.
    async fn run(&self, example: &Example) {
        let home = tempfile::tempdir().unwrap();
        let line = json!({"destinations": ["erp"], "body": 1}).to_string();
        fs::write(home.path().join("orders.txt"), "order 11\norder 12\n").unwrap();
        fs::write(home.path().join("orders.ndjson"), format!("{line}\n{line}\n")).unwrap();
        let url = self.pod.url("");
        let text = example.text.replace("http://127.0.0.1:8080", &url);
        let program = Path::new(env!("CARGO_BIN_EXE_reseq")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        // Without `--fail`, `curl` succeeds on a refusal too. `man` may be missing.
        let tools = "curl() { command curl --fail --silent --show-error \"$@\"; }\n\
                     man() { test -s \"$HOME/.local/share/man/man1/$1.1\"; }\n";
        let mut command = Command::new("bash");
        command.args(["-euc", &format!("{tools}{text}")]).current_dir(home.path());
        fs::write(home.path().join("token"), "a-token\n").unwrap();
        command.env("HOME", home.path()).env("RESEQ_URL", url).env_remove("XDG_CONFIG_HOME");
        command.env("PATH", format!("{}:{path}", program.display())).kill_on_drop(true);
        command.stdin(Stdio::null());
        let ran = within(&example.place, command.output()).await.unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{}: {out}{err}", example.place);
    }
}

#[tokio::test]
async fn each_example_of_the_reference_is_run_and_is_right() {
    let mut examples = Examples::read();
    let mut service = Service::start().await;
    service.define("crm", json!({})).await;
    define_and_send(&service, &mut examples).await;
    find_and_pause(&service, &mut examples).await;
    repair_and_purge(&service, &mut examples).await;
    work(&service, &mut examples).await;
    deliver(&mut service, &mut examples).await;
    service.run(&examples.next("cli", "sh")).await;
    prove(&service, &mut examples).await;
    for page in ["cli"; 4] {
        let example = examples.next(page, "sh");
        service.run(&example).await;
    }
    let (place, example) = examples.next_json("errors");
    let nope = service.ask(Method::GET, "/v1/destinations/nope", None, 404).await;
    assert_shape(&place, &example, &nope);
    for field in ["type", "title", "status", "code", "detail"] {
        assert_eq!(example[field], nope[field], "{place}");
    }

    // The tests of certificates (`tls::grants`) run with such a grant.
    let Example { place, text, .. } = examples.next("configuration", "toml");
    let config: Config = toml::from_str(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(config.auth.certificates.len(), 1, "{place}");

    // The unit tests of reseq-connect read its configuration (`crates/connect/src/settings.rs`).
    examples.next("connect", "toml");
    examples.next("connect", "toml");

    // Another test covers the rules of a Redis user (`interfaces::rights`).
    let left: BTreeSet<&str> = examples.0.iter().map(|one| one.text.as_str()).collect();
    assert!(left.iter().all(|text| text.starts_with("ACL SETUSER")), "not run: {left:?}");
    assert!(root().join("tests/service/interfaces/rights.rs").exists());
}

/// Runs the examples of definitions, a message with all fields, and a frame.
async fn define_and_send(service: &Service, examples: &mut Examples) {
    let erp = "/v1/destinations/erp";
    let (_, token) = examples.next_json("http-api");
    let (audit_place, mut audited) = examples.next_json("http-api");
    let (_, message) = examples.next_json("http-api");
    let (answer_place, answer) = examples.next_json("http-api");
    let (_, mut copied) = examples.next_json("http-api");
    // The tests of rates check these headers.
    assert!(examples.next("http-api", "text").text.starts_with("RateLimit-Policy: "));
    let (_, definition) = examples.next_json("http-api");
    let (_, patch) = examples.next_json("http-api");
    let (version_place, mut version) = examples.next_json("http-api");
    let (_, topic) = examples.next_json("http-api");
    let made = service.ask(Method::POST, "/v1/tokens", Some(&token), 201).await;
    assert_eq!(made["scopes"], token["scopes"]);
    service.ask(Method::PUT, erp, Some(&definition), 201).await;
    // Without authentication there is no name, and this is not a bulk operation.
    let entry = audited.as_object_mut().unwrap();
    assert!(entry.remove("actor_name").is_some() && entry.remove("operation").is_some());
    let audit = service.ask(Method::GET, "/v1/audit", None, 200).await;
    assert_shape(&audit_place, &audited, &audit["items"][0]);
    let patched = service.ask(Method::PATCH, erp, Some(&patch), 200).await;
    assert_eq!(patched["delivery"]["timeout_ms"], patch["delivery"]["timeout_ms"]);
    version.as_object_mut().unwrap().remove("actor_name");
    let versions = service.ask(Method::GET, &format!("{erp}/versions"), None, 200).await;
    assert_shape(&version_place, &version, &versions["items"][0]);
    service.ask(Method::PUT, "/v1/topics/all", Some(&topic), 201).await;
    let accepted = service.post("/v1/messages", message).await;
    assert_shape(&answer_place, &answer, &accepted);
    service.define("copied", json!({})).await;
    copied["destinations"] = json!(["copied"]);
    let mut before = copied.clone();
    let source = before["source"].as_object_mut().unwrap();
    let position = source.remove("after").unwrap();
    source.insert("position".into(), position);
    for message in [before, copied] {
        let accepted = service.post("/v1/messages", message).await;
        assert_eq!(accepted["deliveries"][0]["duplicate"], false);
    }

    let (_, frame) = examples.next_json("tcp");
    let answers = examples.next("tcp", "text").text;
    let mut stream =
        BufReader::new(TcpStream::connect(service.pod.addresses.tcp(0)).await.unwrap());
    let mut said = async |line: String| {
        stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        within("a frame is answered", stream.read_line(&mut answer)).await.unwrap();
        answer.trim_end().to_owned()
    };
    assert_eq!(answers, "OK <sequence>\nERR <code> <sentence>\n");
    let taken = said(frame.to_string()).await;
    assert!(taken.strip_prefix("OK ").is_some_and(|n| n.parse::<u64>().is_ok()), "{taken}");
    let refused = said("{}".to_owned()).await;
    let words: Vec<&str> = refused.splitn(3, ' ').collect();
    assert!(words[0] == "ERR" && words.len() == 3, "{refused}");
}

/// Runs the examples of a halted head in the stats, a message by its id, and a paused destination.
async fn find_and_pause(service: &Service, examples: &mut Examples) {
    let (place, stats) = examples.next_json("http-api");
    let transform = json!({"kind": "http", "url": format!("{}/refuse", service.receiver)});
    service.define("halts", json!({"transform": transform})).await;
    service.post("/v1/destinations/halts/messages", json!({"n": 1})).await;
    let halted = eventually("the head is halted", async || {
        let stats = service.ask(Method::GET, "/v1/destinations/halts/stats", None, 200).await;
        // The API reads the state of a head and its errors one after the other.
        let is_halted =
            stats["head"]["state"] == "halted" && stats["head"]["last_error"].is_object();
        if is_halted { Ok(stats) } else { Err(stats.to_string()) }
    })
    .await;
    assert_shape(&place, &stats, &halted);
    assert_eq!(halted["head"]["last_error"]["detail"], stats["head"]["last_error"]["detail"]);
    assert_eq!(halted["head"]["blocked_by"], stats["head"]["blocked_by"]);
    let (place, report) = examples.next_json("http-api");
    let doctor = service.ask(Method::GET, "/v1/doctor", None, 200).await;
    assert_shape(&place, &report, &doctor);

    let definition = json!({"transform": {"kind": "worker"}, "ids_max": 10});
    service.ask(Method::DELETE, "/v1/destinations/erp?force=true", None, 200).await;
    service.define("erp", definition).await;
    let message = json!({"destinations": ["erp"], "body": 1, "id": "order-4711"});
    service.post("/v1/messages", message).await;
    service.run(&examples.next("http-api", "sh")).await;

    let (place, paused) = examples.next_json("http-api");
    let delivery = json!({"what": "delivery"});
    let answer = service.post("/v1/destinations/erp/pause", delivery).await;
    assert_shape(&place, &paused, &answer);
    assert_eq!(answer["paused"], paused["paused"], "{place}");
    service.post("/v1/destinations/erp/resume", json!({})).await;
}

/// Runs the examples of a repair that finds damage, and a purge.
async fn repair_and_purge(service: &Service, examples: &mut Examples) {
    let (place, repaired) = examples.next_json("http-api");
    let pattern = "reseq:{p*}:d:erp:waiting";
    let keys: Vec<String> = service.redis.ask(&["KEYS", pattern]).await.unwrap();
    let () = service.redis.ask(&["DEL", &keys[0]]).await.unwrap();
    service.post("/v1/destinations/erp/pause", json!({})).await;
    let answer = service.post("/v1/destinations/erp/repair", json!({})).await;
    service.post("/v1/destinations/erp/resume", json!({})).await;
    assert_shape(&place, &repaired, &answer);
    assert_eq!(answer["items"][0]["kind"], repaired["items"][0]["kind"], "{place}");
    watch(service, examples).await;
    let (place, purged) = examples.next_json("http-api");
    assert_shape(&place, &purged, &service.post("/v1/destinations/erp/purge", json!({})).await);
}

/// Runs the example of a live delivery.
async fn watch(service: &Service, examples: &mut Examples) {
    let (place, example) = examples.next_json("http-api");
    let url = format!("{}/refuse", service.receiver);
    service.define("refuses", json!({"url": url, "ordering": "none"})).await;
    let path = "/v1/deliveries?destination=refuses&duration_ms=60000";
    let mut answer = client().get(service.pod.url(path)).send().await.unwrap();
    let (told, mut lines) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut text = String::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            text += std::str::from_utf8(&chunk).unwrap();
            while let Some((line, rest)) = text.split_once('\n') {
                // The test may have ended.
                let _ = told.send(serde_json::from_str::<Value>(line).unwrap_or_default());
                text = rest.to_owned();
            }
        }
    });
    let first = within("it listens", lines.recv()).await.unwrap();
    assert_eq!(first, json!({"type": "listening"}), "{place}");
    let shown = eventually("a delivery is shown", async || {
        service.post("/v1/destinations/refuses/messages", json!({"n": 1})).await;
        lines.try_recv().map_err(|error| error.to_string())
    })
    .await;
    assert_shape(&place, &example, &shown);
}

/// Runs the examples of a receiver's journal, in both forms of the reference.
async fn prove(service: &Service, examples: &mut Examples) {
    let (_, line) = examples.next_json("cli");
    let script = examples.next("cli", "js").text;
    let home = tempfile::tempdir().unwrap();
    let script = format!("{script}\njournal({line});\njournal({line});\n");
    let mut node = Command::new("node");
    node.args(["--input-type=module", "-e", &script]).current_dir(home.path());
    assert!(node.status().await.unwrap().success(), "{script}");
    let mut verify = Command::new(env!("CARGO_BIN_EXE_reseq"));
    verify.args(["verify", "erp", "--journal", "journal.ndjson", "-o", "json"]);
    verify.env("RESEQ_URL", service.pod.url("")).current_dir(home.path());
    let ran = within("the command ends", verify.output()).await.unwrap();
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&report["journal_lines"], &report["repeats"]), (&json!(2), &json!(1)), "{report}");
}

/// Runs the examples of a worker's claim and report, and of a consumer.
async fn work(service: &Service, examples: &mut Examples) {
    service.post("/v1/destinations/erp/messages", json!({"any": "JSON"})).await;
    let (_, claim) = examples.next_json("http-api");
    let (place, leases) = examples.next_json("http-api");
    let claimed = service.post("/v1/leases", claim).await;
    assert_shape(&place, &leases, &claimed);
    let (place, results) = examples.next_json("http-api");
    let item = json!({"token": claimed["leases"][0]["token"], "body": 1});
    let done = service.post("/v1/leases/complete", json!({"items": [item]})).await;
    assert_shape(&place, &results, &done);
    assert_eq!(done["results"][0]["status"], results["results"][0]["status"]);

    // A consumer takes a message.
    let pull = json!({"delivery": {"kind": "pull"}});
    service.define("taken", pull).await;
    service.post("/v1/destinations/taken/messages", json!({"any": "JSON"})).await;
    let (_, request) = examples.next_json("http-api");
    let (place, deliveries) = examples.next_json("http-api");
    let taken = service.post("/v1/destinations/taken/consume", request).await;
    assert_shape(&place, &deliveries, &taken);
}

/// Runs the examples of a queue, a batch over HTTP and an envelope over TCP.
async fn deliver(service: &mut Service, examples: &mut Examples) {
    let message = |destination: &str| {
        json!({"destinations": [destination], "body": {"any": "JSON"}, "id": "order-7",
            "headers": {"x-tenant": "7"}})
    };
    let (_, queue) = examples.next_json("delivery");
    service.ask(Method::PUT, "/v1/destinations/queue", Some(&queue), 201).await;
    let (place, batch) = examples.next_json("delivery");
    let url = format!("{}/in", service.receiver);
    service.define("batches", json!({"url": url, "delivery": {"batch_max": 10}})).await;
    service.post("/v1/messages", message("batches")).await;
    let delivered = within("a batch is delivered", service.batches.recv()).await.unwrap();
    assert_shape(&place, &batch, &delivered);

    let (place, envelope) = examples.next_json("tcp");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    service.define("frames", json!({"url": url, "delivery": {"envelope": "json"}})).await;
    service.post("/v1/messages", message("frames")).await;
    let (stream, _) = within("the sender connects", listener.accept()).await.unwrap();
    let mut line = String::new();
    within("a frame comes", BufReader::new(stream).read_line(&mut line)).await.unwrap();
    assert_shape(&place, &envelope, &serde_json::from_str(&line).unwrap());
}
