//! Checks arrivals: order, missing messages, repeats. No I/O.

use std::time::Duration;

/// One message that a receiver accepted, in order of arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the message, from 1.
    pub n: usize,
    /// The time of arrival, since the start of the demo.
    pub at: Duration,
    /// `(Reseq-Epoch, Reseq-Sequence)`, if the delivery has headers.
    pub place: Option<(u64, u64)>,
    /// True if the transformer processed the body.
    pub is_transformed: bool,
}

/// The result of the check for one receiver.
#[derive(Debug, PartialEq, Eq)]
pub struct OrderCheck {
    /// When each message first arrived; `None` if it never did.
    pub first: Vec<Option<Duration>>,
    /// True if first deliveries came in the order of sending, and every repeat was recognisable.
    pub in_order: bool,
    /// Deliveries that the receiver recognised as repeats.
    pub repeats: usize,
    /// Deliveries of messages that were not sent, or not transformed.
    pub foreign: usize,
}

impl OrderCheck {
    /// How many of the messages arrived.
    pub fn delivered(&self) -> usize {
        self.first.iter().flatten().count()
    }
}

/// Checks the arrivals of `messages` messages.
///
/// If deliveries have positions, a receiver recognises a repeat by a position that is not above the last one. Otherwise
/// it recognises a repeat by the message's number, which it has seen before.
pub fn judge(arrivals: &[Arrival], messages: usize) -> OrderCheck {
    let mut judged =
        OrderCheck { first: vec![None; messages], in_order: true, repeats: 0, foreign: 0 };
    let mut last_n = 0;
    let mut last_place = None;
    for arrival in arrivals {
        let index = arrival.n.wrapping_sub(1);
        let Some(seen) = judged.first.get(index).map(Option::is_some) else {
            judged.foreign += 1;
            continue;
        };
        let is_repeat = match (arrival.place, last_place) {
            (Some(place), Some(last)) => place <= last,
            (Some(_), None) => false,
            (None, _) => seen,
        };
        if !arrival.is_transformed {
            judged.foreign += 1;
        }
        if is_repeat {
            judged.repeats += 1;
            continue;
        }
        last_place = arrival.place.or(last_place);
        // If the number was seen before but the position is new, the receiver cannot recognise the repeat.
        judged.in_order &= arrival.n > last_n;
        last_n = last_n.max(arrival.n);
        judged.first[index].get_or_insert(arrival.at);
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(of: &[(usize, Option<(u64, u64)>)]) -> Vec<Arrival> {
        let one = |(at, &(n, place)): (usize, &(usize, _))| Arrival {
            n,
            at: Duration::from_millis(at as u64),
            place,
            is_transformed: true,
        };
        of.iter().enumerate().map(one).collect()
    }

    #[test]
    fn repeats_are_known_by_their_place_and_are_no_disorder() {
        let place = |n| (n as usize, Some((9, n)));
        let judged = judge(&arrivals(&[place(1), place(2), place(1), place(2), place(3)]), 3);
        assert_eq!((judged.in_order, judged.repeats, judged.delivered()), (true, 2, 3));
        assert_eq!(judged.first[1], Some(Duration::from_millis(1)));
    }

    #[test]
    fn without_places_a_repeat_is_a_number_that_was_seen() {
        let judged = judge(&arrivals(&[(1, None), (2, None), (2, None), (3, None)]), 4);
        assert_eq!((judged.in_order, judged.repeats, judged.delivered()), (true, 1, 3));
    }

    #[test]
    fn an_overtaking_message_is_disorder() {
        assert!(!judge(&arrivals(&[(2, None), (1, None)]), 2).in_order);
        let overtaken = [(2, Some((9, 1))), (1, Some((9, 2)))];
        assert!(!judge(&arrivals(&overtaken), 2).in_order);
    }

    #[test]
    fn repeat_with_a_new_place_counts_as_disorder() {
        let judged = judge(&arrivals(&[(1, Some((9, 1))), (1, Some((9, 2)))]), 1);
        assert_eq!((judged.in_order, judged.repeats, judged.delivered()), (false, 0, 1));
    }

    #[test]
    fn message_that_looks_like_a_repeat_counts_as_missing() {
        let judged = judge(&arrivals(&[(1, Some((9, 5))), (2, Some((9, 5)))]), 2);
        assert_eq!((judged.repeats, judged.delivered()), (1, 1));
    }

    #[test]
    fn what_nobody_sent_or_transformed_is_foreign() {
        let mut all = arrivals(&[(0, None), (1, None), (2, None)]);
        all[1].is_transformed = false;
        assert_eq!(judge(&all, 1).foreign, 3);
    }
}
