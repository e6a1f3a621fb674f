//! Applies a changed configuration while a process runs.

use std::net::IpAddr;

use access::Guard;
use config::Config;
use http_server::concurrency_limit::ConcurrencyLimit;
use outbound::outgoing::Outgoing;

/// The parts that use fields of a changed configuration. Cheap to clone.
#[derive(Clone)]
pub(super) struct Reloadable {
    guard: Guard,
    outgoing: Outgoing,
    /// The limits of connections per address: of the listener for all clients, and of the listener for operators.
    pub(super) by_address: [ConcurrencyLimit<IpAddr>; 2],
}

impl Reloadable {
    pub(super) fn new(config: &Config, guard: Guard, outgoing: Outgoing) -> Reloadable {
        let limit = || ConcurrencyLimit::new(config.http.connections_per_address_max);
        Reloadable { guard, outgoing, by_address: [limit(), limit()] }
    }

    pub(super) fn reload(&self, config: &Config) {
        self.guard.reload(&config.auth);
        self.outgoing.allow(config.outgoing.allow.clone());
        for limit in &self.by_address {
            limit.set_max(config.http.connections_per_address_max);
        }
    }
}
