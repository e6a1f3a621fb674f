//! Measures how long lanes stand still when their sender is killed, when it ends as planned, and
//! when another sender joins and takes its share. The load is steady, and order is checked.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, ensure};
use config::Config;
use tokio::time::sleep;
use tools::harness::{Deliveries, Harness};

pub use report::Failovers;
use report::{Case, Event};

use crate::{
    plan::{Phase, Work},
    receive::Tally,
    run::{Bench, accepted},
    setup::{self, destination_name},
};

mod report;

/// Messages a second in each lane, without --rate.
const RATE_OF_LANE: f64 = 64.0;
/// The shortest time from the start of a phase to its event, to see which sender delivers which destinations.
const LEAD: Duration = Duration::from_secs(1);
/// The event happens up to this much later, at random: senders renew and check leases once a
/// second, so the result depends on the time within that second.
const DRAWN_US_MAX: u64 = 1_000_000;
/// Messages are sent for this long after the event. If the sender gives nothing back, for the length of a lease more.
const TAIL: Duration = Duration::from_secs(4);

impl Bench<'_> {
    /// Runs this many rounds of all events.
    pub async fn failover(&mut self, rounds: u64) -> anyhow::Result<Failovers> {
        let lanes = self.plan.lanes() as f64;
        let rate = self.args.rate.unwrap_or(RATE_OF_LANE * lanes);
        let pace = Duration::from_secs_f64(lanes / rate);
        let lease = Duration::from_millis(self.config.sender.lease_ms);
        let mut report = Failovers::new(self.args, rate, pace, lease);
        setup::start_rest(self.harness, self.args, &self.config).await?;
        let drawn = Work { seed: self.args.seed, min_us: 0, max_us: DRAWN_US_MAX };
        let (mut newcomer, mut number) = (self.args.senders, 0);
        for round in 1..=rounds {
            for case in [Case::Killed, Case::Joined, Case::Ended, Case::Joined] {
                let shared = setup::wait_until_shared(self.harness, &self.config).await;
                ensure!(shared, "the senders do not share all partitions");
                newcomer += u64::from(case == Case::Joined);
                number += 1;
                self.progress.follow(
                    &format!("{round} of {rounds}: {}", case.words()),
                    &self.load,
                    &self.tally,
                );
                let lead = LEAD + drawn.of(number);
                let event = self.event(case, rate, lead, newcomer).await?;
                report.add(event);
            }
        }
        Ok(report)
    }

    /// A phase of steady load, with one event in it.
    async fn event(
        &mut self,
        case: Case,
        rate: f64,
        lead: Duration,
        newcomer: u64,
    ) -> anyhow::Result<Event> {
        let wait = match case {
            Case::Killed => Duration::from_millis(self.config.sender.lease_ms),
            Case::Ended | Case::Joined => Duration::ZERO,
        };
        let time = Some(lead + wait + TAIL);
        let phase = Phase { base: self.base, messages: u64::MAX / 2, time, rate: Some(rate) };
        let (load, harness, config) = (self.load.clone(), &mut *self.harness, &self.config);
        let strike = strike(harness, config, &self.tally, case, lead, newcomer);
        let (sent, mut strike) = tokio::try_join!(load.send(phase), strike)?;
        self.arrivals(accepted(&sent)).await;
        if case == Case::Joined {
            strike.moved =
                self.harness.deliveries().await.remove(&strike.sender).unwrap_or_default();
        }
        let (judged, arrived, _) = self.judge(phase, sent);
        let has_moved = |lane: &u64| {
            strike.moved.contains_key(&destination_name(lane % self.plan.destinations))
        };
        let (moved, others): (Vec<u64>, Vec<u64>) = (0..self.plan.lanes()).partition(has_moved);
        let gap_of = |lane: u64| report::gap(&arrived.lanes[lane as usize], strike.at);
        let gaps = moved.into_iter().filter_map(gap_of).collect();
        let others_max = others.into_iter().filter_map(gap_of).max().unwrap_or_default();
        Ok(Event { case, gaps, others_max, judged })
    }
}

/// An event that the bench caused.
struct Strike {
    /// The time of the event, from the start of the run.
    at: Duration,
    /// The sender concerned.
    sender: String,
    /// The destinations that change their sender, and the number of messages that the old sender
    /// had delivered to each.
    moved: BTreeMap<String, f64>,
}

/// Waits until it is known which sender delivers which destinations, then causes the event.
async fn strike(
    harness: &mut Harness,
    config: &Config,
    tally: &Tally,
    case: Case,
    lead: Duration,
    newcomer: u64,
) -> anyhow::Result<Strike> {
    let before = harness.deliveries().await;
    sleep(lead).await;
    if case == Case::Joined {
        let at = tally.now();
        setup::start_sender(harness, config, newcomer).await?;
        // The destinations that the new sender takes are known only later.
        return Ok(Strike { at, sender: format!("sender {newcomer}"), moved: BTreeMap::new() });
    }
    let busiest = busiest(&before, harness.deliveries().await);
    let (sender, moved) = busiest.context("no sender says that it delivers anything")?;
    let at = tally.now();
    match case {
        Case::Ended => harness.end(&sender).await?,
        Case::Killed | Case::Joined => drop(harness.kill(&sender).await?),
    }
    Ok(Strike { at, sender, moved })
}

/// The sender that delivers to the most destinations, and these destinations: their counts have
/// grown since `before`.
fn busiest(before: &Deliveries, after: Deliveries) -> Option<(String, BTreeMap<String, f64>)> {
    let grown = after.into_iter().map(|(sender, mut counts)| {
        let before = before.get(&sender);
        counts.retain(|destination, count| {
            *count > before.and_then(|before| before.get(destination)).copied().unwrap_or_default()
        });
        (sender, counts)
    });
    grown.filter(|(_, counts)| !counts.is_empty()).max_by_key(|(_, counts)| counts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, f64)]) -> BTreeMap<String, f64> {
        of.iter().map(|(destination, count)| ((*destination).to_owned(), *count)).collect()
    }

    #[test]
    fn the_busiest_is_who_delivers_to_most_destinations_now() {
        let two = |one, other| Deliveries::from([("1".to_owned(), one), ("2".to_owned(), other)]);
        let before = two(counts(&[("a", 5.0), ("b", 7.0), ("c", 9.0)]), counts(&[("a", 1.0)]));
        let after =
            two(counts(&[("a", 5.0), ("b", 7.0), ("c", 10.0)]), counts(&[("a", 2.0), ("b", 3.0)]));
        let expected = ("2".to_owned(), counts(&[("a", 2.0), ("b", 3.0)]));
        assert_eq!(busiest(&before, after.clone()), Some(expected));
        assert_eq!(busiest(&after, after.clone()), None);
    }
}
