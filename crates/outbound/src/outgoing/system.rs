//! Resolves host names as the system does (`/etc/hosts`, and the servers, search domains and `ndots` of
//! `/etc/resolv.conf`), without a thread for each look-up.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use hickory_resolver::{
    TokioResolver,
    config::{LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts},
    net::{NetError, runtime::TokioRuntimeProvider},
    system_conf::read_system_conf,
};
use parking_lot::Mutex;

use super::Lookup;

/// The files that configure the system's resolver. They are read again when one has changed.
const FILES: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];
/// If a server has not answered within this time, the resolver asks it again, or asks another server.
const ANSWER_MAX: Duration = Duration::from_millis(1500);

type Changed = [Option<SystemTime>; 2];

/// Resolves as the system does.
#[derive(Default)]
pub struct SystemLookup {
    /// If not empty, these servers replace the servers of `/etc/resolv.conf`.
    servers: Vec<SocketAddr>,
    /// The resolver, and the modification times of the files from which it was built.
    resolver: Mutex<Option<(Changed, TokioResolver)>>,
}

impl SystemLookup {
    /// Uses these DNS servers. If empty: the servers of the system.
    pub fn of_servers(servers: Vec<SocketAddr>) -> SystemLookup {
        SystemLookup { servers, resolver: Mutex::default() }
    }

    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let changed = FILES.map(|file| fs::metadata(file).and_then(|data| data.modified()).ok());
        let mut resolver = self.resolver.lock();
        if let Some((of, resolver)) = &*resolver
            && *of == changed
        {
            return Ok(resolver.clone());
        }
        let new = self.build()?;
        *resolver = Some((changed, new.clone()));
        Ok(new)
    }

    fn build(&self) -> Result<TokioResolver, NetError> {
        let (config, of_system) = read_system_conf().unwrap_or_else(|error| {
            tracing::debug!(%error, "/etc/resolv.conf names no DNS server");
            // The default according to resolv.conf(5).
            let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            (ResolverConfig::from_parts(None, Vec::new(), vec![local]), ResolverOpts::default())
        });
        let (domain, search, mut servers) = config.into_parts();
        if !self.servers.is_empty() {
            servers = self.servers.iter().map(server).collect();
        }
        let config = ResolverConfig::from_parts(domain, search, servers);
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(config, provider);
        let options = builder.options_mut();
        *options = of_system;
        options.timeout = options.timeout.min(ANSWER_MAX);
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // Without a cache, changes take effect at once. Look-ups are rare, because new connections are rare.
        options.cache_size = 0;
        // Asks one server at a time, for both kinds of addresses.
        options.num_concurrent_reqs = 1;
        builder.build()
    }
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    server.connections.iter_mut().for_each(|way| way.port = address.port());
    server
}

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = match self.resolver() {
            Ok(resolver) => resolver.lookup_ip(name).await,
            Err(error) => Err(error),
        };
        // Log the error instead of returning it: it repeats the name, which is part of the URL.
        let found = found.map_err(|error| {
            tracing::debug!(%error, "a look-up failed");
            match error.is_no_records_found() || error.is_nx_domain() {
                true => io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
                false => io::Error::other("no DNS server has answered"),
            }
        });
        Ok(found?.iter().collect())
    }
}
