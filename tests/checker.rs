//! The checker of the journeys is itself checked: each thing that must not happen, it finds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use support::{
    checker::{Found, Rule, check},
    journal::{Delivery, Headers, Journal},
    ledger::{Ledger, Promise},
    transformer::transformed,
};

mod support;

const RULES: [Rule; 1] = [Rule { destination: "erp", by_key: true, is_transformed: true }];

/// Sequences 1 to 4, of the keys a, b, a, b.
fn promises() -> Vec<Promise> {
    let promise = |sequence: u64| Promise {
        destination: "erp".into(),
        epoch: Some(7),
        sequence,
        id: Some(format!("id-{sequence}")),
        key: Some(if sequence % 2 == 1 { "a" } else { "b" }.into()),
        body: sequence.to_string(),
        producer: "one".into(),
    };
    (1..=4).map(promise).collect()
}

fn delivery(promise: &Promise) -> Delivery {
    Delivery {
        destination: promise.destination.clone(),
        body: transformed(&promise.body),
        headers: Some(Headers {
            epoch: 7,
            sequence: promise.sequence,
            previous: promise.sequence.saturating_sub(2),
            id: promise.id.clone().unwrap(),
            key: promise.key.clone(),
            attempt: 1,
        }),
    }
}

/// What the checker makes of deliveries of these sequences, changed by `change`.
fn checked(sequences: &[usize], change: impl Fn(usize, &mut Delivery)) -> Result<Found, String> {
    let (ledger, journal, promises) = (Ledger::default(), Journal::default(), promises());
    for (at, sequence) in sequences.iter().enumerate() {
        let mut delivery = delivery(&promises[sequence - 1]);
        change(at, &mut delivery);
        journal.note(delivery);
    }
    promises.into_iter().for_each(|promise| ledger.promise(promise));
    let found = catch_unwind(AssertUnwindSafe(|| check(&ledger, &journal, &RULES)));
    found.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

fn as_it_is(_: usize, _: &mut Delivery) {}

/// Changes the headers of the last of five deliveries.
fn last(change: impl Fn(&mut Headers)) -> impl Fn(usize, &mut Delivery) {
    move |at, delivery| {
        if at == 4 {
            delivery.headers.iter_mut().for_each(&change);
        }
    }
}

#[test]
fn lanes_may_overtake_each_other_and_repeats_are_counted() {
    let found = checked(&[2, 1, 1, 4, 3, 2], as_it_is).unwrap();
    assert_eq!((found.messages, found.repeats, found.repeats_of["erp"]), (4, 2, 2));
}

#[test]
fn what_is_lost_out_of_order_or_invented_is_found() {
    let found = |sequences: &[usize]| checked(sequences, as_it_is).unwrap_err();
    assert!(found(&[1, 2, 3]).contains("1 of 4 lost"));
    let without_previous = |_: usize, delivery: &mut Delivery| {
        delivery.headers.iter_mut().for_each(|headers| headers.previous = 0);
    };
    assert!(checked(&[3, 1, 2, 4], without_previous).unwrap_err().contains("in lane"));
    let invented = |at: usize, delivery: &mut Delivery| {
        if at == 1 {
            delivery.body = transformed("5");
        }
    };
    assert!(checked(&[1, 2, 3, 4], invented).unwrap_err().contains("nobody sent in"));
    let raw = |_: usize, delivery: &mut Delivery| delivery.body = "1".into();
    assert!(checked(&[1], raw).unwrap_err().contains("nobody sent in"));
}

#[test]
fn a_repeat_or_a_place_that_is_not_as_it_was_is_found() {
    let repeat = [1, 2, 3, 4, 4];
    assert_eq!(checked(&repeat, last(|headers| headers.attempt = 9)).unwrap().later_attempts, 1);
    checked(&repeat, last(|headers| headers.epoch = 8)).unwrap_err();
    checked(&repeat, last(|headers| headers.sequence = 5)).unwrap_err();
    checked(&repeat, last(|headers| headers.id = "other".into())).unwrap_err();
    let all = |change: fn(&mut Headers)| {
        let change = move |_: usize, delivery: &mut Delivery| {
            delivery.headers.iter_mut().for_each(change);
        };
        checked(&[1, 2, 3, 4], change).unwrap_err()
    };
    all(|headers| headers.epoch += 1);
    all(|headers| headers.previous = 1);
    all(|headers| headers.key = None);
    all(|headers| headers.id.push('x'));
}
