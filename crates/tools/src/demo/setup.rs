//! The processes of the demo and their common configuration.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;

use super::{plan::Stream, receivers::Receivers, transformer::Transformer};
use crate::harness::{Harness, PodArgs, SHUTDOWN_MAX, free_addresses};
use config::Config;
use domain::{Destination, Envelope, Framing, TransformKind};

/// The lease after which the messages of a killed processor are recovered. Shorter than the default, so that a run of
/// 20 s shows both the loss and the recovery.
pub const PROCESSOR_LEASE_MS: u64 = 3_000;
/// The lease after which the partitions of a killed sender are taken over. Also shorter than the default.
pub const SENDER_LEASE_MS: u64 = 2_000;
/// The demo's receivers and transforms are on this machine.
const LOOPBACK: &str = "127.0.0.0/8";
/// How long to wait until the senders share the partitions. After that, the demo begins anyway.
const SHARED_MAX: Duration = Duration::from_millis(3 * SENDER_LEASE_MS);
/// The roles of the processes, numbered from 1 within each role.
const CAST: [(&str, usize); 5] =
    [("ingest", 1), ("processor", 1), ("processor", 2), ("sender", 1), ("sender", 2)];

/// The configuration of every process.
fn config(
    redis_url: String,
    tcp_listen: SocketAddr,
    transformer: &Transformer,
    receivers: &Receivers,
) -> anyhow::Result<Config> {
    let mut config = Config::default();
    config.redis.url = redis_url;
    config.processor.lease_ms = PROCESSOR_LEASE_MS;
    config.outgoing.allow = vec![LOOPBACK.parse().map_err(anyhow::Error::msg)?];
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
    let listener = config::TcpListener {
        listen: tcp_listen.into(),
        destination: tcp,
        framing: Framing::Lines,
        envelope: Envelope::None,
        auth: config::TcpAuth::default(),
        tls: config::ListenerTls::default(),
    };
    config.tcp.push(listener);
    config.validate().context("the demo's own configuration")?;
    Ok(config)
}

/// Starts the processes and waits until all are ready. Returns the TCP address of ingest.
pub async fn fill(
    harness: &mut Harness,
    transformer: &Transformer,
    receivers: &Receivers,
) -> anyhow::Result<SocketAddr> {
    let tcp = free_addresses(1)?.pop().context("there is no free port")?;
    let config = config(harness.redis_url(), tcp, transformer, receivers)?;
    let path = harness.write("reseq", &config)?;
    harness.start(CAST.map(|(role, number)| PodArgs::serving(role, number, &path))).await?;
    harness.wait_until_shared(config.redis.partitions.into(), SHARED_MAX).await;
    Ok(tcp)
}
