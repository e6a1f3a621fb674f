//! Reports the gaps in the deliveries of lanes around events.

use std::{fmt, time::Duration};

use serde::Serialize;
use tools::quantiles::nearest_rank;

use crate::{
    args::BenchArgs, counters::Counters, receive::Arrival, report::rounded, verify::Verified,
};

/// The lanes of a killed sender may stand still for the length of a lease, and this much more.
const KILLED_SLACK: Duration = Duration::from_secs(1);
/// The longest time that lanes may stand still during a planned handover.
const PLANNED_MAX: Duration = Duration::from_millis(200);

/// A kind of event: a sender ends or joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// The bench kills the sender with SIGKILL.
    Killed,
    /// The bench ends the sender with SIGTERM. The sender gives its partitions back.
    Ended,
    /// Another sender joins, and takes its share.
    Joined,
}

impl Case {
    /// All events, in the order of the table.
    const ALL: [Case; 3] = [Case::Killed, Case::Ended, Case::Joined];

    /// Describes the event, in words.
    pub fn words(self) -> &'static str {
        match self {
            Case::Killed => "a sender is killed",
            Case::Ended => "a sender is ended",
            Case::Joined => "another sender comes",
        }
    }

    /// The longest time that a lane that changes its sender may stand still.
    fn limit(self, lease: Duration) -> Duration {
        match self {
            Case::Killed => lease + KILLED_SLACK,
            Case::Ended | Case::Joined => PLANNED_MAX,
        }
    }
}

/// The longest time between two arrivals in a lane, if the later one is after the event.
pub fn gap(arrivals: &[Arrival], event: Duration) -> Option<Duration> {
    let pairs = arrivals.windows(2).filter(|pair| pair[1].at > event);
    pairs.map(|pair| pair[1].at.saturating_sub(pair[0].at)).max()
}

/// One event, and the measurements around it.
pub struct Event {
    /// The kind of event.
    pub case: Case,
    /// The gap of each lane that changed its sender.
    pub gaps: Vec<Duration>,
    /// The longest gap of the other lanes.
    pub others_max: Duration,
    /// The messages sent around the event.
    pub judged: Verified,
}

/// The report.
#[derive(Debug, Serialize)]
pub struct Failovers {
    pub destinations: u64,
    pub keys: u64,
    pub senders: u64,
    pub lease_ms: u64,
    /// Messages a second, over all lanes.
    pub rate: f64,
    /// The time between two messages of a lane. No gap can be shorter.
    pub pace_ms: f64,
    #[serde(flatten)]
    pub tallied: Counters,
    pub cases: Vec<Gaps>,
    /// Problems besides the messages, in words.
    pub problems: Vec<String>,
}

/// The gaps of the lanes that changed their sender in one kind of event.
#[derive(Debug, Serialize)]
pub struct Gaps {
    pub case: Case,
    pub events: u64,
    /// Lanes that changed their sender, over all events.
    pub lanes: u64,
    pub gap_p50_ms: f64,
    pub gap_max_ms: f64,
    /// The longest gap of each event, in the order of events.
    pub gaps_max_ms: Vec<f64>,
    /// Around each event, the longest gap of the lanes that did not change their sender: delays
    /// of the machine itself show here too.
    pub others_max_ms: Vec<f64>,
    /// The longest allowed gap.
    pub limit_ms: f64,
    pub repeats: u64,
    #[serde(skip)]
    all_ms: Vec<f64>,
}

impl Failovers {
    /// A report without events.
    pub fn new(args: &BenchArgs, rate: f64, pace: Duration, lease: Duration) -> Failovers {
        Failovers {
            destinations: args.destinations,
            keys: args.keys,
            senders: args.senders,
            lease_ms: lease.as_millis() as u64,
            rate,
            pace_ms: ms(pace),
            tallied: Counters::NOTHING,
            cases: Case::ALL.map(|case| Gaps::none(case, lease)).into(),
            problems: Vec::new(),
        }
    }

    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        let Event { case, gaps, others_max, judged } = event;
        self.tallied.add(Counters::of(&judged));
        let Some(of_case) = self.cases.iter_mut().find(|one| one.case == case) else { return };
        of_case.add(&gaps, others_max, judged.repeats);
    }

    /// True if every message arrived, in order.
    pub fn is_well(&self) -> bool {
        self.tallied.is_well()
    }
}

impl Gaps {
    /// The value before any gap is added.
    fn none(case: Case, lease: Duration) -> Gaps {
        Gaps {
            case,
            events: 0,
            lanes: 0,
            gap_p50_ms: 0.0,
            gap_max_ms: 0.0,
            gaps_max_ms: Vec::new(),
            others_max_ms: Vec::new(),
            limit_ms: ms(case.limit(lease)),
            repeats: 0,
            all_ms: Vec::new(),
        }
    }

    /// Adds the gaps of one event.
    fn add(&mut self, gaps: &[Duration], others_max: Duration, repeats: u64) {
        self.events += 1;
        self.others_max_ms.push(ms(others_max));
        self.repeats += repeats;
        let gaps_ms = gaps.iter().map(|gap| ms(*gap));
        self.gaps_max_ms.push(gaps_ms.clone().fold(0.0, f64::max));
        self.all_ms.extend(gaps_ms);
        self.all_ms.sort_by(f64::total_cmp);
        self.lanes = self.all_ms.len() as u64;
        self.gap_p50_ms = nearest_rank(&self.all_ms, 500).unwrap_or_default();
        self.gap_max_ms = self.all_ms.last().copied().unwrap_or_default();
    }
}

fn ms(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1e3, 1)
}

impl fmt::Display for Failovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failovers { destinations, keys, senders, lease_ms, rate, pace_ms, .. } = self;
        writeln!(
            f,
            "{destinations} destination(s), {keys} key(s) each, {rate:.0} messages/s: one every \
             {pace_ms:.1} ms in each lane;\n{senders} senders, whose lease is {lease_ms} ms.\n"
        )?;
        let heads = ["times", "lanes", "p50", "max", "may be", "others", "repeats"];
        write!(f, "{:<24}", "gap of a lane, in ms")?;
        heads.iter().try_for_each(|head| write!(f, " {head:>9}"))?;
        writeln!(f)?;
        for gaps in &self.cases {
            let Gaps { events, lanes, gap_p50_ms, gap_max_ms, limit_ms, repeats, .. } = gaps;
            let name = gaps.case.words();
            let others = gaps.others_max_ms.iter().copied().fold(0.0, f64::max);
            writeln!(
                f,
                "{name:<24} {events:>9} {lanes:>9} {gap_p50_ms:>9.1} {gap_max_ms:>9.1} \
                 {limit_ms:>9.0} {others:>9.1} {repeats:>9}"
            )?;
        }
        let Counters { delivered, accepted, repeats, foreign, .. } = self.tallied;
        writeln!(f, "delivered {delivered} of {accepted} ({repeats} repeats)")?;
        if foreign > 0 {
            writeln!(f, "not sent, yet came {foreign}")?;
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "Problem: {problem}"))?;
        writeln!(f, "{}", self.tallied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_gap_is_around_the_event_and_nothing_before_it_counts() {
        let arrival = |(number, at): (u64, u64)| Arrival { number, at: millis(at), worked: None };
        let arrivals = [(0, 0), (1, 900), (2, 910), (3, 1410), (4, 1420)].map(arrival);
        assert_eq!(gap(&arrivals, millis(1000)), Some(millis(500)));
        assert_eq!(gap(&arrivals, millis(1411)), Some(millis(10)));
        assert_eq!(gap(&arrivals, millis(2000)), None);
        assert_eq!(gap(&arrivals[..1], millis(0)), None);
    }

    #[test]
    fn gaps_are_ranked_over_all_events_of_a_case() {
        let mut gaps = Gaps::none(Case::Ended, millis(5000));
        gaps.add(&[millis(40), millis(10)], millis(16), 2);
        gaps.add(&[millis(30)], millis(17), 1);
        gaps.add(&[], millis(0), 0);
        assert_eq!(gaps.others_max_ms, [16.0, 17.0, 0.0]);
        assert_eq!((gaps.events, gaps.lanes, gaps.repeats), (3, 3, 3));
        assert_eq!((gaps.gap_p50_ms, gaps.gap_max_ms), (30.0, 40.0));
        assert_eq!(gaps.gaps_max_ms, [40.0, 30.0, 0.0]);
        assert_eq!((gaps.limit_ms, ms(Case::Killed.limit(millis(5000)))), (200.0, 6000.0));
    }
}
