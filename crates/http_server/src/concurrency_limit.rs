//! Limits how many items each name may hold at once: connections of an address, requests of a token.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

/// The counts, by name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimit<K>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    /// The most items that a name may hold; 0: no limit.
    max: AtomicUsize,
    held: Mutex<HashMap<K, usize>>,
}

/// One item that a name holds, until this is dropped.
#[derive(Debug)]
pub struct Held<K: Hash + Eq> {
    /// `None` without a limit.
    of: Option<(ConcurrencyLimit<K>, K)>,
}

impl<K: Hash + Eq + Clone> ConcurrencyLimit<K> {
    /// Each name holds at most `max`; 0: no limit.
    pub fn new(max: usize) -> ConcurrencyLimit<K> {
        ConcurrencyLimit(Arc::new(Inner { max: max.into(), held: Mutex::default() }))
    }

    /// From now on, each name holds at most `max` items. A name that already holds more keeps them.
    pub fn set_max(&self, max: usize) {
        self.0.max.store(max, Ordering::Relaxed);
    }

    /// Takes one more item for this name; `None` if the name already holds the maximum.
    pub fn take(&self, name: K) -> Option<Held<K>> {
        let max = self.0.max.load(Ordering::Relaxed);
        if max == 0 {
            return Some(Held { of: None });
        }
        let mut held = self.0.held.lock();
        let count = held.entry(name.clone()).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Held { of: Some((self.clone(), name)) })
    }
}

impl<K: Hash + Eq> Drop for Held<K> {
    fn drop(&mut self) {
        let Some((counts, name)) = self.of.take() else { return };
        let mut held = counts.0.held.lock();
        if let Some(count) = held.get_mut(&name) {
            *count -= 1;
            // A name that holds nothing must not take memory.
            if *count == 0 {
                held.remove(&name);
            }
        }
    }
}

/// The unit that counts as one address: an IPv4 address, or the 64-bit network of an IPv6 host.
pub fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_holds_up_to_its_maximum_and_may_retake_returned_places() {
        let counts = ConcurrencyLimit::new(2);
        let (first, second) = (counts.take("a"), counts.take("a"));
        assert!(first.is_some() && second.is_some() && counts.take("a").is_none());
        assert!(counts.take("b").is_some());
        drop(first);
        assert!(counts.take("a").is_some());
        drop(second);
        assert!(counts.0.held.lock().is_empty());
        let without = ConcurrencyLimit::new(0);
        let all: Vec<_> = (0..100).map(|_| without.take("a")).collect();
        assert!(all.iter().all(Option::is_some));
    }

    #[test]
    fn a_host_has_one_address() {
        let peer = |text: &str| peer_of(text.parse().unwrap()).to_string();
        assert_eq!(peer("10.0.0.1"), "10.0.0.1");
        assert_eq!(peer("::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!(peer("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(peer("2001:db8:1:2:ffff::1"), "2001:db8:1:2::");
    }
}
