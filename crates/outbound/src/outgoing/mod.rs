//! Outgoing connections: the addresses that Reseq may connect to, and how it finds them.
//!
//! A definition names a host. An author of definitions must not reach this machine, its network or a cloud's
//! metadata through Reseq (server-side request forgery). So Reseq checks each address twice: when a destination
//! is defined, and when a connection is opened. The second check decides. It checks the same addresses that the
//! connection then uses, so changing the addresses of a name in between (DNS rebinding) does not help.
//!
//! ```text
//! definition ──► check_url ─────────────► 422 refused_address, or a warning if the name is unknown now
//! HTTP       ──► check_literal (before each request), Resolver (for names) ──► connection
//! TCP        ──► connect ──► permitted ──► connection
//! ```

mod lookups;
mod policy;
mod ranges;
mod resolver;
mod system;
#[cfg(test)]
mod tests;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{net::TcpStream, time::timeout};
use url::{Host, Url};

pub use lookups::Lookup;
pub use policy::{RefusedAddress, RefusedReason};
pub use system::SystemLookup;

pub use lookups::LOOKUPS_MAX;
pub(super) use resolver::{Resolver, to_port};

use domain::{AllowedNetwork, Destination, DestinationName};
use lookups::{Lookups, Who};
use policy::Policy;

/// Defining a destination waits at most this long for the look-up of a name.
const DEFINITION_LOOKUP_MAX: Duration = Duration::from_secs(2);

/// The outgoing connections of a process. Cheap to clone.
#[derive(Clone)]
pub struct Outgoing {
    policy: Policy,
    lookups: Lookups,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum OutgoingError {
    /// Reseq may not connect to the address.
    #[error(transparent)]
    Refused(#[from] RefusedAddress),
    /// The URL has no host, or the host is not valid.
    #[error("the url names no host that can be connected to")]
    NoHost,
    /// The name could not be resolved, or the connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Outgoing {
    /// Connects to public addresses, and to these networks.
    pub fn new(allowed: Vec<AllowedNetwork>) -> Outgoing {
        let lookups = Lookups::new(Arc::new(SystemLookup::default()), LOOKUPS_MAX);
        Outgoing { policy: Policy::new(allowed), lookups }
    }

    /// Uses `lookup` to resolve names.
    pub fn with_lookup(self, lookup: Arc<dyn Lookup>) -> Outgoing {
        self.with_lookups(lookup, LOOKUPS_MAX)
    }

    /// Uses `lookup` to resolve names, at most this many at once.
    pub fn with_lookups(self, lookup: Arc<dyn Lookup>, at_once: usize) -> Outgoing {
        Outgoing { lookups: Lookups::new(lookup, at_once), ..self }
    }

    /// From now on allows these networks, besides public addresses. Connections that are open stay open.
    pub fn allow(&self, allowed: Vec<AllowedNetwork>) {
        self.policy.allow(allowed);
    }

    /// Notes the addresses where this process listens. Reseq never connects to them.
    pub fn note_listeners(&self, listeners: Vec<SocketAddr>) {
        self.policy.note_listeners(listeners);
    }

    /// Notes the addresses of this deployment's Redis servers. Deliveries and transforms never connect to them.
    pub fn note_redis(&self, servers: Vec<SocketAddr>) {
        self.policy.note_redis(servers);
    }

    /// Checks the URLs of a destination and its transform. The error names the field.
    pub async fn check_destination(
        &self,
        destination: &Destination,
    ) -> Result<(), (&'static str, OutgoingError)> {
        for (field, url) in destination.urls() {
            self.check_url(url).await.map_err(|error| (field, error))?;
        }
        Ok(())
    }

    /// Checks the URL of a definition. If the name cannot be resolved now, logs that: the check
    /// at the connection decides.
    pub async fn check_url(&self, url: &str) -> Result<(), OutgoingError> {
        let Some((name, port)) = self.check_without_lookup(url)? else { return Ok(()) };
        let problem = match timeout(DEFINITION_LOOKUP_MAX, self.permitted(&None, &name, port)).await
        {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(refused @ OutgoingError::Refused(_))) => return Err(refused),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {DEFINITION_LOOKUP_MAX:?}"),
        };
        tracing::warn!(
            host = name,
            problem,
            "the host of a destination cannot be resolved now; its address is checked when Reseq connects to it"
        );
        Ok(())
    }

    /// Checks the URL of a definition if its host is an address. Otherwise returns the name and port to look up.
    pub fn check_without_lookup(&self, url: &str) -> Result<Option<(String, u16)>, OutgoingError> {
        match target(url)? {
            (Host::Domain(name), port) => Ok(Some((name, port))),
            (Host::Ipv4(ip), port) => self.one(ip.into(), port).map(|_| None),
            (Host::Ipv6(ip), port) => self.one(ip.into(), port).map(|_| None),
        }
    }

    /// Checks the host of a URL if it is an address. Names are checked when they are resolved.
    pub fn check_literal(&self, url: &Url) -> Result<(), RefusedAddress> {
        let port = url.port_or_known_default().unwrap_or_default();
        match url.host() {
            Some(Host::Ipv4(ip)) => self.check(SocketAddr::new(ip.into(), port)),
            Some(Host::Ipv6(ip)) => self.check(SocketAddr::new(ip.into(), port)),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }

    /// Looks up the host of this URL, unless its last look-up found addresses. Call it before
    /// taking a place for a connection: a look-up without an answer must not hold one.
    pub(super) async fn find_first(
        &self,
        destination: &DestinationName,
        url: &str,
    ) -> Result<(), OutgoingError> {
        if let (Host::Domain(name), _) = target(url)?
            && !is_localhost(&name)
            && !self.lookups.is_known(&name)
        {
            self.lookups.find(&Some(destination.clone()), &name).await?;
        }
        Ok(())
    }

    /// Opens a TCP connection to the host of this `tcp://` URL of a destination.
    pub async fn connect(
        &self,
        destination: &DestinationName,
        url: &str,
    ) -> Result<TcpStream, OutgoingError> {
        let (host, port) = target(url)?;
        let who = Some(destination.clone());
        let addresses = match host {
            Host::Domain(name) => self.permitted(&who, &name, port).await?,
            Host::Ipv4(ip) => self.one(ip.into(), port)?,
            Host::Ipv6(ip) => self.one(ip.into(), port)?,
        };
        Ok(TcpStream::connect(&addresses[..]).await?)
    }

    fn one(&self, ip: IpAddr, port: u16) -> Result<Vec<SocketAddr>, OutgoingError> {
        let address = SocketAddr::new(ip, port);
        self.check(address)?;
        Ok(vec![address])
    }

    /// The allowed addresses of a name; an error if all are refused.
    async fn permitted(
        &self,
        who: &Who,
        name: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, OutgoingError> {
        let found = match is_localhost(name) {
            // localhost is always this machine, even if a resolver says otherwise (RFC 6761).
            true => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            false => self.lookups.find(who, name).await?,
        };
        let (mut permitted, mut refused) = (Vec::new(), None);
        for ip in found {
            let address = SocketAddr::new(ip, port);
            match self.check(address) {
                Ok(()) => permitted.push(address),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match (permitted.is_empty(), refused) {
            (false, _) => Ok(permitted),
            (true, Some(refused)) => Err(refused.into()),
            (true, None) => {
                Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into())
            }
        }
    }

    fn check(&self, address: SocketAddr) -> Result<(), RefusedAddress> {
        self.policy.check(address)
    }
}

/// The host and port of a URL. Parses the host of a `tcp://` URL like that of `http://`, so that
/// octal, hexadecimal and other forms count as addresses.
fn target(url: &str) -> Result<(Host<String>, u16), OutgoingError> {
    let url = Url::parse(url).map_err(|_| OutgoingError::NoHost)?;
    let port = url.port_or_known_default().ok_or(OutgoingError::NoHost)?;
    let host = match url.host() {
        Some(Host::Domain(name)) => Host::parse(name).map_err(|_| OutgoingError::NoHost)?,
        Some(host) => host.to_owned(),
        None => return Err(OutgoingError::NoHost),
    };
    Ok((host, port))
}

/// True for `localhost` and all names below it.
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}
