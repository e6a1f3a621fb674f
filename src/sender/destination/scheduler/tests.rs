use super::*;

fn key(name: &str) -> LaneKey {
    Some(name.to_owned())
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Everything that may be sent now, in order.
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
    assert!(scheduler.take_slot(&a, start));
    assert_eq!(scheduler.next_time(), None);
    let b = scheduler.next_to_send().unwrap();
    scheduler.wants_send(&a);
    assert!(!scheduler.take_slot(&b, start));
    let slot = scheduler.next_time().unwrap();
    assert_eq!(slot, start + ms(100));
    scheduler.advance(slot);
    assert_eq!(scheduler.next_time(), None, "a time that has come comes once");
    assert_eq!(scheduler.next_to_send(), Some(b.clone()), "before the lane that has sent");
    assert!(scheduler.take_slot(&b, slot));
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

#[test]
fn withdrawals_are_asked_for_once_when_it_is_time() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    scheduler.ask_withdrawals(Some(start + ms(5)));
    scheduler.ask_withdrawals(Some(start + ms(9)));
    assert!(!scheduler.advance(start + ms(5)));
    assert!(scheduler.advance(start + ms(9)));
    assert!(!scheduler.advance(start + ms(9)));
    scheduler.ask_withdrawals(Some(start + ms(20)));
    scheduler.ask_withdrawals(None);
    assert_eq!(scheduler.next_time(), None);
}

#[test]
fn a_scan_begins_only_when_all_named_lanes_are_loaded() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    assert!(!scheduler.take_scan() && !scheduler.others_wait(), "nobody wants one");
    scheduler.wants_scan();
    assert!(scheduler.others_wait());
    assert!(scheduler.take_scan() && !scheduler.take_scan());
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    scheduler.named(names(&["a", "b", "c"]), 3, |name| name != "b");
    assert!(!scheduler.take_scan(), "it found as many as it asked for, but two are not loaded yet");
    assert_eq!(scheduler.next_to_load().as_deref(), Some("a"));
    assert!(scheduler.others_wait());
    assert_eq!(scheduler.next_to_load().as_deref(), Some("c"));
    assert_eq!(scheduler.next_to_load(), None);
    assert!(scheduler.take_scan());
    scheduler.named(names(&["d"]), 3, |_| true);
    assert_eq!(scheduler.next_to_load().as_deref(), Some("d"));
    assert!(!scheduler.take_scan(), "it found all");
    scheduler.scan_after(start, ms(40));
    assert_eq!(scheduler.next_time(), Some(start + ms(42)), "Redis compares whole milliseconds");
    scheduler.advance(start + ms(42));
    assert!(scheduler.take_scan());
}

#[test]
fn a_draining_destination_loads_no_lane_but_settles_and_resolves() {
    let start = Instant::now();
    let mut scheduler = Scheduler::default();
    scheduler.wants_scan();
    scheduler.named(vec!["a".to_owned()], 9, |_| true);
    scheduler.wants_request(&key("b"));
    scheduler.wants_resolve(&key("c"));
    scheduler.set_rate(1, start);
    assert!(scheduler.take_slot(&key("d"), start) && !scheduler.take_slot(&key("d"), start));
    scheduler.drain();
    assert_eq!(scheduler.next_time(), None, "nothing more is sent");
    assert_eq!(scheduler.next_to_load(), None);
    assert!(!scheduler.take_scan());
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
    assert!(scheduler.take_slot(&key("a"), start));
    for (number, due) in [Due::Send, Due::Request, Due::Resolve].into_iter().enumerate() {
        scheduler.at(start, &key(&number.to_string()), due);
    }
    scheduler.wants_send(&key("b"));
    scheduler.wants_request(&key("b"));
    scheduler.wants_resolve(&key("b"));
    scheduler.rest(&key("b"));
    scheduler.named(vec!["b".to_owned()], 9, |_| true);
    scheduler.scan_after(start, ms(1));
    scheduler.pause_calls(start, ms(9));
    scheduler.ask_withdrawals(Some(start));
    scheduler.forget_lanes();
    assert!(!scheduler.advance(start + ms(9)));
    scheduler.resume();
    let left = (
        scheduler.next_to_send(),
        scheduler.next_to_request(),
        scheduler.next_to_resolve(),
        scheduler.next_to_load(),
        scheduler.next_time(),
    );
    assert_eq!(left, (None, None, None, None, None));
    assert!(scheduler.may_call(start) && scheduler.take_scan());
    assert!(!scheduler.take_slot(&key("c"), start), "the rate limit goes on");
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
