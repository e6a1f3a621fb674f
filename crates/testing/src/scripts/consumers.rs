//! The calls of consumers.

use super::{Call, Calls, LONG, TROUBLE, call};

/// A message that a consumer names: its lane, the secret, its sequence.
pub type Item<'a> = (&'a str, &'a str, u64);

impl Calls {
    /// Leases messages of these lanes, in this order.
    pub fn consume(&self, secret: &str, most: usize, lanes: &[&str]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &self.caller(),
            &k.hash(),
            &k.consumer_leases(),
            &k.consumer_lease_ends(),
            &k.messages(),
            &k.attempts(),
            &k.bodies(),
            &p.epoch(),
            &p.releasable(),
            &k.lanes(),
            &k.halted(),
            &k.withdrawals(),
            &p.wake_releasable(),
            &p.consumers(),
        ];
        let (number, most, count) = (self.next(), most.to_string(), lanes.len().to_string());
        let name = self.name.as_str();
        let args = [&number, LONG, &self.version, secret, LONG, &most, "1000000", name];
        let mut made = self.with_lanes(call("consume", &keys, &args), lanes);
        made.args.extend([self.ordering, "64", LONG, &count].map(str::to_owned));
        made.args.extend(lanes.iter().map(|lane| (*lane).to_owned()));
        made
    }

    /// Accepts, refuses, extends or gives back.
    pub fn acknowledge(&self, what: &str, items: &[Item]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &p.epoch(),
            &k.hash(),
            &k.consumer_leases(),
            &k.consumer_lease_ends(),
            &k.messages(),
            &p.releasable(),
            &k.lanes(),
            &p.wake_releasable(),
            &p.consumers(),
        ];
        let (name, count) = (self.name.as_str(), items.len().to_string());
        let args = [LONG, name, self.ordering, what, LONG, &count];
        let mut made = call("acknowledge", &keys, &args);
        for (lane, secret, sequence) in items {
            made.args.extend([(*lane).to_owned(), (*secret).to_owned(), sequence.to_string()]);
        }
        if what == "refuse" {
            let refusals = items.iter().flat_map(|_| [TROUBLE, "7", "0"]);
            made.args.extend(refusals.map(str::to_owned));
        }
        made
    }

    /// The owner looks at a lane: what consumers have said of it. It settles what has left up to a sequence; 0: nothing.
    pub fn look(&self, token: &str, lane: &str, settled_upto: u64, most: usize) -> Call {
        let mut made = self.release(token, &[(lane, 0, most)]);
        // Behind what is the same for all lanes: the lane's key, what is settled, its bytes.
        let upto = made.args.len() - 5;
        made.args[upto] = settled_upto.to_string();
        made.args.pop();
        made
    }
}
