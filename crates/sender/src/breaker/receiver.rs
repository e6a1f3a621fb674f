//! The breakers of a receiver: that of its destination, and that of its host, which destinations share.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use reqwest::Url;
use tokio::time::Instant;

use super::{Breaker, Probe};
use crate::deliver::{Finality, Verdict};
use domain::{ErrorKind, Sequence};

/// The breaker of a host and port opens after this many failed connections in a row.
const HOST_FAILURES_MAX: u32 = 10;
/// A delivery that waits for the breaker of the host asks again at this interval: another destination may have closed
/// it.
const HOST_LOOK: Duration = Duration::from_millis(250);

/// The breakers for each host and port of this pod's receivers. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Hosts(Arc<Mutex<HashMap<String, Weak<Mutex<Breaker>>>>>);

impl Hosts {
    fn of(&self, url: &str) -> Arc<Mutex<Breaker>> {
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let port = url.as_ref().and_then(Url::port_or_known_default).unwrap_or_default();
        let mut hosts = self.0.lock();
        hosts.retain(|_, breaker| breaker.strong_count() > 0);
        let entry = hosts.entry(format!("{host}:{port}")).or_default();
        entry.upgrade().unwrap_or_else(|| {
            let breaker = Arc::new(Mutex::new(Breaker::new(HOST_FAILURES_MAX)));
            *entry = Arc::downgrade(&breaker);
            breaker
        })
    }
}

/// The receiver of a destination, and the breakers that decide whether a delivery to it may begin.
#[derive(Default)]
pub(crate) struct Receiver {
    destination: Breaker,
    /// `None` if the destination has no breaker, or no receiver.
    host: Option<Arc<Mutex<Breaker>>>,
    url: Option<String>,
    /// A random number, so that messages of two destinations with the same sequence count as two messages.
    salt: u64,
}

/// The breakers that let a delivery through as their probe. The caller keeps this until the delivery has ended.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    destination: Option<Probe>,
    host: Option<Probe>,
}

impl Receiver {
    /// Adopts the receiver of a definition; `None`: the definition has none. A changed receiver begins with closed
    /// breakers.
    pub(crate) fn set(&mut self, hosts: &Hosts, url: Option<&str>, failures_max: u32) {
        let url = url.filter(|_| failures_max > 0);
        if self.url.as_deref() != url {
            *self = Receiver {
                host: url.map(|url| hosts.of(url)),
                url: url.map(str::to_owned),
                salt: rand::random(),
                ..Receiver::default()
            };
        }
        self.destination.set_failures_max(if self.url.is_some() { failures_max } else { 0 });
    }

    fn host(&self) -> Option<MutexGuard<'_, Breaker>> {
        self.host.as_ref().map(|host| host.lock())
    }

    /// Asks whether a delivery may begin now. If not, the error says when to ask again, unless a delivery ends before.
    pub(crate) fn take(&mut self, now: Instant) -> Result<Probes, Duration> {
        let destination = self.destination.take(now)?;
        let host = self.host().map_or(Ok(None), |mut host| host.take(now));
        Ok(Probes { destination, host: host.map_err(|wait| wait.min(HOST_LOOK))? })
    }

    /// Called when a delivery has ended. `asked_max`: the longest wait that a receiver may ask for.
    pub(crate) fn ended(
        &mut self,
        verdict: &Verdict,
        first: Sequence,
        probes: &Probes,
        asked_max: Duration,
        now: Instant,
    ) {
        let message = first ^ self.salt;
        match verdict {
            Verdict::Refused { accepted: 0, error, retry_after, finality } => match finality {
                Finality::Retryable | Finality::RetryableThenHalts => {
                    let asked = retry_after.map(|wait| wait.min(asked_max));
                    self.destination.fails(now, message, probes.destination.is_some(), asked);
                    if error.kind == ErrorKind::Connection
                        && let Some(mut host) = self.host()
                    {
                        host.fails(now, message, probes.host.is_some(), None);
                    }
                }
                // The receiver has answered, and refuses only this message.
                Finality::Permanent
                    if matches!(error.kind, ErrorKind::Status | ErrorKind::Rejected) =>
                {
                    self.works(now);
                }
                // The message cannot be sent, or the lane halts.
                Finality::Permanent | Finality::Halts => {}
            },
            Verdict::Accepted(_) | Verdict::Refused { .. } => self.works(now),
        }
    }

    fn works(&mut self, now: Instant) {
        self.destination.works(now);
        if let Some(mut host) = self.host() {
            host.works(now);
        }
    }

    /// When the next probe begins, if the receiver fails.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        let host = self.host().and_then(|host| host.probe_at());
        self.destination.probe_at().max(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{AttemptError, Stage};

    const ASKED_MAX: Duration = Duration::from_secs(60);

    fn refused(kind: ErrorKind, finality: Finality) -> Verdict {
        let error = AttemptError::new(Stage::Delivery, kind, "no");
        Verdict::Refused { accepted: 0, error, retry_after: None, finality }
    }

    fn of(hosts: &Hosts, url: &str, failures_max: u32) -> Receiver {
        let mut receiver = Receiver::default();
        receiver.set(hosts, Some(url), failures_max);
        receiver
    }

    /// Ends the delivery of this message.
    fn end(receiver: &mut Receiver, verdict: &Verdict, message: Sequence, now: Instant) {
        receiver.ended(verdict, message, &Probes::default(), ASKED_MAX, now);
    }

    #[test]
    fn failed_connections_stop_the_destinations_of_a_host() {
        let (hosts, now) = (Hosts::default(), Instant::now());
        let mut one = of(&hosts, "http://host/one", 1_000);
        let mut other = of(&hosts, "http://host:80/other", 10);
        let mut elsewhere = of(&hosts, "http://host:81/", 10);
        let mut off = of(&hosts, "http://host/off", 0);
        let unreached = refused(ErrorKind::Connection, Finality::Retryable);
        (0..10).for_each(|message| end(&mut one, &unreached, message, now));
        assert_eq!(other.take(now).unwrap_err(), HOST_LOOK);
        assert!(one.take(now).is_err() && elsewhere.take(now).is_ok() && off.take(now).is_ok());
        let later = now + Duration::from_secs(1);
        let probe = other.take(later).unwrap();
        assert!(one.take(later).is_err(), "one probe for all destinations of the host");
        other.ended(&Verdict::Accepted(1), 1, &probe, ASKED_MAX, later);
        assert!(one.take(later).is_ok());
    }

    #[test]
    fn time_outs_and_refusals_stop_their_destination_alone() {
        let (hosts, now) = (Hosts::default(), Instant::now());
        for kind in [ErrorKind::Timeout, ErrorKind::Status] {
            let mut one = of(&hosts, "http://host/", 10);
            let mut other = of(&hosts, "http://host/", 10);
            let failed = refused(kind, Finality::Retryable);
            (0..10).for_each(|message| end(&mut one, &failed, message, now));
            assert!(one.take(now).is_err() && other.take(now).is_ok(), "{kind:?}");
        }
    }

    #[test]
    fn a_refusal_of_one_message_for_good_says_that_the_receiver_works() {
        let (hosts, now) = (Hosts::default(), Instant::now());
        let mut receiver = of(&hosts, "http://host/", 2);
        let unsendable = refused(ErrorKind::Unsendable, Finality::Permanent);
        let failed = refused(ErrorKind::Status, Finality::Retryable);
        for (message, verdict) in [&failed, &unsendable, &failed].into_iter().enumerate() {
            end(&mut receiver, verdict, message as Sequence, now);
        }
        assert!(receiver.probe_at().is_some(), "a message that cannot be sent says nothing");
        end(&mut receiver, &refused(ErrorKind::Status, Finality::Permanent), 4, now);
        assert_eq!(receiver.probe_at(), None);
    }

    #[test]
    fn another_receiver_of_the_destination_begins_anew() {
        let (hosts, now) = (Hosts::default(), Instant::now());
        let mut receiver = of(&hosts, "http://host/", 2);
        let failed = refused(ErrorKind::Status, Finality::Retryable);
        (0..2).for_each(|message| end(&mut receiver, &failed, message, now));
        receiver.set(&hosts, Some("http://host/"), 2);
        assert!(receiver.take(now).is_err(), "the same definition again");
        receiver.set(&hosts, Some("http://host/other"), 2);
        assert!(receiver.take(now).is_ok());
    }
}
