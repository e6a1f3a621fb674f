//! The calls of consumers.

use store::{rows::LaneSets, transitions::*};

use super::{CALLER, Call, Calls, LONG, LONG_MS, TROUBLE, made};

/// A message that a consumer names: its lane, the secret, its sequence.
pub type Item<'a> = (&'a str, &'a str, u64);

impl Calls {
    /// Leases messages of these lanes, in this order.
    pub fn consume(&self, secret: &str, most: usize, lanes: &[&str]) -> Call {
        let sets = lanes.iter().map(|lane| LaneSets::of(&self.keys, self.set(lane)));
        let args = consume::Args {
            call_number: self.next(),
            seen_epoch: LONG.to_owned(),
            version: self.version(),
            secret,
            lease_ms: LONG_MS,
            most,
            bytes_max: 1_000_000,
            destination: self.name.as_str(),
            ordering: self.ordering,
            lanes_max: 64,
            wait_max_ms: LONG_MS,
            sets: sets.collect(),
            lanes: lanes.to_vec(),
        };
        made("consume", args.words(&self.keys, CALLER))
    }

    /// Accepts, refuses, extends or gives back messages.
    pub fn acknowledge(&self, verb: &str, items: &[Item]) -> Call {
        let rows = items.iter().map(|(lane, secret, sequence)| acknowledge::Acknowledged {
            lane: (*lane).to_owned(),
            secret,
            sequence: *sequence,
            problem: TROUBLE.to_owned(),
            wait_ms: "7".to_owned(),
            is_final: false,
        });
        let args = acknowledge::Args {
            seen_epoch: LONG.to_owned(),
            destination: self.name.as_str(),
            ordering: self.ordering,
            verb,
            lease_ms: LONG_MS,
            messages: rows.collect(),
        };
        made("acknowledge", args.words(&self.keys))
    }

    /// The owner reads the answers of consumers in a lane, and settles the messages up to a sequence; 0: none.
    pub fn look(&self, token: &str, lane: &str, settled_upto: u64, most: usize) -> Call {
        let args = self.release_of(token, &[(lane, settled_upto, most)]);
        made("release", args.words(&self.keys))
    }
}
