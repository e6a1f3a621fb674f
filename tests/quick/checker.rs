//! Tests that the checker of the journeys finds every anomaly.

use std::panic::{AssertUnwindSafe, catch_unwind};

use support::{
    checker::{Found, Rule, check},
    examiner::{Anomaly, Held, Losses, Order, Subject, examine},
    journal::{Delivery, Headers, Journal},
    ledger::{Ledger, Promise},
    long::{long_form, short_form, written_down},
    transformer::transformed,
};

use crate::support;

const RULES: [Rule; 1] = [Rule { destination: "erp", by_key: true, is_transformed: true }];

/// Sequences 1 to 4, with the keys a, b, a, b.
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

/// The checker's result for deliveries of these sequences, changed by `change`.
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
    assert!(found(&[1, 2, 3]).contains("lost: Promise"));
    let without_previous = |_: usize, delivery: &mut Delivery| {
        delivery.headers.iter_mut().for_each(|headers| headers.previous = 0);
    };
    assert!(checked(&[3, 1, 2, 4], without_previous).unwrap_err().contains("in lane"));
    let invented = |at: usize, delivery: &mut Delivery| {
        if at == 1 {
            delivery.body = transformed("5");
        }
    };
    assert!(checked(&[1, 2, 3, 4], invented).unwrap_err().contains("body mismatch: "));
    let raw = |_: usize, delivery: &mut Delivery| delivery.body = "1".into();
    assert!(checked(&[1], raw).unwrap_err().contains("body mismatch: "));
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

/// Promises and deliveries, changed to contain an anomaly.
struct Case {
    promises: Vec<Promise>,
    deliveries: Vec<Delivery>,
    held: Held,
    losses: Losses,
    /// Epochs and sequences.
    destroyed: Vec<(u64, u64)>,
    is_removed: bool,
}

impl Case {
    fn sound() -> Case {
        let deliveries = promises().iter().map(delivery).collect();
        let (promises, held, destroyed) = (promises(), Held::new(), Vec::new());
        Case { promises, deliveries, held, losses: Losses::None, destroyed, is_removed: false }
    }

    /// The anomalies that the checker finds, and the number of each.
    fn found(self, order: Order) -> Vec<(Anomaly, usize)> {
        let (ledger, journal) = (Ledger::default(), Journal::default());
        self.promises.into_iter().for_each(|promise| ledger.promise(promise));
        self.deliveries.into_iter().for_each(|delivery| journal.note(delivery));
        for (epoch, sequence) in self.destroyed {
            ledger.destroy("erp", epoch, sequence);
        }
        let is_removed = self.is_removed;
        let subject = Subject { destination: "erp", order, is_transformed: true, is_removed };
        let (_, anomalies) = examine(&ledger, &journal, &self.held, &[subject], self.losses);
        let counted = Anomaly::ALL.map(|name| (name, anomalies.count(name)));
        counted.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn headers(&mut self, at: usize) -> &mut Headers {
        self.deliveries[at].headers.as_mut().unwrap()
    }
}

#[test]
fn a_sound_case_has_no_anomaly() {
    assert_eq!(Case::sound().found(Order::Key), []);
}

#[test]
fn what_is_not_delivered_is_lost_or_stuck() {
    let mut case = Case::sound();
    case.deliveries.truncate(2);
    case.held.insert(("erp".into(), 4));
    assert_eq!(case.found(Order::Key), [(Anomaly::Lost, 1), (Anomaly::Stuck, 1)]);
}

#[test]
fn what_is_reordered_is_found_in_deliveries_and_in_promises() {
    let mut case = Case::sound();
    case.deliveries.swap(0, 2);
    let found = case.found(Order::Key);
    assert_eq!(found[0], (Anomaly::Reordered, 1), "{found:?}");
    let mut case = Case::sound();
    (case.promises[0].sequence, case.promises[1].sequence) = (2, 1);
    (case.headers(0).sequence, case.headers(1).sequence) = (2, 1);
    assert_eq!(case.found(Order::Key)[0], (Anomaly::Reordered, 1));
}

#[test]
fn without_order_any_order_is_right() {
    let mut case = Case::sound();
    (0..4).for_each(|at| case.headers(at).previous = 0);
    case.deliveries.reverse();
    assert_eq!(case.found(Order::None), []);
}

#[test]
fn unsent_message_is_invented_and_another_body_is_mismatch() {
    let mut case = Case::sound();
    let mut invented = case.deliveries[3].clone();
    invented.body = transformed("5");
    invented.headers.as_mut().unwrap().sequence = 5;
    case.deliveries.push(invented);
    assert_eq!(case.found(Order::Key), [(Anomaly::Invented, 1)]);
    let mut case = Case::sound();
    case.deliveries[3].body = transformed("5");
    assert_eq!(case.found(Order::Key), [(Anomaly::Lost, 1), (Anomaly::BodyMismatch, 1)]);
}

#[test]
fn doubled_place_is_found_in_deliveries_and_in_promises() {
    let mut case = Case::sound();
    case.headers(3).sequence = 3;
    let found = case.found(Order::Key);
    assert!(found.contains(&(Anomaly::DoubledSequence, 1)), "{found:?}");
    let mut case = Case::sound();
    case.promises[3].sequence = 3;
    let found = case.found(Order::Key);
    assert!(found.contains(&(Anomaly::DoubledSequence, 1)), "{found:?}");
    let mut case = Case::sound();
    case.promises.push(Promise { sequence: 5, ..case.promises[3].clone() });
    let found = case.found(Order::Key);
    assert!(found.contains(&(Anomaly::DoubledSequence, 1)), "{found:?}");
}

#[test]
fn a_repeat_that_a_receiver_could_not_know_is_found() {
    let mut case = Case::sound();
    case.deliveries.push(case.deliveries[3].clone());
    assert_eq!(case.headers(4).sequence, 4);
    case.headers(4).sequence = 5;
    assert_eq!(case.found(Order::Key), [(Anomaly::UnrecognisableRepeat, 1)]);
}

#[test]
fn a_delivery_that_names_another_place_than_promised_is_found() {
    let mut case = Case::sound();
    case.headers(3).id = "other".into();
    case.headers(2).previous = 2;
    assert_eq!(case.found(Order::Key), [(Anomaly::WrongPlace, 2)]);
}

#[test]
fn what_was_destroyed_may_be_missing_and_no_other() {
    let without_second = |destroyed: &[(u64, u64)]| {
        let mut case = Case::sound();
        case.deliveries.remove(1);
        case.destroyed = destroyed.to_vec();
        case.found(Order::Key)
    };
    assert_eq!(without_second(&[(7, 2)]), []);
    let lost = [(Anomaly::Lost, 1), (Anomaly::WrongPlace, 1)];
    assert_eq!(without_second(&[(7, 1)]), lost);
    // The same sequence in another epoch is another message.
    assert_eq!(without_second(&[(8, 2)]), [(Anomaly::Lost, 1)]);
}

/// The fourth message was delivered and lost in Redis, then stamped and delivered again in the next epoch.
fn placed_again(promised_epoch: u64) -> Case {
    let mut case = Case::sound();
    case.losses = Losses::Unconfirmed;
    case.promises[3].epoch = Some(promised_epoch);
    case.deliveries.push(case.deliveries[3].clone());
    case.headers(4).epoch = 8;
    case
}

#[test]
fn place_may_change_only_if_unpromised_and_losses_expected() {
    assert_eq!(placed_again(8).found(Order::Key), []);
    let mut strict = placed_again(8);
    strict.losses = Losses::None;
    let found = strict.found(Order::Key);
    assert!(found.contains(&(Anomaly::UnrecognisableRepeat, 1)), "{found:?}");
    assert_eq!(placed_again(7).found(Order::Key), [(Anomaly::UnrecognisableRepeat, 1)]);
    let mut below = placed_again(8);
    below.headers(4).epoch = 6;
    let found = below.found(Order::Key);
    assert!(found.contains(&(Anomaly::UnrecognisableRepeat, 1)), "{found:?}");
}

#[test]
fn message_after_loss_names_last_promised_one_or_a_later_one() {
    let named = |previous: u64| {
        let mut case = placed_again(8);
        case.headers(4).previous = previous;
        case.found(Order::Key)
    };
    assert_eq!(named(2), []);
    assert_eq!(named(0), [(Anomaly::WrongPlace, 1)]);
    assert_eq!(named(5), [(Anomaly::WrongPlace, 1)]);
}

#[test]
fn only_what_is_removed_begins_again() {
    let begun_again = |is_removed: bool| {
        let mut case = Case::sound();
        case.is_removed = is_removed;
        case.promises.push(Promise {
            epoch: Some(8),
            sequence: 1,
            id: None,
            body: "5".into(),
            ..case.promises[0].clone()
        });
        case.deliveries.push(delivery(&promises()[0]));
        case.deliveries[4].body = transformed("5");
        case.headers(4).epoch = 8;
        case.found(Order::Key)
    };
    assert_eq!(begun_again(true), []);
    assert_eq!(begun_again(false), [(Anomaly::WrongPlace, 1)]);
}

#[test]
fn long_body_is_written_short_only_if_every_byte_arrived() {
    let short = short_form("one", 7, 5000);
    let long = long_form(&short);
    assert_eq!(long.len(), 5000);
    assert_eq!(written_down(long.clone()), short);
    assert_eq!(written_down(transformed(&long)), transformed(&short));
    assert_eq!(written_down(short.clone()), short);
    let mut other = long.clone();
    other.replace_range(3000..3001, "x");
    assert_eq!(written_down(other.clone()), other);
    let cut = format!("{}\"}}", &long[..4000]);
    assert_eq!(written_down(cut.clone()), cut);
}
