//! Checks the arrivals of the sent messages: whether they are complete, in order, and how late. No I/O.
//!
//! The expected order is that of the sequences in ingest's answers. Within one connection it is the order of sending.
//! Between connections no other order is defined.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use super::{
    args::OrderingArg,
    load::Sent,
    plan::{Phase, Plan},
    receive::{Arrival, Arrived},
};

/// The result of checking a phase.
#[derive(Debug, Default)]
pub struct Verified {
    /// The number of messages that ingest accepted.
    pub accepted: u64,
    /// The number of accepted messages that arrived.
    pub delivered: u64,
    /// True if first deliveries were in the order of the sequences, and the sequences in the order of sending.
    pub in_order: bool,
    /// Deliveries of messages that were delivered before.
    pub repeats: u64,
    /// Deliveries of messages that the bench did not send.
    pub foreign: u64,
    /// The time from sending to arrival, in nanoseconds, unordered.
    pub latency_ns: Vec<u64>,
    /// How much later than ideal messages arrived, in nanoseconds.
    pub overhead_ns: Vec<u64>,
    /// The time of the first sending.
    pub first_sent: Duration,
    /// The time of the last sending.
    pub last_sent: Duration,
    /// The time of the first arrival.
    pub first_arrival: Duration,
    /// The time of the last arrival.
    pub last_arrival: Duration,
    /// The ideal time of the last arrival.
    pub ideal_last: Duration,
}

/// One message that was accepted.
#[derive(Debug, Clone, Copy)]
struct Message {
    number: u64,
    sent: Duration,
    sequence: u64,
    work: Duration,
    ideal: Duration,
}

/// Checks a phase. `slots` is the number of messages that all processors can work on at once.
pub fn judge(plan: &Plan, phase: Phase, sent: &[Sent], arrived: &Arrived, slots: u64) -> Verified {
    let mut messages = messages(plan, phase, sent);
    note_work(&mut messages, arrived);
    ideal(plan, &mut messages, slots);
    let mut judged = Verified {
        accepted: messages.len() as u64,
        in_order: sequences_rise(plan, phase, sent),
        repeats: arrived.repeats,
        foreign: arrived.foreign,
        first_sent: messages.iter().map(|message| message.sent).min().unwrap_or_default(),
        last_sent: messages.iter().map(|message| message.sent).max().unwrap_or_default(),
        first_arrival: Duration::MAX,
        ideal_last: messages.iter().map(|message| message.ideal).max().unwrap_or_default(),
        ..Verified::default()
    };
    // Sort for the search below. The streams have different lengths, so the index of a message cannot be computed.
    messages.sort_unstable_by_key(|message| message.number);
    let of = |arrival: &Arrival| {
        let at = messages.binary_search_by_key(&arrival.number, |message| message.number).ok()?;
        Some(&messages[at])
    };
    for lane in &arrived.lanes {
        let mut last = 0;
        for arrival in lane {
            let Some(message) = of(arrival) else {
                judged.foreign += 1;
                continue;
            };
            judged.in_order &= message.sequence > last || plan.ordering == OrderingArg::None;
            last = message.sequence;
            judged.delivered += 1;
            judged.first_arrival = judged.first_arrival.min(arrival.at);
            judged.last_arrival = judged.last_arrival.max(arrival.at);
            judged.latency_ns.push(ns(arrival.at.saturating_sub(message.sent)));
            judged.overhead_ns.push(ns(arrival.at.saturating_sub(message.ideal)));
        }
    }
    judged.first_arrival = judged.first_arrival.min(judged.last_arrival);
    judged
}

fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

fn messages(plan: &Plan, phase: Phase, sent: &[Sent]) -> Vec<Message> {
    let of_stream = |(stream, sent): (usize, &Sent)| {
        let number = move |index: usize| phase.base + stream as u64 + index as u64 * plan.streams;
        let pairs = sent.at.iter().zip(&sent.sequences).enumerate();
        let messages = pairs.map(move |(index, (&sent, &sequence))| Message {
            number: number(index),
            sent,
            sequence,
            work: plan.work.of(number(index)),
            ideal: sent,
        });
        messages.collect::<Vec<_>>()
    };
    sent.iter().enumerate().flat_map(of_stream).collect()
}

/// Uses the real duration of the work, if it is known: the ideal run does the same work.
fn note_work(messages: &mut [Message], arrived: &Arrived) {
    messages.sort_unstable_by_key(|message| message.number);
    for arrival in arrived.lanes.iter().flatten() {
        let at = messages.binary_search_by_key(&arrival.number, |message| message.number);
        if let (Ok(at), Some(worked)) = (at, arrival.worked) {
            messages[at].work = worked;
        }
    }
}

/// True if the sequences of each destination rise along each stream.
fn sequences_rise(plan: &Plan, phase: Phase, sent: &[Sent]) -> bool {
    sent.iter().enumerate().all(|(stream, sent)| {
        let mut last: HashMap<u64, u64> = HashMap::new();
        sent.sequences.iter().enumerate().all(|(index, &sequence)| {
            let number = phase.base + stream as u64 + index as u64 * plan.streams;
            last.insert(plan.destination_of(number), sequence).is_none_or(|last| last < sequence)
        })
    })
}

/// Computes when each message would leave if the system added no delay. Its work begins when it is sent, or when one of
/// the `slots` is free. It leaves when it and all messages before it in its lane are finished.
fn ideal(plan: &Plan, messages: &mut [Message], slots: u64) {
    messages.sort_unstable_by_key(|message| (message.sent, message.sequence));
    let mut busy: BinaryHeap<Reverse<Duration>> = BinaryHeap::new();
    for message in messages.iter_mut() {
        let free = match busy.len() as u64 >= slots {
            true => busy.pop().map_or(Duration::ZERO, |Reverse(free)| free),
            false => Duration::ZERO,
        };
        message.ideal = message.sent.max(free) + message.work;
        busy.push(Reverse(message.ideal));
    }
    if plan.ordering == OrderingArg::None {
        return;
    }
    messages.sort_unstable_by_key(|message| message.sequence);
    let mut latest = vec![Duration::ZERO; plan.lanes() as usize];
    for message in messages.iter_mut() {
        let latest = &mut latest[plan.lane_of(message.number) as usize];
        *latest = message.ideal.max(*latest);
        message.ideal = *latest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Work;

    fn plan(ordering: OrderingArg, work_us: u64) -> Plan {
        let work = Work { seed: 1, min_us: work_us, max_us: work_us };
        Plan { streams: 2, destinations: 1, keys: 1, ordering, body_bytes: 24, work }
    }

    const PHASE: Phase = Phase { base: 4, messages: 4, time: None, rate: None };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Numbers 4 and 6 by one stream, 5 and 7 by the other; 5 was stamped last.
    fn sent() -> Vec<Sent> {
        let stream = |at: [u64; 2], sequences: [u64; 2]| Sent {
            at: at.map(ms).to_vec(),
            sequences: sequences.to_vec(),
            late: Duration::ZERO,
        };
        vec![stream([0, 2], [1, 2]), stream([1, 3], [3, 4])]
    }

    fn arrived(numbers: &[u64]) -> Arrived {
        let arrival = |(index, &number): (usize, &u64)| Arrival {
            number,
            at: ms(10 + index as u64),
            worked: None,
        };
        let lanes = vec![numbers.iter().enumerate().map(arrival).collect()];
        Arrived { lanes, repeats: 0, foreign: 0 }
    }

    #[test]
    fn order_is_judged_by_sequences_and_not_by_numbers() {
        let plan = plan(OrderingArg::Destination, 0);
        let judged = judge(&plan, PHASE, &sent(), &arrived(&[4, 6, 5, 7]), 1);
        assert_eq!((judged.in_order, judged.delivered, judged.accepted), (true, 4, 4));
        assert_eq!((judged.first_arrival, judged.last_arrival), (ms(10), ms(13)));
        assert!(!judge(&plan, PHASE, &sent(), &arrived(&[4, 5, 6, 7]), 1).in_order);
    }

    #[test]
    fn what_is_missing_or_was_not_sent_is_counted() {
        let plan = plan(OrderingArg::None, 0);
        let judged = judge(&plan, PHASE, &sent(), &arrived(&[7, 99, 4]), 1);
        assert_eq!((judged.in_order, judged.delivered, judged.foreign), (true, 2, 1));
    }

    #[test]
    fn a_sequence_that_falls_along_a_stream_is_disorder() {
        let mut sent = sent();
        sent[0].sequences = vec![2, 1];
        let plan = plan(OrderingArg::None, 0);
        assert!(!judge(&plan, PHASE, &sent, &arrived(&[4, 5, 6, 7]), 1).in_order);
    }

    #[test]
    fn ideally_work_waits_for_a_slot_and_a_message_for_its_lane() {
        let plan = plan(OrderingArg::Destination, 5_000);
        let judged = judge(&plan, PHASE, &sent(), &arrived(&[4, 6, 5, 7]), 2);
        // Work lasts 0–5, 1–6, then 5–10, 6–11; messages leave the lane at 5, 10, 10, 11.
        assert_eq!(judged.ideal_last, ms(11));
        assert_eq!(judged.overhead_ns, [5, 1, 2, 2].map(|over| ns(ms(over))));
        assert_eq!(judged.latency_ns, [10, 9, 11, 10].map(|latency| ns(ms(latency))));
    }

    #[test]
    fn what_the_work_really_took_is_no_overhead() {
        let plan = plan(OrderingArg::Destination, 5_000);
        let mut arrived = arrived(&[4, 6, 5, 7]);
        arrived.lanes[0][0].worked = Some(ms(7));
        let judged = judge(&plan, PHASE, &sent(), &arrived, 2);
        // Work lasts 0–7, 1–6, then 6–11, 7–12; messages leave the lane at 7, 11, 11, 12.
        assert_eq!(judged.overhead_ns, [3, 0, 1, 1].map(|over| ns(ms(over))));
    }
}
