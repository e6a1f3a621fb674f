//! The addresses that Reseq may connect to: public addresses and networks that the operator
//! allows, but never its own listeners or its own Redis.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use parking_lot::RwLock;

use super::ranges::{inside, special};
use domain::AllowedNetwork;

/// An address that Reseq may not connect to. The text says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedAddress {
    /// The address and port.
    pub address: SocketAddr,
    pub reason: RefusedReason,
}

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedReason {
    /// The address is neither public nor allowed.
    NotPublic(&'static str),
    /// Reseq itself listens there.
    OwnListener,
    /// Reseq's own Redis is there.
    OwnRedis,
}

impl std::error::Error for RefusedAddress {}

impl std::fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = self.address;
        match self.reason {
            RefusedReason::NotPublic(what) => write!(
                f,
                "{address} is {what}, and Reseq connects only to public addresses and to those in outgoing.allow; \
                 if this one is meant, add it to [outgoing] allow in the configuration file of all \
                 processes and reload it (reseq reload)"
            ),
            RefusedReason::OwnListener => write!(
                f,
                "{address} is a listener of Reseq itself, which no delivery and no transform may call; \
                 outgoing.allow cannot open it"
            ),
            RefusedReason::OwnRedis => write!(
                f,
                "{address} is a Redis server of Reseq, which no delivery and no transform may call; \
                 outgoing.allow cannot open it"
            ),
        }
    }
}

/// The policy of a process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Policy {
    allowed: Arc<RwLock<Vec<AllowedNetwork>>>,
    own: Arc<RwLock<Own>>,
}

/// Addresses that `outgoing.allow` can never allow.
#[derive(Debug, Default)]
struct Own {
    listeners: Vec<SocketAddr>,
    redis: Vec<SocketAddr>,
}

impl Policy {
    pub(super) fn new(allowed: Vec<AllowedNetwork>) -> Policy {
        Policy { allowed: Arc::new(RwLock::new(allowed)), own: Arc::default() }
    }

    /// From now on allows these networks.
    pub(super) fn allow(&self, allowed: Vec<AllowedNetwork>) {
        *self.allowed.write() = allowed;
    }

    /// Notes the addresses where this process listens.
    pub(super) fn note_listeners(&self, listeners: Vec<SocketAddr>) {
        self.own.write().listeners = listeners;
    }

    /// Notes the addresses of its Redis servers.
    pub(super) fn note_redis(&self, redis: Vec<SocketAddr>) {
        self.own.write().redis = redis;
    }

    /// Returns an error if Reseq may not connect to this address.
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), RefusedAddress> {
        // The system connects to IPv4 where it is mapped into IPv6.
        let (ip, port) = (address.ip().to_canonical(), address.port());
        let forms = [Some(ip), inside(ip)];
        let refused = |reason| RefusedAddress { address: SocketAddr::new(ip, port), reason };
        for form in forms.into_iter().flatten() {
            self.check_own(form, port).map_err(refused)?;
        }
        for form in forms.into_iter().flatten() {
            let allowed = self.allowed.read();
            if allowed.iter().any(|network| network.contains(form, port)) {
                return Ok(());
            }
        }
        match forms.into_iter().flatten().find_map(special) {
            Some(what) => Err(refused(RefusedReason::NotPublic(what))),
            None => Ok(()),
        }
    }

    fn check_own(&self, ip: IpAddr, port: u16) -> Result<(), RefusedReason> {
        let own = self.own.read();
        // A connection to 0.0.0.0 or [::] reaches this machine.
        let ip = match ip {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let is_at = |all: &[SocketAddr], is_everywhere: fn(IpAddr) -> bool| {
            let of_port = all.iter().filter(|one| one.port() == port);
            let mut of_port = of_port.map(|one| one.ip().to_canonical());
            of_port.any(|own| own == ip || (is_everywhere(own) && is_of_this_machine(ip)))
        };
        if is_at(&own.listeners, |own| own.is_unspecified()) {
            return Err(RefusedReason::OwnListener);
        }
        // Redis may listen on any address of this machine; by default, it listens on 127.0.0.1 and ::1.
        if is_at(&own.redis, is_of_this_machine) {
            return Err(RefusedReason::OwnRedis);
        }
        Ok(())
    }
}

/// True for an address of this machine. Only such an address can be bound.
fn is_of_this_machine(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}
