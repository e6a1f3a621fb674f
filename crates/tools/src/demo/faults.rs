//! The faults of the demo, half-way: SIGKILL of one processor and of the sender that is delivering.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use tokio::time::{sleep, sleep_until};

use super::{ledger::Ledger, plan::Stream, progress::Progress};
use crate::harness::{Deliveries, Harness};

/// How long to observe which sender delivers.
const WATCH: Duration = Duration::from_secs(1);

/// A process that was killed.
#[derive(Debug, Clone, Serialize)]
pub struct Killed {
    /// The name of the process.
    pub name: String,
    /// The id of the process.
    pub pid: u32,
    /// The time of the kill, in seconds since the first message.
    pub at_s: f64,
}

/// Kills one processor, and the sender that delivers to the HTTP destination.
pub async fn after_partial_success(
    harness: &mut Harness,
    at: Instant,
    ledger: &Ledger,
    progress: &Progress,
) -> anyhow::Result<Vec<Killed>> {
    sleep_until((at - WATCH).into()).await;
    let owner = delivering_sender(harness, Stream::Http).await;
    let owner = owner.context("no sender reports deliveries to demo-http")?;
    let processor = harness.of_role("processor").map(|process| process.name.clone()).next();
    let mut killed = Vec::new();
    for name in [processor.context("there is no processor")?, owner] {
        let pid = harness.kill(&name).await?;
        progress.note(&format!("killed {name} (pid {pid})"));
        let first = ledger.sent(Stream::Http).first().copied().unwrap_or_default();
        let at_s = ledger.now().saturating_sub(first).as_secs_f64();
        killed.push(Killed { name, pid, at_s });
    }
    Ok(killed)
}

/// The name of the sender that delivered most messages to a destination during the observation.
async fn delivering_sender(harness: &Harness, stream: Stream) -> Option<String> {
    let before = harness.deliveries().await;
    sleep(WATCH).await;
    let after = harness.deliveries().await;
    let count = |all: &Deliveries, sender: &str| {
        let counts = all.get(sender).and_then(|counts| counts.get(stream.destination()));
        counts.copied().unwrap_or_default()
    };
    let grown = after.keys().map(|sender| {
        let (before, after) = (count(&before, sender), count(&after, sender));
        // The increase decides. If no messages were delivered meanwhile, the total decides.
        (sender, after - before, after)
    });
    let most = grown.max_by(|a, b| a.1.total_cmp(&b.1).then(a.2.total_cmp(&b.2)));
    most.filter(|(_, _, total)| *total > 0.0).map(|(sender, _, _)| sender.clone())
}
