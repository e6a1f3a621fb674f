//! Checks of each server at start.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use redis::{RedisError, aio::MultiplexedConnection};
use tokio::time::Instant;

use super::{
    call::Question,
    client::{Deployment, RedisClient},
    error::{ClientError, UNKNOWN_USER},
    node::Node,
};

/// How long a start waits while Redis loads its data.
const LOADING_PATIENCE: Duration = Duration::from_secs(120);

/// Why Reseq refuses to use this Redis. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum UnfitServer {
    /// The server does not answer.
    #[error("Redis at {url} cannot be reached: {problem}. Check redis.url, and that Redis runs.")]
    Unreachable {
        /// The URL of the server, without the password.
        url: String,
        /// What happened when Reseq tried to connect.
        problem: String,
    },
    /// The server lacks features that the scripts use.
    #[error("Redis at {url} is version {version}; Reseq needs 7.0 or later.")]
    TooOld {
        /// The URL of the server, without the password.
        url: String,
        /// The version of the server.
        version: String,
    },
    /// The server may evict messages when its memory is full.
    #[error(
        "Redis at {url} has maxmemory-policy {policy}, which would throw messages away when memory \
         runs out. Set maxmemory-policy noeviction."
    )]
    Evicts {
        /// The URL of the server, without the password.
        url: String,
        /// The setting `maxmemory-policy`.
        policy: String,
    },
    /// The server is a node of a cluster, but the URL names a single server.
    #[error(
        "Redis at {url} is a node of a cluster. Set redis.url to \
         redis+cluster://host:port,host:port,… with some of its nodes."
    )]
    IsCluster {
        /// The URL of the server, without the password.
        url: String,
    },
    /// The server is not in a cluster, but the URL names a cluster.
    #[error(
        "Redis at {url} is not a node of a cluster. Set redis.url to redis://host:port, or to \
         redis+sentinel://host:port,…/service-name."
    )]
    IsNoCluster {
        /// The URL of the server, without the password.
        url: String,
    },
    /// The server is a replica, and the URL names a single server.
    #[error(
        "Redis at {url} is a replica of {primary}, and takes no writes. Set redis.url to the primary, or to \
         redis+sentinel://host:port,…/service-name, which follows it."
    )]
    IsReplica {
        /// The URL of the server, without the password.
        url: String,
        /// The host and port of its primary.
        primary: String,
    },
    /// The server does not accept the user or the password, or the URL has none.
    #[error(
        "Redis at {url} does not accept the name or the password of redis.url, or wants a password, and \
         redis.url has none. Set redis.url to redis://[user]:password@host:port."
    )]
    NoAccess {
        /// The URL of the server, without the password.
        url: String,
    },
    /// The Redis user lacks rights that Reseq needs.
    #[error(
        "At {url} {sentence}. Give it these rules (ACL SETUSER); \
         docs/reference/redis-requirements.md lists all rules."
    )]
    NoRights {
        /// The URL of the server, without the password.
        url: String,
        /// Which rights are missing.
        sentence: String,
    },
}

/// The result of the checks on a server that Reseq accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitness {
    /// The server's version.
    pub version: String,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
    /// A warning about missing rights for wake-ups. Not in `warnings`, because a running pod
    /// checks these rights again and then logs the warning.
    pub lacks: Option<String>,
}

impl Fitness {
    /// Merges the warnings of several servers.
    pub(super) fn and(mut self, other: Fitness) -> Fitness {
        for warning in other.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        self.lacks = self.lacks.or(other.lacks);
        self
    }
}

/// Whether the user of a connection has the rights that Reseq needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// The user has all necessary rights. The sentence names optional rights that are missing.
    Yes(Option<String>),
    /// The user lacks necessary rights. The sentence names them.
    No(String),
}

impl RedisClient {
    /// Waits until all primaries have loaded their data, and checks them. `admission` finds out on each primary
    /// whether the user has the necessary rights.
    pub async fn check<Q: Question<Answer: Into<Admitted>>>(
        &self,
        url: &str,
        admission: &Q,
    ) -> Result<Fitness, UnfitServer> {
        let unreachable =
            |problem: String| UnfitServer::Unreachable { url: url.to_owned(), problem };
        self.survey().await.map_err(|error| unreachable(error.to_string()))?;
        let deployment = self.deployment();
        let deadline = Instant::now() + LOADING_PATIENCE;
        let primaries = self.primaries();
        let checks =
            primaries.iter().map(|node| check_loaded(node, url, deadline, deployment, admission));
        let mut all: Option<Fitness> = None;
        for checked in join_all(checks).await {
            match checked {
                Ok(fitness) => all = Some(all.map_or(fitness.clone(), |all| all.and(fitness))),
                // A dead primary stops only its own partitions, so Reseq starts without checking it.
                Err(UnfitServer::Unreachable { problem, .. }) if primaries.len() > 1 => {
                    tracing::warn!(problem, "a primary of the cluster cannot be checked");
                }
                Err(unfit) => return Err(unfit),
            }
        }
        all.ok_or_else(|| unreachable("no primary answers".into()))
    }
}

/// Checks one server, once it has loaded its data.
async fn check_loaded<Q: Question<Answer: Into<Admitted>>>(
    node: &Arc<Node>,
    url: &str,
    deadline: Instant,
    deployment: Deployment,
    admission: &Q,
) -> Result<Fitness, UnfitServer> {
    let unfit = |error: ClientError| {
        let url = url.to_owned();
        match error {
            ClientError::NoRights(what) if what == UNKNOWN_USER => UnfitServer::NoAccess { url },
            error => UnfitServer::Unreachable { url, problem: error.to_string() },
        }
    };
    loop {
        let mut link = node.take().await.map_err(unfit)?;
        match admission.ask(&mut link.connection).await.map(Into::into) {
            Ok(Admitted::No(sentence)) => {
                return Err(UnfitServer::NoRights { url: url.to_owned(), sentence });
            }
            Ok(Admitted::Yes(lacks)) => {
                let fitness = check_server(&mut link.connection, url, deployment).await?;
                return Ok(Fitness { lacks, ..fitness });
            }
            Err(error) if error.code() == Some("LOADING") && Instant::now() < deadline => {
                tracing::info!("Redis is loading its data; waiting for it");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(unfit(error.into())),
        }
    }
}

/// Checks the version, eviction policy, persistence and mode of a server.
async fn check_server(
    connection: &mut MultiplexedConnection,
    url: &str,
    deployment: Deployment,
) -> Result<Fitness, UnfitServer> {
    let unreachable = |error: RedisError| UnfitServer::Unreachable {
        url: url.to_owned(),
        problem: error.to_string(),
    };
    let info: redis::InfoDict =
        redis::cmd("INFO").query_async(connection).await.map_err(unreachable)?;
    let field = |name: &str| info.get::<String>(name).unwrap_or_default();
    let version = field("redis_version");
    let in_cluster = deployment == Deployment::Cluster;
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if number < (7, 0) {
        return Err(UnfitServer::TooOld { url: url.into(), version });
    }
    match field("redis_mode") == "cluster" {
        true if !in_cluster => return Err(UnfitServer::IsCluster { url: url.into() }),
        false if in_cluster => return Err(UnfitServer::IsNoCluster { url: url.into() }),
        _ => {}
    }
    if deployment == Deployment::Single && field("role") == "slave" {
        let primary = format!("{}:{}", field("master_host"), field("master_port"));
        return Err(UnfitServer::IsReplica { url: url.into(), primary });
    }
    let policy = field("maxmemory_policy");
    if policy != "noeviction" {
        return Err(UnfitServer::Evicts { url: url.into(), policy });
    }
    let mut warnings = Vec::new();
    if field("aof_enabled") != "1" {
        warnings.push(
            "Redis keeps no append-only file: a restart of Redis loses messages. \
             Set appendonly yes."
                .to_owned(),
        );
    }
    if in_cluster && setting(connection, "cluster-require-full-coverage").await == "yes" {
        warnings.push(
            "The cluster stops as a whole when one primary is gone. Set \
             cluster-require-full-coverage no, so that only its partitions stop."
                .to_owned(),
        );
    }
    Ok(Fitness { version: version_of(&info), warnings, lacks: None })
}

/// The version of the server for people. Valkey also reports a `redis_version`: the Redis version with which it is
/// compatible.
pub(crate) fn version_of(info: &redis::InfoDict) -> String {
    match info.get::<String>("valkey_version") {
        Some(version) => format!("Valkey {version}"),
        None => info.get("redis_version").unwrap_or_default(),
    }
}

/// A setting of the server; empty if the server does not answer.
async fn setting(connection: &mut MultiplexedConnection, name: &str) -> String {
    let answer = redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await;
    let pair: (String, String) = answer.unwrap_or_default();
    pair.1
}
