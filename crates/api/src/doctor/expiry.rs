//! Tokens and certificates that end soon.

use super::{
    Findings,
    Severity::{Error, Warning},
    named,
};
use crate::{Api, views::rfc3339};
use store::server_clock_ms;
use telemetry::End;
use tls::Peer;

/// A token or certificate that ends within this time is reported: 14 days, in ms.
const SOON_MS: u64 = 14 * 86_400_000;

/// The most tokens, and the most hosts, whose ends are metrics: the first ones to end.
const ENDS_MAX: usize = 100;

/// The ends of tokens, of certificates of other hosts (the first to end come first), and of Reseq's own certificates,
/// as metrics.
pub(crate) fn ends(api: &Api) -> Vec<End> {
    let tokens = api.catalog.tokens();
    let mut ending: Vec<_> =
        tokens.iter().filter_map(|one| one.token.expires_ms.zip(Some(&one.token))).collect();
    ending.sort_by_key(|(end, _)| *end);
    let ends = ending.into_iter().filter(|(end, _)| *end > server_clock_ms()).take(ENDS_MAX);
    let ends = ends.map(|(end, token)| End::of_token(&token.id, &token.name, end));
    let certificates = api.certificates.iter().filter_map(|file| {
        let end = tls::first_end_ms(&file.path).ok()?;
        Some(End::of_certificate(&file.field, &file.path.display().to_string(), end))
    });
    let peers = peers().into_iter().take(ENDS_MAX);
    let peers = peers.map(|(host, peer)| End::of_peer(&host, peer.end_ms));
    ends.chain(certificates).chain(peers).collect()
}

/// The certificates that receivers, transforms and Redis have shown to this pod, the first to end first.
fn peers() -> Vec<(String, Peer)> {
    let mut peers = tls::peers();
    // A certificate that ended long ago is left out: its host is not used any more, or failing connections already show
    // it.
    peers.retain(|(_, peer)| peer.end_ms + SOON_MS > server_clock_ms());
    peers.sort_by_key(|(_, peer)| peer.end_ms);
    peers
}

pub(super) fn check(api: &Api, findings: &mut Findings) {
    let now_ms = server_clock_ms();
    let soon = |end: &u64| (now_ms..now_ms + SOON_MS).contains(end);
    let tokens = api.catalog.tokens();
    // A token that has ended is harmless, so it is not reported.
    let mut ending: Vec<_> = tokens
        .iter()
        .filter_map(|one| Some((one.token.expires_ms.filter(soon)?, &one.token)))
        .collect();
    ending.sort_by_key(|(end, _)| *end);
    if let Some((first, _)) = ending.first() {
        let names: Vec<String> =
            ending.iter().map(|(_, token)| format!("{} ({})", token.name, token.id)).collect();
        let summary = format!(
            "Tokens end within 14 days, the first at {}: {}.",
            rfc3339(*first),
            named(&names)
        );
        let action = "Give their users new ones: reseq tokens create.";
        findings.add((Warning, "expiry"), "", summary, action);
    }
    for file in &*api.certificates {
        let (severity, what) = match tls::first_end_ms(&file.path) {
            Ok(end) if end <= now_ms => (Error, format!("ended at {}", rfc3339(end))),
            Ok(end) if soon(&end) => (Warning, format!("ends at {}", rfc3339(end))),
            Ok(_) => continue,
            Err(problem) => {
                let reason = format!("{}: {problem}.", file.path.display());
                findings.cannot_check(&["expiry"], &reason);
                continue;
            }
        };
        let summary = format!("A certificate of {} {what}.", file.path.display());
        let action = "Replace the file. Reseq reads it again within a second.";
        findings.add((severity, "expiry"), &file.field, summary, action);
    }
    let ending = peers().into_iter().filter(|(_, peer)| peer.end_ms < now_ms + SOON_MS);
    let ending: Vec<_> = ending.map(|(host, peer)| (peer, host)).collect();
    if let Some((first, host)) = ending.first() {
        let names: Vec<String> = ending.iter().map(|(_, host)| host.clone()).collect();
        let shown_ms = now_ms.saturating_sub(first.shown.elapsed().as_millis() as u64);
        let summary = format!(
            "Certificates of receivers or Redis servers end within 14 days, or have ended: {}. The first ends at {}, \
             as it was shown at {}.",
            named(&names),
            rfc3339(first.end_ms),
            rfc3339(shown_ms)
        );
        let action = "Tell whoever runs these servers to renew them. Connections fail after that.";
        findings.add((Warning, "expiry"), host, summary, action);
    }
}
