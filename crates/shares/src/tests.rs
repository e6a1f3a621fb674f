//! Tests how places are divided.

use futures::FutureExt;

use super::*;

/// Takes all places that this name may take. Returns their number.
fn fill(shares: &mut Shares<&'static str>, name: &'static str, others: bool, heavy: bool) -> usize {
    let mut taken = 0;
    while shares.room(&name, others, heavy) > 0 {
        shares.take(&name, 1);
        taken += 1;
    }
    taken
}

#[test]
fn one_name_may_have_all_but_the_last_tenth() {
    let mut shares = Shares::new(256, 256);
    assert_eq!(fill(&mut shares, "hog", false, false), 230);
    assert_eq!(fill(&mut shares, "other", false, false), 26, "the last tenth goes to another");
    for (all, most) in [(1, 1), (2, 2), (3, 2), (10, 9), (32, 28)] {
        assert_eq!(fill(&mut Shares::new(all, all), "hog", false, false), most, "of {all}");
    }
    assert_eq!(fill(&mut Shares::new(100, 16), "hog", false, false), 16);
}

#[test]
fn name_gets_half_of_what_others_leave_while_another_waits() {
    let mut shares = Shares::new(256, 256);
    shares.take(&"hog", 230);
    assert_eq!(shares.room(&"hog", true, false), 0);
    assert_eq!(shares.room(&"other", true, false), 13);
    shares.give_back(&"hog", 102);
    assert_eq!((shares.taken_by(&"hog"), shares.room(&"hog", true, false)), (128, 0));
    shares.give_back(&"hog", 1);
    assert_eq!(shares.room(&"hog", true, false), 1);
    assert_eq!(fill(&mut shares, "other", true, false), 64, "half of what the hog leaves");
}

#[test]
fn halves_leave_room_for_the_next_and_give_at_least_one() {
    let mut shares = Shares::new(8, 8).halves();
    for (name, got) in [("a", 4), ("b", 2), ("c", 1), ("d", 1), ("e", 0)] {
        assert_eq!(fill(&mut shares, name, false, false), got, "{name}");
    }
    shares.give_back(&"a", 1);
    assert_eq!((shares.room(&"e", false, false), shares.free()), (1, 1));
}

#[test]
fn names_that_never_end_leave_a_quarter_to_others() {
    for at_once in [2, 4, 16] {
        let mut shares = Shares::new(16 * at_once, at_once);
        let names: Vec<String> =
            (0..20 * at_once).map(|number| format!("endless {number}")).collect();
        for name in names {
            let name: &'static str = name.leak();
            assert!(fill(&mut shares, name, false, true) <= at_once);
        }
        assert_eq!(shares.free(), 4 * at_once);
        assert_eq!(fill(&mut shares, "quick", false, false), at_once);
        shares = Shares::new(16 * at_once, at_once);
        for number in 0..17 {
            fill(&mut shares, format!("endless {number}").leak(), true, true);
        }
        assert!(shares.room(&"unknown", true, true) > 0, "17 of {at_once} at once");
    }
}

#[test]
fn what_was_taken_beyond_all_is_owed_before_anything_is_free() {
    let mut shares = Shares::new(16, 16);
    // The claim for all slots gets no answer. Its slots are freed, and another name takes some of them.
    shares.take(&"a", 16);
    shares.give_back(&"a", 16);
    shares.take(&"b", 11);
    assert_eq!((shares.free(), shares.taken_by(&"a")), (5, 0));
    // The claim is repeated for the free slots, and returns all messages of the first time.
    shares.take(&"a", 16);
    assert_eq!((shares.free(), shares.taken(), shares.taken_by(&"a")), (0, 27, 16));
    assert_eq!((shares.room(&"a", false, false), shares.room(&"c", true, true)), (0, 0));
    shares.give_back(&"b", 11);
    shares.give_back(&"a", 1);
    assert_eq!((shares.free(), shares.taken()), (1, 15));
}

#[tokio::test]
async fn names_take_places_in_turn_and_first_come_first_served() {
    let share = FairShare::new("tests", Shares::new(4, 4).halves());
    let mut hog: Vec<_> = [share.take(&"hog").await, share.take(&"hog").await].into();
    let mut more: Vec<_> = (0..3).map(|_| Box::pin(share.take(&"hog"))).collect();
    assert!(more.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
    let neighbour =
        share.take(&"neighbour").now_or_never().expect("half of the hog's rest is free");
    assert_eq!((share.taken(), share.waiting()), (3, [("hog", 3)].into()));
    hog.pop();
    assert!(more[1].as_mut().now_or_never().is_none(), "it came later");
    assert!(more[0].as_mut().now_or_never().is_none(), "the neighbour has a place");
    drop(neighbour);
    hog.push(more.remove(0).now_or_never().expect("the first has its turn"));
    drop(more.remove(0));
    assert_eq!(share.waiting(), [("hog", 1)].into());
    drop(hog);
    drop(more.remove(0).now_or_never().expect("the one before it has left"));
    assert_eq!((share.taken(), share.waiting().len()), (0, 0));
}

#[tokio::test]
async fn place_of_a_waiter_that_is_gone_goes_to_the_next() {
    let share = FairShare::new("tests", Shares::new(1, 1));
    let first = share.take(&"a").await;
    let mut gone = Box::pin(share.take(&"b"));
    let mut next = Box::pin(share.take(&"c"));
    assert!(gone.as_mut().now_or_never().is_none() && next.as_mut().now_or_never().is_none());
    // The waiter gets the place, but is dropped before it takes it.
    drop(first);
    assert!(next.as_mut().now_or_never().is_none());
    drop(gone);
    drop(next.now_or_never().expect("the place goes on"));
    assert_eq!((share.taken(), share.waiting().len()), (0, 0));
}

#[test]
fn names_that_take_what_they_may_hold_places_by_weight() {
    let mut shares: Shares<&str> = Shares::new(180, 180);
    let weights = [("light", 1), ("middle", 2), ("heavy", 5)];
    // Each has as many as it may, and gives one back when it has more.
    for _ in 0..200 {
        for (name, weight) in weights {
            match shares.weighted_room(&name, weight, true, false) {
                0 => shares.give_back(&name, 1),
                _ => shares.take(&name, 1),
            }
        }
    }
    let held = weights.map(|(name, _)| shares.taken_by(&name));
    for (count, ideal) in held.iter().zip([20, 40, 100]) {
        assert!(count.abs_diff(ideal) <= 3, "{held:?}");
    }
    assert!(shares.free() >= 15, "some are left for those that come");
}
