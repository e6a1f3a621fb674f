//! The configuration that all processes of the demo share.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use anyhow::Context;

use super::{plan::Stream, receivers::Receivers, transformer::Transformer};
use crate::{
    config::{self, Config},
    domain::{Destination, Framing, TransformKind},
};

/// A killed processor's messages are taken up again after this time. Shorter than the default,
/// so that a run of 20 s shows the loss and the recovery.
pub const PROCESSOR_LEASE_MS: u64 = 3_000;
/// A killed sender's partitions are taken over after this time. Shorter than the default, too.
pub const SENDER_LEASE_MS: u64 = 2_000;
/// A process that is asked to stop may take so long.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// The configuration of every process.
pub fn config(
    redis_url: String,
    tcp_listen: SocketAddr,
    transformer: &Transformer,
    receivers: &Receivers,
) -> anyhow::Result<Config> {
    let mut config = Config::default();
    config.redis.url = redis_url;
    config.processor.lease_ms = PROCESSOR_LEASE_MS;
    config.sender.lease_ms = SENDER_LEASE_MS;
    config.shutdown_ms = SHUTDOWN_MAX.as_millis() as u64;
    for stream in Stream::ALL {
        let mut destination =
            Destination::new(stream.destination().parse()?, receivers.url(stream));
        destination.transform.kind = TransformKind::Http;
        destination.transform.url = Some(transformer.url(stream));
        config.destinations.push(destination);
    }
    let tcp = Stream::Tcp.destination().parse()?;
    let listener =
        config::TcpListener { listen: tcp_listen, destination: tcp, framing: Framing::Lines };
    config.tcp.push(listener);
    config.validate().context("the demo's own configuration")?;
    Ok(config)
}

/// Free addresses on the loopback interface, all different. Another program could take one before
/// it is used; then the process that was to have it says so and the demo ends.
pub fn free_addresses<const N: usize>() -> std::io::Result<[SocketAddr; N]> {
    let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); N];
    // All are held until all are known, or the same one could come twice.
    let mut held = Vec::with_capacity(N);
    for address in &mut addresses {
        let listener = TcpListener::bind(*address)?;
        *address = listener.local_addr()?;
        held.push(listener);
    }
    Ok(addresses)
}
