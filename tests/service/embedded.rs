//! The embedded Redis: real redis-server processes in temporary data directories.

use std::{
    ffi::OsStr,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    time::{Duration, Instant},
};

use redis::{AsyncCommands, aio::MultiplexedConnection};
use redis_client::embedded::{EmbeddedError, EmbeddedRedis};
use support::redis::{TestCluster, TestRedis, connection_to};

use crate::support;

async fn connect(url: &str) -> MultiplexedConnection {
    connection_to(url).await.unwrap()
}

async fn started(data_dir: &Path) -> EmbeddedRedis {
    EmbeddedRedis::start(data_dir).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn refused(start: impl Future<Output = Result<EmbeddedRedis, EmbeddedError>>) -> String {
    start.await.expect_err("the start is refused").to_string()
}

fn is_alive(process_id: u32) -> bool {
    // A zombie, which its parent has not collected yet, counts as dead.
    let status = std::fs::read_to_string(format!("/proc/{process_id}/stat"));
    status.is_ok_and(|text| !text.contains(") Z "))
}

async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn kill(process_id: u32) {
    let id = rustix::process::Pid::from_raw(process_id as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
}

/// Writes a program with this text into a directory that can serve as a search path.
fn program(directory: &Path, name: &str, script: &str) {
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn what_was_written_is_there_after_a_stop_and_a_start() {
    let home = tempfile::tempdir().unwrap();
    let data_dir = home.path().join("a directory/that is not there yet");
    let redis = started(&data_dir).await;
    assert_eq!(data_dir.metadata().unwrap().mode() & 0o777, 0o700);
    let () = connect(&redis.url()).await.set("kept", 42).await.unwrap();
    let process_id = redis.process_id();
    redis.stop().await.unwrap();
    assert!(!is_alive(process_id));
    assert!(!data_dir.join("redis.sock").exists());

    let redis = started(&data_dir).await;
    let mut connection = connect(&redis.url()).await;
    let kept: i32 = connection.get("kept").await.unwrap();
    assert_eq!(kept, 42);
    let policy: (String, String) = redis::cmd("CONFIG")
        .arg(&["GET", "maxmemory-policy"])
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(policy.1, "noeviction");
    redis.stop().await.unwrap();
}

#[tokio::test]
async fn a_directory_that_others_may_read_becomes_private() {
    let home = tempfile::tempdir().unwrap();
    let data_dir = home.path().join("data");
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir_all(data_dir.join("appendonlydir")).unwrap();
    let old = data_dir.join("appendonlydir/an-older-file");
    std::fs::write(&old, "secret").unwrap();
    for (path, mode) in
        [(&*data_dir, 0o755), (&data_dir.join("appendonlydir"), 0o755), (&old, 0o644)]
    {
        open(path, mode);
    }
    let redis = started(&data_dir).await;
    let () = connect(&redis.url()).await.set("kept", 42).await.unwrap();
    let mut found = vec![data_dir.clone()];
    let mut at = 0;
    while let Some(path) = found.get(at).cloned() {
        let (mode, is_socket) = (path.metadata().unwrap().mode(), path.ends_with("redis.sock"));
        assert!(mode & 0o077 == 0 || is_socket, "{}: {mode:o}", path.display());
        if path.is_dir() {
            found.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
        at += 1;
    }
    assert!(found.iter().any(|path| path.extension().is_some_and(|end| end == "aof")), "{found:?}");
    redis.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_left_by_an_abrupt_end_is_replaced_by_the_next() {
    let data_dir = tempfile::tempdir().unwrap();
    let first = started(data_dir.path()).await;
    let () = connect(&first.url()).await.set("kept", 42).await.unwrap();
    let process_id = first.process_id();
    drop(first);
    assert!(is_alive(process_id), "dropping must not end the server");

    let mut second = started(data_dir.path()).await;
    assert!(!is_alive(process_id) && is_alive(second.process_id()));
    let kept: i32 = connect(&second.url()).await.get("kept").await.unwrap();
    assert_eq!(kept, 42);
    assert!(!second.take_clean(), "somebody may have been sending");
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_dead_servers_socket_file_is_in_nobodys_way() {
    let data_dir = tempfile::tempdir().unwrap();
    let mut redis = started(data_dir.path()).await;
    kill(redis.process_id());
    let error = redis.exited().await.to_string();
    assert!(error.contains("signal: 9") && error.contains("ready to accept"), "{error}");
    drop(redis);
    assert!(data_dir.path().join("redis.sock").exists());
    started(data_dir.path()).await.stop().await.unwrap();
}

/// A server that stands still, as on a machine without memory, keeps its data to itself.
#[tokio::test]
async fn old_server_that_lives_on_keeps_the_next_from_starting() {
    let data_dir = tempfile::tempdir().unwrap();
    let first = started(data_dir.path()).await;
    let process_id = first.process_id();
    drop(first);
    let id = rustix::process::Pid::from_raw(process_id as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
    let start = EmbeddedRedis::start(data_dir.path());
    let early = tokio::time::timeout(Duration::from_millis(500), start).await;
    assert!(early.is_err(), "it waits for the old one");
    rustix::process::kill_process(id, rustix::process::Signal::CONT).unwrap();
    started(data_dir.path()).await.stop().await.unwrap();
    assert!(!is_alive(process_id));
}

#[tokio::test]
async fn old_server_that_does_not_stop_is_killed_by_the_next() {
    let data_dir = tempfile::tempdir().unwrap();
    let first = started(data_dir.path()).await;
    let () = connect(&first.url()).await.set("kept", 42).await.unwrap();
    let process_id = first.process_id();
    drop(first);
    let id = rustix::process::Pid::from_raw(process_id as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
    let mut second = started(data_dir.path()).await;
    assert!(!is_alive(process_id) && is_alive(second.process_id()));
    let kept: i32 = connect(&second.url()).await.get("kept").await.unwrap();
    assert_eq!(kept, 42);
    assert!(!second.take_clean(), "somebody may have been sending");
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_start_in_the_same_directory_is_refused() {
    let data_dir = tempfile::tempdir().unwrap();
    let first = started(data_dir.path()).await;
    let error = refused(EmbeddedRedis::start(data_dir.path())).await;
    assert!(error.contains("in use by another Reseq"), "{error}");
    first.stop().await.unwrap();
}

#[tokio::test]
async fn a_missing_or_unfit_program_is_refused_with_a_sentence() {
    let data_dir = tempfile::tempdir().unwrap();
    let bin = tempfile::tempdir().unwrap();
    let start = || EmbeddedRedis::start_from(data_dir.path(), bin.path().as_os_str());
    let error = refused(start()).await;
    assert!(error.contains("install one") && error.contains("redis.url"), "{error}");

    program(bin.path(), "valkey-server", "echo 'Valkey server v=6.2.7 sha=0 malloc=libc'");
    let error = refused(start()).await;
    assert!(error.contains("6.2.7") && error.contains("7.0 or newer"), "{error}");

    program(bin.path(), "redis-server", "echo nonsense");
    let error = refused(start()).await;
    assert!(error.contains("nonsense"), "{error}");
    assert!(
        refused(EmbeddedRedis::start_from(data_dir.path(), OsStr::new(""))).await.contains("PATH")
    );
}

#[tokio::test]
async fn a_server_that_ends_at_once_gives_an_error_with_its_log() {
    let data_dir = tempfile::tempdir().unwrap();
    started(data_dir.path()).await.stop().await.unwrap();
    let manifest = data_dir.path().join("appendonlydir/appendonly.aof.manifest");
    std::fs::write(manifest, "this is no manifest\n").unwrap();
    let error = refused(EmbeddedRedis::start(data_dir.path())).await;
    assert!(error.contains("exit status: 1"), "{error}");
    assert!(error.to_lowercase().contains("manifest"), "{error}");
    assert!(!error.contains("ready to accept"), "an earlier start's log is shown: {error}");

    let bin = tempfile::tempdir().unwrap();
    let script =
        "[ \"$1\" = --version ] && echo 'Redis server v=7.9.9' || { echo 'no luck' >&2; exit 3; }";
    program(bin.path(), "redis-server", script);
    let start = EmbeddedRedis::start_from(data_dir.path(), bin.path().as_os_str());
    let error = refused(start).await;
    assert!(error.contains("exit status: 3") && error.contains("no luck"), "{error}");
}

/// Waits until a server reports that it loads its data. Returns its process id.
async fn loading_process_id(data_dir: &Path) -> u32 {
    let url = format!("unix://{}", data_dir.join("redis.sock").display());
    loop {
        if let Ok(mut connection) = connection_to(&url).await {
            let info = redis::cmd("INFO").query_async::<redis::InfoDict>(&mut connection).await;
            let info = info.ok().filter(|info| info.get::<u8>("loading") == Some(1));
            if let Some(process_id) = info.and_then(|info| info.get("process_id")) {
                return process_id;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_start_waits_for_the_data_and_one_given_up_leaves_no_server() {
    const KEYS: usize = 50_000;
    let home = tempfile::tempdir().unwrap();
    let data_dir = home.path().canonicalize().unwrap();
    let redis = started(&data_dir).await;
    let mut pipeline = redis::pipe();
    (0..KEYS).for_each(|key| {
        pipeline.set(key, key).ignore();
    });
    pipeline.exec_async(&mut connect(&redis.url()).await).await.unwrap();
    redis.stop().await.unwrap();

    // The same program, but it loads slowly, and answers after every 1,024 keys.
    let bin = tempfile::tempdir().unwrap();
    let path = std::env::var("PATH").unwrap();
    let loads_in = |micros_a_key: u64| {
        let script = format!(
            "[ \"$1\" = --version ] || delay='--key-load-delay {micros_a_key}'\n\
             PATH='{path}'\n\
             exec redis-server \"$@\" $delay"
        );
        program(bin.path(), "redis-server", &script);
    };
    let start = || EmbeddedRedis::start_from(&data_dir, bin.path().as_os_str());
    // So slow that the server never loads to the end, so the test sees it loading even on a busy machine.
    loads_in(200);
    let process_id = tokio::select! {
        _ = start() => panic!("ready before it was seen to load"),
        process_id = loading_process_id(&data_dir) => process_id,
    };
    eventually("the server of the start given up has ended", || !is_alive(process_id)).await;

    loads_in(20);
    let redis = start().await.unwrap_or_else(|error| panic!("{error}"));
    let mut connection = connect(&redis.url()).await;
    let keys: usize = redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap();
    assert_eq!(keys, KEYS);
    redis.stop().await.unwrap();
}

#[tokio::test]
async fn path_too_long_for_a_socket_is_refused_with_a_sentence() {
    let home = tempfile::tempdir().unwrap();
    let data_dir = home.path().join("long".repeat(40));
    let error = refused(EmbeddedRedis::start(&data_dir)).await;
    assert!(error.contains("too long") && error.contains("redis.data_dir"), "{error}");
}

#[tokio::test]
async fn a_foreign_server_on_the_socket_is_left_alone() {
    let data_dir = tempfile::tempdir().unwrap();
    let foreign = TestRedis::start().await;
    let socket = data_dir.path().canonicalize().unwrap().join("redis.sock");
    std::os::unix::fs::symlink(&foreign.url()["unix://".len()..], socket).unwrap();
    let redis = started(data_dir.path()).await;
    let () = connect(&redis.url()).await.set("kept", 42).await.unwrap();
    let seen: Option<i32> = foreign.connection().await.get("kept").await.unwrap();
    assert_eq!(seen, None);
    redis.stop().await.unwrap();
    assert!(is_alive(foreign.pid()));
}

#[tokio::test]
async fn the_tests_own_server_keeps_its_data_when_killed() {
    let redis = TestRedis::start_with(&["--maxmemory", "64mb"]).await;
    let () = redis.connection().await.set("kept", 42).await.unwrap();
    let before = redis.pid();
    redis.kill_and_restart().await;
    assert_ne!(redis.pid(), before);
    let kept: i32 = redis.connection().await.get("kept").await.unwrap();
    assert_eq!(kept, 42);
}

#[tokio::test]
async fn the_tests_own_cluster_serves_every_slot() {
    let cluster = TestCluster::start().await;
    assert_eq!(cluster.urls().len(), 3);
    for tag in ["p00", "p01", "p02", "p03", "p63"] {
        let key = format!("reseq:{{{tag}}}:owner");
        let mut any = cluster.nodes[0].connection().await;
        let slot: u16 =
            redis::cmd("CLUSTER").arg("KEYSLOT").arg(&key).query_async(&mut any).await.unwrap();
        let () = cluster.node_for_slot(slot).connection().await.set(&key, tag).await.unwrap();
    }
    cluster.nodes[1].kill_and_restart().await;
    cluster.wait_until_ok().await;
}
