//! Reads the settings, memory, replicas and clock of the servers, for `doctor`.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::future::join_all;
use redis::{InfoDict, RedisResult, aio::MultiplexedConnection};

use super::{
    call::{Question, ServerTime, server_ms},
    client::RedisClient,
    error::{ClientError, is_broken},
    fitness::version_of,
    refusal::refusal_of_writes,
    sentinel::SentinelState,
};

/// The most listeners of a server to read.
const LISTENERS_MAX: usize = 8;

/// The state of a primary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerState {
    /// The version of the server.
    pub version: String,
    /// The setting `maxmemory-policy`.
    pub policy: String,
    /// Used memory, in bytes.
    pub used: u64,
    /// The memory limit (`maxmemory`), in bytes; 0: no limit.
    pub max: u64,
    /// The memory of its machine, in bytes; 0: unknown.
    pub of_machine: u64,
    /// True if the server keeps an append-only file.
    pub appends: bool,
    /// The setting `appendfsync`; `None` if unknown.
    pub fsync: Option<String>,
    /// True if the server does not sync the append-only file while it saves or rewrites
    /// (`no-appendfsync-on-rewrite`).
    pub skips_syncs: bool,
    /// The error message of the server, if it refuses all writes.
    pub refusal: Option<String>,
    /// The kinds of writes to its disk whose last attempt failed.
    pub failed_writes: Vec<&'static str>,
    /// Number of keys evicted because its memory was full.
    pub evicted: u64,
    /// Open connections.
    pub clients: u64,
    /// The most connections; 0: unknown.
    pub clients_max: u64,
    /// The ports that the server listens on.
    pub ports: Vec<u16>,
    /// The replicas of the server.
    pub replicas: Vec<Replica>,
    /// How far its clock is ahead of the clock of this machine, in ms.
    pub ahead_ms: i64,
    /// The duration of the query for the time, in ms: `ahead_ms` may be wrong by this much.
    pub round_trip_ms: u64,
}

/// A replica, as its primary reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replica {
    /// Host and port.
    pub address: String,
    /// True if it follows the primary.
    pub is_online: bool,
    /// How long ago the replica last reported, in seconds.
    pub lag_seconds: u64,
    /// Bytes of the primary's writes that the replica does not have yet.
    pub bytes_behind: u64,
}

impl RedisClient {
    /// Asks all primaries in parallel. Returns the name of each primary, with its state or the error. Without
    /// `settings`, asks only questions that need no extra rights.
    pub async fn examine(&self, settings: bool) -> Vec<(String, Result<ServerState, ClientError>)> {
        let asked = self.primaries().into_iter().map(|node| async move {
            let name = node.name();
            let state = async {
                let mut link = node.take().await?;
                Examination { settings }.ask(&mut link.connection).await.map_err(|error| {
                    if is_broken(&error) {
                        node.discard(&link, &error);
                    }
                    ClientError::from(error)
                })
            };
            (name, state.await)
        });
        join_all(asked).await
    }

    /// The address of each sentinel, with its state or the reason why it does not answer. Empty without sentinels.
    pub async fn examine_sentinels(&self) -> Vec<(String, Result<SentinelState, String>)> {
        match self.primaries().first().and_then(|node| node.sentinels()) {
            Some(sentinels) => sentinels.examine().await,
            None => Vec::new(),
        }
    }

    /// The names of the servers, as `examine` returns them, each with the indices of the keys that it holds. Leaves
    /// out keys that no server serves now.
    pub fn keys_by_name(&self, keys: &[String]) -> Vec<(String, Vec<usize>)> {
        let groups = self.spread(keys).0.into_iter();
        groups.map(|(node, members)| (node.name(), members)).collect()
    }
}

struct Examination {
    settings: bool,
}

impl Question for Examination {
    type Answer = ServerState;

    async fn ask(&self, connection: &mut MultiplexedConnection) -> RedisResult<ServerState> {
        let info: InfoDict = redis::cmd("INFO").query_async(connection).await?;
        let before = since_1970();
        let time: ServerTime = redis::cmd("TIME").query_async(connection).await?;
        let after = since_1970();
        let round_trip = after.saturating_sub(before);
        let here_ms = (before + round_trip / 2).as_millis() as i64;
        // The user may lack the right to read settings.
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg("appendfsync").arg("no-appendfsync-on-rewrite");
        let settings: HashMap<String, String> = match self.settings {
            true => ask.query_async(connection).await.unwrap_or_default(),
            false => HashMap::new(),
        };
        Ok(ServerState {
            fsync: settings.get("appendfsync").cloned(),
            skips_syncs: settings.get("no-appendfsync-on-rewrite").is_some_and(|no| no == "yes"),
            refusal: refusal_of_writes(connection).await,
            ahead_ms: server_ms(time) as i64 - here_ms,
            round_trip_ms: round_trip.as_millis() as u64,
            ..state_of(&info)
        })
    }
}

/// The time since 1970 by the clock of this machine.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn state_of(info: &InfoDict) -> ServerState {
    let text = |name: &str| info.get::<String>(name).unwrap_or_default();
    let number = |name: &str| text(name).parse().unwrap_or(0_u64);
    let writes = [
        ("aof_last_write_status", "writing the append-only file"),
        ("aof_last_bgrewrite_status", "rewriting the append-only file"),
        ("rdb_last_bgsave_status", "saving a snapshot"),
    ];
    let failed = writes.into_iter().filter(|(name, _)| text(name) == "err");
    let written = number("master_repl_offset");
    // Reads `name=tls,bind=*,port=6380`.
    let listeners = (0..LISTENERS_MAX).map(|at| text(&format!("listener{at}")));
    let listeners = listeners.filter_map(|line| Some(line.rsplit_once("port=")?.1.to_owned()));
    let ports = listeners.chain([text("tcp_port")]).filter_map(|port| port.parse().ok());
    let replicas = (0..number("connected_slaves")).map(|at| text(&format!("slave{at}")));
    ServerState {
        version: version_of(info),
        policy: text("maxmemory_policy"),
        used: number("used_memory"),
        max: number("maxmemory"),
        of_machine: number("total_system_memory"),
        appends: text("aof_enabled") == "1",
        fsync: None,
        skips_syncs: false,
        refusal: None,
        failed_writes: failed.map(|(_, what)| what).collect(),
        evicted: number("evicted_keys"),
        clients: number("connected_clients"),
        clients_max: number("maxclients"),
        ports: ports.filter(|port| *port > 0).collect(),
        replicas: replicas.map(|line| replica(&line, written)).collect(),
        ahead_ms: 0,
        round_trip_ms: 0,
    }
}

/// Reads `ip=10.0.0.7,port=6379,state=online,offset=1260,lag=1`.
fn replica(line: &str, written: u64) -> Replica {
    let fields: HashMap<&str, &str> =
        line.split(',').filter_map(|field| field.split_once('=')).collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or_default();
    let offset = field("offset").parse().unwrap_or(0_u64);
    Replica {
        address: format!("{}:{}", field("ip"), field("port")),
        is_online: field("state") == "online",
        lag_seconds: field("lag").parse().unwrap_or_default(),
        bytes_behind: written.saturating_sub(offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_understood() {
        let info = InfoDict::new(
            "# Server\r\ntcp_port:6379\r\nlistener0:name=tcp,bind=127.0.0.1,bind=-::1,port=6379\r\n\
             listener1:name=tls,bind=*,port=6380\r\nlistener2:name=unix,bind=/a/b\r\n\
             # Memory\r\nused_memory:900\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\n\
             aof_enabled:1\r\naof_last_write_status:err\r\nrdb_last_bgsave_status:ok\r\n\
             connected_slaves:1\r\nmaster_repl_offset:1300\r\n\
             slave0:ip=10.0.0.7,port=6379,state=online,offset=1260,lag=1\r\n",
        );
        let state = state_of(&info);
        assert_eq!((state.used, state.max, state.appends), (900, 1000, true));
        assert_eq!(state.failed_writes, ["writing the append-only file"]);
        let replica = Replica {
            address: "10.0.0.7:6379".to_owned(),
            is_online: true,
            lag_seconds: 1,
            bytes_behind: 40,
        };
        assert_eq!(state.replicas, [replica]);
        assert_eq!(state.ports, [6379, 6380, 6379]);
        assert!(state_of(&InfoDict::new("tcp_port:0\r\n")).ports.is_empty());
    }
}
