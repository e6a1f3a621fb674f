//! Checks that promtool accepts the metrics of running pods, the alert rules and their tests, and
//! that alerts fire when running pods report their cause. promtool evaluates the rules on scraped
//! samples; only the time between samples is simulated.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    io::Write as _,
    process::{Command, Stdio},
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    policies::scenario::Service,
    support::{
        certificates::Authority,
        pods::{Pod, Settings, client},
        redis::TestRedis,
        source::root,
        wait::eventually,
    },
};

/// The simulated time between two samples, in seconds.
const STEP: usize = 15;
/// A state lasts for this many samples: a quarter of an hour.
const STEPS: usize = 60;
const RULES: &str = "deploy/prometheus/reseq.rules.yml";

/// The metrics of each pod at one moment; `None` if it did not answer.
pub struct Scrape(BTreeMap<&'static str, Option<String>>);

impl Scrape {
    pub async fn of(pods: &[(&'static str, &Pod)]) -> Scrape {
        let mut all = BTreeMap::new();
        for (name, pod) in pods {
            let answer = client().get(pod.url("/metrics")).send().await;
            let text = match answer {
                Ok(answer) => Some(answer.text().await.unwrap()),
                Err(_) => None,
            };
            all.insert(*name, text);
        }
        Scrape(all)
    }
}

/// States of a deployment, each with two scrapes, because counters may grow during a state.
#[derive(Default)]
pub struct Timeline {
    series: BTreeMap<String, Vec<String>>,
    steps: usize,
    checks: Vec<(usize, String, &'static str)>,
}

impl Timeline {
    /// Adds a state that begins with the first scrape and continues like the second. Ages of
    /// heads grow meanwhile.
    pub fn lasts(&mut self, begin: &Scrape, then: &Scrape) {
        let rules = fs::read_to_string(root().join(RULES)).unwrap();
        let wanted: BTreeSet<&str> = rules
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.starts_with("reseq_"))
            .collect();
        for (scrape, count) in [(begin, 1), (then, STEPS - 1)] {
            let mut seen = BTreeSet::new();
            for (pod, text) in &scrape.0 {
                let up = format!("up{{job=\"reseq\",instance=\"{pod}\"}}");
                let mut found = vec![(up, f64::from(u8::from(text.is_some())))];
                let lines = text.as_deref().unwrap_or_default().lines();
                found.extend(lines.filter_map(|line| sample(line, pod, &wanted)));
                for (series, value) in found {
                    let growth =
                        if series.starts_with("reseq_head_age_seconds") { STEP } else { 0 };
                    let values = self.series.entry(series.clone()).or_default();
                    fill(values, self.steps);
                    values.extend((0..count).map(|at| (value + (growth * at) as f64).to_string()));
                    seen.insert(series);
                }
            }
            self.steps += count;
            for (series, values) in &mut self.series {
                if !seen.contains(series) {
                    fill(values, self.steps);
                }
            }
        }
    }

    /// Expects that the alert fires in the last state, and did not fire before.
    pub fn fires(&mut self, alert: &'static str) {
        let firing = format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}");
        let range = (STEPS - 1) * STEP;
        let in_state = format!("clamp_max(sum(count_over_time({firing}[{range}s])), 1)");
        self.checks.push((self.steps - 1, in_state, "[{labels: '{}', value: 1}]"));
        let before = format!("ALERTS{{alertname=\"{alert}\"}}");
        self.checks.push((self.steps - STEPS - 1, before, "[]"));
    }

    /// Runs promtool.
    pub fn holds(&self) {
        let rules = root().join(RULES);
        let mut file =
            format!("rule_files: ['{}']\nevaluation_interval: {STEP}s\n", rules.display());
        let _ = write!(file, "tests:\n- interval: {STEP}s\n  input_series:\n");
        for (series, values) in &self.series {
            let _ = writeln!(file, "  - series: '{series}'\n    values: '{}'", values.join(" "));
        }
        file += "  promql_expr_test:\n";
        for (at, expression, samples) in &self.checks {
            let at = at * STEP;
            let _ = writeln!(
                file,
                "  - expr: '{expression}'\n    eval_time: {at}s\n    exp_samples: {samples}"
            );
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.yml");
        fs::write(&path, &file).unwrap();
        promtool(&["test", "rules", path.to_str().unwrap()], "");
    }
}

/// Marks a series as absent until this step.
fn fill(values: &mut Vec<String>, steps: usize) {
    if values.len() < steps && !values.is_empty() {
        values.push("stale".to_owned());
    }
    values.resize(steps.max(values.len()), "_".to_owned());
}

/// A line of a scrape as a series of this pod, if the rules use it.
fn sample(line: &str, pod: &str, wanted: &BTreeSet<&str>) -> Option<(String, f64)> {
    let (series, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.trim_end_matches('}')),
        None => (series, ""),
    };
    let comma = if labels.is_empty() { "" } else { "," };
    let series = format!("{name}{{job=\"reseq\",instance=\"{pod}\"{comma}{labels}}}");
    wanted.contains(name).then(|| (series, value.parse().unwrap()))
}

/// Runs promtool, which must succeed.
fn promtool(args: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool is installed (make setup)");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "promtool {args:?}: {}\n{said}", output.status);
}

#[test]
fn promtool_accepts_the_rules_and_their_tests() {
    promtool(&["check", "rules", root().join(RULES).to_str().unwrap()], "");
    let tests = root().join("deploy/prometheus/reseq.test.yml");
    promtool(&["test", "rules", tests.to_str().unwrap()], "");
}

struct Deployment {
    redis: TestRedis,
    ingest: Pod,
    processor: Pod,
    sender: Pod,
    receiver_url: String,
    transformer_url: String,
    receiver: Arc<Service>,
    transformer: Arc<Service>,
    _servers: Vec<AbortOnDropHandle<()>>,
}

impl Deployment {
    async fn start() -> Deployment {
        let redis = TestRedis::start().await;
        let (receiver, transformer) = (Arc::new(Service::default()), Arc::new(Service::default()));
        let (receiver_url, first) = receiver.serve().await;
        let (transformer_url, second) = transformer.serve().await;
        let mut settings = Settings::new(redis.url());
        settings.http = "connections_max = 8".to_owned();
        settings.tcp = vec![("narrow", "lines")];
        let worker = format!("url = \"{receiver_url}\"\ntransform = {{ kind = \"worker\" }}");
        settings = settings.destination("narrow", &format!("{worker}\nbacklog_max = 1"));
        let ingest = Pod::start("ingest", "ingest", &settings).await;
        let processor = Pod::start("processor", "processor", &settings).await;
        let sender = Pod::start("sender", "sender", &settings).await;
        Deployment {
            redis,
            ingest,
            processor,
            sender,
            receiver_url,
            transformer_url,
            receiver,
            transformer,
            _servers: vec![first, second],
        }
    }

    async fn call(&self, method: &str, path: &str, body: String) -> Value {
        let request = client().request(method.parse().unwrap(), self.ingest.url(path));
        let kind = if path == "/v1/messages" { "application/x-ndjson" } else { "application/json" };
        let answer = request.header("content-type", kind).body(body).send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    async fn define(&self, name: &str, mut definition: Value) {
        definition["url"] = json!(self.receiver_url);
        if definition["transform"]["kind"] == "http" {
            definition["transform"]["url"] = json!(self.transformer_url);
        }
        self.call("PUT", &format!("/v1/destinations/{name}"), definition.to_string()).await;
    }

    /// Sends messages with the destination's name as body.
    async fn send(&self, name: &str, count: usize) {
        let line = json!({"destinations": [name], "body": name}).to_string() + "\n";
        self.call("POST", "/v1/messages", line.repeat(count)).await;
    }

    async fn scrape(&self) -> Scrape {
        let pods = [("i", &self.ingest), ("p", &self.processor), ("s", &self.sender)];
        Scrape::of(&pods).await
    }
}

/// Waits until a metric is at least this.
async fn reaches(pod: &Pod, metric: &str, least: f64) {
    eventually(metric, async || {
        let value = pod.metric(metric).await;
        if value >= least { Ok(()) } else { Err(value.to_string()) }
    })
    .await;
}

/// Waits until a counter grows.
async fn grows(pod: &Pod, metric: &str) {
    let before = pod.metric(metric).await;
    reaches(pod, metric, before + 1.0).await;
}

/// Creates the causes of most alerts. Returns connections that must stay open.
async fn cause(deployment: &Deployment) -> Vec<TcpStream> {
    let soon = json!({"backoff_ms": 1, "backoff_max_ms": 20, "attempts_max": 0});
    let once = json!({"attempts_max": 1});
    let worker = json!({"kind": "worker"});
    deployment.define("halts", json!({"delivery": once})).await;
    deployment.define("refused", json!({"delivery": soon})).await;
    let dead = json!({"delivery": once, "on_exhausted": "dead_letter", "dead_letters_max": 1});
    deployment.define("dead", dead).await;
    let mut fails = soon.clone();
    fails["kind"] = json!("http");
    deployment.define("fails", json!({"transform": fails})).await;
    deployment.define("worker", json!({"transform": worker})).await;
    deployment.define("broken", json!({"transform": worker})).await;
    deployment.define("later", json!({"transform": {"kind": "http"}})).await;
    for name in ["halts", "refused", "dead"] {
        deployment.receiver.refuse(&format!("\"{name}\""), 503, None);
    }
    deployment.transformer.refuse("\"fails\"", 500, None);
    for (name, count) in [("halts", 1), ("refused", 1), ("dead", 1), ("fails", 1), ("broken", 1)] {
        deployment.send(name, count).await;
    }
    deployment.send("worker", 1_001).await;

    // A lease that is not extended, and an unreadable record.
    let lease = json!({"destinations": ["worker"], "lease_ms": 100}).to_string();
    deployment.call("POST", "/v1/leases", lease).await;
    let keys = store::Keys::new("reseq", 64).destination(&"broken".parse().unwrap());
    deployment.redis.ask::<u64>(&["HSET", &keys.messages(), "1", "garbage"]).await.unwrap();
    let lease = json!({"destinations": ["broken"]}).to_string();
    deployment.call("POST", "/v1/leases", lease).await;

    // A frame that exceeds the backlog, and one connection too many.
    let mut frames = TcpStream::connect(deployment.ingest.addresses.tcp(0)).await.unwrap();
    frames.write_all(b"1\n2\n3\n").await.unwrap();
    let mut open = vec![frames];
    let address = deployment.ingest.addresses.http().unwrap();
    for _ in 0..9 {
        open.push(TcpStream::connect(address).await.unwrap());
    }
    open
}

#[tokio::test]
async fn promtool_accepts_metrics_that_say_what_is_stuck_and_why() {
    let mut deployment = Deployment::start().await;
    reaches(&deployment.sender, "reseq_sender_partitions_owned", 64.0).await;
    let open = cause(&deployment).await;
    let (ingest, sender) = (&deployment.ingest, &deployment.sender);
    let of = |metric: &str, name: &str| format!("{metric}{{destination=\"{name}\"");
    reaches(sender, &of("reseq_halted", "halts"), 1.0).await;
    reaches(sender, &of("reseq_dead_letters", "dead"), 1.0).await;
    reaches(sender, &of("reseq_waiting", "worker"), 1_001.0).await;
    reaches(sender, &of("reseq_head_age_seconds", "worker"), 0.1).await;
    reaches(sender, "reseq_reaped_leases_total", 1.0).await;
    reaches(ingest, "reseq_damaged", 1.0).await;
    reaches(ingest, "reseq_ingest_tcp_paused", 1.0).await;
    reaches(ingest, "reseq_connections_closed_total{reason=\"displaced\"}", 1.0).await;
    let halted = of("reseq_needs_attention_messages", "halts") + ",cause=\"halted\"}";
    reaches(sender, &halted, 1.0).await;
    reaches(&deployment.processor, "reseq_slots_max{of=\"working\"}", 1.0).await;
    for resource in ["cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "threads"]
    {
        reaches(ingest, &format!("process_{resource}"), f64::MIN_POSITIVE).await;
    }
    for (name, cause) in [("halts", "halted"), ("worker", "awaiting_worker")] {
        let blocked = of("reseq_blocked_seconds_total", name) + &format!(",cause=\"{cause}\"");
        reaches(sender, &blocked, 0.5).await;
    }
    let refused = of("reseq_sender_deliveries_total", "refused") + ",outcome=\"refused\"}";
    grows(sender, &refused).await;
    grows(&deployment.processor, &(of("reseq_transformed_total", "fails") + ",outcome=\"fail\"}"))
        .await;
    for text in deployment.scrape().await.0.values().flatten() {
        promtool(&["check", "metrics"], text);
    }
    drop(open);

    deployment.processor.terminate();
    deployment.processor.ended().await;
    deployment.send("later", 1).await;
    let blocked = of("reseq_blocked_seconds_total", "later") + ",cause=\"no_processor\"}";
    reaches(&deployment.sender, &blocked, 0.5).await;
}

#[tokio::test]
async fn ends_of_certificates_and_tokens_are_metrics() {
    let (redis, authority) = (TestRedis::start().await, Authority::new("ours"));
    let identity = authority.issue("client");
    authority.issue_until("client", &identity, Some((2099, 1, 2)));
    let mut settings = Settings::new(redis.url());
    let (certificate, key) = (identity.certificate.display(), identity.key.display());
    settings.outgoing +=
        &format!("\ntls = {{ certificate_file = '{certificate}', key_file = '{key}' }}");
    let pod = Pod::start("all", "ingest", &settings).await;
    let body = json!({"name": "a \"b\"", "scopes": ["admin"], "expires_in_ms": 86_400_000});
    let created = client().post(pod.url("/v1/tokens")).json(&body).send().await.unwrap();
    let created: Value = serde_json::from_str(&created.text().await.unwrap()).unwrap();
    let scrape = client().get(pod.url("/metrics")).bearer_auth(created["token"].as_str().unwrap());
    let text = scrape.send().await.unwrap().text().await.unwrap();
    let of_certificate = format!(
        "reseq_certificate_expiry_timestamp_seconds{{field=\"outgoing.tls.certificate_file\",\
         file=\"{certificate}\"}} 4070995200\n"
    );
    assert!(text.contains(&of_certificate), "{text}");
    let of_token = format!(
        "reseq_token_expiry_timestamp_seconds{{id={},name=\"a \\\"b\\\"\"}} ",
        created["id"]
    );
    assert!(text.contains(&of_token), "{of_token}: {text}");
    promtool(&["check", "metrics"], &text);
}
