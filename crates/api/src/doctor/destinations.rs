//! Checks the destinations: definitions that name credentials, stuck lanes, pauses, long backlogs, many dead letters.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use futures::future::join_all;

use super::{
    Findings,
    Severity::{Error, Info, Warning},
    counted, named, others_too,
};
use crate::{Api, views::rfc3339};
use domain::{Durability, shell::quoted};
use store::{Attention, CatalogEntry, Stats, StoreError, Trouble};

/// The most destinations whose numbers are read.
const CHECKED_MAX: usize = 10_000;
/// The most destinations whose numbers one round trip reads.
const AT_ONCE: usize = 500;
/// The most findings of one kind that name one destination each.
const NAMED_MAX: usize = 10;
/// A backlog is long if it uses at least this much of its limit, in percent.
const BACKLOG_PERCENT: u128 = 80;
/// A backlog is long if it has more pending messages than this.
const PENDING_MAX: u64 = 100_000;
/// A destination with more dead letters than this is reported.
const DEAD_LETTERS_MAX: u64 = 1_000;

type Numbered = (Arc<CatalogEntry>, Stats);

/// Reports destinations whose durability the server of their partition cannot confirm.
async fn fsynced(api: &Api, all: &[Arc<CatalogEntry>], findings: &mut Findings) {
    let mut partitions = BTreeSet::new();
    let fsynced = all.iter().filter(|entry| entry.destination.durability == Durability::Fsynced);
    for entry in fsynced.filter(|entry| partitions.insert(entry.partition)) {
        let key = api.store.keys().partition(entry.partition).epoch();
        let name = entry.destination.name.as_str();
        match api.store.check_durability(Durability::Fsynced, &key).await {
            Ok(_) => {}
            Err(error @ StoreError::CannotConfirm(_)) => {
                let action = "Reseq refuses its messages (cannot_confirm) until then.";
                findings.add((Error, "redis_fsync"), name, format!("{error}."), action);
            }
            Err(error) => findings.cannot_check(&["redis_fsync"], &format!("{name}: {error}.")),
        }
    }
}

pub(super) async fn check(api: &Api, findings: &mut Findings) {
    let mut all = api.catalog.all();
    if all.len() > CHECKED_MAX {
        findings.add(
            (Info, "backlogs"),
            "",
            format!("Only {CHECKED_MAX} of {} destinations were checked.", all.len()),
            "See the others with reseq status.",
        );
        all.truncate(CHECKED_MAX);
    }
    credentials(&all, findings);
    fsynced(api, &all, findings).await;
    let mut numbered: Vec<Numbered> = Vec::with_capacity(all.len());
    // Reads all at once: several servers that do not answer cost one wait together.
    let read = all.chunks(AT_ONCE).map(|some| api.store.backlogs_each(some));
    let read = join_all(read).await.into_iter().flatten();
    let mut unread = (0, None);
    for (entry, stats) in all.iter().zip(read) {
        match stats {
            Ok(stats) => numbered.push((entry.clone(), stats)),
            Err(error) if error.is_damage() => findings.add(
                (Error, "damage"),
                entry.destination.name.as_str(),
                format!("Its numbers cannot be read: {error}."),
                format!("Run reseq repair {} --dry-run.", entry.destination.name),
            ),
            Err(error) => unread = (unread.0 + 1, Some(error)),
        }
    }
    if let (count, Some(error)) = unread {
        let checks = ["damage", "stuck_lanes", "backlogs", "dead_letters"];
        let reason = format!("{} cannot be read: {error}.", counted(count, "destination"));
        findings.cannot_check(&checks, &reason);
    }
    let attentions = api.store.attention(&numbered).await;
    for ((_, stats), found) in numbered.iter_mut().zip(attentions) {
        stats.attention = found;
    }
    attention(&numbered, findings);
    paused(&all, &numbered, findings);
    sizes(&numbered, findings);
}

/// Reports definitions that name credentials of producers. Earlier versions accepted them.
fn credentials(all: &[Arc<CatalogEntry>], findings: &mut Findings) {
    let ignored = all.iter().filter_map(|entry| Some((entry, entry.destination.ignored_field()?)));
    for (entry, field) in ignored.take(NAMED_MAX) {
        findings.add(
            (Warning, "credentials"),
            entry.destination.name.as_str(),
            format!("{field} names a credential of producers, which Reseq ignores."),
            "Define it without: tokens, cookies and signatures are neither stored nor sent on.",
        );
    }
}

/// Reports trouble, by the definition that the API and the metrics use too. Other checks report pauses and partitions
/// without owner.
fn attention(all: &[Numbered], findings: &mut Findings) {
    for cause in Trouble::ALL {
        let (kind, what) = match cause {
            Trouble::Damaged => ((Error, "damage"), "hold damaged data"),
            Trouble::Halted => ((Error, "stuck_lanes"), "have halted messages"),
            Trouble::Failing => ((Error, "stuck_lanes"), "have messages that fail"),
            Trouble::NoWorker => ((Error, "stuck_lanes"), "have messages that nobody takes"),
            Trouble::AtLimit => ((Error, "backlogs"), "are at their limit"),
            Trouble::Slow => ((Warning, "backlogs"), "are slow"),
            Trouble::Paused | Trouble::NoOwner => continue,
        };
        let is_known = |name: &str| {
            let mut found = findings.found.iter();
            found.any(|one| cause == Trouble::Damaged && one.check == kind.1 && one.subject == name)
        };
        let of_cause = |one: &&Numbered| one.1.attention.iter().any(|found| found.cause == cause);
        let mut concerned: Vec<&Numbered> = all.iter().filter(of_cause).collect();
        concerned.retain(|(entry, _)| !is_known(entry.destination.name.as_str()));
        concerned.sort_by_key(|(_, stats)| Reverse(stats.pending));
        for (entry, stats) in concerned.iter().take(NAMED_MAX) {
            for found in stats.attention.iter().filter(|found| found.cause == cause) {
                let (summary, action) = said(entry, found);
                findings.add(kind, entry.destination.name.as_str(), summary, action);
            }
        }
        rest(&concerned, kind, what, findings);
    }
}

/// The trouble of a destination as a sentence, and the remedy.
fn said(entry: &CatalogEntry, found: &Attention) -> (String, String) {
    let name = quoted(entry.destination.name.as_str());
    let messages = counted(found.count, "message");
    let since = found.since.map(|since| format!(" since {}", rfc3339(since))).unwrap_or_default();
    let error = found.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let why = format!("See which and why: reseq why {name}.");
    match found.cause {
        Trouble::Damaged => (
            format!("{} of its keys or fields cannot be read.", found.count),
            format!("Run reseq repair {name} --dry-run."),
        ),
        Trouble::Halted => (
            format!(
                "{} halted{since}{error}; each blocks its lane until an operator decides.",
                are(found.count)
            ),
            why,
        ),
        Trouble::Failing => (format!("{} failing{since}{error}.", are(found.count)), why),
        Trouble::NoWorker if since.is_empty() => (
            format!("{messages} waiting for processing, and no pod has the role processor."),
            "Start one: reseq serve --roles processor.".to_owned(),
        ),
        Trouble::NoWorker => (
            format!(
                "No worker or consumer takes its messages ({messages}); the first has waited{since}."
            ),
            format!("Start its workers or consumers, or look at their logs. {why}"),
        ),
        Trouble::AtLimit => (
            format!(
                "{} pending: it accepts no more (backlog_max, backlog_bytes_max).",
                are(found.count)
            ),
            format!("See what it waits for: reseq why {name}, reseq lanes list {name}."),
        ),
        Trouble::Slow => (
            format!(
                "{} pending, the oldest{since}: processing or delivery is slow.",
                are(found.count)
            ),
            why,
        ),
        Trouble::Paused | Trouble::NoOwner => (format!("{} pending.", are(found.count)), why),
    }
}

fn are(count: u64) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(count, "message"))
}

/// Reports pauses, as a warning if messages wait because of them.
fn paused(all: &[Arc<CatalogEntry>], numbered: &[Numbered], findings: &mut Findings) {
    let names = |is: fn(&CatalogEntry) -> bool| -> Vec<String> {
        let paused = all.iter().filter(|entry| is(entry));
        paused.map(|entry| entry.destination.name.to_string()).collect()
    };
    for (what, names) in [
        ("delivery", names(|entry| entry.paused.delivery)),
        ("ingest", names(|entry| entry.paused.ingest)),
        ("processing", names(|entry| entry.paused.processing)),
    ] {
        if !names.is_empty() {
            let is_waited_for = |(entry, stats): &Numbered| {
                let is_paused = names.iter().any(|name| *name == entry.destination.name.as_str());
                let mut found = stats.attention.iter();
                is_paused && what != "ingest" && found.any(|one| one.cause == Trouble::Paused)
            };
            let severity = if numbered.iter().any(is_waited_for) { Warning } else { Info };
            findings.add(
                (severity, "paused"),
                "",
                format!("{what} is paused: {}.", named(&names)),
                format!("To resume one: reseq destinations resume DESTINATION {what}."),
            );
        }
    }
}

fn sizes(all: &[Numbered], findings: &mut Findings) {
    let share = |used: u64, max: u64| u128::from(used) * 100 / u128::from(max.max(1));
    let mut long: Vec<&Numbered> = Vec::new();
    for one @ (entry, stats) in all {
        let destination = &entry.destination;
        let (messages, bytes) = (destination.backlog_max, destination.backlog_bytes_max);
        let is_near = messages > 0 && share(stats.pending, messages) >= BACKLOG_PERCENT
            || bytes > 0 && share(stats.pending_bytes, bytes) >= BACKLOG_PERCENT;
        let is_at_limit = stats.attention.iter().any(|found| found.cause == Trouble::AtLimit);
        if !is_at_limit && (is_near || stats.pending > PENDING_MAX) {
            long.push(one);
        }
    }
    long.sort_by_key(|(_, stats)| Reverse(stats.pending));
    for (entry, stats) in long.iter().take(NAMED_MAX) {
        let name = entry.destination.name.as_str();
        let (max, mb) = (entry.destination.backlog_max, stats.pending_bytes >> 20);
        findings.add(
            (Warning, "backlogs"),
            name,
            format!(
                "{} pending ({mb} MiB); it accepts up to {max} (backlog_max).",
                are(stats.pending)
            ),
            format!("See what it waits for: reseq why {}, reseq lanes list {0}.", quoted(name)),
        );
    }
    rest(&long, (Warning, "backlogs"), "have long backlogs", findings);
    let mut dead: Vec<&Numbered> =
        all.iter().filter(|(_, stats)| stats.dead_letters > DEAD_LETTERS_MAX).collect();
    dead.sort_by_key(|(_, stats)| Reverse(stats.dead_letters));
    for (entry, stats) in dead.iter().take(NAMED_MAX) {
        let name = quoted(entry.destination.name.as_str());
        findings.add(
            (Warning, "dead_letters"),
            entry.destination.name.as_str(),
            format!("It has {}.", counted(stats.dead_letters, "dead letter")),
            format!(
                "Look at them (reseq dead-letters list {name}), then redrive or discard them \
                 (reseq dead-letters redrive {name} --all --dry-run)."
            ),
        );
    }
    rest(&dead, (Warning, "dead_letters"), "have many dead letters", findings);
}

/// One finding for all destinations that have no finding of their own.
fn rest(
    all: &[&Numbered],
    kind: (super::Severity, &'static str),
    what: &str,
    findings: &mut Findings,
) {
    let others = all.iter().skip(NAMED_MAX).map(|(entry, _)| entry.destination.name.to_string());
    others_too(others.collect(), kind, what, "See them with reseq status.", findings);
}
