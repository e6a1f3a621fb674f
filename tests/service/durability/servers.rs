//! A primary with replicas, and a proxy that can be pointed at another server.

use std::net::SocketAddr;

use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{net::TcpStream, sync::watch};
use tokio_util::task::AbortOnDropHandle;

use crate::support::{http, redis::TestRedis, wait::eventually};

/// A server on a port that sends its data to a new replica without a delay.
pub async fn server() -> TestRedis {
    server_with(&[]).await
}

/// Such a server with extra arguments.
pub async fn server_with(extra_args: &[&str]) -> TestRedis {
    let args = ["--repl-diskless-sync-delay", "0"];
    TestRedis::start_on_tcp(&[&args[..], extra_args].concat()).await
}

/// A primary, and this many replicas that have all its data.
pub async fn primary_with(replicas: usize) -> (TestRedis, Vec<TestRedis>) {
    let primary = server().await;
    let mut all = Vec::new();
    for _ in 0..replicas {
        let replica = server().await;
        follow(&replica, address_of(&primary)).await;
        all.push(replica);
    }
    (primary, all)
}

/// The address of a server.
pub fn address_of(server: &TestRedis) -> SocketAddr {
    server.url()["redis://".len()..].parse().unwrap()
}

async fn run<T: redis::FromRedisValue>(server: &TestRedis, words: &[&str]) -> T {
    ask(&mut server.connection().await, words).await
}

/// Sends a command to a server.
pub async fn ask<T: redis::FromRedisValue>(at: &mut MultiplexedConnection, words: &[&str]) -> T {
    let answer = redis::cmd(words[0]).arg(&words[1..]).query_async(at).await;
    answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// A field of INFO.
pub async fn info(server: &TestRedis, field: &str) -> String {
    let all: redis::InfoDict = run(server, &["INFO"]).await;
    all.get(field).unwrap_or_default()
}

/// Makes a server a replica of the primary at this address. Waits until it has all data.
pub async fn follow(replica: &TestRedis, primary: SocketAddr) {
    let (host, port) = (primary.ip().to_string(), primary.port().to_string());
    run::<()>(replica, &["REPLICAOF", &host, &port]).await;
    eventually("the replica follows", async || {
        match info(replica, "master_link_status").await.as_str() {
            "up" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
}

/// Waits until a replica has all data of its primary.
pub async fn caught_up(replica: &TestRedis, primary: &TestRedis) {
    eventually("the replica has caught up", async || {
        let has = info(replica, "slave_repl_offset").await;
        let wanted = info(primary, "master_repl_offset").await;
        if has == wanted { Ok(()) } else { Err(format!("{has} of {wanted}")) }
    })
    .await;
}

/// Makes a replica a primary.
pub async fn promote(replica: &TestRedis) {
    run::<()>(replica, &["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(info(replica, "role").await, "master");
}

/// A server process that is stopped (SIGSTOP) until this is dropped.
pub struct Frozen(Pid);

impl Frozen {
    pub fn new(server: &TestRedis) -> Frozen {
        let id = Pid::from_raw(server.pid().try_into().unwrap()).unwrap();
        kill_process(id, Signal::STOP).unwrap();
        Frozen(id)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A TCP proxy that leads to one server at a time, or to none.
pub struct Door {
    pub address: SocketAddr,
    leads_to: watch::Sender<Option<SocketAddr>>,
    _server: AbortOnDropHandle<()>,
}

impl Door {
    pub async fn to(server: &TestRedis) -> Door {
        let (leads_to, target) = watch::channel(Some(address_of(server)));
        let (address, server) = http::accept(move |mut from| {
            let mut target = target.clone();
            async move {
                let Some(to) = *target.borrow_and_update() else { return };
                let Ok(mut to) = TcpStream::connect(to).await else { return };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut from, &mut to) => {}
                    _ = target.changed() => {}
                }
            }
        })
        .await;
        Door { address, leads_to, _server: server }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Cuts all connections, and leads to this server from now on.
    pub fn lead_to(&self, server: &TestRedis) {
        self.leads_to.send_replace(Some(address_of(server)));
    }

    /// Cuts all connections, and accepts no data from now on.
    pub fn close(&self) {
        self.leads_to.send_replace(None);
    }
}
