//! The calls about offers: of owners and of consumers.

use super::{Call, Calls, LONG, TROUBLE, call};

/// What an owner asks about a lane: its key, 'offer', 'look' or 'recall', and the sequences to offer.
pub type Ask<'a> = (&'a str, &'a str, &'a [u64]);

/// A message that a consumer names: its lane, the secret, its sequence.
pub type Item<'a> = (&'a str, &'a str, u64);

impl Calls {
    /// Offers lanes, and looks at offers.
    pub fn offer(&self, token: &str, lanes: &[Ask]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys =
            [&p.epoch(), &p.owner(), &k.hash(), &k.offers(), &k.offered(), &p.wake_offered()];
        let (name, count) = (self.name.as_str(), lanes.len().to_string());
        let args = [token, &self.epoch, &self.version, name, LONG, LONG, &count];
        let mut made = call("offer", &keys, &args);
        for (lane, what, sequences) in lanes {
            let count = sequences.len().to_string();
            made.args.extend([(*lane).to_owned(), (*what).to_owned(), count]);
        }
        let sequences = lanes.iter().flat_map(|(_, _, sequences)| sequences.iter());
        made.args.extend(sequences.map(u64::to_string));
        made
    }

    /// Leases offered messages.
    pub fn consume(&self, secret: &str, most: usize) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &self.caller(),
            &k.hash(),
            &k.offers(),
            &k.offered(),
            &k.messages(),
            &k.attempts(),
            &k.bodies(),
            &p.epoch(),
        ];
        let (number, most) = (self.next(), most.to_string());
        call("consume", &keys, &[&number, LONG, &self.version, secret, LONG, &most, "1000000"])
    }

    /// Accepts, refuses, extends or gives back.
    pub fn acknowledge(&self, what: &str, items: &[Item]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &p.epoch(),
            &k.hash(),
            &k.offers(),
            &k.offered(),
            &k.messages(),
            &p.wake_releasable(),
            &p.wake_offered(),
        ];
        let count = items.len().to_string();
        let mut made = call("acknowledge", &keys, &[LONG, self.name.as_str(), what, LONG, &count]);
        for (lane, secret, sequence) in items {
            made.args.extend([(*lane).to_owned(), (*secret).to_owned(), sequence.to_string()]);
        }
        if what == "refuse" {
            let refusals = items.iter().flat_map(|_| [TROUBLE, "7", "0"]);
            made.args.extend(refusals.map(str::to_owned));
        }
        made
    }
}
