//! Outgoing connections: which addresses Reseq connects to, and how it finds them.
//!
//! A definition names a host. Whoever may write definitions must not reach this machine, its network or a
//! cloud's metadata through Reseq (server-side request forgery). So each address is checked twice: when a
//! destination is defined, and when a connection is opened. The second check is the one that counts. It
//! is made on the very addresses that the connection then goes to, so that a name whose addresses change
//! in between (DNS rebinding) gains nothing.
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
use faults::planted;
use lookups::{Lookups, Who};
use policy::Policy;

/// How long a definition waits until its names are resolved.
const DEFINITION_LOOKUP_MAX: Duration = Duration::from_secs(2);

/// The outgoing connections of a process. Cheap to clone.
#[derive(Clone)]
pub struct Outgoing {
    policy: Policy,
    lookups: Lookups,
}

/// Why there is no connection, or none may be opened.
#[derive(Debug, thiserror::Error)]
pub enum OutgoingError {
    /// The address may not be connected to.
    #[error(transparent)]
    Refused(#[from] RefusedAddress),
    /// The URL has no host, or the host is none.
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

    /// Resolves names in this way instead.
    pub fn with_lookup(self, lookup: Arc<dyn Lookup>) -> Outgoing {
        self.with_lookups(lookup, LOOKUPS_MAX)
    }

    /// Resolves names in this way instead, at most this many at once.
    pub fn with_lookups(self, lookup: Arc<dyn Lookup>, at_once: usize) -> Outgoing {
        Outgoing { lookups: Lookups::new(lookup, at_once), ..self }
    }

    /// Notes where this process listens. Nothing connects there.
    pub fn note_listeners(&self, listeners: Vec<SocketAddr>) {
        self.policy.note_listeners(listeners);
    }

    /// Notes where the Redis servers of this deployment are. Nothing connects there.
    pub fn note_redis(&self, servers: Vec<SocketAddr>) {
        self.policy.note_redis(servers);
    }

    /// Checks where a destination and its transform lead. An error has the name of the field.
    pub async fn check_destination(
        &self,
        destination: &Destination,
    ) -> Result<(), (&'static str, OutgoingError)> {
        for (field, url) in destination.urls() {
            self.check_url(url).await.map_err(|error| (field, error))?;
        }
        Ok(())
    }

    /// Checks the URL of a definition. A name that cannot be resolved now is logged: the check at the
    /// connection decides.
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

    /// Checks the URL of a definition if its host is an address. Otherwise returns its name and port.
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

    /// Looks up the host of this URL of a destination, unless its last look-up found something: a look-up that is not
    /// answered must not hold a place for a connection.
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
            Host::Domain(name) if planted::is("tcp_connection_unchecked") => {
                let found = self.lookups.find(&who, &name).await?;
                found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
            }
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

    /// The addresses of a name that may be connected to; an error if all are refused.
    async fn permitted(
        &self,
        who: &Who,
        name: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, OutgoingError> {
        let found = match is_localhost(name) {
            // Whatever a resolver says (RFC 6761).
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

/// The host and port of a URL. The host of a `tcp://` URL is read like that of `http://`: in its octal,
/// hexadecimal and other forms, too, an address is an address.
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
