//! A running process takes over parts of a changed configuration.

use std::process::Output;

use crate::support::{
    pods::{Pod, Settings, client, without_settings},
    redis::TestRedis,
    source::program,
    wait::eventually,
};

const TOKEN: &str = "the-first-admin-token-0123";
const OTHER_TOKEN: &str = "the-second-admin-token-0123";

/// Runs `reseq reload` for a pod whose configuration file has these lines at its top.
async fn reload(pod: &Pod, config: &str) -> Output {
    std::fs::write(pod.config(), config).unwrap();
    let mut command = tokio::process::Command::new(program());
    without_settings(&mut command);
    command.args(["reload", "--pid", &pod.id().to_string(), "--config"]).arg(pod.config());
    command.output().await.unwrap()
}

async fn logs(pod: &Pod, text: &str) {
    eventually(&format!("the log says {text:?}"), async || {
        pod.log().contains(text).then_some(()).ok_or_else(|| pod.log())
    })
    .await;
}

/// The status of the answer to a definition with this URL.
async fn defined(pod: &Pod, token: &str, url: &str) -> u16 {
    let body = serde_json::json!({ "url": url });
    let request = client().put(pod.url("/v1/destinations/erp")).bearer_auth(token).json(&body);
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn reload_takes_over_what_may_change_and_names_the_rest() {
    let redis = TestRedis::start().await;
    let mut settings = Settings::new(redis.url());
    settings.environment = vec![("RESEQ_LOG".to_owned(), String::new())];
    let pod = Pod::start("pod", "ingest", &settings).await;
    let config = std::fs::read_to_string(pod.config()).unwrap();
    assert_eq!(defined(&pod, "", "http://127.0.0.1:1/").await, 201);

    let changed = config
        .replace("127.0.0.0/8", "10.0.0.0/8")
        .replace("shutdown_ms = 15000", "shutdown_ms = 16000");
    let changed = format!("{changed}\n[auth]\nadmin_token = \"{TOKEN}\"\n");
    let said = reload(&pod, &changed).await;
    assert!(said.status.success(), "{said:?}");
    logs(&pod, "the configuration is reloaded").await;
    assert!(pod.log().contains("changed=\"auth.admin_token outgoing.allow\""), "{}", pod.log());
    logs(&pod, "fields=\"shutdown_ms\"").await;
    assert_eq!(defined(&pod, "", "http://10.0.0.1/").await, 401);
    assert_eq!(defined(&pod, TOKEN, "http://10.0.0.1/").await, 200);
    assert_eq!(defined(&pod, TOKEN, "http://127.0.0.1:1/").await, 422);

    // With this level, the log does not name what has changed.
    let changed = changed.replace(TOKEN, OTHER_TOKEN);
    reload(&pod, &format!("{changed}\n[log]\nlevel = \"error\"\n")).await;
    eventually("the first token is refused", async || {
        let status = defined(&pod, TOKEN, "http://10.0.0.1/").await;
        if status == 401 { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    reload(&pod, &format!("{changed}\n[log]\nlevel = \"info\"\n")).await;
    logs(&pod, "changed=\"log.level\"").await;
    assert!(!pod.log().contains("auth.admin_token log.level"), "{}", pod.log());
}

#[tokio::test]
async fn reload_of_a_bad_configuration_changes_nothing() {
    let redis = TestRedis::start().await;
    let pod = Pod::start("pod", "ingest", &Settings::new(redis.url())).await;
    let config = std::fs::read_to_string(pod.config()).unwrap();
    for (wrong, field) in [
        ("[http]\nbody_bytes_max = 0\n", "body_bytes_max"),
        ("[log]\nlevel = \"a=b=c\"\n", "log.level"),
    ] {
        let said = reload(&pod, &format!("{wrong}\n[redis]\nurl = \"{}\"\n", redis.url())).await;
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(1), "{text}");
        assert!(text.contains(field), "{text}");
    }
    // A signal that somebody else sends.
    std::fs::write(pod.config(), "colour = 1\n").unwrap();
    pod.hang_up();
    logs(&pod, "not reloaded").await;
    assert_eq!(defined(&pod, "", "http://127.0.0.1:1/").await, 201);

    std::fs::write(pod.config(), config).unwrap();
    pod.hang_up();
    logs(&pod, "the configuration is reloaded").await;
}

#[tokio::test]
async fn reload_signals_no_other_program() {
    let mut other =
        tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let mut command = tokio::process::Command::new(program());
    without_settings(&mut command);
    let id = other.id().unwrap().to_string();
    let said = command
        .args(["reload", "--pid", &id])
        .env("RESEQ_REDIS_URL", "embedded")
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(text.contains("is not reseq"), "{text}");
    assert!(other.try_wait().unwrap().is_none());
}

/// systemd is a socket that the process tells how it is.
#[tokio::test]
async fn systemd_is_told_when_the_process_is_ready_and_stops() {
    let redis = TestRedis::start().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let systemd = tokio::net::UnixDatagram::bind(&path).unwrap();
    let mut settings = Settings::new(redis.url());
    let variables = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    settings.environment =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let mut pod = Pod::start("pod", "ingest", &settings).await;
    let told = async |wanted: &str| {
        let mut bytes = [0; 1000];
        loop {
            let count = systemd.recv(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if text.lines().any(|line| line == wanted) {
                return;
            }
        }
    };
    told("READY=1").await;
    told("WATCHDOG=1").await;
    pod.hang_up();
    told("RELOADING=1").await;
    told("READY=1").await;
    pod.terminate();
    told("STOPPING=1").await;
    assert!(pod.ended().await.success());
}

#[tokio::test]
async fn health_says_whether_the_process_is_ready() {
    let redis = TestRedis::start().await;
    let pod = Pod::start("pod", "sender", &Settings::new(redis.url())).await;
    let health = async |url: &str| {
        let mut command = tokio::process::Command::new(program());
        without_settings(&mut command);
        command.arg("health").env("RESEQ_URL", url).output().await.unwrap()
    };
    let url = pod.url("");
    let said = health(&url).await;
    assert!(said.status.success(), "{said:?}");
    assert!(said.stdout.starts_with(b"ready"), "{said:?}");
    drop(redis);
    eventually("health says that Redis is gone", async || {
        let said = health(&url).await;
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        let is_named = said.status.code() == Some(3) && text.contains("redis_unavailable");
        is_named.then_some(()).ok_or(text)
    })
    .await;
}
