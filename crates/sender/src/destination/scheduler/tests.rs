use super::*;
use crate::{
    breaker::Hosts,
    deliver::{Finality, Verdict},
};
use domain::{AttemptError, ErrorKind, Stage};

fn key(name: &str) -> LaneKey {
    Some(name.to_owned())
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The next lane to load, with room for one.
fn loaded_one(scheduler: &mut Scheduler) -> Option<LaneKey> {
    scheduler.next_to_load(0, 1)
}

/// The result of a scan.
fn waiting(names: &[&str], is_cut: bool) -> ReleasableLanes {
    let waiting = names.iter().map(|name| name.to_string()).collect();
    ReleasableLanes { waiting, is_cut, ..ReleasableLanes::default() }
}

/// All lanes that may send now, in order.
fn sent(scheduler: &mut Scheduler) -> Vec<String> {
    std::iter::from_fn(|| scheduler.next_to_send()).flatten().collect()
}

#[test]
fn lanes_send_in_turn_and_rest_while_the_destination_is_paused() {
    let mut scheduler = Scheduler::default();
    for name in ["a", "b", "a", "c"] {
        scheduler.wants_send(&key(name));
    }
    assert_eq!(scheduler.next_to_send(), Some(key("a")));
    scheduler.wants_send(&key("a"));
    for name in sent(&mut scheduler) {
        scheduler.rest(&key(&name));
    }
    assert!(sent(&mut scheduler).is_empty());
    scheduler.wants_send(&key("d"));
    scheduler.resume();
    assert_eq!(sent(&mut scheduler), ["d", "b", "c", "a"]);
    scheduler.resume();
    assert!(sent(&mut scheduler).is_empty());
}

#[test]
fn a_lane_that_was_dropped_while_it_rested_is_forgotten() {
    let mut scheduler = Scheduler::default();
    for number in 0..1_000 {
        let key = key(&number.to_string());
        scheduler.rest(&key);
        scheduler.dropped(&key);
    }
    scheduler.rest(&key("a"));
    scheduler.resume();
    assert_eq!(sent(&mut scheduler), ["a"]);
}

#[test]
fn a_lane_without_a_slot_is_the_next_one_when_there_is_a_slot() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    scheduler.set_rate(10, start);
    for name in ["a", "b"] {
        scheduler.wants_send(&key(name));
    }
    let a = scheduler.next_to_send().unwrap();
    assert!(scheduler.take_slot(&a, start).is_some());
    assert_eq!(scheduler.next_time(), None);
    let b = scheduler.next_to_send().unwrap();
    scheduler.wants_send(&a);
    assert!(scheduler.take_slot(&b, start).is_none());
    let slot = scheduler.next_time().unwrap();
    assert_eq!(slot, start + ms(100));
    scheduler.advance(slot);
    assert_eq!(scheduler.next_time(), None, "a time that has come comes once");
    assert_eq!(scheduler.next_to_send(), Some(b.clone()), "before the lane that has sent");
    assert!(scheduler.take_slot(&b, slot).is_some());
    assert_eq!(sent(&mut scheduler), ["a"]);
}

#[test]
fn a_lane_does_what_is_due_at_its_time_and_not_before() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    scheduler.at(start + ms(30), &key("resolve"), Due::Resolve);
    scheduler.at(start + ms(10), &key("send"), Due::Send);
    scheduler.at(start + ms(20), &key("ask"), Due::Request);
    let mut done = Vec::new();
    for expected in [10, 20, 30] {
        let at = scheduler.next_time().unwrap();
        assert_eq!(at, start + ms(expected));
        scheduler.advance(at - ms(1));
        scheduler.advance(at);
        done.extend(scheduler.next_to_send());
        done.extend(scheduler.next_to_request());
        done.extend(scheduler.next_to_resolve());
    }
    assert_eq!(done, [key("send"), key("ask"), key("resolve")]);
    assert_eq!(scheduler.next_time(), None);
}

#[test]
fn a_lane_without_room_in_a_call_is_the_first_of_the_next() {
    let mut scheduler = Scheduler::default();
    for name in ["a", "b", "c"] {
        scheduler.wants_request(&key(name));
    }
    let first = scheduler.next_to_request().unwrap();
    let second = scheduler.next_to_request().unwrap();
    scheduler.wants_request(&first);
    scheduler.ask_first(second);
    let rest: Vec<_> = std::iter::from_fn(|| scheduler.next_to_request()).flatten().collect();
    assert_eq!(rest, ["b", "c", "a"]);
}

#[test]
fn after_a_failed_call_no_call_begins_for_a_while() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    assert!(scheduler.may_call(start));
    scheduler.pause_calls(start, ms(100));
    assert!(!scheduler.may_call(start + ms(99)));
    assert_eq!(scheduler.next_time(), Some(start + ms(100)));
    scheduler.advance(start + ms(100));
    assert!(scheduler.may_call(start + ms(100)));
    assert_eq!(scheduler.next_time(), None);
}

/// Loads all lanes that may be loaded now, if `count` lanes are already loaded.
fn loaded(scheduler: &mut Scheduler, mut count: usize, lanes_max: usize) -> Vec<String> {
    let next = || {
        let key = scheduler.next_to_load(count, lanes_max)?;
        count += 1;
        key
    };
    std::iter::from_fn(next).collect()
}

fn due(names: &[&str]) -> ReleasableLanes {
    let due = names.iter().map(|name| name.to_string()).collect();
    ReleasableLanes { due, ..ReleasableLanes::default() }
}

#[test]
fn lanes_that_are_due_are_loaded_without_room_for_others() {
    let (start, mut scheduler) = (Instant::now(), Scheduler::default());
    scheduler.named(waiting(&["a", "b", "c"], true), start, |_| true);
    assert_eq!(loaded(&mut scheduler, 0, 2), ["a", "b"]);
    scheduler.named(due(&["x", "b", "y"]), start, |name| name != "b");
    assert_eq!(loaded(&mut scheduler, 2, 2), ["x", "y"]);
    assert!(scheduler.is_full(4, 2));
    scheduler.dropped(&key("a"));
    assert_eq!(loaded(&mut scheduler, 3, 2), ["c"], "those that are due take no room from others");
    scheduler.goes_in_turn(&key("x"));
    assert!(scheduler.is_full(4, 2) && scheduler.is_full(3, 2), "it is one of the others now");
    let many: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    scheduler.named(ReleasableLanes { due: many, ..Default::default() }, start, |_| true);
    assert_eq!(loaded(&mut scheduler, 4, 2).len(), DUE_LANES_MAX - 2, "but not without a limit");
}

#[test]
fn lanes_that_are_due_and_others_take_turns() {
    let mut scheduler = Scheduler::default();
    for name in ["a", "b", "c", "d", "x", "y"] {
        if ["x", "y"].contains(&name) {
            scheduler.goes_first(&key(name));
        }
        scheduler.wants_send(&key(name));
        scheduler.wants_request(&key(name));
    }
    let asked: Vec<_> = std::iter::from_fn(|| scheduler.next_to_request()).flatten().collect();
    assert_eq!(asked, ["x", "a", "y", "b", "c", "d"]);
    assert_eq!(sent(&mut scheduler), asked);
    scheduler.goes_in_turn(&key("x"));
    scheduler.wants_send(&key("a"));
    scheduler.wants_send(&key("x"));
    assert_eq!(sent(&mut scheduler), ["a", "x"]);
}

/// If a lane were in both queues, Redis would count its settled messages twice.
#[test]
fn a_lane_that_goes_first_is_in_one_queue_only() {
    let mut scheduler = Scheduler::default();
    for name in ["a", "b"] {
        scheduler.wants_request(&key(name));
    }
    scheduler.goes_first(&key("b"));
    scheduler.wants_request(&key("b"));
    scheduler.goes_in_turn(&key("b"));
    scheduler.wants_request(&key("b"));
    let asked: Vec<_> = std::iter::from_fn(|| scheduler.next_to_request()).flatten().collect();
    assert_eq!(asked, ["b", "a"]);
    scheduler.wants_request(&key("b"));
    scheduler.ask_first(key("b"));
    let asked: Vec<_> = std::iter::from_fn(|| scheduler.next_to_request()).flatten().collect();
    assert_eq!(asked, ["b"]);
}

#[test]
fn without_room_only_lanes_that_are_due_are_scanned_for() {
    let (start, mut scheduler) = (Instant::now(), Scheduler::default());
    scheduler.wants_scan();
    assert_eq!(scheduler.take_scan(false, start), Some(Scan::Due));
    scheduler.wants_scan();
    assert_eq!(scheduler.take_scan(false, start), None, "not at once again");
    assert_eq!(scheduler.next_time(), Some(start + SCAN_EVERY));
    scheduler.advance(start + SCAN_EVERY);
    assert_eq!(scheduler.take_scan(false, start + SCAN_EVERY), Some(Scan::Due));
    assert_eq!(scheduler.take_scan(true, start + SCAN_EVERY), Some(Scan::All), "there is room");
    assert_eq!(scheduler.take_scan(true, start + SCAN_EVERY), None);
}

#[test]
fn after_a_scan_that_found_nothing_new_the_next_waits() {
    let (start, mut scheduler) = (Instant::now(), Scheduler::default());
    scheduler.named(waiting(&["a", "b"], true), start, |_| false);
    assert_eq!(scheduler.take_scan(true, start), None);
    assert_eq!(scheduler.next_time(), Some(start + SCAN_EVERY + SCAN_DELAY));
    scheduler.advance(start + SCAN_EVERY + SCAN_DELAY);
    assert_eq!(scheduler.take_scan(true, start + SCAN_EVERY + SCAN_DELAY), Some(Scan::All));
}

#[test]
fn the_next_end_of_a_backoff_is_scanned_for() {
    let (start, mut scheduler) = (Instant::now(), Scheduler::default());
    let found = ReleasableLanes { next_due: Some(ms(7)), ..ReleasableLanes::default() };
    scheduler.named(found, start, |_| true);
    assert_eq!(scheduler.next_time(), Some(start + ms(9)), "Redis compares whole milliseconds");
    scheduler.advance(start + ms(9));
    assert_eq!(scheduler.take_scan(true, start + ms(9)), Some(Scan::All));
}

#[test]
fn a_scan_begins_only_when_all_named_lanes_are_loaded() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    assert_eq!(scheduler.take_scan(true, start), None, "nobody wants one");
    assert!(!scheduler.others_wait());
    scheduler.wants_scan();
    assert!(scheduler.others_wait());
    assert_eq!(scheduler.take_scan(true, start), Some(Scan::All));
    assert_eq!(scheduler.take_scan(true, start), None);
    scheduler.named(waiting(&["a", "b", "c"], true), start, |name| name != "b");
    assert_eq!(scheduler.take_scan(true, start), Some(Scan::Due), "two are not loaded yet");
    scheduler.advance(start + SCAN_EVERY);
    assert_eq!(loaded_one(&mut scheduler), Some(key("a")));
    assert!(scheduler.others_wait());
    assert_eq!(loaded_one(&mut scheduler), Some(key("c")));
    assert_eq!(loaded_one(&mut scheduler), None);
    assert_eq!(scheduler.take_scan(true, start), Some(Scan::All));
    scheduler.named(waiting(&["d"], false), start, |_| true);
    assert_eq!(loaded_one(&mut scheduler), Some(key("d")));
    assert_eq!(scheduler.take_scan(true, start), None, "it found all");
    scheduler.scan_after(start, ms(40));
    assert_eq!(scheduler.next_time(), Some(start + ms(42)), "Redis compares whole milliseconds");
    scheduler.advance(start + ms(42));
    assert_eq!(scheduler.take_scan(true, start), Some(Scan::All));
}

#[test]
fn draining_destination_settles_resolves_and_loads_no_lane() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    scheduler.wants_scan();
    scheduler.named(waiting(&["a"], false), start, |_| true);
    scheduler.wants_request(&key("b"));
    scheduler.wants_resolve(&key("c"));
    scheduler.set_rate(1, start);
    assert!(scheduler.take_slot(&key("d"), start).is_some());
    assert!(scheduler.take_slot(&key("d"), start).is_none());
    scheduler.drain();
    assert_eq!(scheduler.next_time(), None, "nothing more is sent");
    assert_eq!(loaded_one(&mut scheduler), None);
    assert_eq!(scheduler.take_scan(true, start), None);
    assert_eq!(scheduler.next_to_request(), Some(key("b")));
    assert_eq!(scheduler.next_to_resolve(), Some(key("c")));
    scheduler.forget_lanes();
    assert!(scheduler.is_draining());
}

#[test]
fn after_a_change_of_lanes_nothing_of_the_old_ones_is_left() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    scheduler.set_rate(1, start);
    assert!(scheduler.take_slot(&key("a"), start).is_some());
    for (number, due) in [Due::Send, Due::Request, Due::Resolve].into_iter().enumerate() {
        scheduler.at(start, &key(&number.to_string()), due);
    }
    scheduler.wants_send(&key("b"));
    scheduler.wants_request(&key("b"));
    scheduler.wants_resolve(&key("b"));
    scheduler.rest(&key("b"));
    scheduler.named(waiting(&["b"], false), start, |_| true);
    scheduler.scan_after(start, ms(1));
    scheduler.pause_calls(start, ms(9));
    scheduler.named(due(&["b"]), start, |_| true);
    scheduler.goes_first(&key("b"));
    scheduler.forget_lanes();
    scheduler.advance(start + ms(9));
    scheduler.resume();
    let left = (
        scheduler.next_to_send(),
        scheduler.next_to_request(),
        scheduler.next_to_resolve(),
        loaded_one(&mut scheduler),
        scheduler.next_time(),
    );
    assert_eq!(left, (None, None, None, None, None));
    assert!(scheduler.may_call(start) && !scheduler.is_full(1, 2));
    assert_eq!(scheduler.take_scan(true, start), Some(Scan::All));
    assert!(scheduler.take_slot(&key("c"), start).is_none(), "the rate limit goes on");
}

#[test]
fn a_task_ends_after_a_minute_without_anything_to_do() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    assert_eq!(scheduler.idle_end(true, start), None);
    let end = Some(start + ms(5) + IDLE);
    assert_eq!(scheduler.idle_end(false, start + ms(5)), end);
    assert_eq!(scheduler.idle_end(false, start + ms(70)), end);
    scheduler.scan_after(start, ms(100));
    assert_eq!(scheduler.idle_end(false, start + ms(80)), None, "a backoff runs");
    scheduler.advance(start + ms(102));
    assert_eq!(scheduler.idle_end(false, start + ms(102)), Some(start + ms(102) + IDLE));
}

/// Begins and ends the deliveries of a thousand lanes until `end`. Each takes 20 ms; the receiver is dead or works.
/// Returns when each began, and the lane.
fn delivered_until(
    scheduler: &mut Scheduler,
    now: &mut Instant,
    end: Instant,
    works: bool,
) -> Vec<(Instant, String)> {
    let error = AttemptError::new(Stage::Delivery, ErrorKind::Status, "503");
    let (mut begun, mut in_flight) = (Vec::new(), VecDeque::new());
    while *now < end {
        scheduler.advance(*now);
        while in_flight.len() < 64
            && let Some(lane) = scheduler.next_to_send()
            && let Some(probes) = scheduler.take_slot(&lane, *now)
        {
            begun.push((*now, lane.clone().unwrap()));
            in_flight.push_back((*now + ms(20), lane, probes));
        }
        let next_end = in_flight.front().map(|(end, ..)| *end);
        let Some(next) = next_end.into_iter().chain(scheduler.next_time()).min() else { break };
        *now = next;
        while in_flight.front().is_some_and(|(end, ..)| *end <= *now) {
            let (_, lane, probes) = in_flight.pop_front().unwrap();
            let message = lane.as_ref().unwrap().parse().unwrap();
            let verdict = match works {
                true => Verdict::Accepted(1),
                false => Verdict::Refused {
                    accepted: 0,
                    error: error.clone(),
                    retry_after: None,
                    finality: Finality::Retryable,
                },
            };
            scheduler.receiver().ended(&verdict, message, &probes, ms(60_000), *now);
            if !works {
                // Its backoff is over long before the next probe.
                scheduler.wants_send(&lane);
            }
        }
    }
    begun
}

#[test]
fn thousand_lanes_spare_a_dead_receiver_and_resume_in_5_s() {
    let (start, mut scheduler) = (Instant::now(), Scheduler::default());
    scheduler.receiver().set(&Hosts::default(), Some("http://receiver/"), 10);
    let mut now = start;
    (0..1_000).for_each(|lane| scheduler.wants_send(&key(&lane.to_string())));
    let dead = delivered_until(&mut scheduler, &mut now, start + ms(60_000), false);
    // The deliveries of 64 lanes were in flight when the receiver began to fail.
    let (first, probes) = dead.split_at(64);
    assert!(first.iter().all(|(at, _)| *at == start));
    let begun: Vec<u64> = probes.iter().map(|(at, _)| (*at - start).as_millis() as u64).collect();
    assert_eq!(begun[..5], [1_020, 3_040, 7_060, 12_080, 17_100], "one probe at a time");
    assert!(begun.len() < 15, "{begun:?}");

    let end = now + ms(60_000);
    let works = delivered_until(&mut scheduler, &mut now, end, true);
    let lanes: HashSet<&String> = works.iter().map(|(_, lane)| lane).collect();
    assert_eq!((works.len(), lanes.len()), (1_000, 1_000), "each lane once");
    let (probe, last) = (works[0].0 + ms(20), works[999].0);
    assert!(last - probe < ms(5_000), "the last began after {:?}", last - probe);
}
