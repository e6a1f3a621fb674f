//! Checks of each server at start.

use redis::{RedisError, aio::MultiplexedConnection};

/// Why Reseq refuses to start on this Redis. Each sentence says what to do.
#[derive(Debug, thiserror::Error)]
pub enum UnfitServer {
    /// It does not answer.
    #[error("Redis at {url} cannot be reached: {problem}. Check redis.url, and that Redis runs.")]
    Unreachable {
        /// Its URL, without the password.
        url: String,
        /// What happened.
        problem: String,
    },
    /// It lacks features that the scripts use.
    #[error("Redis at {url} is version {version}; Reseq needs 7.0 or later.")]
    TooOld {
        /// Its URL.
        url: String,
        /// Its version.
        version: String,
    },
    /// It would evict messages.
    #[error(
        "Redis at {url} has maxmemory-policy {policy}, which would throw messages away when memory \
         runs out. Set maxmemory-policy noeviction."
    )]
    Evicts {
        /// Its URL.
        url: String,
        /// Its policy.
        policy: String,
    },
    /// It is a node of a cluster, but the URL names a single server.
    #[error(
        "Redis at {url} is a node of a cluster. Set redis.url to \
         redis+cluster://host:port,host:port,… with some of its nodes."
    )]
    IsCluster {
        /// Its URL.
        url: String,
    },
    /// It is not in a cluster, but the URL names one.
    #[error(
        "Redis at {url} is no node of a cluster. Set redis.url to redis://host:port, or to \
         redis+sentinel://host:port,…/service-name."
    )]
    IsNoCluster {
        /// Its URL.
        url: String,
    },
    /// The deployment has another number of partitions.
    #[error(
        "This deployment was first started with {stored} partitions, but redis.partitions is \
         {configured}. The number can never change: set redis.partitions = {stored}."
    )]
    WrongPartitions {
        /// What Redis holds.
        stored: u16,
        /// What the configuration says.
        configured: u16,
    },
    /// The Redis user lacks rights that Reseq needs.
    #[error(
        "At {url} {sentence}. Give it these rules (ACL SETUSER); \
         docs/reference/redis-requirements.md lists all rules."
    )]
    NoRights {
        /// Its URL.
        url: String,
        /// Which rights are missing.
        sentence: String,
    },
    /// Written by a Reseq version whose schema is too old.
    #[error("{}.", crate::store::schema::older_sentence(*.stored))]
    OlderSchema {
        /// What Redis holds.
        stored: u32,
    },
    /// Written by a newer version of Reseq.
    #[error("{}.", crate::store::schema::newer_sentence(*.stored))]
    NewerSchema {
        /// What Redis holds.
        stored: u32,
    },
}

/// What the checks found on a server that Reseq accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitness {
    /// The server's version.
    pub version: String,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
    /// One more warning: missing rights for wake-ups. A running pod checks these itself.
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

/// Checks version, eviction, persistence and mode of the server.
pub(super) async fn check_server(
    connection: &mut MultiplexedConnection,
    url: &str,
    in_cluster: bool,
) -> Result<Fitness, UnfitServer> {
    let unreachable = |error: RedisError| UnfitServer::Unreachable {
        url: url.to_owned(),
        problem: error.to_string(),
    };
    let info: redis::InfoDict =
        redis::cmd("INFO").query_async(connection).await.map_err(unreachable)?;
    let field = |name: &str| info.get::<String>(name).unwrap_or_default();
    let version = field("redis_version");
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
            "The cluster stops as a whole when one master is gone. Set \
             cluster-require-full-coverage no, so that only its partitions stop."
                .to_owned(),
        );
    }
    Ok(Fitness { version, warnings, lacks: None })
}

/// A setting of the server; empty if the server does not tell.
async fn setting(connection: &mut MultiplexedConnection, name: &str) -> String {
    let told = redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await;
    let told: (String, String) = told.unwrap_or_default();
    told.1
}
