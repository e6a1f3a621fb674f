//! Finds the addresses of Reseq itself. Deliveries and transforms may not connect to them.

use std::{collections::HashMap, future::Future, net::SocketAddr, time::Duration};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    AppError,
    listen::{addresses_of, places},
};
use config::{Config, Host, Topology};
use outbound::outgoing::Outgoing;
use store::Store;

/// How often the addresses of Redis are resolved, because they change after a failover.
const EVERY: Duration = Duration::from_secs(10);
/// Time limit for the addresses of one name, and for the answers of the servers.
const LOOKUP_MAX: Duration = Duration::from_secs(2);
/// The port of a Redis URL that names none.
const REDIS_PORT: u16 = 6379;

/// Notes the addresses on which this process will listen.
pub(super) async fn note_listeners(outgoing: &Outgoing, config: &Config) -> Result<(), AppError> {
    let mut all = Vec::new();
    for (field, place) in places(config)? {
        all.extend(addresses_of(&place, field).await?);
    }
    outgoing.note_listeners(all.into_iter().filter(|address| address.port() != 0).collect());
    Ok(())
}

/// Finds the addresses of the Redis servers periodically.
pub(super) struct RedisAddresses {
    store: Store,
    configured: Vec<Host>,
    outgoing: Outgoing,
    /// The last known addresses of each server. They stay known while the name cannot be resolved.
    found: HashMap<Host, Vec<SocketAddr>>,
}

impl RedisAddresses {
    pub(super) fn new(store: Store, redis: config::Redis, outgoing: Outgoing) -> RedisAddresses {
        let configured = redis.topology().map(hosts_of).unwrap_or_default();
        RedisAddresses { store, configured, outgoing, found: HashMap::new() }
    }

    /// Notes the addresses once, and returns a task that repeats this until `stop`.
    pub(super) async fn keep_noted(
        mut self,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.note().await;
        async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(EVERY) => self.note().await,
                }
            }
        }
    }

    async fn note(&mut self) {
        let mut hosts = self.store.redis_hosts(LOOKUP_MAX).await;
        hosts.extend(self.configured.iter().cloned());
        for host in hosts {
            let found = timeout(LOOKUP_MAX, tokio::net::lookup_host(host.clone())).await;
            if let Ok(Ok(found)) = found {
                self.found.insert(host, found.collect());
            }
        }
        self.outgoing.note_redis(self.found.values().flatten().copied().collect());
    }
}

/// The servers that the configuration names.
fn hosts_of(topology: Topology) -> Vec<Host> {
    match topology {
        Topology::Single { url } => {
            let url = Url::parse(&url).ok().filter(|url| url.scheme() == "redis");
            let host = url.as_ref().and_then(|url| {
                let name = url.host_str()?.trim_matches(['[', ']']).to_owned();
                Some((name, url.port().unwrap_or(REDIS_PORT)))
            });
            host.into_iter().collect()
        }
        Topology::Sentinel { sentinels, .. } => sentinels,
        Topology::Cluster { nodes, .. } => nodes,
    }
}
